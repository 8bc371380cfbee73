"""The analyst's computations on a release. Post-processing: no cost. Never imports pyspark."""
