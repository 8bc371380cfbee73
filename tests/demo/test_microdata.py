from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpspark.demo.microdata import MAX_ROWS, PROJECTION, SCHEMA, calibrate, check_request, microdata_batch
from dpspark.errors import ConfError

SEED = 2000


@pytest.fixture(scope="module")
def parameters():
    return calibrate()


@pytest.fixture(scope="module")
def people(parameters):
    step = 2**18
    return pa.Table.from_batches([microdata_batch(first, step, SEED, parameters) for first in range(0, 8 * step, step)])


def design(age, educ):
    return np.column_stack([np.ones(len(age)), age, educ]).astype(float)


def test_target_is_table_4():
    assert np.round(PROJECTION, 1).tolist() == [-23054.1, 275.3, 4332.9]


def test_population_projection_is_the_target(parameters):
    """The mean of each cell by quadrature over whole dollars, not by the closed form that calibrate uses."""
    edges = np.linspace(-8, 8, 16_001)
    z = (edges[1:] + edges[:-1]) / 2
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    mean = np.array(
        [
            weight @ np.rint(np.minimum(np.exp(log_median + parameters.log_spread * z), 300_000))
            for log_median in parameters.log_median
        ]
    )
    X = design(parameters.age, parameters.educ)
    root = np.sqrt(parameters.share)
    found, *_ = np.linalg.lstsq(root[:, None] * X, root * (1 - parameters.zero_share) * mean)
    np.testing.assert_allclose(found, PROJECTION, rtol=1e-6)


def test_cells_are_a_distribution(parameters):
    assert parameters.share.sum() == pytest.approx(1, abs=1e-12)
    assert parameters.share.min() > 0
    assert parameters.zero_share.min() > 0
    assert parameters.zero_share.max() < 0.5
    assert (
        len({*zip(parameters.age.tolist(), parameters.educ.tolist(), parameters.female.tolist(), strict=True)})
        == 78 * 16 * 2
    )


def test_sample_regression_is_near_the_target(people):
    """2.1 million rows; each coefficient within 4 robust standard errors.

    False alarms: 2e-4 per seed (three two-sided normal tails); none on repeats, for the seed is fixed.
    """
    X = design(people["age"].to_numpy(), people["educ"].to_numpy())
    y = people["income"].to_numpy()
    bread = np.linalg.inv(X.T @ X)
    found = bread @ (X.T @ y)
    residual = y - X @ found
    meat = X.T @ (residual[:, None] ** 2 * X)  # the spread grows with the mean
    std_error = np.sqrt(np.diag(bread @ meat @ bread))
    assert np.all(np.abs(found - PROJECTION) < 4 * std_error)
    assert 38_000 < residual.std() < 47_000
    assert 0.09 < 1 - residual.var() / y.var() < 0.13


def test_sample_follows_the_cells(people, parameters):
    """Shares of zero incomes and of women within 4.5 standard errors: 1.4e-5 false alarms per seed, none on repeats."""
    zero = people["income"].to_numpy() == 0
    women = people["sex"].to_numpy() == "F"
    for seen, share in [
        (zero, parameters.share @ parameters.zero_share),
        (women, parameters.share @ parameters.female),
    ]:
        assert abs(seen.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / people.num_rows)


def test_rows_do_not_depend_on_the_cut(parameters):
    whole = microdata_batch(0, 200_000, SEED, parameters)
    cuts = [0, 1, 1, 7, 65_535, 65_536, 65_537, 131_073, 199_999, 200_000]
    pieces = [microdata_batch(a, b - a, SEED, parameters) for a, b in pairwise(cuts)]
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([whole]))


def test_seeds_give_other_people_and_chunks_differ(parameters):
    first = microdata_batch(0, 1000, SEED, parameters)["income"]
    assert first != microdata_batch(0, 1000, SEED + 1, parameters)["income"]
    assert first != microdata_batch(65_536, 1000, SEED, parameters)["income"]
    assert microdata_batch(0, 10, 2**64 - 1, parameters).num_rows == 10


@pytest.mark.parametrize("rows", [0, 1])
def test_small_batches_keep_the_schema(parameters, rows):
    batch = microdata_batch(10**9, rows, SEED, parameters)
    assert batch.schema == SCHEMA
    assert batch["person_id"].to_pylist() == [10**9][:rows]


def test_margins_look_like_a_census(people):
    age, educ = people["age"].to_numpy(), people["educ"].to_numpy()
    women = people["sex"].to_numpy() == "F"
    assert set(people["sex"].unique().to_pylist()) == {"F", "M"}
    assert (age.min(), age.max(), educ.min(), educ.max()) == (18, 95, 1, 16)
    by_age = np.bincount(age)
    assert np.all(np.diff(by_age[60:96:5]) < 0)
    by_educ = np.bincount(educ)
    assert set(np.argsort(by_educ)[-2:]) == {9, 13}
    assert educ[age >= 75].mean() < educ[(age >= 30) & (age < 50)].mean() - 0.5
    assert 0.50 < women.mean() < 0.52


def test_incomes_look_like_a_census(people):
    age, income = people["age"].to_numpy(), people["income"].to_numpy()
    women = people["sex"].to_numpy() == "F"
    assert np.all(income == np.rint(income))
    assert (income.min(), income.max()) == (0, 300_000)
    assert 0.10 < (income == 0).mean() < 0.14
    assert (income[age < 20] == 0).mean() > 2 * (income[age > 65] == 0).mean()
    low, middle, high, top = np.quantile(income, [0.25, 0.5, 0.75, 0.99])
    assert 3_000 < low < 8_000 < middle < 20_000 < high < 45_000
    assert 200_000 < top < 300_000
    assert 0.002 < (income == 300_000).mean() < 0.01
    assert 0.45 < income[women].mean() / income[~women].mean() < 0.65
    mean_by_age = np.bincount(age, income)[18:] / np.bincount(age)[18:]
    assert 45 <= 18 + mean_by_age.argmax() <= 60
    assert mean_by_age[70 - 18] < 0.8 * mean_by_age.max()


def test_tracts_are_well_formed_blocks(people):
    tract = people["tract"].combine_chunks()
    assert pc.all(pc.match_substring_regex(tract, r"^\d{11}$")).as_py()
    codes, sizes = np.unique(tract.to_numpy(zero_copy_only=False), return_counts=True)
    assert 3_900 < sizes.mean() < 4_100
    assert sizes[:-1].min() >= 1_200  # the last one is cut by the end of the table
    assert sizes.max() <= 6_800
    assert sizes.std() > 500
    runs = pc.run_end_encode(tract).values
    assert len(runs) == len(codes)  # each tract is one block of ids, so more rows leave the earlier tracts as they are


def test_last_tract_has_eleven_digits(parameters):
    assert microdata_batch(MAX_ROWS - 1, 1, SEED, parameters)["tract"].to_pylist()[0].startswith("99")


@pytest.mark.parametrize(
    ("rows", "seed", "files"), [(-1, 1, 1), (MAX_ROWS + 1, 1, 1), (1, -1, 1), (1, 2**64, 1), (1, 1, 0)]
)
def test_bad_requests_are_refused(rows, seed, files):
    with pytest.raises(ConfError, match="expected"):
        check_request(rows, seed, files)


def test_executors_need_numpy_and_pyarrow_alone():
    code = "import sys, dpspark.demo.microdata; print({'scipy', 'pandas', 'pyspark', 'opendp', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
