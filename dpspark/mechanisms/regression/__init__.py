"""One private regression."""
