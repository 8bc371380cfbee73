"""The words that everything else is said in: a bounded row, whom a release protects, what one record can change."""
