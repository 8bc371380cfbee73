"""What turns an Exact statistic into a Noisy one: one small class a file. Never imports pyspark."""
