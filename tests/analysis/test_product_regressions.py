"""Regressions with products of categories, from a release on disk: against statsmodels, and their intervals against draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpspark
from dpspark.analysis.ols import Moments, solve
from dpspark.audit.tables import bounded_rows
from dpspark.cli.main import main
from dpspark.core.domain import Categorical, Domain, Numeric, domain_from_manifest
from dpspark.core.facts import Facts, Garbled
from dpspark.core.formula import Formula
from dpspark.core.products import Product
from dpspark.core.records import Records
from dpspark.errors import ConfError, OutputError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.planning.planner import plan
from dpspark.privacy.budget import Budget
from dpspark.spec.spec import hash_of
from dpspark.verifying.rows import domain_of
from dpspark.verifying.verification import verify
from tests.report.bundles import CONF, conf_with, people, published

smf = pytest.importorskip("statsmodels.formula.api")
RICH = "income ~ age + C(sex)*educ + C(sex):C(region)"
ASKED = (
    RICH,
    "income ~ C(region)*age",
    "income ~ C(sex):educ",
    'income ~ C(sex, Treatment("M"))*educ + C(region, Treatment("west")):C(sex, Treatment("M"))',
    "income ~ educ + C(region):educ - 1",
    "income ~ C(sex)*C(region) + age",
    "sex[M] ~ C(region)*educ",
)
NOTHING = {"privacy": {"epsilon": 1e15}}


def bounded(rows: int) -> pd.DataFrame:
    frame = pd.DataFrame(people(rows))
    for name, column in CONF["columns"].items():
        if "lower" in column:
            frame[name] = frame[name].clip(column["lower"], column["upper"])
    return frame


def released(place: Path, rows: int, **changes: Any) -> Any:
    asked = {"regressions": ["income ~ C(sex)*educ + C(region)*age + C(region)*educ + C(sex):C(region)"]}
    release = {**asked, **changes.pop("release", {})}
    nulls = {"nulls": changes.pop("nulls", "drop_row")}
    return dpspark.read_release(published(place, conf_with(release=release, **changes) | nulls, people(rows)))


def terms_of(names: list[str]) -> list[str]:
    """The names of statsmodels' columns as a release has them; `sex[T.M]:educ` is `sex[M]:educ`, in whatever order."""
    found = []
    for name in names:
        plain = name.replace("[T.", "[").replace("Intercept", "(intercept)")
        parts = [part.split(")")[0].split(",")[0].removeprefix("C(") + part[part.rfind("[") :] if "[" in part else part
                 for part in plain.split(":")]  # fmt: skip
        found.append(":".join(sorted(parts)))
    return found


@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
def test_every_number_is_that_of_statsmodels(nulls: str, tmp_path: Path) -> None:
    """Kills: a product that leans on the wrong term, a category too few or too many, a reference that is not the one asked."""
    rows = 4000
    release, frame = released(tmp_path, rows, **NOTHING, nulls=nulls), bounded(rows)
    assert verify(release.path).passed
    for text in ASKED:
        theirs = smf.ols(text.replace("sex[M] ~", "I((sex == 'M') * 1.0) ~"), frame).fit()
        mine = release.regress(text)
        wanted = dict(
            zip(terms_of(list(theirs.params.index)), zip(theirs.params, theirs.bse, strict=True), strict=True)
        )
        found = {":".join(sorted(term.split(":"))): term for term in mine.params}
        assert set(found) == set(wanted), text
        for name, (value, error) in wanted.items():
            assert mine.params[found[name]] == pytest.approx(value, rel=1e-5, abs=1e-5 * error), text
            assert mine.std_errors[found[name]] == pytest.approx(error, rel=1e-5), text
        assert mine.rsquared == pytest.approx(theirs.rsquared, rel=1e-6)
    fit, theirs = release.regress(RICH), smf.ols(RICH, frame).fit()
    new = pd.DataFrame({"age": [30.0, 60.0], "educ": [4.0, 12.0], "sex": ["M", "F"], "region": ["west", "north"]})
    expected = theirs.get_prediction(new).summary_frame(alpha=0.05)
    found = fit.predict(new, "confidence")
    assert found["estimate"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-6)
    assert found["ci_low"].to_numpy() == pytest.approx(expected["mean_ci_lower"].to_numpy(), rel=1e-4)
    effect = fit.margins(at={"sex": "M", "educ": 9.0, "region": "south"}).to_frame().set_index(["column", "change"])
    assert effect.loc[("educ", "slope"), "estimate"] == pytest.approx(fit.params["educ"] + fit.params["sex[M]:educ"])
    by_hand = fit.params["sex[M]"] + 9 * fit.params["sex[M]:educ"]
    by_hand += fit.params["sex[M]:region[south]"] - fit.params["sex[F]:region[south]"]
    assert effect.loc[("sex", "M - F"), "estimate"] == pytest.approx(by_hand)
    assert fit.f_test("sex:educ").statistic == pytest.approx(
        (fit.params["sex[M]:educ"] / fit.std_errors["sex[M]:educ"]) ** 2
    )


