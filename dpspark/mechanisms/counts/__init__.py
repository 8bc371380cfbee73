"""Noisy counts: of clipped values, and of rows."""
