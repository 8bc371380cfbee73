"""Exact arithmetic on bounded rows. Runs on executors: imports numpy and pyarrow only."""
