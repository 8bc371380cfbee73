"""A Spark Connect server that takes no packages: its own dpspark is used if it is this one, and asked for otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.errors import DpsparkError
from dpspark.ledger.ledger import Ledger
from dpspark.show.progress import Event, Note, NoteKind, listening
from dpspark.version import __version__
from tests.noises import NoNoiseFixedSecret
from tests.sail import ROOT, sail_server

pytestmark = pytest.mark.lake


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has this very dpspark."""
    scratch = tmp_path_factory.mktemp("sail")
    shutil.copytree(ROOT / "dpspark", scratch / "own" / "dpspark", ignore=shutil.ignore_patterns("__pycache__"))
    with sail_server(scratch, scratch / "own") as url:
        yield url


@pytest.mark.parametrize("changes", [{}, {"group_by": ["sex"], "groups": ["F", "M"]}], ids=["matrix", "groups"])
def test_the_same_sums_as_spark(
    changes: dict[str, Any], installed: str, conf: dict[str, Any], spark: Any, tmp_path: Path
) -> None:
    """Kills: an installed package that is not used, or is used in silence; other sums."""
    if changes:
        del conf["columns"]["sex"]
    heard: list[Event] = []
    found = []
    for version, session in (("1", spark), ("2", installed)):
        spec = {**conf, "release": {"name": "income", "version": version, **changes}}
        with listening(heard.append):
            found.append(dpspark.release(spec, spark=session, noise=NoNoiseFixedSecret()))
    assert [e.kind for e in heard if isinstance(e, Note)] == [NoteKind.INSTALLED]
    one, two = (release.tables["scaled" if "scaled" in release.tables else "second_moment"] for release in found)
    assert np.array_equal(one["value"].to_numpy(), two["value"].to_numpy())
    assert one["value"].to_numpy().any()


def refused(url: str, conf: dict[str, Any]) -> str:
    with pytest.raises(DpsparkError) as error:
        dpspark.release(conf, spark=url)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].spent_epsilon == 0
    return str(error.value)


def test_a_server_without_dpspark(conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a charge, or an import error of a task, where something has to be installed."""
    with sail_server(tmp_path) as url:
        assert f"have no dpspark.\nInstall dpspark {__version__}" in refused(url, conf)


def test_a_server_with_another_dpspark(conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: another version, or other sources of the same, that compute in this one's place."""
    package = tmp_path / "other" / "dpspark"
    shutil.copytree(ROOT / "dpspark", package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / "exact" / "fixed_point.py").open("a") as file:
        file.write("\n# another one\n")
    with sail_server(tmp_path, package.parent) as url:
        assert "of other sources" in refused(url, conf)
    (package / "version.py").write_text('__version__ = "0.2.0"\n')
    with sail_server(tmp_path, package.parent) as url:
        assert f"have dpspark 0.2.0; this is {__version__}" in refused(url, conf)
