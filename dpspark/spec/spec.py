"""A spec: the conf file as frozen, validated values. An unknown key is refused."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from dpspark.core.domain import FINEST_BITS, INTERCEPT, Categorical, ClusterKey, Domain, GroupKey, RowNorm
from dpspark.core.judgement import FILES, JudgedBy, Judgement
from dpspark.core.products import Product
from dpspark.core.records import Records, Statements
from dpspark.exact.histogram import Axis
from dpspark.mechanisms.base import Mechanism
from dpspark.mechanisms.errors.asked import DEFAULT_SHARE, AskedErrors, asked_of
from dpspark.mechanisms.errors.clip import CLIP_SHARE, ResidualBounds
from dpspark.mechanisms.errors.score_bounds import SCORE_SHARE, ScoreBounds
from dpspark.mechanisms.lines.base import LineMechanism, Target
from dpspark.mechanisms.lines.defaults import ROWS_PER_BUCKET
from dpspark.mechanisms.registry import EARLIER_BOUNDS
from dpspark.privacy.budget import Budget
from dpspark.source.parquet import Column
from dpspark.spec.checks import (
    check_currency,
    check_errors,
    check_extras,
    check_groups,
    check_limits,
    check_line,
    check_regression,
    check_rows,
)
from dpspark.spec.conf_file import check_plain, explain, override, read_conf
from dpspark.spec.formulas import asks_for_columns, read_formulas
from dpspark.spec.mechanism import MechanismPart, NamedMechanism
from dpspark.spec.parts import UTC, LedgerPlace, Output, Privacy, RowNormBound, Source
from dpspark.spec.release import ReleaseName, digest_of_groups
from dpspark.spec.rows import BoundsExtra, ColumnBounds, CountExtra, DiagnosticsExtra, WeightColumn
from dpspark.spec.values import Part, Text


class Spec(Part):
    """One release, complete. Its `hash` covers all that its numbers depend on, and not where they are put."""

    source: Source | None = None
    """Where the rows come from. None: a DataFrame is passed, from Python."""
    columns: dict[Text, ColumnBounds] = Field(min_length=1)
    """What is released of each row: names, each with bounds or categories."""
    where: Text | None = None
    """A filter on one row's values, e.g. `age >= 18`. Subqueries, aggregates, windows and random functions are refused."""
    nulls: Literal["drop_row", "midpoint"] | None = None
    """What a null does: its row is dropped, or the middle of the bounds stands for it (the default, and the only way, under
    `replace_one`). NaN and an unknown category are null; ±inf is clipped."""
    row_norm: RowNormBound | None = None
    """A bound on the norm of the scaled row: less noise with many columns."""
    weight: WeightColumn | None = None
    """A row counts as often as its weight says. A null or negative weight is no row. For `gaussian` and `laplace`."""
    bounds: BoundsExtra | None = None
    """How private bounds are found."""
    diagnostics: DiagnosticsExtra | None = None
    """Also count, with noise, the values of each column beyond its bounds."""
    count: CountExtra | None = None
    """Also say, with noise, how many rows were used; free where the release tells it anyway. `--pay-count` is short for it."""
    privacy: Privacy
    """The budget, and what it protects."""
    release: ReleaseName
    """What is asked for, and its name."""
    mechanism: MechanismPart = MechanismPart()
    """How it is answered. A name alone is enough, and so is nothing."""
    ledger: LedgerPlace
    """Where the budget is kept, and whose it is."""
    output: Output = Output()
    """Where the release goes."""
    _judgement: Judgement | None = PrivateAttr(None)
    _products: tuple[Product, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        if self.nulls == "drop_row" and self.privacy.neighbours == "replace_one":
            raise ValueError(
                "nulls=drop_row with neighbours=replace_one: dropping rows makes their number private.\n"
                "Use nulls: midpoint, or neighbours: add_remove."
            )
        self._named.check(self.release.kind)
        self._add_formula_columns()
        check_limits(self)
        check_regression(self)
        check_line(self)
        check_groups(self)
        check_currency(self)
        check_rows(self)
        check_errors(self)
        check_extras(self)
        if not self.used_columns:
            raise ValueError("columns: all of them are computed keys of groups. Add one that is released.")
        terms = self.domain.terms
        for term in terms:
            if terms.count(term) > 1 or (term == INTERCEPT and terms.index(term) > 0):
                raise ValueError(f"columns: two terms of the matrix would be called {term!r}. Rename a column.")
        return self

    def _add_formula_columns(self) -> None:
        """Add the columns and blocks of products that `release.regressions` need and the conf does not list."""
        formulas = self.release.regressions
        if formulas is None:
            return
        # A row norm shortens rows, after which a product is none; clusters' scores have an axis for each regressor.
        blocks = self.row_norm is None and (self.release.errors is None or isinstance(self.release.errors, str))
        made = read_formulas(self.columns, formulas, blocks)
        self.columns.update(made.columns)
        self._products = tuple(made.products)
        if self.release.errors is None and not asks_for_columns(self.columns, formulas):
            raise ValueError(
                "release.regressions: they have no products, powers or functions, so that every column is there already. "
                "They are also those that release.errors are for: add errors: hc1, or remove this key."
            )

    @property
    def mechanism_class(self) -> type[Mechanism]:
        return self._named.class_for(self.release.kind)

    @property
    def options(self) -> Any:
        """The mechanism's options, as its class has them."""
        return self._named.options_for(self.release.kind)

    @property
    def _named(self) -> NamedMechanism:
        return self.mechanism

    @property
    def mechanism_name(self) -> str:
        return self._named.name_for(self.release.kind)

    @property
    def line_class(self) -> type[LineMechanism]:
        return cast(type[LineMechanism], self.mechanism_class)

    @property
    def target(self) -> Target:
        """The line that is aimed at, of a release of lines: the mechanism's own, or where it chooses, what is asked for."""
        return self.line_class.target or self.release.target or "median"

    @property
    def timezone(self) -> str:
        """The time zone of expressions on timestamps."""
        return (self.source.timezone if self.source else None) or UTC

    @property
    def null_policy(self) -> Literal["drop_row", "midpoint"]:
        if self.nulls is not None:
            return self.nulls
        return "midpoint" if self.privacy.neighbours == "replace_one" else "drop_row"

    @property
    def regressors(self) -> tuple[str, ...]:
        """The columns that explain a regression's response; by default all others."""
        if self.release.regressors is not None:
            return self.release.regressors
        return tuple(name for name in self.plain_columns if name != self.release.response)

    @property
    def plain_columns(self) -> dict[str, ColumnBounds]:
        """The columns but for computed ones that groups are made by: those are keys and nothing else."""
        keys = self.computed_keys
        return {name: column for name, column in self.columns.items() if name not in keys}

    @property
    def computed_keys(self) -> dict[str, str]:
        """The columns of the groups that are computed, each with its SQL."""
        named = ((name, self.columns.get(name)) for name in self.release.group_by or ())
        return {name: column.expr for name, column in named if column is not None and column.expr is not None}

    @property
    def used_columns(self) -> dict[str, ColumnBounds]:
        """The columns that are read; a regression's response is the last."""
        release = self.release
        if release.kind == "theil_sen":
            return {name: self.columns[name] for name in (str(release.x), str(release.y))}
        if release.kind != "regression":
            return self.plain_columns
        return {name: self.columns[name] for name in (*self.regressors, str(release.response))}

    @property
    def domain(self) -> Domain:
        """The bounded rows, on the finest grid; the mechanism may choose a coarser one."""
        columns = tuple(bounds.column(name) for name, bounds in self.used_columns.items())
        weight = self.weight.weight if self.weight else None
        if self.release.kind == "regression":
            columns = tuple(replace(c, first_is_base=True) if isinstance(c, Categorical) else c for c in columns)
        keys = tuple(GroupKey(name) for name in self.release.group_by or ())
        domain = Domain(
            columns,
            self.null_policy,
            self._row_norm,
            response=self.release.response,
            weight=weight,
            keys=keys,
            products=self.products,
        )
        return domain.with_bits(FINEST_BITS)

    @property
    def products(self) -> tuple[Product, ...]:
        """The blocks of products that formulas ask for, of columns that are released."""
        used = self.used_columns
        return tuple(product for product in self._products if all(name in used for name in product.of))

    @property
    def _row_norm(self) -> RowNorm | None:
        norm = self.row_norm
        return None if norm is None else RowNorm(norm.mode, norm.radius, norm.include_response)

    @property
    def expressions(self) -> dict[str, str]:
        """The row-local SQL of the conf, by its key."""
        found = {f"columns.{name}.expr": text for name, text in self._computed_columns.items()}
        if self.weight is not None and self.weight.expr is not None:
            found["weight.expr"] = self.weight.expr
        return {"where": self.where, **found} if self.where is not None else found

    @property
    def mentioned(self) -> dict[str, set[str]]:
        """The columns that each expression reads, by the expression as a message shows it."""
        from dpspark.spec.expressions import columns_of

        return {f"{key}={text!r}": columns_of(text, key) for key, text in self.expressions.items()}

    @property
    def source_columns(self) -> list[Column]:
        """The columns that the source must have, with their types."""
        unit = self.privacy.unit
        found: list[Column] = [column for column in self.row_columns if column.name not in self.computed]
        return [*found, *(() if unit is None else (unit.key,))]

    @property
    def row_columns(self) -> tuple[Column, ...]:
        """The columns that passes read, in order: those of the domain, and which cluster a row belongs to."""
        key = self.cluster_key
        return (*self.domain.read_columns, *(() if key is None else (key,)))

    @property
    def computed(self) -> dict[str, str]:
        """The columns that are computed, each with its SQL; a computed weight is called by it."""
        weight = self.weight.expr if self.weight is not None else None
        return self._computed_columns if weight is None else {**self._computed_columns, weight: weight}

    @property
    def _computed_columns(self) -> dict[str, str]:
        used = {name: column.expr for name, column in self.used_columns.items() if column.expr is not None}
        key = self.cluster_key
        column = None if key is None else self.columns.get(key.name)
        cluster = {} if key is None or column is None or column.expr is None else {key.name: column.expr}
        return {**used, **cluster, **self.computed_keys}

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Where to look for the bounds of the columns that lack one."""
        return tuple(column.axis(name) for name, column in self.used_columns.items() if column.private_sides)

    @property
    def bounds_extra(self) -> BoundsExtra:
        return self.bounds or BoundsExtra()

    @property
    def shares(self) -> dict[str, Fraction]:
        """The part of the budget that each extra takes."""
        found = {}
        if self.axes:
            found["bounds"] = Fraction(self.bounds_extra.epsilon_share)
        if self.weight is not None and self.weight.squares_share is not None:
            found["squared weights"] = Fraction(self.weight.squares_share)
        if self.diagnostics is not None:
            found["diagnostics"] = Fraction(self.diagnostics.epsilon_share)
        if self.count is not None and not self.tells_its_rows and self.records.change != "replaced":
            found["count"] = Fraction(self.count.epsilon_share)
        if self.release.group_counts is not None:
            found["group_counts"] = Fraction(self.release.group_counts.epsilon_share)
        if self.release.interval is not None and not self.line_class.own_interval:
            found["interval"] = Fraction(self.release.interval.epsilon_share)
        if self.release.errors is not None:
            found[ResidualBounds.name] = CLIP_SHARE
        if self.cluster_key is not None:
            found[ScoreBounds.name] = SCORE_SHARE
        return found

    @property
    def cluster_key(self) -> ClusterKey | None:
        """The column of the clusters that standard errors are for."""
        asked = self.release.errors
        return None if asked is None or isinstance(asked, str) else ClusterKey(asked.cluster)

    @property
    def asked_errors(self) -> AskedErrors | None:
        """The regressions whose standard errors are to hold where variances differ."""
        release = self.release
        if release.errors is None:
            return None
        share = DEFAULT_SHARE if release.errors_share is None else release.errors_share
        key, unit = self.cluster_key, self.privacy.unit
        by = None if key is None else key.name
        clusters = None if by is None else self._statements.clusters(by, None if unit is None else unit.column)
        return asked_of(self.domain, share, release.regressions, by, clusters)

    @property
    def without_errors(self) -> Spec:
        """The same release without robust standard errors."""
        nothing = dict.fromkeys(("regressions", "errors", "errors_share"))
        return self.model_copy(update={"release": self.release.model_copy(update=nothing)})

    @property
    def tells_its_rows(self) -> bool:
        """Whether the first entry of the release's own table is the number of its rows: it is not paid for twice."""
        return (
            self.mechanism_class.tells_rows
            and self.release.group_by is None
            and self.weight is None
            and self.domain.first_entry_counts
        )

    def extra_budget(self, extra: str) -> Budget:
        return self.privacy.budget.part(self.shares[extra])

    @property
    def release_budget(self) -> Budget:
        """The part that the extras leave for the release itself: all of it if there are none. Basic composition."""
        return self.privacy.budget.part(1 - sum(self.shares.values(), Fraction(0)))

    @property
    def _can_drop(self) -> bool:
        """Tell whether a value of a record can make its row go, where that matters: where records are replaced."""
        if self.privacy.neighbours != "replace_one":
            return False
        return self.weight is not None or self.where is not None or self.judgement.drops

    @property
    def records(self) -> Records:
        """The most that one protected record can change."""
        return self._statements.records

    @property
    def _statements(self) -> Statements:
        return Statements(
            neighbours=self.privacy.neighbours,
            stated_rows=self.source.rows_per_record if self.source else None,
            max_rows=self.privacy.unit.max_rows if self.privacy.unit else None,
            group_by=self.release.group_by or (),
            fixed=self.privacy.fixed or (),
            drops=self._can_drop,
        )

    @property
    def stated(self) -> bool:
        """Whether the operator says how many rows one record can change."""
        return self.source is not None and self.source.rows_per_record is not None

    @property
    def judgement(self) -> Judgement:
        """The reason why a row is one record: as it was judged, or before that as the conf's own text lets expect."""
        if self._judgement is not None:
            return self._judgement
        if self.stated:
            return Judgement("statement", drops=True)
        if self.source is None or not self.source.of_files:
            return Judgement("plan", bool(self.source and self.source.sql and _filters(self.source.sql)))
        return Judgement("plan", self.where is not None) if self.expressions else FILES

    def judged(self, judgement: Judgement) -> Spec:
        """The same spec, with what was found of the rows that will be read."""
        found = self.model_copy()
        found._judgement = judgement
        check_extras(found)  # a count that is not public is paid for
        return found

    @property
    def judged_by(self) -> JudgedBy:
        return self.judgement.by

    @property
    def hash(self) -> str:
        return hash_of(self.public())

    @property
    def earlier_hash(self) -> str | None:
        """The hash that version 0.2 gave to this conf, where its `auto` chose another mechanism; None if nothing changed."""
        content = self.public()
        return None if content["release"].pop("target", None) is None else hash_of(content)

    @property
    def hash_by_percentile(self) -> str | None:
        """The hash that version 0.2 gave to this conf, where its private bounds were quantiles; None if it names a method."""
        asked = self.bounds_extra
        if not self.axes or asked.method is not None or asked.method_class.name == EARLIER_BOUNDS:
            return None
        if asked.headroom is not None:
            return None
        earlier = BoundsExtra(epsilon_share=asked.epsilon_share, method=EARLIER_BOUNDS)
        return self.model_copy(update={"bounds": earlier}).hash

    @property
    def _new_target(self) -> bool:
        """Whether `auto` may choose what version 0.2 did not: another release. Of large tables it chose medians, too."""
        release = self.release
        many = release.group_by is None and (release.expected_rows or 1) > ROWS_PER_BUCKET
        chooses = release.kind == "theil_sen" and self.line_class.target is None
        return chooses and self.target == "median" and not many

    def public(self) -> dict[str, Any]:
        """The hashed part of the spec, for the manifest."""
        content = self.model_dump(mode="json", exclude={"ledger", "output"}, exclude_none=True)
        content["nulls"] = self.null_policy
        content["release"].pop("target", None)  # a mechanism that is named says it
        if self._new_target:
            content["release"]["target"] = self.target
        content["mechanism"]["name"] = self.mechanism_name
        if self.release.kind == "regression":
            content["release"]["regressors"] = list(self.regressors)
            content["row_norm"] = None if self.domain.row_norm is None else asdict(self.domain.row_norm)
        if self.release.group_by is not None:
            content["release"]["groups"] = {"count": len(self.release.group_keys), "sha256": self.release.groups_digest}
        if self.release.levels is not None:
            content["release"]["groups"]["levels_sha256"] = digest_of_groups(self.release.levels.texts)
        if self.products:
            content["products"] = [list(product.of) for product in self.products]
        if self.axes:
            content["bounds"] = self.bounds_extra.public()
        if self.asked_errors is not None:
            content["release"]["errors_share"] = self.asked_errors.share
        if self.source is None:
            content["source"] = {"dataframe": True}
            return content
        if self.source.reader == "auto":
            content["source"].pop("reader")
        if self.source.sql is not None:  # the operator's: its hash says whether it changed
            content["source"]["sql_sha256"] = hashlib.sha256(content["source"].pop("sql").encode()).hexdigest()
        return content


def _filters(sql: str) -> bool:
    from dpspark.spec.expressions import query_filters

    return query_filters(sql)


def hash_of(public: dict[str, Any]) -> str:
    """Hash the public part of a spec, here or as a manifest has it."""
    return hashlib.sha256(json.dumps(public, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def load_spec(conf: str | Path | dict[str, Any], overrides: tuple[str, ...] = ()) -> Spec:
    """A spec from a conf file or a dictionary."""
    content = override(deepcopy(conf), overrides) if isinstance(conf, dict) else read_conf(conf, overrides)
    check_plain(content, None)
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise explain(error, Spec) from None
