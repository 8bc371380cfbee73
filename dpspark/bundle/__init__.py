"""The files of a release: manifest and tables, how they are written, signed and found again."""
