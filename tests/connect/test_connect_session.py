"""What surrounds a release on a Spark Connect server: the command, settings, errors, and servers that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from server import ROOT, TOKEN, Server, connect_server

import dpspark
from dpspark.cli.main import main
from dpspark.errors import DpsparkError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.spark import connect
from tests.noises import NoGaussianNoise

pytestmark = pytest.mark.connect

SECRET = "Rumpelstiltskin"
STATE_ONE = ("--set", "source.rows_per_record=1")
STATED = {"dataframe": True, "rows_per_record": 1}  # a plan of Connect's is text only
JOB = str(ROOT / "jobs" / "release_gram.py")


def saved(tmp_path: Path, conf: dict[str, Any]) -> str:
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    return str(tmp_path / "conf.yaml")


def states(conf: dict[str, Any]) -> list[str]:
    return [entry.state for entry in Ledger(conf["ledger"]["url"]).balances("people")[0].entries]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that finds no Java and no other program."""
    bare = {"PATH": "/nonexistent", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=bare, timeout=300)


def test_the_command_needs_no_java(server: Server, conf: dict[str, Any], tmp_path: Path) -> None:
    """By option, and by the environment; and nothing that it writes has the token."""
    path = saved(tmp_path, conf)
    first = run(JOB, path, "--remote", server.url)
    assert (first.returncode, first.stderr) == (0, "")
    assert dpspark.read_release(first.stdout.strip()).regress("income ~ age").status == "OK"
    second = run(
        JOB, path, "--set", "release.version=2", "--set", "where=age > 30", *STATE_ONE, SPARK_REMOTE=server.url
    )
    assert (second.returncode, second.stderr) == (0, "")
    assert states(conf) == ["committed", "committed"]
    for made in Path(conf["output"]["path"]).rglob("*"):
        assert made.is_dir() or TOKEN.encode() not in made.read_bytes()
    assert TOKEN.encode() not in (tmp_path / "ledger.db").read_bytes()


