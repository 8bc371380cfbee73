"""Files of a bundle, whoever wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspark.bundle.files import read_manifest
from dpspark.errors import OutputError


def test_a_manifest_that_lacks_what_a_release_has_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    said = f"release '{tmp_path}' is damaged: its manifest.json lacks what a release has."
    with pytest.raises(OutputError, match=re.escape(said)):
        read_manifest(tmp_path)
