"""Degrees of freedom of prediction intervals where the privacy noise of sigma² is large."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from dpspark.analysis.predictions import fewer_df


def test_no_noise_changes_nothing_and_noise_takes_away() -> None:
    """Kills: noise that is left out, or that leaves fewer than two degrees of freedom."""
    many, variance = np.array([50.0, 1e6]), np.array([4.0, 4.0])
    assert (fewer_df(many, variance, 0.0) == many).all()
    some = fewer_df(many, variance, 2.0)
    assert some == pytest.approx(1 / (1 / many + 4 / (2 * 20)))
    assert (fewer_df(many, variance, 1e9) < 2 + 1e-6).all()
    assert (some < many).all()


@pytest.mark.parametrize("noise", [0.1, 0.25, 0.4])
def test_one_more_response_is_held(noise: float) -> None:
    """Of 400,000 responses of a known mean, 94 to 97%; without the noise of their variance, at 0.4, fewer than 94%. Seeded."""
    rng = np.random.default_rng(4)
    variance = 1 + noise * rng.standard_normal(400_000)
    response, kept = rng.standard_normal(400_000), variance > 0
    reach = special.stdtrit(fewer_df(np.full(400_000, 1e6), variance, noise), 0.975)
    held = np.abs(response) <= reach * np.sqrt(np.where(kept, variance, 1.0))
    assert 0.94 <= held[kept].mean() <= 0.97
    plain = np.abs(response) <= 1.959964 * np.sqrt(np.where(kept, variance, 1.0))
    assert noise < 0.4 or plain[kept].mean() < 0.94
