"""Every mechanism's attacks, by kind and name: one file for each, as in mechanisms/."""

from __future__ import annotations

from dpspark.audit.extras import count, diagnostics
from dpspark.audit.gram import gaussian, inverse_wishart, johnson_lindenstrauss, laplace, wishart
from dpspark.audit.regression import adassp, gradient_descent, gram_ridge, objective, ssp
from dpspark.audit.target import Target

TARGETS: dict[tuple[str, str], Target] = {
    (target.kind, target.name): target
    for target in (
        gaussian.TARGET,
        laplace.TARGET,
        wishart.TARGET,
        johnson_lindenstrauss.TARGET,
        inverse_wishart.TARGET,
        gram_ridge.TARGET,
        ssp.TARGET,
        adassp.TARGET,
        objective.TARGET,
        gradient_descent.TARGET,
        diagnostics.TARGET,
        count.TARGET,
    )
}
