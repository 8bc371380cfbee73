"""Benchmarks: python -m benchmarks gram, lines, scale or peers."""
