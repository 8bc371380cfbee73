"""Make the golden releases and their ledger, with whatever dpspark is imported. README.md says when and how.

Run in an empty directory whose name gives nothing away, for the ledger keeps it: paths in confs are relative to it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark import release
from dpspark.ledger.ledger import Ledger
from dpspark.releasing import run as pipeline
from dpspark.spark.session import spark_session
from dpspark.spec.charges import charged_events, protection
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from dpspark.version import __version__

URL = "sqlite:///ledger.sqlite"
ROWS = 20_000
BASE: dict[str, Any] = {
    "source": {"parquet": "people.parquet"},
    "columns": {
        "age": {"lower": 18, "upper": 99},
        "income": {"lower": 0, "upper": 200000},
        "sex": {"categories": ["F", "M"]},
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "release": {"kind": "gram"},
}
GROUPS = {"release/group_by": ["tract"], "release/groups": ["a", "b", "empty"]}
NUMBERED = {"release/group_by": ["tract", "district"], "release/groups": [["a", 1], ["a", 2], ["b", 1]]}
REPLACE = {"privacy/neighbours": "replace_one"}
FIXED = {**REPLACE, "privacy/fixed": ["tract"]}
PERSON = {"privacy/unit": {"column": "person", "max_rows": 3}}
PURE = {"privacy/delta": None}
RHO = {"privacy/epsilon": None, "privacy/delta": None, "privacy/rho": 0.05}
REGRESSION = {"release/kind": "regression", "release/response": "income"}
LINE = {"columns/sex": None, "release/kind": "theil_sen", "release/x": "age", "release/y": "income"}
QUANTILES = {"columns/sex": None, "release/kind": "quantiles", "release/probabilities": [0.25, 0.5, 0.9]}
INTERVAL = {"release/interval": {"epsilon_share": 0.2}}
QUERY = {"source": {"sql": "SELECT age, income, sex, tract FROM people"}}
JOINED = {
    "source": {
        "sql": "SELECT p.age, p.income, p.sex FROM people p JOIN people q ON p.row = q.row",
        "rows_per_record": 2,
    }
}
TABLE = {"source": {"table": "people"}}
FRAME = {"source": None}


def named(name: str, **options: Any) -> dict[str, Any]:
    return {"mechanism": {"name": name, **options}}


CHANGES: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "gaussian-rho": RHO,
    "gaussian-capped": {"row_norm": {"mode": "cap", "radius": 1.2}},
    "gaussian-filtered": {"where": "age >= 20", "columns/age2": {"expr": "age * age", "lower": 0, "upper": 9801}},
    "gaussian-weighted": {"weight": {"column": "w", "upper": 5, "squares_share": 0.1}},
    "gaussian-weighted-bare": {"weight": {"column": "w", "upper": 5}},
    "gaussian-person": PERSON,
    "gaussian-private-bounds": {"columns/income": {"bounds": "private", "search": [0, 1000000]}},
    "gaussian-diagnostics": {"diagnostics": {"epsilon_share": 0.05}},
    "gaussian-count": {"count": {}},
    "gaussian-by-group": GROUPS,
    "gaussian-by-two": NUMBERED,
    "laplace": {**named("laplace"), **PURE},
    "wishart": named("wishart"),
    "inverse-wishart": named("inverse_wishart"),
    "inverse-wishart-adaptive": named("inverse_wishart", degrees_of_freedom=100, adaptive=0.1),
    "johnson-lindenstrauss": named("johnson_lindenstrauss", rows=200),
    "gram-ridge": REGRESSION,
    "gram-ridge-by-group": {**REGRESSION, **GROUPS},
    "ssp": {**REGRESSION, **named("ssp")},
    "adassp": {**REGRESSION, **named("adassp")},
    "objective": {**REGRESSION, **named("objective")},
    "descent": {**REGRESSION, **named("gradient_descent", steps=5)},
    "line": {**LINE, **named("exponential")},
    "line-by-group": {**LINE, **GROUPS, **named("huber"), **INTERVAL},
    "line-auto": {**LINE, **GROUPS},
    "line-count": {**LINE, **named("depth"), **INTERVAL, **PURE, "count": {"epsilon_share": 0.1}},
    "line-gram": {**LINE, **GROUPS, **named("gram"), **INTERVAL},
    "quantiles": QUANTILES,
    "quantiles-by-group": {**QUANTILES, **NUMBERED},
    "table": TABLE,
    "query": QUERY,
    "query-joined": JOINED,
    "dataframe": FRAME,
    "replaced-parquet": REPLACE,
    "replaced-table": {**REPLACE, **TABLE},
    "replaced-query": {**REPLACE, **QUERY},
    "replaced-dataframe": {**REPLACE, **FRAME},
    "replaced-filtered": {**REPLACE, "where": "age >= 20"},
    "replaced-by-group": {**REPLACE, **GROUPS},
    "replaced-line": {**LINE, **FIXED, **GROUPS, **named("all_pairs")},
    "replaced-line-table": {**LINE, **FIXED, **GROUPS, **named("smooth_sensitivity"), **TABLE},
    "staged-on-disk": {},
    "staged-in-ledger": {**QUANTILES, **GROUPS},
    "reserved": {**REGRESSION},
    "reserved-pure": {**named("laplace"), **PURE},
    "given-back": {},
}
# A dataset of the ledger has one relation and one currency: the first of these keys that a conf has says which.
DATASETS = {
    "privacy/fixed": "fixed",
    "privacy/neighbours": "replaced",
    "privacy/unit": "persons",
    "privacy/rho": "zcdp",
}
UNFINISHED = ("staged-on-disk", "staged-in-ledger", "reserved", "reserved-pure", "given-back")


def conf_of(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The base conf with some keys changed; None takes one out. People who are replaced are another dataset."""
    conf = copy.deepcopy(BASE)
    dataset = next((where for key, where in DATASETS.items() if key in changes), "people")
    more = {"release/name": name, "release/version": "1", "ledger": {"url": URL, "dataset": dataset}}
    for path, value in {**changes, **more}.items():
        *parents, last = path.split("/")
        here = conf
        for parent in parents:
            here = here.setdefault(parent, {})
        if value is None:
            del here[last]
        else:
            here[last] = copy.deepcopy(value)
    return conf


