"""Attacks on mechanisms of lines, and broken copies of them: one file each."""
