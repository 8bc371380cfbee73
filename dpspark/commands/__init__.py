"""What the commands of `dpspark` do; `cli.py` parses their arguments."""
