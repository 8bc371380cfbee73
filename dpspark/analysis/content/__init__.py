"""What the files of a release hold, read as numbers: one class for each kind, and what follows from them at no cost."""
