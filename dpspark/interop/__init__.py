"""Releases for other tools and by the calls of others: R files, Zelig."""
