"""Attacks on dpspark's own guarantees: `dpspark audit`.

An attack tells two neighbouring tables apart, or makes a record move a sum further than its sensitivity, through the code that
makes releases. It can find a violation; it cannot prove that there is none. No Java, no Spark, but for `--spark`.
"""
