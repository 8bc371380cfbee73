"""Measure the house: the table of docs/contributing.md. python docs/house.py [DIRECTORY OF A CHECKOUT]"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

NAMES = (
    *("gaussian", "laplace", "wishart", "johnson_lindenstrauss", "inverse_wishart"),
    *("gram_ridge", "refined", "adassp", "ssp", "objective", "gradient_descent"),
    *("auto", "depth", "huber", "exponential", "all_pairs", "widened", "smooth_sensitivity", "sufficient_statistics"),
)
CLASSES = re.compile(
    r"(Gaussian|Laplace|Wishart|Inverse|Lindenstrauss|Projected|Adaptive|Additive|Sampling|Statistics|Objective|Descent|Ridge|"
    r"Depth|Huber|Smooth|Widened|Exponential|Moments|Sufficient|Grouped|AllPairs)\w*"
    r"(Gram|Noise|Projection|Regression|Line|Lines|TheilSen|Statistics|Mechanism|Release)\b|LineWithInterval|QuantileRelease"
    r"|\w*Mechanism\b|SufficientStatistics"
)

# What a wheel of 0.2.0 had beside the product.
NOT_PRODUCT = ("evaluation", "peers", "benchmarks", "experiments")
NOT_PRODUCT_EITHER = tuple(
    f"dpspark.commands.{name}" for name in ("bench", "bench_lines", "bench_peers", "scale", "evaluate")
)


def modules(root: Path) -> dict[str, Path]:
    """Find every module of the package, by its dotted name."""
    found = {}
    for path in sorted((root / "dpspark").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """List the modules of the package that a file imports, lazily or not."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ([name for name in inner if name in known] or ([node.module] if node.module in known else []))


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def package_cycles(known: dict[str, Path]) -> list[set[str]]:
    """Find the packages that import each other, directly or by way of others, lazy imports included."""
    edges = defaultdict(set)
    for module, path in known.items():
        for other in imports(path, known):
            if package_of(module) != package_of(other) and "." in module:
                edges[package_of(module)].add(package_of(other))

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for following in edges[todo.pop()] - seen:
                seen.add(following)
                todo.append(following)
        return seen

    knots = {frozenset({a} | {b for b in reached(a) if a in reached(b)}) for a in list(edges) if a in reached(a)}
    return [set(knot) for knot in knots]


def files_of(known: dict[str, Path], word: str, *, product: bool = True) -> list[str]:
    """List the files that mention a mechanism: those that somebody who adds one must find."""
    called = "".join(part.capitalize() for part in word.split("_"))
    pattern = re.compile(rf"\b{word}\b|\b{called}[A-Z]\w*\b")
    return [
        module
        for module, path in known.items()
        if (not product or package_of(module) != "audit") and pattern.search(path.read_text(encoding="utf-8"))
    ]


def own_place(module: str) -> bool:
    """Tell whether a module is one where mechanisms may be told apart: their own files, and the registry.

    An attack is a mechanism's own file, too: it knows which one it attacks.
    """
    return module.startswith(("dpspark.mechanisms.", "dpspark.robust.", "dpspark.audit."))


def isinstance_tests(known: dict[str, Path]) -> Counter[str]:
    """Count tests on the classes of mechanisms, kernels and noise, outside of mechanisms' own files."""
    found: Counter[str] = Counter()
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
            if named and CLASSES.search(ast.unparse(node.args[1])):  # type: ignore[attr-defined]
                found[module] += 1
    return found


def name_comparisons(known: dict[str, Path]) -> Counter[str]:
    """Count comparisons with a mechanism's name or law, and memberships in lists of them."""
    found: Counter[str] = Counter()
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                words = {
                    each.value
                    for part in (node.left, *node.comparators)
                    for each in ast.walk(part)
                    if isinstance(each, ast.Constant)
                }
                found[module] += bool(words & set(NAMES))
    return Counter({module: count for module, count in found.items() if count})


def doubles(known: dict[str, Path]) -> tuple[list[str], list[str]]:
    """List names of modules, and of classes, that are there more than once."""
    files = Counter(path.stem for path in known.values() if path.stem != "__init__")
    classes: Counter[str] = Counter()
    for path in known.values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
    return [name for name, count in files.items() if count > 1], [name for name, count in classes.items() if count > 1]


def pulled_in(root: Path, module: str) -> tuple[int, int]:
    """Import a module in a Python of its own, and count the package's modules and lines that come with it."""
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import {module}\n"
        "files = [m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'dpspark' and m.__file__]\n"
        "print(len(files), sum(len(open(f, encoding='utf-8').readlines()) for f in files))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=True)
    modules_in, lines = done.stdout.split()
    return int(modules_in), int(lines)


def lines_of(paths: Iterator[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def report(root: Path) -> None:
    known = modules(root)
    top = [module for module in known if module.count(".") == 1 and known[module].name != "__init__.py"]
    print(f"modules directly under dpspark/: {len(top)}")
    for word in ("huber", "wishart"):
        print(
            f"files that mention {word}, audit aside: {len(files_of(known, word))}: {' '.join(files_of(known, word))}"
        )
    for title, found in (("isinstance", isinstance_tests(known)), ("name comparisons", name_comparisons(known))):
        outside = {module: count for module, count in found.items() if not own_place(module)}
        print(
            f"{title}: {sum(found.values())} in {len(found)} files; outside of mechanisms: {sum(outside.values())} {outside}"
        )
    print(f"package cycles: {[sorted(knot) for knot in package_cycles(known)]}")
    stems, classes = doubles(known)
    print(f"module names more than once: {len(stems)} {stems}\nclass names more than once: {len(classes)} {classes}")
    reader = "dpspark.published.reading" if "dpspark.published.reading" in known else "dpspark.bundle"
    print(f"the analyst's reader pulls in {pulled_in(root, reader)} modules and lines")
    places = [module for module, path in known.items() if "class Records" in path.read_text(encoding="utf-8")]
    print(f"places that say what one record can change: {len(places)} {places}")
    others = [
        path for module, path in known.items() if package_of(module) in NOT_PRODUCT or module in NOT_PRODUCT_EITHER
    ]
    print(f"lines of the package: {lines_of(iter(known.values()))}, of which not product: {lines_of(iter(others))}")


if __name__ == "__main__":
    report(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve())
