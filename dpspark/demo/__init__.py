"""Invented microdata, for the demo, the documents, tests and benchmarks."""
