"""What an analyst computes from a release. Post-processing: no cost. Never imports pyspark."""
