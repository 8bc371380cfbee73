"""The attack on gram_ridge."""

from __future__ import annotations

import math

from dpspark.audit.attacked import Attacked
from dpspark.audit.regression.statistics import noise_over, statistics_case
from dpspark.audit.sensitivity_attack import statistics_finding

ATTACKED = Attacked(statistics_case, (statistics_finding,), (noise_over("noise ÷ √3", math.sqrt(3)),))
