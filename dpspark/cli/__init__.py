"""The dpspark command."""
