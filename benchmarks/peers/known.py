"""The peers of `python -m benchmarks peers`: how to get each, what it is asked, what it claims, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

ROW = "add/remove"  # one row is there or not


@dataclass(frozen=True)
class Question:
    asked: str
    claims: str  # the peer's own words on its guarantee


@dataclass(frozen=True)
class Peer:
    """`requirements`: of an environment of its own; none if dpspark's has it. `spark`: of its Spark, if it starts one."""

    name: str
    slopes: Question
    line: Question | None
    caveats: tuple[str, ...]
    version: str = ""
    requirements: tuple[str, ...] = ()
    pythons: tuple[int, int] = (10, 99)  # minor versions of Python 3, both included
    spark: str | None = None


NOT_PRIVATE = "none"
PLAIN = Question("least squares", NOT_PRIVATE)

PEERS = (
    Peer(
        "opendp",
        Question("Gaussian noise on the caller's 10 sums", f"approx, {ROW}"),
        Question("Theil-Sen of extras, 1,001 candidates", f"pure, {ROW}"),
        (
            "has no multiple regression: the sums, their l2 sensitivity (√10) and the solving are the caller's",
            "rounding of the caller's float sums is outside of the proof",
            "Theil-Sen takes a scale, not epsilon (opendp#2559), asks for `honest-but-curious`, and drops a row of an odd "
            "number of them: its guarantee is for a stability it does not have (opendp#2950, open)",
        ),
    ),
    Peer(
        "diffprivlib",
        Question("LinearRegression, bounds given", "pure, replace one"),
        Question("LinearRegression, bounds given", "pure, replace one"),
        (
            "the diagonal's sensitivity is the square of the lower bound, less the mean, and never looks at the upper one: too "
            "small where the mean is below the middle, none at all for (0, 100) without an intercept (diffprivlib#105, open)",
            "floating-point Laplace noise (diffprivlib#94); parts of a fit with an intercept are given more than epsilon "
            "together (diffprivlib#104); the number of rows is taken as public",
        ),
        version="0.6.6",
        # Newer scikit-learn has moved what it imports.
        requirements=("diffprivlib==0.6.6", "scikit-learn==1.6.1", "pyarrow>=18,<27"),
    ),
    Peer(
        "tumult",
        Question("10 sums, one grouped query on Spark", f"approx, {ROW}"),
        None,
        (
            "has no regression and no vector sums: one query for each product, or, as here, ten rows for each record and "
            "`AddMaxRowsInMaxGroups`, which the caller must get right",
            "Spark's sums of doubles: its list of known vulnerabilities says that their sensitivity is understated",
        ),
        version="0.21.0",
        requirements=("tmlt.analytics==0.21.0", "tmlt.core==0.19.1", "pyspark==3.5.9"),
        pythons=(10, 11),
        spark="3.5",
    ),
    Peer(
        "pipelinedp",
        Question("VECTOR_SUM of 10 products, Spark RDDs", f"approx, {ROW}"),
        None,
        (
            "has no regression: products, norm bound and solving are the caller's",
            "its result is lazy: every action draws its noise again, and averages of them tell the data",
            "needs RDDs (no Spark Connect, PipelineDP#513); float sums in no fixed order",
        ),
        version="0.3.1",
        requirements=("pipeline-dp==0.3.1", "pyspark==4.3.0"),
        pythons=(11, 13),
        spark="4.3",
    ),
    Peer("mllib", PLAIN, PLAIN, ("not private",), spark="own"),
    Peer(
        "statsmodels",
        PLAIN,
        PLAIN,
        ("not private; one machine's memory",),
        version="0.15.0",
        requirements=("statsmodels==0.15.0", "pyarrow>=18,<27"),
    ),
)
NAMES = ("dpspark", *(peer.name for peer in PEERS))
