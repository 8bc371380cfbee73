"""Estimates of many groups that borrow strength from each other. All of it is post-processing of a release: no cost."""
