"""Every mechanism's attacks, by kind and name: one file for each, as in mechanisms/."""

from __future__ import annotations

from dpspark.audit.extras import (
    count,
    diagnostics,
    group_counts,
    interval,
    percentile,
    rank,
    residual_bounds,
    score_bounds,
)
from dpspark.audit.gram import gaussian, inverse_wishart, johnson_lindenstrauss, laplace, wishart
from dpspark.audit.quantiles import exponential as quantiles
from dpspark.audit.regression import adassp, gradient_descent, gram_ridge, objective, refined, ssp
from dpspark.audit.target import Target
from dpspark.audit.theil_sen import (
    all_pairs,
    depth,
    exponential,
    huber,
    smooth_sensitivity,
    sufficient_statistics,
    widened,
)
from dpspark.audit.theil_sen import gradient_descent as line_descent
from dpspark.audit.theil_sen import gram as line_gram

TARGETS: dict[tuple[str, str], Target] = {
    (target.kind, target.name): target
    for target in (
        gaussian.TARGET,
        laplace.TARGET,
        wishart.TARGET,
        johnson_lindenstrauss.TARGET,
        inverse_wishart.TARGET,
        gram_ridge.TARGET,
        refined.TARGET,
        ssp.TARGET,
        adassp.TARGET,
        objective.TARGET,
        gradient_descent.TARGET,
        depth.TARGET,
        huber.TARGET,
        exponential.TARGET,
        all_pairs.TARGET,
        widened.TARGET,
        smooth_sensitivity.TARGET,
        sufficient_statistics.TARGET,
        line_descent.TARGET,
        line_gram.TARGET,
        quantiles.TARGET,
        rank.TARGET,
        percentile.TARGET,
        diagnostics.TARGET,
        interval.TARGET,
        count.TARGET,
        group_counts.TARGET,
        residual_bounds.TARGET,
        score_bounds.TARGET,
    )
}
