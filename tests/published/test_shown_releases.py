"""Releases of each kind, made on Spark, as a notebook shows and draws them; and a script, where nothing is printed."""

from __future__ import annotations

import io
from typing import Any

import pytest

import dpspark
from dpspark.errors import ConfError

BY_SEX = {"group_by": ["sex"], "groups": ["F", "M"]}
KINDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "regression": (["age", "educ", "income", "sex"], {"response": "income"}),
    "theil_sen": (["age", "income"], {"x": "age", "y": "income", "cuts": [30, 60], **BY_SEX}),
    "quantiles": (["age", "income"], {"probabilities": [0.1, 0.9]}),
    "gram": (["age", "income"], BY_SEX),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_shown(spark: Any, conf: dict[str, Any], kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Kills: a kind whose tables or manifest the page or the picture cannot read; progress printed by a script."""
    names, more = KINDS[kind]
    made = {
        **conf,
        "columns": {name: conf["columns"][name] for name in names},
        "release": {**conf["release"], "kind": kind, **more},
        "nulls": "midpoint",
        "privacy": {"epsilon": 8.0} if kind in ("theil_sen", "quantiles") else conf["privacy"],
    }
    release = dpspark.release(made, spark=spark)
    assert capfd.readouterr() == ("", "")
    html = release._repr_html_()
    assert release.manifest["guarantee"] in html
    assert "<tbody><tr>" in html
    if kind == "gram":
        with pytest.raises(ConfError, match="choose one with group"):
            release.plot()
        release = release.group(sex="M")
        assert "sex=M" in release._repr_html_()
    axes = release.plot()
    axes.figure.savefig(io.BytesIO())
    assert axes.get_title()
