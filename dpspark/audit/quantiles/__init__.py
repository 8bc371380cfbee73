"""Attacks on quantiles, and broken copies of them."""
