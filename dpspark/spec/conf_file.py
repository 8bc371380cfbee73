"""Read a conf file: safe YAML with the surprises taken out, `--set` overrides, and errors that name the key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError, without_passwords

LARGEST_CONF = 1 << 24  # bytes
MOST_VALUES = 1_000_000  # aliases can make many of a few
DEEPEST = 50
TODO = "TODO"  # what `dpspark init` leaves to be filled in


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: 1e-9 is a number; yes, no, on, off and dates are text. A key given twice is refused.

    So is every tag but those of plain values: nothing in a conf can name a class, a date or bytes.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                raise ConfError(f"line {key_node.start_mark.line + 1}: a key must be plain text.")
            if key in seen:
                raise ConfError(f"line {key_node.start_mark.line + 1}: {key!r} is given twice. Keep one.")
            seen.add(key)
        return super().construct_mapping(node, deep)


_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "null", "int", "float", "str", "seq", "map")}
_Loader.yaml_constructors = {
    tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _PLAIN
}
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def _construct_int(loader: Any, node: Any) -> int:
    return int(loader.construct_scalar(node))  # 010 is ten, not eight


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def parse_yaml(text: str, what: str) -> Any:
    try:
        found = yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader
        check_plain(found)
        return found
    except ConfError as error:
        raise ConfError(f"{what}, {error}") from None
    # The last three: SafeLoader's own, for a value that its tag does not fit, such as !!bool 7.
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, IndexError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfError(f"{what}: cannot be read as YAML{where} ({problem}).") from None


def check_plain(content: Any, most: int | None = MOST_VALUES) -> None:
    """Refuse text that no file system or manifest can hold, and what is too deep, or too much once aliases are followed."""
    seen, ahead = 0, [(content, 0)]
    while ahead:
        value, depth = ahead.pop()
        seen += 1
        if depth > DEEPEST or (most is not None and seen > most):
            raise ConfError("its values are nested too deeply, or there are too many of them.")
        if isinstance(value, str) and not _storable(value):
            raise ConfError("some text has a NUL or half of a character pair in it. Remove it.")
        if isinstance(value, dict):
            ahead += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple):
            ahead += [(part, depth + 1) for part in value]


def _storable(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def read_conf(path: str | Path, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """The conf as plain dictionaries, with `path.to.key=value` overrides put in."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_CONF + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfError(f"conf {str(path)!r}: {reason}. Give the path of a YAML file.") from None
    if len(content) > LARGEST_CONF:
        raise ConfError(
            f"conf {str(path)!r}: larger than {LARGEST_CONF >> 20} MB. Put long lists into files of their own."
        )
    conf = parse_yaml(text, f"conf {str(path)!r}")
    if not isinstance(conf, dict):
        raise ConfError(f"conf {str(path)!r}: expected keys such as source, columns and privacy at the top.")
    return override(conf, overrides)


def override(conf: dict[str, Any], changes: tuple[str, ...]) -> dict[str, Any]:
    for change in changes:
        _set(conf, change)
    return conf


def _set(conf: dict[str, Any], change: str) -> None:
    dotted, equals, text = change.partition("=")
    if not equals or not dotted:
        raise ConfError(f"--set {dotted[:60]!r}; expected path.to.key=value, e.g. --set privacy.epsilon=0.5")
    check_plain(dotted)
    *parents, last = dotted.split(".")
    here = conf
    for parent in parents:
        here = here.setdefault(parent, {})
        if not isinstance(here, dict):
            raise ConfError(f"--set {dotted}: {parent} holds a value, not keys.")
    here[last] = parse_yaml(text, f"--set {dotted}")  # not its value: it may be a query, or have a password in it


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> ConfError:
    """pydantic's first complaint in the house style: key, value, what is allowed. `model` has the keys that there are."""
    errors = error.errors()
    open_ones = [each for each in errors if each.get("input") == TODO]
    if open_ones:
        return _still_to_do([_place(each) for each in open_ones])
    # A misspelt key shows as an unknown one and a missing one: name the first.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    where = _place(first)
    kind, given = first["type"], first.get("input")
    category = len(first["loc"]) > 2 and first["loc"][-3] == "categories" and isinstance(first["loc"][-2], int)
    if category:  # its last part is the kind that pydantic tried first
        where = where.rpartition(".")[0]
    if kind == "extra_forbidden" and ":" in str(first["loc"][-1]):
        return ConfError(f"{where}: unknown key. In braces write a space after the colon, e.g. {{rho: 0.1}}.")
    if kind == "extra_forbidden":
        meant = did_you_mean(str(first["loc"][-1]), _keys_at(model, first["loc"][:-1]))
        return ConfError(f"{where}: unknown key.{meant or ' Check its spelling, or remove it.'}")
    if kind == "missing":
        return ConfError(f"{where}: missing. Add it to the conf.")
    if kind == "value_error":
        return ConfError(f"{where + ': ' if where else ''}{first['ctx']['error']}")
    expected = first["msg"].removeprefix("Input should be ").lower()
    if kind in ("model_type", "dict_type", "too_short") or "dictionary" in expected:
        expected = "one or more" if kind == "too_short" and isinstance(given, list) else "keys with values"
    if kind == "tuple_type":
        expected = "a list, e.g. [a, b]"
    given = without_passwords(given) if isinstance(given, str) else given  # before it is cut short
    shown = repr(given) if isinstance(given, str | int | float | bool | type(None)) else f"a {type(given).__name__}"
    if category:
        expected = "text, a whole number, or true or false"
    if where == "mechanism":
        expected += ", e.g. {name: gaussian}"
    return ConfError(f"{where}={shown[:80]}; expected {expected}.")


def _place(error: Any) -> str:
    """The key that a complaint is about."""
    parts = [str(part) for part in error["loc"] if part not in ("function-after", "function-wrap")]
    return ".".join(part[:60] if part.isprintable() else ascii(part[:60]) for part in parts)


def _keys_at(kind: Any, place: Sequence[Any]) -> list[str]:
    """The keys that a conf may have at a place, where that is known."""
    for part in place:
        model = _model(kind)
        if model is not None:
            kind = model.model_fields[part].annotation if part in model.model_fields else None
        else:  # the values of a mapping, such as columns
            kind = get_args(kind)[-1] if get_origin(kind) is dict else None
    model = _model(kind)
    return [] if model is None else list(model.model_fields)


def _model(kind: Any) -> type[BaseModel] | None:
    """The part of a conf that this is, or may be."""
    kinds = [kind] if get_origin(kind) is None else [] if get_origin(kind) is dict else get_args(kind)
    return next((each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _still_to_do(places: list[str]) -> ConfError:
    more = f", and {len(places) - 1} more" if len(places) > 1 else ""
    return ConfError(
        f"{places[0]} is still {TODO}{more}. Fill in what is known without looking at the data, or remove the column."
    )
