"""One private line for each group, on executors: numpy and the standard library only (but for `calibrate` and `choose`)."""
