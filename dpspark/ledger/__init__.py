"""The privacy ledger: what was granted on a dataset, and what each release took of it."""