def test_a_client_has_no_spark_of_its_own(conf: dict[str, Any], tmp_path: Path) -> None:
    """Where pyspark-client is installed alone, which has no jars, a release without a server says what to do."""
    import pyspark
    from pyspark.util import is_remote_only

    assert is_remote_only() != (Path(pyspark.__file__).parent / "jars").is_dir()
    if not is_remote_only():
        pytest.skip("all of Spark is installed here")
    done = run(JOB, saved(tmp_path, conf))
    assert done.returncode == 1
    assert "--remote sc://" in done.stderr
    assert states(conf) == []


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("sc://127.0.0.1:1", 1, "No Spark Connect server answers at 127.0.0.1:1"),
        (f"sc://127.0.0.1:1/;use_ssl=true;token={TOKEN}", 1, "No Spark Connect server answers at 127.0.0.1:1"),
        (f"http://127.0.0.1:1/;token={TOKEN}", 2, "expected sc://host:port"),
        (f"sc:///;token={TOKEN}", 2, "expected sc://host:port"),
        (f"sc://127.0.0.1:1/;token={TOKEN};{TOKEN}", 2, "expected sc://host:port"),
        (f"local[2];token={TOKEN}", 2, "expected sc://host:port"),
        (f"sc://localhost:PORT/;token={TOKEN}-wrong", 1, "gave no session (SparkConnectGrpcException"),
    ],
)
def test_no_session_nothing_reserved(
    server: Server,
    conf: dict[str, Any],
    tmp_path: Path,
    url: str,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kills: ten minutes of retries, a reservation before the server is seen, a token in an error."""
    monkeypatch.setattr(connect, "ANSWER_WITHIN", 1)
    url = url.replace("PORT", server.url.split(":")[2].split("/")[0])
    with pytest.raises(SystemExit) as caught:
        main(["--debug", "release", saved(tmp_path, conf), "--remote", url])
    shown = capsys.readouterr()
    assert caught.value.code == code
    assert message in shown.err
    assert TOKEN not in shown.out + shown.err
    assert states(conf) == []


@pytest.mark.parametrize("expression", ["cast(name as int)", "1 / (length(name) - 15)"])
def test_queries_do_not_fail_on_values(
    remote: Any, server: Server, conf: dict[str, Any], tmp_path: Path, expression: str
) -> None:
    """Kills: settings that hold while a query is planned, and not when its plan is analysed again to run."""
    pq.write_table(pa.table({"name": [SECRET] * 10 + ["7"]}), tmp_path / "names.parquet")
    conf["columns"] = {"x": {"lower": -1, "upper": 10}}
    query = f"select {expression} as x from parquet.`{tmp_path}/names.parquet`"
    conf["source"] = {"sql": query, "rows_per_record": 1}
    assert remote.conf.get("spark.sql.ansi.enabled") == "true"
    rel = dpspark.release(conf, spark=remote, noise=NoGaussianNoise())
    assert rel.second_moment().loc["(intercept)", "(intercept)"] == pytest.approx(1)
    assert remote.conf.get("spark.sql.ansi.enabled") == "true"


def test_names_of_directories_stay_text(remote: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: directory names that are numbers by the time the plan runs, when 01 is 1 and in no category."""
    for month in ("01", "02"):
        (tmp_path / "data" / f"month={month}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [0.0, 1.0]}), tmp_path / "data" / f"month={month}" / "part.parquet")
    conf["source"] = {"parquet": str(tmp_path / "data"), "reader": "spark"}
    conf["columns"] = {"x": {"lower": 0, "upper": 1}, "month": {"categories": ["01", "02"]}}
    with pytest.raises(SourceError, match="plan that Spark Connect shows as text only"):
        dpspark.release({**conf, "where": "x >= 0"}, spark=remote, noise=NoGaussianNoise())
    conf["source"]["rows_per_record"] = 1
    rel = dpspark.release({**conf, "where": "x >= 0"}, spark=remote, noise=NoGaussianNoise())
    assert rel.second_moment().loc["month[01]", "month[01]"] == pytest.approx(2)
    # A frame of the caller's is what the caller made it: here months are whole numbers.
    frame = remote.read.parquet(str(tmp_path / "data"))
    assert dict(frame.dtypes)["month"] == "int"
    conf["columns"]["month"] = {"categories": [1, 2]}
    conf["release"]["version"] = "frame"
    conf["source"] = STATED
    again = dpspark.release({**conf, "where": "string(month) = '1'"}, frame, noise=NoGaussianNoise())
    assert again.second_moment().loc["month[1]", "month[1]"] == pytest.approx(2)


FAILURE = """
import sys
import dpspark
from dpspark.spark.connect import open_session
spark = open_session(sys.argv[2])
frame = spark.read.parquet(sys.argv[3]).selectExpr("double(raise_error(name)) as x")
try:
    dpspark.release(sys.argv[1], frame)
except dpspark.DpsparkError as error:
    print("refused with", error.exit_code, error, repr(error.__context__), repr(error.__cause__))
spark.stop()
"""


def test_errors_give_no_value_away(server: Server, conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: the server's own message reaching the user, or pyspark's log of it, which its users can turn on."""
    pq.write_table(pa.table({"name": [SECRET] * 10}), tmp_path / "names.parquet")
    conf["columns"], conf["source"] = {"x": {"lower": 0, "upper": 1}}, STATED
    (tmp_path / "job.py").write_text(FAILURE)
    arguments = (saved(tmp_path, conf), server.url, str(tmp_path / "names.parquet"))
    done = run(str(tmp_path / "job.py"), *arguments, SPARK_CONNECT_LOG_LEVEL="debug")
    assert "refused with 4 Spark could not compute a row of the source (USER_RAISED_EXCEPTION)" in done.stdout, (
        done.stderr
    )
    assert "None None" in done.stdout
    assert SECRET in server.log.read_text(errors="replace")  # it was quoted over there
    assert SECRET not in done.stdout + done.stderr
    assert states(conf) == ["reserved"]


def test_a_file_that_breaks_is_named(remote: Any, conf: dict[str, Any], people: Path) -> None:
    """Kills: a server's error in which the file and the kind are no longer found."""
    content = bytearray(people.read_bytes())
    content[200:4000] = b"\xff" * 3800
    people.write_bytes(bytes(content))
    with pytest.raises(SourceError, match=r"people.parquet could not be read to the end \(\w+\)"):
        dpspark.release(conf, spark=remote)


def test_a_source_that_cannot_be_planned(remote: Any, conf: dict[str, Any]) -> None:
    """A frame of Connect is checked late: here, before anything is reserved."""
    with pytest.raises(SourceError, match="source: Spark cannot plan it"):
        dpspark.release({**conf, "source": STATED}, remote.table("nowhere"))
    assert states(conf) == []


def test_another_python(remote: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's Python refuses a function from another version; this says so."""
    monkeypatch.setattr("pyspark.sql.connect.udf.sys", SimpleNamespace(version_info=(3, 99)))
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with pytest.raises(DpsparkError, match=rf"The executors have Python {here}, and this is 3\.99"):
        dpspark.release(conf, spark=remote)


def test_a_stopped_session(server: Server, conf: dict[str, Any]) -> None:
    session = connect.open_session(server.url)
    session.stop()
    with pytest.raises(DpsparkError, match="was stopped"):
        dpspark.release(conf, spark=session)


def test_a_session_is_left_as_it_was(server: Server, conf: dict[str, Any]) -> None:
    """A caller's own: open, with its own retries; and nothing of ours on this side's path."""
    session = connect.SparkSession.builder.remote(server.url).create()
    policies, path = session.client.get_retry_policies(), list(sys.path)
    assert dpspark.release(conf, spark=session).path.exists()
    assert session.client.get_retry_policies() == policies
    assert sys.path == path
    assert session.range(3).count() == 3
    session.stop()


def imports_dpspark(batches: Any) -> Any:
    import dpspark.exact.fixed_point  # noqa: F401

    yield from batches


imports_dpspark.__module__ = "__main__"  # travels by value


def slow(beginning: str) -> Any:
    def read(batches: Any) -> Any:
        import pathlib
        import time

        for batch in batches:
            pathlib.Path(beginning).touch()
            time.sleep(600)
            yield batch

    read.__module__ = "__main__"
    return read


def test_a_server_killed_while_it_works(
    server: Server, remote: Any, conf: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: waiting ten minutes for it, and once more for each thing to clean up; an error that does not say what it was.

    Its Python had no dpspark until it was sent.
    """
    monkeypatch.setattr(connect, "LOST_AFTER", 2)
    conf["columns"] = {"x": {"lower": 0, "upper": 100}}
    conf["release"]["kind"] = "gram"
    conf["source"] = STATED
    begun = tmp_path / "begun"
    scratch = tmp_path / "server"
    scratch.mkdir()
    with connect_server(scratch) as other:
        session = connect.SparkSession.builder.remote(other.url).create()
        with pytest.raises(Exception, match="No module named 'dpspark"):
            session.range(1).mapInArrow(imports_dpspark, "id long").collect()

        def kill() -> None:
            for _ in range(600):
                if begun.exists():
                    break
                time.sleep(0.1)
            other.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        frame = session.range(10).mapInArrow(slow(str(begun)), "id long").selectExpr("double(id) as x")
        with pytest.raises(DpsparkError, match="Connect server was lost") as caught:
            dpspark.release(conf, frame)
        killer.join()
        session.stop()
    assert caught.value.exit_code == 1
    assert states(conf) == ["reserved"]
    again = dpspark.release(conf, remote.range(10).selectExpr("double(id) as x"))
    assert again.path.exists()
    assert states(conf) == ["committed"]


@pytest.mark.skipif(not (Path(sys.executable).with_name("spark-submit")).exists(), reason="no spark-submit here")
def test_the_job_by_spark_submit(server: Server, conf: dict[str, Any], tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("spark-submit")), "--remote", server.url, JOB]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, saved(tmp_path, conf)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(conf) == ["committed"]
