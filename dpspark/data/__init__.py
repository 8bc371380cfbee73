"""What touches raw rows. Runs on executors, so it imports numpy and pyarrow only."""
