"""Pictures: what is drawn where, and nothing left behind."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpspark
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.errors import ConfError
from dpspark.published.gram import GramRelease
from dpspark.published.lines import LinesRelease
from dpspark.published.quantiles import QuantilesRelease
from tests.conftest import income_columns, release_of

figure = pytest.importorskip("matplotlib.figure")
FORMULA = "income ~ age + educ + sex"


@pytest.fixture
def release(conf: dict[str, Any]) -> GramRelease:
    return release_of(conf, income_columns())


def drawn(axes: Any) -> Any:
    """Some mistakes show only when it is drawn."""
    axes.figure.savefig(io.BytesIO())
    return axes


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_a_fit_has_an_interval_for_each_slope(release: GramRelease) -> None:
    """Kills: an interval in other units than the axis says; noise drawn as sampling; a slope left out; the intercept in."""
    fit = release.regress(FORMULA)
    axes = drawn(fit.plot())
    spans = {"age": 81.0, "educ": 15.0, "sex[M]": 1.0}
    assert [name.split(" (")[0] for name in names(axes)] == list(spans)
    assert len(axes.containers) == len(spans)
    bars = [line for line in axes.lines if line.get_linewidth() == 7]
    for row, (term, span) in enumerate(spans.items()):
        (segment,) = axes.containers[row].lines[2][0].get_segments()
        low, high = fit.conf_int()[term]
        assert segment == pytest.approx(np.array([[low * span, row], [high * span, row]]))
        within = np.ptp(bars[row].get_xdata()) / np.ptp(segment[:, 0])
        privacy = fit.privacy_std_errors[term] / fit.std_errors[term]
        assert within == pytest.approx(np.sqrt(1 - privacy**2))
        assert 0 < within < 1
    assert axes.get_title() == "income ~ age + educ + sex[M]"
    assert axes.get_xlabel() == "change in income as a term goes from its lower to its upper bound"
    legend = {text.get_text() for text in axes.get_legend().get_texts()}
    assert legend == {"95% interval, privacy noise included", "without privacy noise"}
    written = [text.get_text() for text in axes.child_axes[0].get_yticklabels()]
    assert written[1].startswith(f"{fit.params['age']:.1f}  [")


def test_a_fit_that_has_no_numbers_says_so(conf: dict[str, Any]) -> None:
    """Kills: an empty picture without a word."""
    found = release_of({**conf, "privacy": {"epsilon": 0.001, "delta": 1e-9}}, income_columns(100)).regress(
        "income ~ age"
    )
    axes = drawn(found.plot())
    assert axes.containers == []
    assert axes.texts[0].get_text().startswith("NOT IDENTIFIED")


@pytest.mark.parametrize("how", [{"repair": "ridge"}, {"interval": "bootstrap"}, {"level": 0.5}])
def test_other_fits(release: GramRelease, how: dict[str, Any]) -> None:
    fit = release.regress("income ~ age", **how)
    axes = drawn(fit.plot())
    (segment,) = axes.containers[0].lines[2][0].get_segments()
    assert segment[:, 0] == pytest.approx(81 * np.array(fit.conf_int()["age"]))


def test_the_callers_axes_are_used(release: GramRelease, conf: dict[str, Any]) -> None:
    """Kills: a new figure although axes were given; more than the first regression in a single one."""
    mine = figure.Figure()
    one, two, three, *both = mine.subplots(1, 5)
    assert release.regress(FORMULA).plot(ax=one) is one
    assert release.plot(ax=two) is two
    plan = dpspark.plan(conf, ["income ~ age"], rows=20_000)
    assert plan.plot(ax=three) == [three]
    assert three.get_title() == "income ~ age"
    assert plan.plot(ax=both) == both
    assert both[0].get_title() == "Noise in the scaled matrix"
    with pytest.raises(ConfError, match="ax is 3 Axes; expected 1, or one for each of 2 panels"):
        plan.plot(ax=[one, two, three])


def test_a_plan_is_drawn_and_written(conf: dict[str, Any], tmp_path: Path) -> None:
    plan = dpspark.plan(conf, ["income ~ age + educ"], rows=20_000)
    matrix, fit = plan.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert matrix.get_xlabel() == fit.get_xlabel() == "epsilon (delta = 1e-09)"
    at = np.argmin(np.abs(fit.lines[0].get_xdata() - 1.0))
    assert fit.lines[0].get_ydata()[at] == pytest.approx(plan.fits[0].prediction.std_errors[1], rel=0.01)


def test_a_heat_map_of_correlations(release: GramRelease, conf: dict[str, Any]) -> None:
    """Kills: covariances for correlations; numbers in every cell of a wide one."""
    axes = drawn(release.plot())
    assert np.array(axes.images[0].get_array()) == pytest.approx(release.correlation().to_numpy())
    assert len(axes.texts) == 25
    red, _, blue, _ = axes.images[0].get_cmap()(1.0)
    assert blue > red  # positive is blue, as in a report
    noise = release.correlation_std().loc["age", "income"]
    assert axes.texts[2].get_text() == f"{release.correlation().loc['age', 'income']:.2f}\n±{noise:.1g}"
    rng = np.random.default_rng(0)
    columns = {f"x{i}": {"lower": -1, "upper": 1} for i in range(60)}
    wide = release_of({**conf, "columns": columns}, {name: rng.uniform(-1, 1, 100) for name in columns})
    axes = drawn(wide.plot())
    assert len(axes.texts) == 0
    assert "at most" in axes.get_xlabel()


def lines(count: int, weak: int = 0) -> LinesRelease:
    manifest = {
        "release": {"name": "lines", "version": "1", "kind": "theil_sen", "x": "age", "y": "income"},
        "privacy": {"epsilon": 1.0, "delta": None, "rho": None, "neighbours": "add_remove"},
        "mechanism": {"name": "depth", "kernel": "depth"},
        "spec": {"release": {"group_by": ["tract"]}},
        "columns": [{"name": "age", "lower": 10.0, "upper": 90.0}, {"name": "income", "lower": 0.0, "upper": 10.0}],
        "nulls": "midpoint",
        "grid_bits": 20,
        "weight": None,
        "row_norm": None,
    }
    slope = np.repeat(np.arange(count, dtype=float), 2)
    x = np.tile([25.0, 75.0], count)
    table = {
        "tract": np.repeat([f"t{i}" for i in range(count)], 2),
        "x": x,
        "estimate": 1 + slope * x,
        "ci_low": slope * x,
        "ci_high": 3 + slope * x,
        "slope": slope,
        "intercept": np.ones(2 * count),
        "status": ["weakly_identified"] * 2 * weak + ["ok"] * 2 * (count - weak),
    }
    return LinesRelease(LinesContent(Path("nowhere"), manifest, {"predictions": pa.table(table)}))


def test_few_lines_are_drawn_and_many_counted() -> None:
    """Kills: every line twice, once a cut; slopes weighted by their cuts; an interval at the wrong height."""
    axes = drawn(lines(3).plot())
    whole = [line for line in axes.lines if list(line.get_xdata()) == [10.0, 90.0]]
    assert [list(line.get_ydata()) for line in whole] == [[1 + 10.0 * k, 1 + 90.0 * k] for k in range(3)]
    assert axes.containers[2].lines[2][0].get_segments()[1] == pytest.approx(np.array([[75, 150], [75, 153]]))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "income")
    axes = drawn(lines(1000).plot())
    assert sum(bar.get_height() for bar in axes.patches) == 980
    assert axes.get_legend().get_texts()[0].get_text() == "median: 500"
    assert axes.get_xlabel().startswith("slope: income per unit of age")


def test_weak_lines_look_weak() -> None:
    """Kills: a line that the noise may have drowned drawn as one that holds."""
    axes = drawn(lines(3, weak=1).plot())
    whole = [line for line in axes.lines if list(line.get_xdata()) == [10.0, 90.0]]
    assert [line.get_linestyle() for line in whole] == ["--", "-", "-"]
    assert [c.lines[0].get_markerfacecolor() == "white" for c in axes.containers] == [True, False, False]
    assert axes.get_legend().get_texts()[0].get_text() == "t0 (weakly_identified)"
    assert "; 7 of them weakly_identified)" in drawn(lines(100, weak=7).plot()).get_xlabel()


@pytest.mark.parametrize(("groups", "rows"), [(1, 2), (3, 6), (500, 4)])
def test_quantiles(groups: int, rows: int) -> None:
    """Two columns, two quantiles. Kills: columns of different units on one axis as they are; a row for each of many groups."""
    manifest = lines(1).manifest
    made = [(f"t{g}", c, p, v, "ok") for g in range(groups) for c, p, v in
            (("age", 0.5, 50.0), ("age", 0.9, 82.0), ("income", 0.5, 1.0), ("income", 0.9, 9.0))]  # fmt: skip
    columns = [list(values) for values in zip(*made, strict=True)]
    table = pa.table(columns, names=["tract", "column", "probability", "estimate", "status"])
    axes = drawn(QuantilesRelease(QuantilesContent(Path("nowhere"), manifest, {"quantiles": table})).plot())
    assert len(names(axes)) == rows
    dots = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [float(dot.get_xdata()[0]) for dot in dots[:4]] == pytest.approx([0.5, 0.9, 0.1, 0.9])


def test_names_are_no_formulas(conf: dict[str, Any]) -> None:
    """Kills: a column with a $ in its name that matplotlib takes for mathematics, and fails on when it draws."""
    rows, odd, other = income_columns(3000), r"pay $\frac{$", r"b $\sqrt{$"
    columns = {odd: conf["columns"]["income"], other: conf["columns"]["age"]}
    made = {**conf, "columns": columns}
    release = release_of(made, {odd: rows["income"], other: rows["age"]})
    drawn(release.plot())
    drawn(release.regress(f"`{odd}` ~ `{other}`").plot())
    for axes in dpspark.plan(made, [f"`{odd}` ~ `{other}`"]).plot():
        drawn(axes)


def test_nothing_is_left_open(release: GramRelease, conf: dict[str, Any]) -> None:
    """Kills: figures that pyplot keeps, one for each call of a long script; settings that change for later plots."""
    import matplotlib
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    release.plot()
    release.regress(FORMULA).plot()
    dpspark.plan(conf, rows=1000).plot()
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == before


def test_the_example_of_the_page(release: GramRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: an example that does not run."""
    from matplotlib import pyplot

    page = (Path(__file__).parents[2] / "docs" / "notebook.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    try:
        for code in re.findall(r"```python\n(.*?)```", page, re.S):
            exec(compile(code, "notebook.md", "exec"), {"release": release, "fit": release.regress(FORMULA)})
    finally:
        pyplot.close("all")
    assert (tmp_path / "income.png").exists()


def test_without_matplotlib(release: GramRelease, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a traceback where a line says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    plan = dpspark.plan(conf, rows=1000)
    for plot in (release.plot, release.regress(FORMULA).plot, plan.plot):
        with pytest.raises(ConfError, match=r"plot needs matplotlib\. Run: pip install 'dpspark\[plot\]'"):
            plot()


def test_results_do_not_load_matplotlib() -> None:
    """Kills: an import at the top of a module that every command loads."""
    program = "import sys, dpspark.published.reading, dpspark.releasing.run; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
