"""The tutorial, run in a real kernel from an empty directory, and what its cells are told meanwhile."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial.ipynb"
# A bar whose tasks may not be counted, by the very class that a release uses.
UNCOUNTED = """
from dpspark.show.notebook_progress import Cell
from dpspark.show.progress import Step, Tasks
cell = Cell("uncounted 1")
cell(Step("reading (through Spark)"))
cell(Tasks(123, 456, False))
cell.end()
"""


class Recorder(NotebookClient):
    """Keeps each message of the kernel's displays, in order; runs one cell more than the tutorial has."""

    told: list[tuple[int, str]]

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        Recorder.told = []
        self.nb.cells.append(nbformat.v4.new_code_cell(UNCOUNTED))
        return super().execute(*args, **kwargs)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            Recorder.told.append((cell_index, msg["content"]["data"].get("text/html", "")))
        return super().process_message(msg, cell, cell_index)


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_tutorial", DOCS / "run_tutorial.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, list[tuple[int, str]]]:
    home = tmp_path_factory.mktemp("tutorial")
    return runner().run(home, Recorder), home, Recorder.told


def cell_with(notebook: Any, code: str) -> int:
    (found,) = (i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and code in cell.source)
    return found


def test_it_runs_and_leaves_its_own_directory(ran: tuple[Any, Path, list[tuple[int, str]]]) -> None:
    """Every cell ran, and asserts inside held. Kills: files outside `tutorial`; a path of the machine; a figure lost."""
    notebook, home, _ = ran
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert [path.name for path in (home / "work").iterdir()] == ["tutorial"]
    assert str(home) not in nbformat.writes(notebook)
    assert str(Path.home()) not in nbformat.writes(notebook)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == notebook_plots(notebook) == 3
    assert not [output for output in outputs if output.output_type == "stream" and output.name == "stderr"]


def notebook_plots(notebook: Any) -> int:
    return sum(cell.source.count(".plot()") for cell in notebook.cells if cell.cell_type == "code")


def test_progress_in_the_cell(ran: tuple[Any, Path, list[tuple[int, str]]]) -> None:
    """Kills: no steps; no bar of tasks; a bar that stays; more than a line in the end; a failed run that says it released."""
    notebook, _, told = ran
    at = cell_with(notebook, "release = dpspark.release(spec)")
    texts = [html for cell, html in told if cell == at]
    steps = [text for text in texts if "<progress" not in text]
    for step in ("checking the source", "starting Spark", "reading (1 file, ", "adding noise", "publishing"):
        assert any(f"income 2026: {step}" in text for text in steps), step
    bars = [text for text in texts if "<progress" in text]
    assert any(re.search(r"\d+/\d+ tasks, \d+ s", text) for text in bars)
    kept = notebook.cells[at].outputs[0].data
    assert re.fullmatch(r"income 2026: released in \d+\.\d s", kept["text/plain"])
    assert "<progress" not in kept["text/html"]
    assert not re.search(r"100[,.]?\d{3}|99[,.]?9\d\d", "".join(texts))  # rows
    refused = notebook.cells[cell_with(notebook, "dpspark.release(second)")].outputs
    assert refused[0].data["text/plain"].startswith("income 2026-again: stopped at: ")
    assert "not enough budget left" in refused[-1].text


def test_tasks_that_may_not_be_counted(ran: tuple[Any, Path, list[tuple[int, str]]]) -> None:
    """Kills: the number of tasks of a query, which can depend on a single row, in a bar's text or its attributes."""
    notebook, _, told = ran
    texts = [html for cell, html in told if cell == len(notebook.cells) - 1]
    assert any("<progress" in text for text in texts)
    assert not re.search("123|456", "".join(texts))


def test_the_committed_outputs() -> None:
    """What a web page shows: every cell ran in order, nothing failed, small, no paths. Kills: outputs that were cleared."""
    text = TUTORIAL.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"]) == 3
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    assert len(text) < 500_000
    assert not re.search(r"/(?:tmp|home|root|Users|work|private)/", text)


def test_its_links_lead_somewhere() -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    links = re.findall(r"\]\(([^)#]+)", "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown"))
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
