"""dpspark and its peers on the same data: python -m benchmarks peers."""
