"""Any conf at all: `dpspark check` says what it would do (0) or what is wrong with it (2), in words of its own.

Confs that fit the source name a file that is there; mangled ones name one that is not. So 4, which is for a source that does
not fit, is never right here.
"""

from __future__ import annotations

import contextlib
import copy
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpspark.cli.main import main
from dpspark.mechanisms.base import ANY, options_of
from dpspark.mechanisms.registry import mechanism_named
from dpspark.spec.mechanism import ALL_OPTIONS
from tests.registered import MECHANISMS

# Values of the data: no message may have one.
NUMBER, WORD = "48151.62342", "Quetzalcoatl"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    numbers = {name: [float(NUMBER)] * 3 for name in ("age", "income", "w")}
    pq.write_table(pa.table({**numbers, "sex": [WORD] * 3, "tract": [WORD] * 3}), path / "people.parquet")
    (path / "tracts.csv").write_text("tract\na\nb\n")
    return path


def run(conf: str | bytes, home: Path) -> tuple[int, str]:
    """`dpspark check` in this process: its exit code, and all that it said."""
    path, said = home / "conf.yaml", io.StringIO()
    path.write_bytes(conf if isinstance(conf, bytes) else conf.encode("utf-8", "surrogatepass"))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.raises(SystemExit) as caught:
        main(["check", str(path)])
    return int(caught.value.code or 0), said.getvalue()


def check(conf: str | bytes, home: Path) -> int:
    code, said = run(conf, home)
    assert code in (0, 2), said
    assert "Traceback" not in said
    assert "unexpected" not in said.partition(":")[2][:12]
    assert NUMBER not in said
    assert WORD not in said
    if code == 2:
        assert said.startswith("dpspark: "), said
        assert 1 <= len(said.splitlines()) <= 2, said
        assert len(said) < 2000
    return code


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, 1, -1, 10**400, 1e308, 1e-308, 5e-324, 0.1, 1e-9, 2**53, 2**63, 2**64]),
)
ODD = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "1e400",
        "-.inf",
        ".nan",
        "..",
        "../..",
        "/",
        "a/b",
        "~",
        "\0",
        "\ud800",
        "é" * 90,
        "x" * 300,
    ),
    *("ａ", "a\u0301", "\u202e", "age", "income", "sex", "(intercept)", "sex[F]", "true", "null", "yes", "!!python/x"),
    *("SELECT 1", "age > 1 AND", "rand() < 0.5", "(" * 500, "avg(age)", "1=1; DROP TABLE a", "`", "'", "a\nb"),
)
words = st.text(max_size=12) | st.sampled_from(ODD)
wild = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
shares = st.sampled_from([0.01, 0.1, 0.5, 0.9, 0.3])
few = st.integers(1, 2000)


def optional(**keys: Any) -> Any:
    return st.fixed_dictionaries({}, optional=keys)


def bounded() -> Any:
    bounds = st.tuples(st.integers(-100, 50), st.integers(51, 10**6)).map(
        lambda pair: {"lower": pair[0], "upper": pair[1]}
    )
    private = st.sampled_from(
        [
            {"bounds": "private", "search": [0, 1e6]},
            {"lower": 0, "upper": "private", "search": [0, 1e6]},
            {"lower": "private", "upper": 99, "search": [-1e6, 1e6]},
        ]
    )
    computed = st.just({"expr": "age * 2", "lower": 0, "upper": 9})
    return st.one_of(bounds, bounds, bounds, private, computed)


mechanisms = st.sampled_from(sorted({name for names in MECHANISMS.values() for name in names}))
option_values = {
    "calibration": st.sampled_from(["exact", "theorem"]),
    "constants": st.sampled_from(["joint", "wang", "kalaja"]),
    "repair": st.sampled_from(["none", "ridge", "safe"]),
    "degrees_of_freedom": st.sampled_from([5, 50, 10**6, 10**13]),
    "rows": st.sampled_from([5, 50, 10**6]),
    "adaptive": shares,
    **dict.fromkeys(("scale", "radius", "clip", "width"), st.sampled_from([0.001, 0.5, 1.0, 30.0])),
    **dict.fromkeys(("steps", "matchings", "cells"), few),
}
assert set(option_values) == set(ALL_OPTIONS)
EPSILON, DELTA, RHO = st.floats(1e-12, 800), st.sampled_from([1e-300, 1e-12, 1e-6, 0.5]), st.floats(1e-12, 1e6)
BUDGETS = {
    "epsilon": st.fixed_dictionaries({"epsilon": EPSILON}, optional={"delta": st.just(0)}),
    "both": st.fixed_dictionaries({"epsilon": EPSILON, "delta": DELTA}),
    "rho": st.fixed_dictionaries({"rho": RHO}),
}
neighbours = st.sampled_from(
    [{}, {"neighbours": "add_remove"}, {"neighbours": "replace_one"}, {"neighbours": "replace_one", "fixed": ["tract"]}]
)


