"""Which state of a lake table Spark is told to read. tests/lake asks Iceberg itself; here a session answers as Delta's does."""

from __future__ import annotations

from typing import Any

import pytest

from dpspark.errors import SourceError
from dpspark.spark.failures import condition, explain_failure
from dpspark.spark.snapshots import Told, Watched, pin_table
from dpspark.spark.table_sql import split_name, write_name


class Session:
    """A session whose table db.t has a provider, a history and a state for each version."""

    def __init__(self, spark: Any, provider: str, versions: list[int]):
        self.spark, self.provider, self.versions, self.asked = spark, provider, versions, list[str]()

    def sql(self, text: str) -> Any:
        self.asked.append(text)
        if text.startswith("DESCRIBE TABLE EXTENDED"):
            return self.spark.createDataFrame(
                [("Provider", "int", ""), ("Provider", self.provider, "")], "a string, b string, c string"
            )
        if text.startswith("DESCRIBE HISTORY"):
            return self.spark.createDataFrame([(self.versions[-1],)], "version bigint")
        if text.startswith("DESCRIBE DETAIL"):
            return self.spark.createDataFrame([("an-id",)], "id string")
        version = int(text.rpartition(" ")[2])
        if version not in self.versions:
            raise ValueError("no such version")
        return self.spark.range(version)


def test_a_delta_table_is_told_its_version(spark: Any) -> None:
    """Kills: a table that Spark may read at two versions; a manifest without the version; an expiry without a reason."""
    session = Session(spark, "Delta", [3, 7])
    pinned = pin_table(session, "db.t", spark.range(5), again=True)
    session.versions.append(9)
    assert pinned.frame.count() == 7
    assert pinned.snapshot is not None
    assert pinned.snapshot.public() == {"format": "delta", "id": 7, "table": "an-id"}
    (told,) = pinned.tables
    assert isinstance(told, Told)
    told.check()
    told.explain()
    session.versions.remove(7)
    with pytest.raises(
        SourceError, match=r"'db\.t': version 7 has expired, or its files were deleted, while it was read"
    ):
        told.explain()
    assert all("`db`.`t`" in text for text in session.asked)


@pytest.mark.parametrize(("provider", "versions"), [("delta", []), ("hudi", [1]), ("paimon", [1])])
def test_a_table_whose_state_is_not_told(spark: Any, provider: str, versions: list[int]) -> None:
    """Kills: a release of several passes that may mix two states of a table."""
    session, frame = Session(spark, provider, versions), spark.range(5)
    with pytest.raises(SourceError, match=r"which state of the table to read(.|\n)*could mix two states"):
        pin_table(session, "db.t", frame, again=True)
    pinned = pin_table(session, "db.t", frame, again=False)  # one query reads one state
    assert (pinned.frame, pinned.snapshot, pinned.tables) == (frame, None, ())


def test_other_tables_are_read_as_they_are(spark: Any) -> None:
    frame = spark.range(5)
    assert pin_table(Session(spark, "parquet", []), "db.t", frame, again=True).frame is frame


def test_a_table_that_changes_is_noticed() -> None:
    """Kills: a watch that takes any answer, or none, for the one before."""
    answers = ["a", "a", "b"]
    watched = Watched("source.table='t'", "a", lambda: answers.pop(0))
    watched.check()
    watched.explain()
    with pytest.raises(SourceError, match=r"source\.table='t' changed while it was read"):
        watched.check()
    with pytest.raises(SourceError, match=r"whether it changed cannot be told \(IndexError\)"):
        watched.check()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ["db", "t"]),
        ("lake.`a.b`.`c``d`", ["lake", "a.b", "c`d"]),
        ("db.t -- x", None),
        ("db.t/**/", None),
        ("db..t", None),
        ("db.t;x", None),
    ],
)
def test_names(text: str, parts: list[str] | None) -> None:
    """Kills: a comment or another command in a name that goes into SQL."""
    assert split_name(text) == parts
    if parts is not None:
        assert split_name(write_name(parts)) == parts


def test_a_file_that_is_gone_is_the_source_s_fault(spark: Any) -> None:
    """Kills: exit code 1 for files that were deleted under a release; a source that is blamed for Spark's own files."""
    path = spark._jvm.org.apache.hadoop.fs.Path("/secret/part-1.parquet")
    with pytest.raises(Exception) as raised:  # noqa: PT011  Java's
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(path)
    told = explain_failure(raised.value)
    assert told.exit_code == 4
    assert "it was deleted, vacuumed or replaced, or its snapshot has expired, while Spark read it" in str(told)
    with pytest.raises(Exception) as raised:  # noqa: PT011  Java's
        spark._jvm.java.io.FileInputStream("/secret/shuffle")
    ours = explain_failure(raised.value)
    assert (ours.exit_code, condition(raised.value)) == (1, "FileNotFoundException")
    assert "secret" not in f"{told} {ours}"
