"""Pydantic models as rows of a table: names, types in words, defaults, and the docstrings of their fields."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

# What the names of types stand for. One that is not here stops the build.
WORDS = {
    "Text": "text",
    "StrictStr": "text",
    "str": "text",
    "PlainName": "name",
    "Number": "number",
    "Finite": "number",
    "Positive": "number > 0",
    "Above": "number > 0",
    "Std": "number > 0",
    "Size": "number ≥ 0",
    "Bound": "number",
    "OneSide": "number or `private`",
    "DeltaOrNone": "number in [0, 1)",
    "BudgetShare": "share, above 0 and below 1",
    "Share": "share, above 0 up to 0.9",
    "Probability": "number in (0, 1)",
    "WholeNumber": "whole number ≥ 1",
    "Steps": "whole number ≥ 1",
    "Version": "whole number ≥ 0",
    "StrictInt": "whole number",
    "StrictBool": "true or false",
    "True": "true",
    "Key": "one value",
    "Table": "file name",
}


@dataclass(frozen=True)
class Key:
    """One field of a model."""

    name: str
    words: str
    required: bool
    default: Any
    about: str
    models: tuple[type[BaseModel], ...]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def limits(call: ast.Call, names: dict[str, Any]) -> str:
    """What pydantic's Field(ge=..., le=...) says."""
    given = {str(word.arg): eval(ast.unparse(word.value), names) for word in call.keywords}  # noqa: S307  our own source
    low, high = (f"{given[key]:g}" if key in given else "" for key in ("ge", "le"))
    if "pattern" in given:
        return "64 hexadecimal digits"
    if "lt" in given:
        return f"below {given['lt']}"
    return f"from {low} to {high}" if low and high else f"up to {high}" if high else f"at least {low}" if low else ""


def in_words(node: ast.expr, names: dict[str, Any]) -> str:
    """A type as the source has it, for people; `names` is what its names stand for."""
    if isinstance(node, ast.BinOp):  # A | B
        sides = [in_words(side, names) for side in (node.left, node.right)]
        return " or ".join(dict.fromkeys(side for side in sides if side))
    if isinstance(node, ast.Constant):
        return ""  # None
    if isinstance(node, ast.Name):
        meant = names.get(node.id)
        if get_origin(meant) is Literal:
            return chosen(get_args(meant))
        return "keys" if any(models_in(meant)) else WORDS[node.id]
    assert isinstance(node, ast.Subscript), ast.unparse(node)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    outer = ast.unparse(node.value)
    if outer == "Literal":
        return chosen([ast.literal_eval(part) for part in parts])
    if outer == "Annotated":
        assert isinstance(parts[1], ast.Call)
        words, more = in_words(parts[0], names), limits(parts[1], names)
        return (
            more if more.endswith("digits") else f"{words.split(' > ')[0] if 'from' in more else words} {more}".strip()
        )
    if outer == "dict":
        return f"names, each with {in_words(parts[1], names)}"
    two = len(parts) > 1 and ast.unparse(parts[1]) != "..."
    return f"{'two' if two else 'list'} of {in_words(parts[0], names)}"


def chosen(values: Sequence[Any]) -> str:
    return " or ".join(f"`{str(value).lower() if value is True else value}`" for value in values)


def keys_of(model: type[BaseModel]) -> list[Key]:
    """The fields in their order. One without a docstring stops the build."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = []
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or ast.unparse(node.target) not in model.model_fields:
            continue
        name = ast.unparse(node.target)
        field = model.model_fields[name]
        if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)):
            raise ValueError(f"{model.__name__}.{name} has no docstring")
        about = " ".join(str(following.value.value).split())
        default = None if field.is_required() else field.get_default()
        inner = tuple(models_in(field.annotation))
        words = in_words(node.annotation, vars(sys.modules[model.__module__]))
        found.append(Key(name, words, field.is_required(), default, about, inner))
    return found


def in_a_cell(text: str) -> str:
    return text.replace("|", "\\|")


def plain(default: Any) -> str:
    if default is None or isinstance(default, BaseModel):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def about(model: type[BaseModel]) -> str:
    return " ".join((inspect.cleandoc(model.__doc__ or "")).split())
