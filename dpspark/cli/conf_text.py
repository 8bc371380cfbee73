"""What a release of a conf would be, in words and for machines: for `dpspark check` and `dpspark release --dry-run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpspark.analysis.summary import row_norm_lines
from dpspark.releasing.direct import ThroughSpark, read_directly
from dpspark.releasing.manifest import guarantee
from dpspark.source.parquet import ParquetSource
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import bounds_warnings, spending_lines
from dpspark.spec.spec import Spec

LARGE_EPSILON = 10
LARGE_DELTA = 1e-5


@dataclass(frozen=True)
class SourceWords:
    """What a conf's source is, and who reads its rows, as far as that can be seen from here."""

    source: str
    reads: str
    direct: bool  # tasks open the files, and nothing of the conf's is left to Spark


def lines(spec: Spec, mechanism: Mechanism, source: SourceWords) -> list[str]:
    """Describe what the release would be, line by line."""
    return [
        f"release    {spec.release.name} {spec.release.version} ({spec.release.kind}, {spec.mechanism_name})",
        _what(spec, mechanism),
        *(f"levels     {line}" for line in _levels(spec)),
        f"nulls      {spec.null_policy}",
        *(f"row norm   {line}" for line in row_norm_lines(mechanism.domain)),
        *([f"weight     {spec.weight.name}, at most {spec.weight.upper:g}"] if spec.weight else []),
        *(f"unit       {line}" for line in _unit(spec)),
        f"noise      {mechanism.noise_in_words()}",
        *(f"spends     {line}" for line in spending_lines(spec, mechanism)),
        f"source     {source.source}",
        f"reads      {source.reads}",
        f"record     {record_text(spec, source.direct)}",
        f"guarantee  {guarantee(spec, mechanism)}",
        *(f"tables     {line}" for line in _tables(spec)),
        *(f"warning    {line}" for line in _warnings(spec)),
    ]


def facts(spec: Spec, mechanism: Mechanism, source: SourceWords) -> dict[str, Any]:
    """Describe the same for machines."""
    return {
        "release": {"name": spec.release.name, "version": spec.release.version, "kind": spec.release.kind},
        "mechanism": spec.mechanism_name,
        "target": spec.target if spec.release.kind == "theil_sen" else None,
        "terms": list(mechanism.domain.terms),
        "groups": len(spec.release.group_keys) if spec.release.group_by else None,
        **({"levels": _level_counts(spec)} if spec.release.levels is not None else {}),
        "privacy": {
            **{key: value for key, value in spec.privacy.budget.__dict__.items() if value is not None},
            "neighbours": spec.privacy.neighbours,
            "unit": spec.privacy.protected,
        },
        "nulls": spec.null_policy,
        "noise": mechanism.noise_in_words(),
        "spends": spending_lines(spec, mechanism),
        "source": source.source,
        "reads": source.reads,
        "record": record_text(spec, source.direct),
        "guarantee": guarantee(spec, mechanism),
        "tables": spec.output.tables,
        "warnings": _warnings(spec),
        "spec_hash": spec.hash,
    }


def _tables(spec: Spec) -> list[str]:
    """Say which tables the release is loaded into, and by what."""
    address = spec.output.table_address
    if address is None:
        return []
    by = {"spark": "Spark", "delta": "delta-rs", "iceberg": "pyiceberg"}[address.kind]
    return [f"{address}: once it is published, by {by}; not looked at from here"]


def _warnings(spec: Spec) -> list[str]:
    """Warn of a budget that is allowed and protects little, and of bounds that clip too much."""
    return [*_budget_warnings(spec), *bounds_warnings(spec)]


def _budget_warnings(spec: Spec) -> list[str]:
    budget, rows, found = spec.privacy.budget, spec.release.expected_rows, []
    if budget.epsilon is not None and budget.epsilon > LARGE_EPSILON:
        found.append(
            f"epsilon={budget.epsilon:g} is more than {LARGE_EPSILON}: it protects little. Usual is 1 or less."
        )
    if budget.delta is not None and rows is not None and budget.delta > 1 / rows:
        found.append(
            f"delta={budget.delta:g} is more than one in the {rows:,} expected rows: whole rows could be published with it. "
            "Use far less."
        )
    elif budget.delta is not None and budget.delta > LARGE_DELTA:
        found.append(
            f"delta={budget.delta:g} is more than {LARGE_DELTA:g}: a chance that the guarantee does not hold. "
            "Use far less than one in the number of rows."
        )
    return found


