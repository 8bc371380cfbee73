"""Standard errors that hold where variances differ: the meat of the sandwich, paid for together with the release."""
