"""All that runs on Spark: sessions, passes over rows, trees of sums, groups, persons."""
