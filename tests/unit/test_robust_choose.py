"""`auto` against what was measured: never more than 20% behind the best."""

from __future__ import annotations

import pytest

from dpspark.privacy.budget import Budget
from dpspark.robust.calibrate import Records
from dpspark.robust.choose import choose
from dpspark.robust.plane import Plane

PLANE = Plane((0.0, 1.0), (0.0, 1.0))
