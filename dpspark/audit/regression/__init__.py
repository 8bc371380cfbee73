"""Attacks on the mechanisms of one regression."""
