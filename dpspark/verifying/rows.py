"""What one record can do to the rows of a release, and the bounded row itself, as its manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dpspark.core.domain import SIDES, Categorical, Domain, Numeric, RowNorm, Side, Weight, public_side_of
from dpspark.core.facts import Facts, Garbled
from dpspark.core.products import Product
from dpspark.core.records import Records, Statements
from dpspark.exact.histogram import CELLS, Axis
from dpspark.mechanisms.base import Mechanism
from dpspark.mechanisms.registry import mechanism_named
from dpspark.spec.parts import PrivacyUnit
from dpspark.spec.rows import PRIVATE

LARGEST_GRID = 1 << 24  # of vertices that a sensitivity looks at: beyond any release, and quick


def records_of(manifest: Facts) -> Records:
    """Read what a record changes from the spec; what the manifest says of it elsewhere must agree."""
    spec, privacy = manifest.part("spec"), manifest.part("privacy")
    source, asked, release = spec.part("source"), spec.part("privacy"), spec.part("release")
    neighbours = asked.text("neighbours", "add_remove", "replace_one")
    _check_judge(source, privacy, manifest.has("source") and manifest.part("source").has("snapshot"))
    found = Statements(
        neighbours=neighbours,
        stated_rows=source.whole("rows_per_record") if source.has("rows_per_record") else None,
        max_rows=asked.part("unit").whole("max_rows") if asked.has("unit") else None,
        group_by=release.texts("group_by") if release.has("group_by") else (),
        fixed=asked.texts("fixed") if asked.has("fixed") else (),
        drops=spec.has("where") or manifest.has("weight") or _judged_to_drop(source, privacy),
    ).records
    if privacy.part("unit").whole("rows_per_record") != found.rows or privacy.text("neighbours") != neighbours:
        raise Garbled("privacy and spec.privacy do not agree on what a record is")
    if privacy.text("its_rows_are") != found.change or privacy.flag("moves_between_groups") != found.moves:
        raise Garbled("privacy does not agree with the spec on what a record changes")
    return found


def _check_judge(source: Facts, privacy: Facts, snapshot: bool) -> None:
    """Refuse who is said to have judged, if that cannot be for such a source. Releases before 0.3 do not say it.

    `snapshot`: the manifest names the state of a lake table whose files were read. A table of Spark's catalog can be one.
    """
    if not privacy.has("judged_by"):
        return
    files = ("files", "plan") if _of_files(source) or (source.has("table") and snapshot) else ("plan",)
    expected = ("statement",) if source.has("rows_per_record") else files
    if privacy.text("judged_by", "files", "plan", "statement") not in expected:
        raise Garbled("privacy.judged_by does not go with the spec's source")


def _judged_to_drop(source: Facts, privacy: Facts) -> bool:
    """Tell whether a filter was found before the row. Of a table, a query or a DataFrame the judge alone knows."""
    seen = privacy.has("judged_by") or source.has("sql_sha256")
    return not _of_files(source) and seen and privacy.text("its_rows_are") == "either"


def _of_files(source: Facts) -> bool:
    return any(source.has(key) for key in ("parquet", "delta", "iceberg"))


def unit_of(privacy: Facts) -> PrivacyUnit | None:
    """Read the privacy unit from a manifest's spec."""
    if not privacy.has("unit"):
        return None
    unit = privacy.part("unit")
    return PrivacyUnit(column=unit.text("column"), max_rows=unit.whole("max_rows"), nulls=unit.text("nulls"))  # type: ignore[arg-type]


def domain_of(manifest: Facts) -> Domain:
    columns = tuple(_column(each) for each in manifest.parts("columns"))
    norm = manifest.part("row_norm") if manifest.has("row_norm") else None
    weight = manifest.part("weight") if manifest.has("weight") else None
    release = manifest.part("release")
    domain = Domain(
        columns,
        manifest.text("nulls", "drop_row", "midpoint"),  # type: ignore[arg-type]
        None if norm is None else _row_norm(norm),
        bits=manifest.whole("grid_bits", 0),
        response=release.text("response") if release.has("response") else None,
        weight=None if weight is None else Weight(weight.text("name"), weight.positive("upper")),
        products=_products(manifest, columns),
    )
    numeric, blocks = len(domain.numeric), domain.blocks
    single = sum(len(block.terms) == 1 for block in blocks)
    if (numeric + 1) * (len(blocks) - single + 1) * (single + 1) > LARGEST_GRID:
        raise Garbled("there are too many columns to recompute a sensitivity")
    if domain.bits > domain.most_bits:
        raise Garbled("grid_bits is beyond what sums are exact at")
    if domain.response is not None and (not columns or columns[-1].name != domain.response or not numeric):
        raise Garbled("the response is not the last column")
    return domain


def _products(manifest: Facts, columns: tuple[Numeric | Categorical, ...]) -> tuple[Product, ...]:
    """Read the blocks of products, each of a categorical column and another one."""
    found = []
    for pair in manifest.items("products") if manifest.has("products") else ():
        own = [column for name in pair for column in columns if column.name == name] if isinstance(pair, list) else []
        if len(own) != 2 or len(pair) != 2 or pair[0] == pair[1] or not isinstance(own[0], Categorical):
            raise Garbled("a product is not of a categorical column and another one")
        found.append(Product((own[0].name, own[1].name)))
    if found and manifest.has("row_norm"):
        raise Garbled("there are products of columns whose rows have a norm")
    if len(set(found)) < len(found):
        raise Garbled("a product is there twice")
    return tuple(found)


