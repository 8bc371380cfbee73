"""compute_vcv on a real release: made once, read ever after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpspark


def test_compute_vcv_reads_or_releases(spark: Any, conf: dict[str, Any]) -> None:
    first = dpspark.compute_vcv(conf, spark=spark)
    path = Path(conf["output"]["path"]) / "income" / "1"
    again = dpspark.compute_vcv(path)
    assert first.equals(again)
    assert first.equals(dpspark.read_release(path).covariance())
    paper_s = dpspark.compute_vcv(str(path), centred=False)
    assert paper_s.index[0] == "(intercept)"
    assert dpspark.get_accuracy(path).entries().shape == paper_s.shape
    assert dpspark.get_accuracy(path).half_widths == pytest.approx(dpspark.get_accuracy(conf).half_widths)
