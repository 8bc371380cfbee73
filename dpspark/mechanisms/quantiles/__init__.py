"""Private quantiles."""
