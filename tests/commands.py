"""Run commands in this process, as a user would."""

from __future__ import annotations

import pytest

from dpspark.cli.main import main


def exit_code(*arguments: str) -> int:
    """Run `dpspark ARGUMENTS` and give its exit code."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code is not None
    return int(caught.value.code)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run `dpspark ARGUMENTS` and give its exit code and what it wrote to both streams, never a traceback."""
    code = exit_code(*arguments)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out, shown.err
