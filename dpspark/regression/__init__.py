"""Regressions from a released matrix alone. Post-processing: no cost. Never imports pyspark."""
