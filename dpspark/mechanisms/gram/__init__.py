"""Noisy second-moment matrices."""
