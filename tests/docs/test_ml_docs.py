"""The programs of docs/ml.md, one after the other, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "ml.md"


def test_every_program_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a Param or a method that the document names and the code has not."""
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    assert len(programs) == 3
    names: dict[str, Any] = {"__name__": "example"}
    for number, text in enumerate(programs):
        # Spark takes a path from where its JVM began.
        program = text.replace('"moments-model"', repr(str(tmp_path / "moments-model")))
        exec(compile(program, f"program {number}", "exec"), names)
    shown = capsys.readouterr().out
    assert "income ~ decades + educ" in shown
    assert "Released: ml-2026-11" in shown
    assert (tmp_path / "moments-model").is_dir()