@st.composite
def fitting(draw: Any) -> dict[str, Any]:
    """Every key of the contract, each with a value that is right by itself; together they may be refused."""
    source = draw(st.sampled_from(["parquet", "sql", "table", "absent"]))
    kind = draw(st.sampled_from(sorted(MECHANISMS)))
    release: dict[str, Any] = {"name": "a", "version": draw(st.sampled_from(["1", 1, "2026-11"])), "kind": kind}
    if kind == "regression" or draw(st.integers(0, 19)) == 0:
        release |= {
            "response": "income",
            **draw(optional(regressors=st.sampled_from([["age"], ["age", "sex"], ["sex"]]))),
        }
    if kind == "theil_sen":
        lists = st.sampled_from([[30], [30.5, 60], [1, 2, 3], []])
        guesses = optional(cuts=lists, candidates=st.just([0, 9]), x_variance=shares, y_spread=shares)
        release |= {"x": "age", "y": "income", **draw(guesses)}
    if kind == "quantiles":
        release["probabilities"] = draw(st.sampled_from([[0.5], [0.1, 0.9], [0, 1], [0.25, 0.5, 0.75]]))
    careful = draw(st.integers(0, 3)) > 0  # mostly what goes together
    if draw(st.booleans()):
        groups = st.sampled_from([["a", "b"], ["1", "2"], [["a"]], "GROUPS", ["true"]])
        release |= {"group_by": ["tract"], "groups": draw(groups)}
    few = [] if careful else [1, 100]  # too few for private bounds
    release |= draw(optional(expected_rows=st.sampled_from([*few, 10**6, 10**9, 10**14])))
    name = draw(st.sampled_from(MECHANISMS[kind]) if careful else mechanisms)
    columns = {"age": draw(bounded()), "income": draw(bounded())}
    if kind not in ("theil_sen", "quantiles"):
        columns["sex"] = {"categories": ["F", "M"]}
    known = tuple(options_of(mechanism_named(kind, name))) or ("",) if careful else tuple(ALL_OPTIONS)
    options = draw(st.lists(st.sampled_from(known), max_size=1))
    currencies = mechanism_named(kind, name).currencies if careful else ANY
    conf = {
        "source": {
            "parquet": {"parquet": "PEOPLE"},
            "absent": {"parquet": "/not/there/*.parquet"},
            "sql": {"sql": f"SELECT age, income FROM {WORD}", **draw(optional(rows_per_record=st.integers(1, 3)))},
            "table": {"table": "db.people"},
        }[source],
        "columns": columns,
        "privacy": {
            **draw(BUDGETS[draw(st.sampled_from(currencies))]),
            **draw(neighbours),
        },
        "release": release,
        "mechanism": {"name": name, **{option: draw(option_values[option]) for option in options if option}},
        "ledger": {"url": "sqlite:///ledger.db", "dataset": "people"},
        "output": {"path": "releases"},
    }
    more = draw(optional(**MORE))
    return conf if careful and draw(st.booleans()) else {**conf, **more}


MORE = {
    "where": st.sampled_from(["age > 1", "sex = 'F' AND income < 10", "age IS NULL"]),
    "nulls": st.sampled_from(["drop_row", "midpoint"]),
    "row_norm": st.fixed_dictionaries(
        {"mode": st.sampled_from(["cap", "project"]), "radius": st.floats(0.01, 1000)},
        optional={"include_response": st.booleans()},
    ),
    "weight": st.fixed_dictionaries(
        {"column": st.just("w"), "upper": st.sampled_from([1, 5, 1e-9, 1e12])}, optional={"squares_share": shares}
    ),
    "bounds": st.one_of(
        optional(epsilon_share=shares, method=st.just("rank"), headroom=st.floats(1, 9)),
        st.fixed_dictionaries(
            {"method": st.just("percentile")},
            optional={"epsilon_share": shares, "lower_probability": shares, "upper_probability": shares},
        ),
    ),
    "diagnostics": optional(epsilon_share=shares),
}


