"""Weights of exponential mechanisms as whole numbers: no float takes part in a draw. Standard library only (executors)."""

from __future__ import annotations

import decimal
from fractions import Fraction

DIGITS = 160
BITS = 512


def exp_minus(x: Fraction, bits: int = BITS) -> int:
    """Compute 2^bits·e^(−x), to DIGITS digits, then cut to a whole number. `decimal` rounds exp correctly."""
    context = decimal.Context(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    quotient = context.divide(decimal.Decimal(-x.numerator), decimal.Decimal(x.denominator))
    return int(context.multiply(context.exp(quotient), decimal.Decimal(1 << bits)))
