"""The reference of the conf, from the models that read it."""

from __future__ import annotations

from models import Key, about, chosen, in_a_cell, keys_of, plain
from pydantic import BaseModel

from dpspark.mechanisms.base import Limits, options_of
from dpspark.mechanisms.registry import REGISTRY
from dpspark.spec.functions import FUNCTIONS, OPERATORS
from dpspark.spec.mechanism import ALL_OPTIONS, NamedMechanism
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

Extras (`bounds`, `diagnostics`, `count`, `weight.squares_share`, `release.interval`) take their
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
    keys = [*keys_of(NamedMechanism), *options()] if issubclass(model, NamedMechanism) else keys_of(model)
    prefix = f"{dotted}." if dotted else ""
    head = f"{'##' if '.' not in dotted else '###'} {dotted}\n\n{about(model)}\n" if dotted else "## All keys\n"
    lines = [head, "| key | value | default | |", "|---|---|---|---|", *(row(key, prefix) for key in keys), ""]
    if dotted == "mechanism":
        lines += ["", mechanisms()]
    for key in keys:
        for inner in key.models:
            lines += sections(inner, prefix + key.name)
    return lines


def options() -> list[Key]:
    """The options of all mechanisms, as they are declared."""
    return [Key(name, in_words(limits), False, None, limits.words, ()) for name, limits in ALL_OPTIONS.items()]


def in_words(limits: Limits) -> str:
    if limits.choices:
        return chosen(limits.choices)
    if limits.below is not None:
        return "share, above 0 and below 1"
    low, high = (None if each is None else f"{each:g}" for each in (limits.least, limits.most))
    span = f"from {low} to {high}" if low and high else f"at least {low}" if low else f"up to {high}" if high else ""
    return f"{'whole number' if limits.whole else 'number > 0'} {span}".strip()


def mechanisms() -> str:
    """Which mechanism is for what, and its options."""
    lines = ["| kind | name | budget | options |", "|---|---|---|---|"]
    for kind, of in REGISTRY.items():
        for mechanism in of:
            name = mechanism.name
            budget = ", or ".join(WORDS[each] for each in mechanism.currencies)
            options = ", ".join(f"`{option}`" for option in options_of(mechanism))
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
