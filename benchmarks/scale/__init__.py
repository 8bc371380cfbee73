"""How cost grows: python -m benchmarks scale."""
