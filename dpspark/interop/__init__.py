"""Releases for other tools, and through their calls: R files, Zelig."""