def write_people() -> None:
    rng = np.random.default_rng(14)
    age = rng.integers(18, 99, ROWS)
    income = np.clip(900 * age + rng.lognormal(9, 1, ROWS), 0, None)
    columns = {
        "row": np.arange(ROWS),
        "person": rng.integers(0, ROWS // 2, ROWS),
        "age": age,
        "income": income,
        "sex": rng.choice(["F", "M"], ROWS),
        "w": rng.uniform(0, 5, ROWS),
        "tract": rng.choice(["a", "b"], ROWS),
        "district": rng.integers(1, 3, ROWS),
    }
    pq.write_table(pa.table(columns), "people.parquet", row_group_size=5000)


def unfinished(ledger: Ledger, name: str, conf: dict[str, Any], spark: Any) -> None:
    """What a run leaves that ends early."""
    spec = load_spec(conf)
    if not name.startswith("staged"):
        run = charged_events(spec, choose(spec)), protection(spec)
        final = str(Path("releases", name, "1").absolute())
        ledger.reserve(spec.ledger.dataset, name, "1", spec.hash, spec.privacy.budget, final, *run)
        if name == "given-back":
            ledger.give_back(spec.ledger.dataset, name, "1", "nothing was drawn")
        return

    class Stopped(Exception):
        pass

    def stop(*_: Any, **__: Any) -> Any:
        raise Stopped

    owner, function = (Ledger, "stage") if name == "staged-on-disk" else (pipeline, "publish")
    kept = getattr(owner, function)
    setattr(owner, function, stop)
    try:
        release(conf, spark=spark)
    except Stopped:
        pass
    finally:
        setattr(owner, function, kept)


def spent(ledger: Ledger) -> dict[str, Any]:
    found = {}
    for balance in ledger.balances():
        entries = {entry.name: entry.state for entry in balance.entries}
        found[balance.dataset] = {
            **{"epsilon": str(balance.spent_epsilon), "delta": str(balance.spent_delta), "how": balance.how},
            **{"rho": None if balance.spent_rho is None else str(balance.spent_rho), "entries": entries},
        }
    return found


def answers(made: Any) -> dict[str, list[float | None]] | None:
    """A regression from the release: estimates and standard errors by term. None of lines and quantiles."""
    if made.kind in ("theil_sen", "quantiles") or made.manifest["spec"]["release"].get("group_by"):
        return None
    fit = made.regress("income ~ age + sex") if made.kind == "gram" else made.regress()
    errors = fit.std_errors
    return {term: [float(value), float(errors[term])] for term, value in fit.params.items()}


def main() -> None:
    write_people()
    ledger = Ledger(URL)
    for dataset in ("people", "replaced", "fixed", "persons"):
        ledger.grant(dataset, epsilon=100.0, delta=1e-6, why="golden releases")
    ledger.grant("zcdp", rho=2.0, why="golden releases")
    confs = {name: conf_of(name, changes) for name, changes in CHANGES.items()}
    found = {}
    with spark_session("golden") as spark:
        frame = spark.read.parquet("people.parquet")
        frame.createOrReplaceTempView("people")
        for name, conf in confs.items():
            if name in UNFINISHED:
                unfinished(ledger, name, conf, spark)
            else:
                found[name] = answers(release(conf, frame if "source" not in conf else None, spark))
    expected = {
        **{"dpspark": __version__, "history": ledger.verify(), "spent": spent(ledger)},
        **{"confs": confs, "answers": found},
    }
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
