"""Attacks on what is paid for beside a release, and broken copies of it."""
