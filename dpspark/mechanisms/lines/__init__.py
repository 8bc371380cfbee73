"""Robust lines through groups of rows. Runs on executors: imports numpy and pyarrow only."""