def squared_weights_domain(domain: Domain, bits: int) -> Domain:
    if domain.weight is None:
        raise Garbled("squared weights without a weight")
    return replace(domain, weight=replace(domain.weight, squared=True)).with_bits(bits)


def _column(column: Facts) -> Numeric | Categorical:
    name = column.text("name")
    if column.has("lower"):
        lower, upper = column.number("lower"), column.number("upper")
        if not lower < upper:
            raise Garbled("a column's lower bound is not below its upper one")
        sides = column.texts("private_sides") if column.has("private_sides") else None
        return Numeric(name, lower, upper, private=column.has("bounds"), public_side=public_side_of(sides))
    categories = column.items("categories")
    if not categories or not all(isinstance(each, str | int) for each in categories):
        raise Garbled("a column's categories are not text, whole numbers or true and false")
    return Categorical(name, tuple(categories), first_is_base=column.has("base"))


def _row_norm(norm: Facts) -> RowNorm:
    mode = norm.text("mode", "cap", "project")
    return RowNorm(mode, norm.positive("radius"), norm.flag("include_response"))  # type: ignore[arg-type]


def unlike_spec(manifest: Facts, domain: Domain) -> Iterator[str]:
    """Yield where the rows of the manifest are not those of its spec."""
    spec = manifest.part("spec")
    asked = spec.part("columns")
    release = spec.part("release")
    kind = release.text("kind")
    if kind != manifest.part("release").text("kind"):
        yield "release.kind"
    keys = release.texts("group_by") if release.has("group_by") else ()
    # A computed column that groups are made by is a key and nothing else.
    wanted = tuple(name for name in asked.names() if not (name in keys and asked.part(name).has("expr")))
    if kind == "regression":
        wanted = (*release.texts("regressors"), release.text("response"))
    elif kind == "theil_sen":
        wanted = (release.text("x"), release.text("y"))
    if tuple(column.name for column in domain.columns) != wanted:
        yield "columns: others than the spec's"
        return
    for column in domain.columns:
        if not _as_asked(column, asked.part(column.name), kind):
            yield f"columns: the bounds of {column.name!r}"
    if [list(product.of) for product in domain.products] != (spec.items("products") if spec.has("products") else []):
        yield "products: others than the spec's"
    norm = spec.part("row_norm") if spec.has("row_norm") else None
    if domain.row_norm != (None if norm is None else _row_norm(norm)):
        yield "row_norm"
    weight = spec.part("weight") if spec.has("weight") else None
    asked_weight = None if weight is None else Weight(_weight_name(weight), weight.positive("upper"))
    if domain.weight != asked_weight:
        yield "weight"
    if domain.nulls != spec.text("nulls"):
        yield "nulls"
    asked_of = class_of(kind, spec.part("mechanism").text("name"))
    for option in asked_of.unlike_options(spec.part("mechanism"), manifest.part("mechanism")):
        yield f"mechanism.{option}"


def class_of(kind: str, name: str) -> type[Mechanism]:
    """Find a manifest's mechanism."""
    try:
        return mechanism_named(kind, name)
    except KeyError:
        raise Garbled("release.kind or mechanism.name is none that is known here") from None


def _weight_name(weight: Facts) -> str:
    """A computed weight is called by its expression."""
    return weight.text("column" if weight.has("column") else "expr")


def _as_asked(column: Numeric | Categorical, asked: Facts, kind: str) -> bool:
    if isinstance(column, Categorical):
        found: list[Any] = asked.items("categories")
        # 1 == True in Python, and not in a release.
        same = [(type(a), a) for a in found] == [(type(a), a) for a in column.categories]
        return same and column.first_is_base == (kind == "regression")
    if column.private_sides != _asked_sides(asked):
        return False
    return all(_is_bound(column, side, asked) for side in SIDES)


def _is_bound(column: Numeric, side: Side, asked: Facts) -> bool:
    """Tell whether a bound is the one that was given, or an edge of the range in which it was searched."""
    bound = column.lower if side == "lower" else column.upper
    if side not in column.private_sides:
        return bound == asked.number(side)
    axis = search_axis(column.name, asked)
    edge = round((bound - axis.lowest) / ((axis.highest - axis.lowest) / axis.cells))
    return 0 <= edge <= axis.cells and axis.edge(edge) == bound


def _asked_sides(asked: Facts) -> tuple[Side, ...]:
    """The sides that a spec's column leaves to be found."""
    if asked.has("bounds"):
        asked.text("bounds", PRIVATE)
        return SIDES
    return tuple(side for side in SIDES if asked.is_text(side, PRIVATE))


def search_axis(name: str, asked: Facts) -> Axis:
    """The range in which private bounds were searched: as much of it as is beyond a public side."""
    sides, search = _asked_sides(asked), asked.numbers("search")
    if not sides:
        raise Garbled("a column's bounds are not private, and were searched for")
    if len(search) != 2:
        raise Garbled("a column's search range is not two numbers")
    lowest = search[0] if "lower" in sides else max(search[0], asked.number("lower"))
    highest = search[1] if "upper" in sides else min(search[1], asked.number("upper"))
    if not lowest < highest:
        raise Garbled("a column's search range is not two numbers in order")
    return Axis(name, lowest, highest, cells=CELLS)