def text_of(conf: dict[str, Any], home: Path) -> str:
    dumped = yaml.safe_dump(conf, allow_unicode=True, sort_keys=False)
    return dumped.replace("PEOPLE", str(home / "people.parquet")).replace("GROUPS", str(home / "tracts.csv"))


def any_place(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(content, dict):
        for key, value in content.items():
            found += any_place(value, (*path, key))
    elif isinstance(content, list):
        for at, value in enumerate(content):
            found += any_place(value, (*path, at))
    return found


@st.composite
def mangled_values(draw: Any) -> dict[str, Any]:
    """One to three values replaced, removed, or put under another key."""
    conf = copy.deepcopy(draw(fitting()))
    conf["source"] = draw(st.sampled_from([{"parquet": "/not/there"}, {"sql": "SELECT * FROM a"}, {"table": "a"}]))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(any_place(conf)))
        here: Any = conf
        for part in path[:-1]:
            here = here[part]
        how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add"]))
        if how == "replace" or isinstance(here, list):
            here[path[-1]] = draw(wild)
        elif how == "add":
            here[draw(words)] = draw(wild)
        else:
            value = here.pop(path[-1])
            if how == "rename":
                here[draw(words)] = value
        if not conf:
            break
    return conf


@st.composite
def mangled_text(draw: Any) -> str | bytes:
    """The text cut, its lines doubled, swapped or indented, YAML's own signs and stray bytes put in."""
    conf = draw(fitting())
    conf["source"] = {"parquet": "/not/there"}
    text = yaml.safe_dump(conf, sort_keys=False, default_flow_style=draw(st.sampled_from([None, True, False])))
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["cut", "double", "swap", "indent", "insert", "drop"]))
        if how == "cut":
            text = text[: draw(st.integers(0, len(text)))]
            continue
        if how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "indent":
            lines[at] = draw(st.sampled_from([" ", "  ", "\t"])) + lines[at]
        elif how == "drop":
            del lines[at]
        else:
            column = draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:column] + draw(st.sampled_from(SIGNS) | st.text(max_size=5)) + lines[at][column:]
        text = "\n".join(lines)
    if draw(st.integers(0, 9)) == 0:
        content = bytearray(text.encode("utf-8", "surrogatepass"))
        content[: draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
        return bytes(content)
    return text


SIGNS = [
    *(
        "&a ",
        "*a",
        "<<: *a",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "'",
        '"',
        "|",
        ">",
        "#",
        "%YAML 9.9",
        "---",
        "...",
        "?",
        "\t",
    ),
    *("!!python/object/apply:os.system [id]", "!!binary x", "!!bool 7", "!!float ''", "!!int x", "!!timestamp x"),
    *(
        "!!set {a}",
        "!!omap [a]",
        "!!pairs [a]",
        "!!null x",
        "!x ",
        "!!str 7",
        "!!seq {}",
        "!!map []",
        "\\x00",
        '"\\ud800"',
    ),
    *("1e400", ".nan", "0x10", "0o7", "1_000", "2026-11-01", "12:30", "\ufeff", "\x85", "\u2028", "=", "~", "@", "`"),
]

LOOSE = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


@settings(max_examples=300, **LOOSE)
@given(conf=fitting())
def test_confs_that_fit(home: Path, conf: dict[str, Any]) -> None:
    check(text_of(conf, home), home)


@settings(max_examples=400, **LOOSE)
@given(conf=mangled_values())
def test_confs_with_wild_values(home: Path, conf: dict[str, Any]) -> None:
    check(text_of(conf, home), home)


@settings(max_examples=300, **LOOSE)
@given(text=mangled_text())
def test_confs_with_mangled_text(home: Path, text: str | bytes) -> None:
    check(text, home)


def test_the_confs_are_not_all_refused(home: Path) -> None:
    """A strategy that only makes rubbish would find nothing behind the first check."""
    codes: list[int] = []

    @settings(max_examples=60, **LOOSE)
    @given(conf=fitting())
    def count(conf: dict[str, Any]) -> None:
        codes.append(check(text_of(conf, home), home))

    count()
    assert codes.count(0) >= len(codes) / 10


@pytest.mark.slow
@settings(max_examples=5000, **{**LOOSE, "derandomize": False})
@given(conf=st.one_of(fitting(), mangled_values(), mangled_text()))
def test_five_thousand_confs(home: Path, conf: Any) -> None:
    check(text_of(conf, home) if isinstance(conf, dict) else conf, home)
