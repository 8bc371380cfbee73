"""The content of a release's files, read as numbers: one class for each kind, and what follows from them at no cost."""
