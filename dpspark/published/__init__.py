"""A published release in the hands of an analyst."""
