"""The reference of the conf, from the models that read it."""

from __future__ import annotations

from models import Key, about, in_a_cell, keys_of, plain
from pydantic import BaseModel

from dpspark.spec.functions import FUNCTIONS, OPERATORS
from dpspark.spec.mechanism import CURRENCIES, MECHANISMS, OPTIONS
from dpspark.spec.release import KEYS
from dpspark.spec.spec import Spec

HEAD = """\
# The conf

One YAML file says what is released. An unknown key is refused, and so is a column without public bounds, or a public
range to find them in. `--set path.to.key=value` changes a value on the command line. `dpspark check CONF` validates a
conf without reading data, and says what it will spend on what.

YAML is read without surprises: `1e-9` is a number; `yes`, `no`, `on`, `off` and dates are text; a key that is there twice
is refused. Relative paths start at the working directory.

The **hash of the spec** covers every key but `ledger` and `output`. Under a used name and version a conf with another
hash is refused, with exit code 3.

Stages beside the release itself (`bounds`, `diagnostics`, `count`, `weight.squares_share`, `release.interval`) take their
share of epsilon, delta or rho, and leave the rest.
"""
WORDS = {"epsilon": "epsilon alone", "both": "epsilon and delta", "rho": "rho"}


def row(key: Key, prefix: str) -> str:
    words = key.words.replace("keys", f"[keys](#{anchor(prefix + key.name)})") if key.models else key.words
    default = "required" if key.required else plain(key.default)
    kinds = f" For kind {', '.join(KEYS[key.name])}." if prefix == "release." and key.name in KEYS else ""
    return f"| `{key.name}` | {words} | {default} | {in_a_cell(key.about)}{kinds} |"


def anchor(dotted: str) -> str:
    return dotted.replace(".", "").replace("*", "")


def sections(model: type[BaseModel], dotted: str) -> list[str]:
    """A section for the keys below one key, and then for those below them."""
    keys = keys_of(model)
    prefix = f"{dotted}." if dotted else ""
    head = f"{'##' if '.' not in dotted else '###'} {dotted}\n\n{about(model)}\n" if dotted else "## All keys\n"
    lines = [head, "| key | value | default | |", "|---|---|---|---|", *(row(key, prefix) for key in keys), ""]
    if dotted == "mechanism":
        lines += ["", mechanisms()]
    for key in keys:
        for inner in key.models:
            lines += sections(inner, prefix + key.name)
    return lines


def mechanisms() -> str:
    """Which mechanism is for what, and its options."""
    lines = ["| kind | name | budget | options |", "|---|---|---|---|"]
    for kind, names in MECHANISMS.items():
        for name in names:
            budget = ", or ".join(WORDS[each] for each in CURRENCIES[name])
            options = ", ".join(f"`{option}`" for option in OPTIONS[name])
            page = "robust" if kind == "theil_sen" and name != "gradient_descent" else "mechanisms"
            shown = f"[`{name}`](../{page}.md#{name})" if kind != "quantiles" else f"`{name}`"
            lines.append(f"| {kind} | {shown} | {budget} | {options} |")
    return "\n".join(lines) + "\n"


def functions() -> str:
    """What `where` and `expr` may use."""
    lines = [
        "## Functions of one row\n",
        "`where`, `columns.*.expr` and computed weights may use these, with these operators:",
        f"`{OPERATORS}`. Others are refused by `dpspark check`; of a table, a view, a query or a DataFrame Spark's own",
        "plan [is judged](../security.md#what-makes-a-row-a-record) at the release, where more functions are known.",
        "Comments are refused; so are patterns of LIKE that are not written out.\n",
        "| | |",
        "|---|---|",
        *(f"| {kind} | {', '.join(f'`{name}`' for name in sorted(names))} |" for kind, names in FUNCTIONS.items()),
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    return "\n".join([HEAD, *sections(Spec, ""), functions()])
