"""Attacks on mechanisms of matrices, and broken copies of them."""
