"""What executors import, as one zip file: all that they need beside numpy and pyarrow.

python -m dpspark.spark.executor_zip DIRECTORY     prints the path of the file, for spark-submit --py-files

Three kinds of modules hold what travels to executors: those that hand functions to Spark, the sums of `dpspark.exact`, and the
kernels that draw for one group. The zip has these and all that they import, found in the sources. Its `dpspark/__init__.py`
is executor_root.py: on a driver, where spark-submit puts the zip first too, it gives way to the package that is installed.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from dpspark.version import __version__

LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes
PACKAGE = Path(__file__).parents[1]
ROOT, ROOT_IN_ZIP = PACKAGE / "spark" / "executor_root.py", "dpspark/__init__.py"
HANDS_ON = (".mapInArrow(", ".map_in_arrow(")
SUMS = "dpspark.exact."
KEYED = "KeyedRandom"  # what a kernel draws with


def write_zip(directory: str | Path) -> Path:
    """Write dpspark-<version>.zip into a directory, which is made if need be."""
    target = Path(directory) / f"dpspark-{__version__}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    files = {path.relative_to(PACKAGE.parent).as_posix(): path for path in executor_modules().values()}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted({**files, ROOT_IN_ZIP: ROOT}.items()):
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def executor_modules() -> dict[str, Path]:
    """Find the modules that executors import, and their files."""
    every = all_modules()
    found: dict[str, Path] = {}
    waiting = sorted(_travelling(every))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = every[name]
            waiting += imported_modules(name, every)
    return found


def all_modules() -> dict[str, Path]:
    """List every module of the package, and its file."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_modules(name: str, every: dict[str, Path]) -> set[str]:
    """Name the modules of this package that a module imports, at once or later, and the packages that it is in."""
    found = {name.rpartition(".")[0]} - {"", "dpspark"}
    for node in _run(ast.parse(every[name].read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return (found & every.keys()) - {"dpspark"}


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what a program runs: not what is for the checker of types alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _run(node)


def _travelling(every: dict[str, Path]) -> set[str]:
    """Name the modules that hold what travels to executors."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in every.items() if path != Path(__file__)}
    found = {name for name, text in texts.items() if any(call in text for call in HANDS_ON) or name.startswith(SUMS)}
    classes = {
        name: [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
        for name, text in texts.items()
        if name.startswith("dpspark.mechanisms.")
    }
    kernels = {each.name for inside in classes.values() for each in inside if _draws(each)}
    return found | {name for name, inside in classes.items() if any(_is_one(each, kernels) for each in inside)}


def _draws(each: ast.ClassDef) -> bool:
    """Say whether a class has a method that is given keyed randomness."""
    methods = [node for node in each.body if isinstance(node, ast.FunctionDef)]
    given = [argument.annotation for method in methods for argument in method.args.args]
    return any(isinstance(annotation, ast.Name) and annotation.id == KEYED for annotation in given)


def _is_one(each: ast.ClassDef, kernels: set[str]) -> bool:
    """Say whether a class is a kernel, or made from one."""
    return each.name in kernels or any(isinstance(base, ast.Name) and base.id in kernels for base in each.bases)


if __name__ == "__main__":
    print(write_zip(sys.argv[1] if len(sys.argv) > 1 else "dist"))
