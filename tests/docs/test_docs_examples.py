"""Every sh and python block of the documents, run in one directory on one Spark, or listed with the reason why not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
BLOCK = re.compile(r"```(sh|python)\n((?:(?!```).)*)```", re.S)
CONVERT = "dpspark convert demo/releases/income/1000000-rows --to"
# Page and first words of the blocks that are not run here, and why.
NOT_RUN = {
    ("audit.md", "dpspark audit     "): "minutes; each option is run by tests/audit/test_audit_command.py",
    ("audit.md", "dpspark audit --mutate"): "minutes; run by tests/audit/test_audit_command.py",
    ("connect.md", "pip install"): "an environment of its own; `make test-connect` makes it",
    ("connect.md", "import dpspark"): "needs a Connect server; tests/connect has one",
    ("connect.md", "from databricks.connect"): "needs Databricks",
    ("deploy.md", "(umask 077;"): "needs a cluster; tests/cluster has one",
    ("deploy.md", "conda create"): "needs YARN",
    ("deploy.md", "sudo python3.11"): "needs EMR",
    ("deploy.md", "make dist"): "needs Kubernetes",
    ("deploy.md", "kubectl apply"): "needs Kubernetes and its operator",
    ("first-release.md", "python3 -m venv"): "an environment of its own; tests/packaging/test_wheel.py makes it",
    ("init.md", "dpspark completion"): "writes to the user's home; run by tests/cli/test_init_command.py",
    ("ml.md", "import numpy"): "run by tests/docs/test_ml_docs.py",
    ("ml.md", "from dpspark.ml import DPCovariance, DPTheilSen"): "run by tests/docs/test_ml_docs.py",
    ("ml.md", "from dpspark.ml import DPCovarianceModel"): "run by tests/docs/test_ml_docs.py",
    ("notebook.md", "from matplotlib"): "run by tests/published/test_plots.py",
    ("other-tools.md", f"{CONVERT} csv"): "needs `make demo`; run by tests/interop/test_other_tools.py",
    ("other-tools.md", f"{CONVERT} registry"): "needs `make demo`; tests/interop/test_public_facts.py runs its like",
    ("peers.md", "python -m benchmarks peers"): "installs peers; tests/benchmarks/test_bench_peers.py runs it",
    ("storage.md", "python -c"): "run, as the message has it, by tests/source/test_not_parquet.py",
    ("storage.md", "frame = spark.read.csv"): "run by tests/source/test_not_parquet.py",
    ("schedule.md", "dpspark release monthly.yaml"): "run by tests/packaging/test_deploy.py, through conf/monthly.sh",
    ("schedule.md", "airflow"): "needs Airflow",
    ("schedule.md", "for month in"): "run by tests/packaging/test_deploy.py",
}


def generator() -> ModuleType:
    """docs/generate.py, which runs the same blocks for `make docs-examples`."""
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_run(page: str, code: str) -> bool:
    return not any(page == where and code.startswith(start) for where, start in NOT_RUN)


def test_what_is_not_run_is_there() -> None:
    """Kills: an entry of the list above that stands for nothing, or for more than one block."""
    blocks = [(page, code) for page, text in PAGES.items() for _, code in BLOCK.findall(text)]
    for where, start in NOT_RUN:
        assert sum(page == where and code.startswith(start) for page, code in blocks) == 1, (where, start)
    assert sum(not is_run(*block) for block in blocks) < len(blocks) / 3


def test_every_block_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a document whose commands, options, confs or calls the product no longer has."""
    generate = generator()
    monkeypatch.chdir(tmp_path)
    for text in PAGES.values():
        for match in generate.CONF.finditer(text):
            conf = match[0].partition("\n")[2].removesuffix("```")
            conf = conf.replace(
                "parquet.`people`", f"parquet.`{tmp_path / 'people'}`"
            )  # the tests' Spark started elsewhere
            (tmp_path / match[1]).write_text(conf, encoding="utf-8")
    here = {
        "--rows 10000 100000": "--rows 10000 --draws 3",  # docs/compare.py, for time's sake
        "--out people": f"--out {tmp_path / 'people'}",
    }
    pages = sorted(PAGES, key=lambda name: name != "mechanisms.md")  # it makes the data
    for page in pages:
        for language, code in BLOCK.findall(PAGES[page]):
            if is_run(page, code):
                for written, meant in here.items():
                    code = code.replace(written, meant)
                generate.run(language, code)