def test_robust_errors_are_those_of_statsmodels(tmp_path: Path) -> None:
    """Kills: residuals of coefficients in other coordinates than the rows, a meat that is not turned as the matrix is."""
    rows, texts = 4000, [RICH, "income ~ C(region):educ"]
    release, frame = released(tmp_path, rows, **NOTHING, release={"regressions": texts, "errors": "hc1"}), bounded(rows)
    assert verify(release.path).passed
    for text in texts:
        theirs = smf.ols(text, frame).fit(cov_type="HC1", use_t=True)
        mine = release.regress(text)
        assert mine.errors == "hc1"
        assert sorted(mine.params.values()) == pytest.approx(sorted(theirs.params), rel=1e-5)
        assert sorted(mine.std_errors.values()) == pytest.approx(sorted(theirs.bse), rel=1e-5)


def test_intervals_of_an_interaction_cover() -> None:
    """Kills: errors of the noise as it was drawn instead of what is left, or less than that; the turn of one of the two.

    600 draws of the noise around one matrix: 95% of the intervals cover, and errors have the variance that is said. Fewer than
    540 or more than 594 of them have a probability below 1e-6, and so has a mean square of normal draws below 0.74 or above
    1.31.
    """
    columns = (
        Numeric("educ", 1, 16),
        Categorical("s", ("a", "b", "c")),
        Categorical("r", ("n", "m")),
        Numeric("y", -20, 80),
    )
    products = (Product(("s", "educ")), Product(("s", "r")))
    domain = Domain(columns, products=products)
    rng = np.random.default_rng(5)
    rows = 60_000
    educ, s, r = (
        rng.uniform(1, 16, rows),
        rng.choice(list("abc"), rows, p=[0.5, 0.3, 0.2]),
        rng.choice(list("nm"), rows),
    )
    y = 5 + educ * (1 + (s == "b")) + 3 * (s == "c") * (r == "m") + rng.normal(0, 6, rows)
    noise = GaussianGram.for_budget(Problem(domain, Records("added")), Budget(0.5, 1e-6)).noise
    z = bounded_rows(domain, list(zip(educ.tolist(), s.tolist(), r.tolist(), y.tolist(), strict=True)))
    exact = z.T @ z
    formula = Formula(
        "y", ("educ", "s[b]", "s[c]", "r[m]", "s[b]:educ", "s[c]:educ", "s[b]:r[m]", "s[c]:r[m]"), intercept=True
    )
    truth = solve(Moments.of(domain, exact, noise).given(domain.known), formula, guessed=True).estimates
    drawn, at = noise.draw(exact, rng, 600), [5, 6, 7, 8]
    errors, raw = [], []
    for one in drawn:
        found = solve(Moments.of(domain, exact + one, noise).given(domain.known), formula)
        errors.append((found.estimates - truth)[at] / np.sqrt(np.diag(found.privacy))[at])
        if len(raw) < 100:
            raw.append((solve(Moments.of(domain, exact + one, noise), formula).estimates - truth)[at])
    squares = np.square(errors)
    covered = (np.abs(errors) < stats.norm.isf(0.025)).sum(axis=0)
    assert ((covered >= 540) & (covered <= 594)).all(), covered
    assert ((squares.mean(axis=0) > 0.74) & (squares.mean(axis=0) < 1.31)).all(), squares.mean(axis=0)
    left = np.sqrt(np.diag(found.privacy))[at]
    assert (np.std(raw, axis=0) > 1.3 * left).all()  # what the facts take off