def _what(spec: Spec, mechanism: Mechanism) -> str:
    terms = mechanism.domain.terms
    if spec.release.kind == "theil_sen":
        groups = f", one line for each of {len(spec.release.group_keys):,} groups" if spec.release.group_by else ""
        return f"lines      {spec.release.y} ~ {spec.release.x}, of {spec.target}s{groups}"
    if spec.release.kind == "quantiles":
        return f"quantiles  {', '.join(map(str, spec.release.probabilities or ()))} of {_shown(terms[1:])}{_each_group(spec)}"
    if spec.release.kind == "regression":
        return f"regression {terms[-1]} ~ {_shown(terms[1:-1], ' + ')}{_each_group(spec)}"
    return f"matrix     {len(terms)} × {len(terms)}: {_shown(terms)}{_each_group(spec)}"


def _each_group(spec: Spec) -> str:
    return f"; for each of {len(spec.release.group_keys):,} groups" if spec.release.group_by else ""


def _level_counts(spec: Spec) -> dict[str, int]:
    """Count the groups of each level, the coarsest first."""
    levels = spec.release.levels
    return {} if levels is None else {name: len(levels.groups(name)) for name in levels.names}


def _levels(spec: Spec) -> list[str]:
    counts = _level_counts(spec)
    shown = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
    return [f"{shown}; the finest is released, the others are made of it at no cost"] if counts else []


def _unit(spec: Spec) -> list[str]:
    unit = spec.privacy.unit
    if unit is None:
        return []
    rows = f"{unit.max_rows} row{'s' if unit.max_rows > 1 else ''}"
    without = "are dropped" if unit.nulls == "drop" else "are people of their own"
    lines = [
        f"a person, by {unit.column}: at most {rows} each, {spec.records.rows} in the noise; rows without one {without}"
    ]
    if spec.source is not None and spec.source.rows_per_record is not None:
        people = spec.source.rows_per_record
        lines.append(
            f"source.rows_per_record={people}: as stated, the query's rows of at most {people} "
            f"{'people' if people > 1 else 'person'} change with one"
        )
    return lines


def describe_source(spec: Spec, found: ParquetSource | None) -> SourceWords:
    """Describe the source. `found` are its files, where they can be seen from here."""
    source = source_text(spec, found)
    if found is None:
        table = spec.source is not None and spec.source.table is not None and spec.source.reader != "spark"
        reads = "the tasks themselves, if the table is plain files; else Spark" if table else "Spark"
        return SourceWords(source, reads, False)
    try:
        read_directly(spec, found)
    except ThroughSpark as why:
        return SourceWords(source, f"Spark, which is slower: {why}", False)
    return SourceWords(source, "the tasks themselves", True)


def source_text(spec: Spec, found: ParquetSource | None) -> str:
    if spec.source is None or spec.source.dataframe:
        return "a DataFrame"
    if not spec.source.of_files:
        return f"table {spec.source.table}" if spec.source.table else "a query"
    named = named_source(spec)
    if found is None:
        return f"{named} (not looked at from here)"
    count = len(found.parts)
    return f"{named}:{_snapshot_text(found)} {count} file{'s' if count != 1 else ''}, every column fits"


def named_source(spec: Spec) -> str:
    """The files of the source, as the conf names them."""
    source = spec.source
    assert source is not None
    return str(source.parquet or source.delta or source.iceberg)


def _snapshot_text(found: ParquetSource) -> str:
    at = found.snapshot
    if at is None:
        return ""
    if at.format == "delta":
        return f" Delta table, version {at.id},"
    return " Iceberg table, " + ("never written to," if at.id is None else f"snapshot {at.id},")


def record_text(spec: Spec, direct: bool = False) -> str:
    """Say what makes a row one record, as far as that is known without Spark."""
    if spec.stated:
        assert spec.source is not None
        return f"as stated, at most {spec.source.rows_per_record} of the rows change with one record, in any way"
    if spec.source is not None and spec.source.of_files:
        computed = "" if direct else " and ".join(spec.expressions)
        return "one row of a file" + (f"; Spark's plan of {computed} is judged at release" if computed else "")
    return "one row; to be confirmed at release: Spark's own plan is read before anything is charged"


def _shown(terms: tuple[str, ...], between: str = ", ") -> str:
    return between.join(terms[:8]) + (f", ... {len(terms) - 8} more" if len(terms) > 8 else "")
