"""Releases, regressions and plans as pictures; all need matplotlib, which is the extra `plot`."""