def test_what_a_release_says_of_its_blocks(tmp_path: Path) -> None:
    """Kills: a manifest whose products are others, and that is believed; blocks that nobody is told of."""
    release = released(tmp_path, 4000)
    assert release.manifest["products"] == [["sex", "educ"], ["region", "age"], ["region", "educ"], ["sex", "region"]]
    described = release.describe().to_dict()
    blocks = [one for one in described["columns"] if "product_of" in one]
    assert [one["name"] for one in blocks] == ["sex:educ", "region:age", "region:educ", "sex:region"]
    assert "sex:educ" in str(release.describe())
    assert len(blocks[3]["terms"]) == 6
    with pytest.raises(ConfError, match=r"no column sex\[M\]:age in this release"):
        release.regress("income ~ C(sex)*age")


def test_other_products_in_a_manifest_are_noticed(tmp_path: Path) -> None:
    """Kills: a sensitivity that is recomputed without the blocks, products that no spec asked for."""
    path = released(tmp_path, 500).path
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "products": manifest["products"][:3]}))
    with pytest.raises(OutputError, match="do not fit"):
        verify(path)
    spec = {**manifest["spec"], "products": manifest["products"][:3]}
    (path / "manifest.json").write_text(json.dumps({**manifest, "spec": spec, "spec_hash": hash_of(spec)}))
    assert any("products" in check.detail for check in verify(path).checks)
    assert not verify(path).passed
    domain = domain_from_manifest(manifest)
    assert domain_of(Facts(manifest, "")).products == domain.products
    for wrong in ([["educ", "sex"]], [["sex", "sex"]], [["sex", "nothing"]], [["sex"]], [["sex", "educ"]] * 2):
        with pytest.raises(Garbled):
            domain_of(Facts({**manifest, "products": wrong}, ""))


def test_pools_add_up_and_tables_convert(tmp_path: Path) -> None:
    """Kills: blocks that are not alike and are added up, a pool without them, formats that lack their rows."""
    asked = {"regressions": ["income ~ C(sex)*educ"]}
    places = [published(tmp_path, conf_with(release={**asked, "version": str(i)}), people(3000, i), i) for i in (1, 2)]
    pooled = dpspark.pool([dpspark.read_release(place) for place in places], out=tmp_path / "pool")
    parts = [dpspark.read_release(place).content.scaled for place in places]
    assert pooled.content.scaled == pytest.approx(parts[0] + parts[1])
    assert pooled.regress("income ~ C(sex)*educ").params.keys() >= {"sex[M]:educ"}
    assert verify(pooled.path).passed
    other = published(
        tmp_path, conf_with(release={"version": "3", "regressions": ["income ~ C(sex)*age"]}), people(3000, 3), 3
    )
    with pytest.raises(ConfError, match="products of columns"):
        dpspark.pool([dpspark.read_release(place) for place in (places[0], other)], out=tmp_path / "no")
    for kind in ("csv", "json", "r", "jsonld", "statement"):
        with pytest.raises(SystemExit) as caught:
            main(["convert", str(places[0]), "--to", kind, "-o", str(tmp_path / kind)])
        assert caught.value.code == 0


def test_a_plan_knows_what_a_release_shows(tmp_path: Path) -> None:
    """Kills: guessed moments of products that no rows have, or that are in other coordinates. Twice as much is far off."""
    formula = "income ~ age + C(sex)*educ"
    conf = conf_with(release={"regressions": [formula, "income ~ C(sex):C(region)"]})
    guess = {"rows": 40_000, "shares": {"region": {"north": 0.5, "south": 0.3, "west": 0.2}}, "sds": {"income": 26_000}}
    correlations = {"educ,income": 0.5, "age,income": 0.36, "sex[M],income": 0.17}
    planned = plan(conf, [formula], {**guess, "correlations": correlations}).to_dict()["regressions"][0]
    fit = dpspark.read_release(published(tmp_path, conf)).regress(formula)
    found = {row["term"]: row for row in fit.rows()}
    for row in planned["terms"]:
        assert row["privacy"] == pytest.approx(found[row["term"]]["privacy_std_error"], rel=0.15)
        assert row["std_error"] == pytest.approx(found[row["term"]]["std_error"], rel=0.15)
