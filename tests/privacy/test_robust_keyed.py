"""Randomness from a secret: repeatable, unrelated for other labels, exact."""

from __future__ import annotations

import itertools
import logging
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpspark.privacy import keyed
from dpspark.privacy.exponential_draw import draw, levels
from dpspark.privacy.keyed import KeyedRandom, Stream

RANDOM = KeyedRandom(bytes(range(32)))


def stream(*labels: str | int) -> Stream:
    return RANDOM.stream("test", *labels)


def fits(drawn: np.ndarray, chances: np.ndarray) -> float:
    """χ² p-value; rare values together."""
    expected = len(drawn) * np.asarray(chances)
    observed = np.bincount(drawn, minlength=len(expected)).astype(float)
    rare = expected < 5
    observed, expected = (np.append(part[~rare], part[rare].sum()) for part in (observed, expected))
    keep = expected > 0
    return float(stats.chisquare(observed[keep], expected[keep] * observed.sum() / expected[keep].sum()).pvalue)


def test_same_labels_same_words_however_they_are_read() -> None:
    whole = stream("a").words(5000)
    pieces = stream("a")
    assert (np.concatenate([pieces.words(n) for n in (1, 7, 500, 4492)]) == whole).all()
    assert (stream("b").words(10) != whole[:10]).all()
    assert (KeyedRandom(bytes(32)).stream("test", "a").words(10) != whole[:10]).all()
    assert KeyedRandom.fresh() != KeyedRandom.fresh()


def test_labels_cannot_collide() -> None:
    """Kills: labels joined without their lengths or kinds."""
    labels = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        ("ab", "c", ""),
        (b"ab", "c"),
        ("1", "2"),
        (1, 2),
        (12,),
        ("12",),
        ("1", 2),
    ]
    words = [int(RANDOM.stream(*label).words(1)[0]) for label in labels]
    assert len(set(words)) == len(labels)


def test_the_secret_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    secret = b"0123456789abcdefSECRETsecret1234"
    random = KeyedRandom(secret)
    logging.getLogger("t").warning("%s %r %s", random, random.stream("x"), f"{random} {random!r}")
    assert "SECRET" not in caplog.text + str(vars(type(random)))
    assert not hasattr(random, "__dict__")
    assert pickle.loads(pickle.dumps(random)) == random  # noqa: S301  it travels inside the function
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(random.stream("x"))
    with pytest.raises(TypeError, match="secret"):
        hash(random)
    for wrong in (b"short", "x" * 32):
        with pytest.raises(ValueError, match="32 bytes"):
            KeyedRandom(wrong)  # type: ignore[arg-type]


def test_whole_numbers_are_uniform() -> None:
    s = stream("below")
    assert fits(np.array([s.below(7) for _ in range(7000)]), np.full(7, 1 / 7)) > 1e-6
    long = [s.below(3 << 200) for _ in range(300)]
    assert 0.2 < np.mean([value > 1 << 201 for value in long]) < 0.47
    assert s.below(1) == 0
    with pytest.raises(ValueError, match="limit=0"):
        s.below(0)


def test_permutations_are_uniform() -> None:
    """Kills: a permutation by unequal swaps; ties settled by position. False alarm 1e-6."""
    all_of_them = {p: i for i, p in enumerate(itertools.permutations(range(4)))}
    drawn = stream("permutations").permutations(24_000, 4)
    assert fits(np.array([all_of_them[tuple(p)] for p in drawn.tolist()]), np.full(24, 1 / 24)) > 1e-6
    assert stream("p").permutations(3, 0).shape == (3, 0)
    assert stream("p").permutations(3, 1).tolist() == [[0], [0], [0]]


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(9, 4)])
def test_bernoulli_of_an_exponential(x: Fraction) -> None:
    s, n = stream("bernoulli", str(x)), 20_000
    hits = sum(s.bernoulli_exp(x) for _ in range(n))
    assert abs(hits - n * math.exp(-x)) <= 5 * math.sqrt(n * math.exp(-x) * (1 - math.exp(-x)))
    assert abs(sum(s.bernoulli(Fraction(1, 3)) for _ in range(9000)) - 3000) < 250


