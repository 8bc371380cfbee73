"""`dpspark demo`: from made-up microdata to a regression table, in a directory of its own."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from dpspark.cli.options import show_text, terminal
from dpspark.errors import OutputError
from dpspark.show.progress import Step, Steps, listening, tell

FORMULA = "income ~ age + educ"
CONF = """\
# Second moments of generated census microdata.
source:   {{parquet: {data}}}
columns:
  age:    {{lower: 18, upper: 95}}
  educ:   {{lower: 1, upper: 16}}
  income: {{lower: 0, upper: 300000}}
  sex:    {{categories: [F, M]}}          # columns sex[F] and sex[M]
nulls:    drop_row
privacy:
  epsilon: 1.0
  delta: 1.0e-9
  neighbours: add_remove                # protects whether a record is in the data at all
release:  {{name: income, version: "{rows}-rows", kind: gram}}
mechanism: {{name: gaussian}}
ledger:   {{url: "sqlite:///{ledger}", dataset: demo-census}}
output:   {{path: {output}}}
"""


@click.command()
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("-o", "--out", metavar="DIR", default="demo", show_default=True)
def demo(rows: int, out: str) -> None:
    """Make census-like microdata, release its second moments, run a regression."""
    with listening(terminal):
        run_demo(rows, out, show_text)


def run_demo(rows: int, out: str, echo: Callable[[str], None]) -> None:
    """Make the data once, grant a budget once, release and regress. Run again, it finds what is there."""
    from dpspark.demo.microdata import write_microdata
    from dpspark.ledger.ledger import Ledger
    from dpspark.releasing.run import release
    from dpspark.spark.session import spark_session
    from dpspark.spark.task_progress import follow_tasks
    from dpspark.spec.spec import load_spec

    home = Path(out)
    if ".." in home.parts:  # which a conf may not have
        home = home.resolve()
    data, conf, database = home / f"microdata-{rows}", home / "demo.yaml", home / "ledger.db"
    try:
        home.mkdir(parents=True, exist_ok=True)
        conf.write_text(CONF.format(data=data, rows=rows, ledger=database, output=home / "releases"), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"--out {out!r}: {error.strerror}. Choose another directory.") from None
    spec = load_spec(conf)
    ledger = Ledger(f"sqlite:///{database}")
    if not ledger.balances(spec.ledger.dataset):
        ledger.grant(spec.ledger.dataset, epsilon=10.0, delta=1e-6)
    tell(Step("starting Spark"))
    with spark_session("dpspark demo") as spark:
        if not (data / "_SUCCESS").exists():
            steps = Steps("demo", counted=True)  # nobody's data
            with follow_tasks(spark, steps):
                steps(f"making {rows:,} rows of microdata")
                write_microdata(spark, str(data.absolute()), rows)  # Spark has a working directory of its own
        done = release(spec, spark=spark)
    echo(f"Released: {_near(Path(str(done.path)))}\n")
    echo(done.regress(FORMULA).summary())
    program = "dpspark" if shutil.which("dpspark") else sys.argv[0]
    echo("\nNext, try:")
    echo(f"  {program} regress {shlex.quote(_near(Path(str(done.path))))} 'income ~ age + educ + sex'")
    echo(f"  {program} ledger show --url {shlex.quote(f'sqlite:///{database}')}")
    echo(f"  {program} release {shlex.quote(str(conf))} --set release.version=second --set privacy.epsilon=0.1")


def _near(path: Path) -> str:
    """Shorten a path to what leads there from here, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
