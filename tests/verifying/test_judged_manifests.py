"""What a manifest says of who judged its rows must go with its source, and with the version that wrote it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dpspark.core.facts import Facts, Garbled
from dpspark.verifying.rows import records_of
from dpspark.verifying.verification import _record
from tests.conftest import release_of

ROWS = {"age": [20.0, 30.0], "educ": [1, 2], "income": [1.0, 2.0], "sex": ["F", "M"]}
TABLE = {"table": "people"}


def manifest_of(conf: dict[str, Any], source: dict[str, Any], **privacy: Any) -> dict[str, Any]:
    content = {**conf, "source": source, "privacy": {**conf["privacy"], "neighbours": "replace_one"}}
    found = deepcopy(release_of(content, ROWS).manifest)
    found["privacy"] |= privacy
    return found


@pytest.mark.parametrize(
    ("source", "judged_by", "fits"),
    [
        ({"parquet": "a"}, "files", True),
        ({"parquet": "a"}, "plan", True),
        ({"parquet": "a"}, "statement", False),
        ({"delta": "a", "version": 3}, "files", True),
        ({"iceberg": "lake.db.a"}, "files", True),
        ({"iceberg": "lake.db.a"}, "statement", False),
        (TABLE, "plan", True),
        (TABLE, "files", False),
        (TABLE, "statement", False),
        ({**TABLE, "rows_per_record": 2}, "statement", True),
        ({**TABLE, "rows_per_record": 2}, "plan", False),
        ({"parquet": "a", "rows_per_record": 2}, "files", False),
        (TABLE, "nobody", False),
    ],
)
@pytest.mark.parametrize("more", [{}, {"where": "age > 20"}], ids=["plain", "where"])
def test_who_judged_goes_with_the_source(
    conf: dict[str, Any], source: Any, judged_by: str, fits: bool, more: dict[str, Any]
) -> None:
    """Kills: a statement that nobody made, and a table that was read as files, behind a filter of the conf too."""
    manifest = Facts(manifest_of({**conf, **more}, source, judged_by=judged_by), "")
    if fits:
        records_of(manifest)
        return
    with pytest.raises(Garbled):
        records_of(manifest)


def test_a_filter_in_a_table_is_the_judge_s_to_tell(conf: dict[str, Any]) -> None:
    """Kills: a certificate that takes any word for files, or none for tables."""
    assert records_of(Facts(manifest_of(conf, TABLE, its_rows_are="either"), "")).change == "either"
    assert records_of(Facts(manifest_of(conf, TABLE), "")).change == "replaced"
    with pytest.raises(Garbled):
        records_of(Facts(manifest_of(conf, {"parquet": "a"}, its_rows_are="either"), ""))
    with pytest.raises(Garbled):
        records_of(Facts(manifest_of(conf, TABLE, its_rows_are="added"), ""))


def test_a_judge_that_was_taken_out(conf: dict[str, Any]) -> None:
    """Kills: a release of today that passes for one of 0.2, by leaving out who judged it."""
    manifest = manifest_of(conf, TABLE)
    assert _record(manifest).result == "ok"
    for by in (["plan"], {}, "me", 3):
        assert _record({**manifest, "privacy": {**manifest["privacy"], "judged_by": by}}).result == "failed"
    del manifest["privacy"]["judged_by"]
    manifest["versions"]["dpspark"] = "0.3.0"
    assert _record(manifest).result == "failed"
    manifest["versions"]["dpspark"] = "0.2.0"
    assert _record(manifest).result == "not judged"
