"""Releases of disjoint people added up: what must be alike, the sums, and the certificate. Post-processing: no cost."""
