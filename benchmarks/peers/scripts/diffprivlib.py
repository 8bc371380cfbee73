"""diffprivlib: its LinearRegression, a functional mechanism with Laplace noise."""

import json
import sys
import time
from importlib.metadata import version

import numpy as np
import pyarrow.parquet as pq
from diffprivlib.models import LinearRegression, linear_regression

ONES = (-1.0, 1.0)


def fit(asked, regressors, response, path):
    table = pq.read_table(path, columns=[*regressors, response])
    rows = np.column_stack([table[name].to_numpy() for name in regressors])
    model = LinearRegression(epsilon=asked["epsilon"], bounds_X=ONES, bounds_y=ONES)
    return model.fit(rows, table[response].to_numpy()).coef_.tolist()


def zero_noise():
    """diffprivlib#105: the diagonal's sensitivity is the square of the lower bound alone."""
    rows, response = np.array([[1.0], [20.0], [99.0]]), np.array([1.0, 2.0, 3.0])
    draws = set()
    for _ in range(5):
        model = LinearRegression(epsilon=0.01, bounds_X=(0, 100), bounds_y=(0, 100), fit_intercept=False)
        draws.add(float(model.fit(rows, response)._obj_coefs[2][0, 0]))
    exact = draws == {float((rows**2).sum())}
    outcome = "all gave the exact sum of squares" if exact else f"gave {len(draws)} different sums of squares"
    return f"bounds (0, 100), no intercept, epsilon = 0.01: 5 fits {outcome} (diffprivlib#105)"


def parts_of_a_fit(asked):
    """What each noisy part of one fit with an intercept is given of epsilon."""
    spent = []

    def watched(function):
        def call(*arguments, **options):
            spent.append(options["epsilon"])
            return function(*arguments, **options)

        return call

    kept = linear_regression.mean, linear_regression._construct_regression_obj
    linear_regression.mean, linear_regression._construct_regression_obj = map(watched, kept)
    try:
        fit(asked, asked["regressors"], asked["response"], asked["people"])
    finally:
        linear_regression.mean, linear_regression._construct_regression_obj = kept
    parts = " + ".join(f"{part:.3g}" for part in spent)
    return (
        f"one fit with an intercept gave its parts (means of x, mean of y, objective) epsilon {parts} = "
        f"{sum(spent):.3g}, and charged {asked['epsilon']:g}"
    )


def repeat(asked, regressors, response, path):
    answers, seconds = [], []
    for _ in range(asked["draws"]):
        start = time.perf_counter()
        answers.append(fit(asked, regressors, response, path))
        seconds.append(time.perf_counter() - start)
    return {"slopes": answers, "seconds": seconds}


def main():
    asked = json.loads(sys.argv[1])
    startup = time.time() - asked["started"]
    answers = {
        "slopes": repeat(asked, asked["regressors"], asked["response"], asked["people"]),
        "line": repeat(asked, [asked["x"]], asked["y"], asked["line"]),
    }
    shown = [zero_noise(), parts_of_a_fit(asked)]
    found = {"version": version("diffprivlib"), "startup_seconds": startup, "answers": answers, "shown": shown}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