def test_a_close_call_is_settled_by_more_bits_of_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a near tie that is drawn anew, or settled by a float."""
    x = Fraction(7, 10)
    fast = [stream("close", i).bernoulli_exp(x) for i in range(500)]
    monkeypatch.setattr(keyed, "CLEAR", 2.0)
    assert [stream("close", i).bernoulli_exp(x) for i in range(500)] == fast


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(40)])
def test_discrete_laplace(scale: Fraction) -> None:
    """Kills: a doubled zero, a scale turned over. χ², false alarm 1e-6."""
    s, n, most = stream("laplace", str(scale)), 6000, 400
    drawn = np.array([s.discrete_laplace(scale) for _ in range(n)])
    chances = np.exp(-abs(np.arange(-most, most + 1)) / float(scale))
    assert fits(drawn + most, chances / chances.sum()) > 1e-6
    wrong = np.exp(-abs(np.arange(-most, most + 1)) / (1.3 * float(scale)))
    assert fits(drawn + most, wrong / wrong.sum()) < 1e-6


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(5), Fraction(77, 2)])
def test_discrete_gaussian(sigma: Fraction) -> None:
    """Kills: sigma for sigma². χ², false alarm 1e-6."""
    s, n, most = stream("gaussian", str(sigma)), 6000, 400
    drawn = np.array([s.discrete_gaussian(sigma) for _ in range(n)])
    chances = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * float(sigma) ** 2))
    assert fits(drawn + most, chances / chances.sum()) > 1e-6
    wrong = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * float(1.3 * sigma) ** 2))
    assert fits(drawn + most, wrong / wrong.sum()) < 1e-6


@pytest.mark.parametrize("exponent", [1e-3, 0.04, 0.7, 200.0])
def test_draws_follow_the_weights(exponent: float) -> None:
    """Kills: a level's envelope kept without its remainder; a run drawn without its size. χ², false alarm 1e-6."""
    rng = np.random.default_rng(3)
    losses = rng.integers(5, 80, 30) * max(1, round(0.02 / exponent))
    sizes = rng.integers(0, 4, 30)
    weights = np.repeat(np.exp(-exponent * (losses - losses[sizes > 0].min())), sizes)
    places = {place: i for i, place in enumerate((m, o) for m in range(30) for o in range(sizes[m]))}
    s = stream("draw", str(exponent))
    drawn = np.array([places[draw(losses, exponent, s, sizes)] for _ in range(8000)])
    assert fits(drawn, weights / weights.sum()) > 1e-6
    if exponent < 1:
        doubled = np.repeat(np.exp(-2 * exponent * (losses - losses[sizes > 0].min())), sizes)
        assert fits(drawn, doubled / doubled.sum()) < 1e-6


def test_an_exponent_too_small_for_any_loss() -> None:
    """Kills: a level wider than 64 bits, which stopped the release. All are as good as one another."""
    losses = np.array([0, 1 << 40, 1 << 62])
    drawn = [draw(losses, 1e-24, stream("small", i))[0] for i in range(300)]
    assert fits(np.array(drawn), np.full(3, 1 / 3)) > 1e-6


def test_a_draw_far_from_the_best_is_possible_and_exact() -> None:
    """Kills: weights that vanish in floating point. The open level has 2^−40 and is kept with what is left."""
    width, _, envelopes = levels(3.0)
    assert width == 1
    assert envelopes[-1] / (1 << 472) == pytest.approx(1.0, rel=1e-12)
    assert envelopes[1] / envelopes[0] == pytest.approx(math.exp(-3.0), rel=1e-14)
    assert envelopes[9] / (1 << 512) == pytest.approx(math.exp(-27.0), rel=1e-13)

    class Fixed(Stream):
        """Lands in the open level first; then as the stream says."""

        first = True

        def below(self, limit: int) -> int:
            landed, self.first = self.first, False
            return limit - 1 if landed else super().below(limit)

    kept = [draw(np.array([0, 10]), 3.0, Fixed(i.to_bytes(2, "big")))[0] for i in range(1000)]
    # e^(−30) is e^(−2.27) of the envelope 2^−40: 103 of 1000, give or take 48 (one in 10^6 further off).
    assert 55 < sum(kept) < 151
