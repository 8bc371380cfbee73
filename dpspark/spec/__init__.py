"""A conf file, as a validated spec of one release."""
