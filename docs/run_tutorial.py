"""Run docs/tutorial.ipynb in a fresh kernel and keep what its cells show: `make docs-notebook`.

Noise is new in every run, so that numbers differ a little from one run to the next.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TUTORIAL = Path(__file__).parent / "tutorial.ipynb"


def run(home: Path, client: type[NotebookClient] = NotebookClient) -> Any:
    """The notebook with its outputs, run in a directory of its own. A cell that fails ends it with an error."""
    notebook = nbformat.read(TUTORIAL, as_version=4)
    (home / "work").mkdir()
    # What a kernel writes beside the notebook's own files goes here too.
    own = {name: str(home / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        client(notebook, timeout=300, resources={"metadata": {"path": str(home / "work")}}).execute()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # time stamps
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        notebook = run(Path(home).resolve())
        for number, cell in enumerate(notebook.cells):
            if any(path in str(cell) for path in (home, str(Path.home()))):
                sys.exit(f"Cell {number} has a path of this machine in it:\n{cell}")
        text = nbformat.writes(notebook)
    TUTORIAL.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
