"""CoinPress: means and covariances against loops, the authors' schedule, whitening."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from scipy import linalg

from dpbench.distributions.multivariate import MultivariateGaussian
from dpbench.estimators import CoinPressCovariance, CoinPressMean, WhitenedCoinPressMean, coinpress
from dpbench.estimators.coinpress import rho_of, schedule
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget
from dpbench.samples import CountedSample
from tests.conftest import Step
from tests.support import Floats, rng, round_shares, row_norms, run

# Tables of all rounds of the authors' code, for some settings.
TABLES = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("d", [1, 50])
def test_the_schedule_is_that_of_the_authors(d: int) -> None:
    reference = pd.read_csv(TABLES / f"coinpress_schedule_{d}d.csv").to_dict("records")
    assert {row["d"] for row in reference} == {d}
    for row in reference:
        plan = schedule(int(row["n"]), int(row["d"]), row["R"], row["rho"], int(row["t"]), b=0.01)
        assert len(plan) == row["t"]
        expected = [row[key] for key in ("rho_step", "clip_radius", "noise_sd", "r_out")]
        assert list(plan[int(row["step"]) - 1]) == pytest.approx(expected, rel=1e-12, abs=0)


def gamma(d: int, b: float = 0.1) -> float:
    """Return a bound that a N(0, I) norm exceeds with probability at most b (LM00, Lemma 1)."""
    log = math.log(1 / b)
    return math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)


def by_hand(n: int, d: int, radius: float, rho: float, rounds: int, b: float) -> list[Floats]:
    """Return budget, clip, noise and ball of every round of MVM (BDKU20).

    The clip has 6r, that is 2 r 3, as in the authors' code; the paper has 2 r sqrt(log(2/beta)).
    """
    r, plan = radius, []
    for share in round_shares(rounds):
        s = min(math.sqrt(r * r + 6 * r + gamma(d, b) ** 2), r + gamma(d, b))
        sd = 2 * s / n / math.sqrt(2 * rho * share)
        r = gamma(d, b) * math.sqrt(1 / n + sd**2)
        plan.append(np.array([rho * share, s, sd, r]))
    return plan


def in_ball(row: Floats, centre: Floats, radius: float) -> Floats:
    """Return the point of a ball that is nearest to a row."""
    length = float(row_norms(row - centre))
    return row if length <= radius else centre + (row - centre) / length * radius


def hard_vectors(n: int, d: int) -> Floats:
    """Return datasets of n rows: ordinary, wide, distant, equal, collinear, with extreme rows."""
    x = rng(7).normal(1.0, 2.0, (12, n, d))
    x[1] *= 30
    x[2] += 1e3
    x[3] = x[3, 0]
    x[4] = x[4, :, :1] * np.arange(1, d + 1)
    x[5] = 0.0
    for trial, far in zip(range(6, 10), (1e12, 1e150, -1e300, 1e300), strict=True):
        x[trial, trial % n] = far
    x[10, ::2] = 1e150  # half of the rows
    x[11, ::2, 0] = -1e300
    return np.asarray(x)


@pytest.mark.parametrize(
    ("budget", "n", "d", "rounds"),
    [
        (ZCDP(0.02), 9, None, 6),
        (ApproxDP(0.5, 1e-6), 9, None, 1),
        (ApproxDP(0.5, 1e-6), 3, 1, 5),
        (ZCDP(50.0), 60, 5, 1),
        (ZCDP(0.02), 4, 30, 3),
    ],
)
def test_rounds_against_a_loop_that_moves_the_records(
    steps: list[Step], budget: Budget, n: int, d: int | None, rounds: int
) -> None:
    """Compare releases of numbers (d = None) and of vectors with a loop over records."""
    sigma, tail = 1.7, () if d is None else (d,)
    values = hard_vectors(n, d or 1).reshape(12, n, *tail)
    estimate = run(CoinPressMean(radius=6.0, rounds=rounds, sigma=sigma), values, budget)
    rho = budget.rho if isinstance(budget, ZCDP) else GDP.within(ApproxDP(0.5, 1e-6)).mu ** 2 / 2
    plan = by_hand(n, d or 1, 6.0 / sigma, rho, rounds, 0.01)
    assert len(steps) == rounds
    assert (estimate.interval is None) == (d is not None)
    difference = 0.0
    for trial, rows in enumerate(values.reshape(12, n, d or 1)):
        moved, centre = rows.copy(), np.zeros(d or 1)
        low, high = np.full(1, -np.inf), np.full(1, np.inf)
        for step, (_, clip, sd, _) in zip(steps, plan, strict=True):
            anew = np.array([in_ball(row, centre, clip * sigma) for row in rows])
            moved = np.array([in_ball(row, centre, clip * sigma) for row in moved])
            difference += float(row_norms(anew.mean(axis=0) - moved.mean(axis=0)))
            scale = 1 + clip * sigma
            reach = clip * sigma
            low, high = (np.clip(x, centre[0] - reach, centre[0] + reach) for x in (low, high))
            middle = low / 2 + high / 2 if d is None else centre
            before = middle + step.values[trial]  # steps release distances from the middle
            np.testing.assert_allclose(before, moved.mean(axis=0), atol=1e-12 * scale)
            noise = step.sensitivity / np.sqrt(2 * rho_of(step.budget))
            assert noise == pytest.approx(sd * sigma, rel=1e-9, abs=0)
            centre = middle + step.released[trial]
        np.testing.assert_array_equal(estimate.value[trial], centre.reshape(tail))
        np.testing.assert_array_equal(estimate.before_noise[trial], before.reshape(tail))
    assert (difference > 1.0) == (
        rounds > 1
    )  # each round moves the records that earlier rounds have moved


def test_the_interval_is_the_ball_of_the_round_reported(steps: list[Step]) -> None:
    values = rng(2).normal(1.0, 2.0, (7, 40))
    options: dict[str, Any] = {"radius": 5.0, "rounds": 4, "sigma": 2.0, "b": 0.05}
    plan = by_hand(40, 1, 2.5, 0.1, 4, 0.05)
    for report in (1, 3, 4, None):
        before = [step.released for step in steps]
        steps.clear()
        estimate = run(CoinPressMean(**options, reported_round=report), values, ZCDP(0.1))
        j = 3 if report is None else report - 1
        # Steps release distances from a middle, here rounded away.
        noise = steps[j].released - steps[j].values
        np.testing.assert_allclose(estimate.value - estimate.before_noise, noise, atol=1e-12)
        assert estimate.interval is not None
        low, high = estimate.interval
        np.testing.assert_allclose(high - estimate.value, 2.0 * plan[j][3], rtol=1e-12)
        np.testing.assert_allclose(estimate.value - low, 2.0 * plan[j][3], rtol=1e-12)
        # `reported_round` changes no round, and the later rounds are paid for all the same.
        assert sum(s.budget.amounts[0] for s in steps) == pytest.approx(0.1)
        for released, step in zip(before, steps, strict=bool(before)):
            np.testing.assert_array_equal(released, step.released)
    for report in (0, 5):
        with pytest.raises(ValueError, match="report"):
            CoinPressMean(**options, reported_round=report)


def test_far_away_radii() -> None:
    # A round shrinks the ball by a factor of the order of n, so all balls reach the data, except
    # with probability 20 trials * 100 rounds * b = 2e-9.
    sample = CountedSample([3.0, 4.0], np.tile([10**10, 0], (20, 1)))
    near = run(
        CoinPressMean(radius=1e300, sigma=1, rounds=100, b=1e-12), sample, ZCDP(0.05), seed=6
    ).value
    assert np.all(np.abs(near - 3.0) < 0.01)


# Covariances.


def root(matrix: Floats) -> Floats:
    """Return the symmetric root, computed without eigenvalues."""
    return np.asarray(linalg.sqrtm(matrix)).real


def filled(upper: Floats, d: int) -> Floats:
    """Return the symmetric matrix with this upper triangle, row by row."""
    matrix = np.full((d, d), np.nan)
    for (i, j), x in zip(itertools.combinations_with_replacement(range(d), 2), upper, strict=True):
        matrix[i, j] = matrix[j, i] = x
    return matrix


def positive(matrix: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix: (M + |M|)/2, |M| the root of M^2."""
    return np.asarray((matrix + root(matrix @ matrix)) / 2)


def second_moment(rows: Floats, transform: Floats, radius: float) -> Floats:
    """Return the mean of ww' over w = row @ transform, each w projected on a ball."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for row in rows:
        w = row @ transform
        size = math.sqrt(sum(float(x) ** 2 for x in w))
        w = w * radius / size if size > radius else w
        total += np.outer(w, w)
    return total / len(rows)


@pytest.mark.parametrize(
    ("budget", "n", "d", "rounds", "entry_noise"),
    [
        (ZCDP(0.5), 40, 1, 5, "equal"),
        (ZCDP(0.5), 300, 3, 4, "equal"),
        (ZCDP(0.5), 300, 3, 4, "frobenius"),
        (ApproxDP(2.0, 1e-6), 9, 4, 2, "equal"),
        (ApproxDP(2.0, 1e-6), 1, 2, 1, "frobenius"),
    ],
)
def test_rounds_of_covariances_against_a_loop(
    steps: list[Step],
    budget: Budget,
    n: int,
    d: int,
    rounds: int,
    entry_noise: Literal["equal", "frobenius"],
) -> None:
    u = 5.0
    x = rng(1).standard_normal((3, n, d)) @ np.diag(np.linspace(0.5, 2, d))
    x[1, 0] *= 1e6
    before = x.copy()
    estimator = CoinPressCovariance(bound=u, rounds=rounds, entry_noise=entry_noise)
    estimate = run(estimator, x, budget)
    np.testing.assert_array_equal(x, before)
    upper = np.array(list(itertools.combinations_with_replacement(range(d), 2)))
    off_diagonal = upper[:, 0] != upper[:, 1]
    weights = np.where(off_diagonal & (entry_noise == "frobenius"), math.sqrt(2), 1.0)
    rho = budget.rho if isinstance(budget, ZCDP) else GDP.within(ApproxDP(2.0, 1e-6)).mu ** 2 / 2
    eta = (2 * math.sqrt(d / n) + d / n) / 2
    assert len(steps) == rounds
    for trial, rows in enumerate(x):
        transform = np.eye(d) / math.sqrt(u)
        for j, (step, share) in enumerate(zip(steps, round_shares(rounds), strict=True)):
            assert rho_of(step.budget) == pytest.approx(rho * share, rel=1e-9, abs=0)
            # Entry variance gamma^4/(rho_j n^2), which is sensitivity^2/(2 rho_j).
            variance = gamma(d) ** 4 / (rho * share * n**2)
            stated = step.sensitivity**2 / (2 * rho_of(step.budget))
            assert stated == pytest.approx(variance, rel=1e-9, abs=0)
            clean = second_moment(rows, transform, gamma(d))
            assert step.values.shape == (3, d * (d + 1) // 2)
            np.testing.assert_allclose(
                filled(step.values[trial] / weights, d), clean, rtol=1e-8, atol=1e-8 * gamma(d) ** 2
            )
            z = positive(filled(step.released[trial] / weights, d))
            back = np.linalg.inv(transform)
            if j < rounds - 1:
                transform = transform @ np.linalg.inv(root(z + eta * np.eye(d)))
        for value, inner in ((estimate.value[trial], z), (estimate.before_noise[trial], clean)):
            expected = back.T @ inner @ back
            size = float(np.abs(expected).max() + np.abs(back.T @ back).max() * 1e-2)
            np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-7 * size)


def test_the_sensitivity_of_a_covariance_in_the_frobenius_norm() -> None:
    """The vector with weights moves by the Frobenius distance, at most sqrt(2) gamma^2/n."""
    d, radius = 3, gamma(3)
    upper = np.triu_indices(d)
    weights = coinpress.frobenius_weights(upper)
    rows = rng(3).standard_normal((2000, 2, d))
    rows *= radius / np.linalg.norm(rows, axis=2, keepdims=True)
    rows[0] = radius * np.eye(d)[:2]
    change = np.einsum("ni,nj->nij", *rows.transpose(1, 0, 2)[[0, 0]])
    change = change - np.einsum("ni,nj->nij", *rows.transpose(1, 0, 2)[[1, 1]])
    moved = np.linalg.norm(change[:, *upper] * weights, axis=1)
    np.testing.assert_allclose(moved, np.linalg.norm(change, axis=(1, 2)), rtol=1e-12)
    assert moved.max() == pytest.approx(math.sqrt(2) * radius**2, rel=1e-12)
    assert moved[0] == moved.max()


@pytest.mark.parametrize(("n", "d", "rounds", "rho"), [(2, 3, 10, 1e-3), (60, 4, 8, 1e3)])
def test_the_release_is_positive_semidefinite(n: int, d: int, rounds: int, rho: float) -> None:
    x = rng(4).standard_normal((12, n, d))
    x[:2] = x[:2, :, :1] * np.arange(1, d + 1)  # collinear
    x[2:4] = 0.25
    x[4:6] *= 1e200
    x[6:, 0] = np.repeat([1e12, -1e300, 1.7e308], 2)[:, None]
    estimate = run(CoinPressCovariance(bound=4.0, rounds=rounds), x, ZCDP(rho))
    assert np.all(np.isfinite(estimate.before_noise))
    np.testing.assert_array_equal(estimate.value, estimate.value.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(estimate.value)
    assert np.all(values[:, 0] >= -1e-9 * values[:, -1])
    mean = run(WhitenedCoinPressMean(radius=2.0, bound=4.0), x, ZCDP(rho))
    assert np.all(np.isfinite([mean.value, mean.before_noise]))


# Whitening.


@pytest.mark.parametrize(
    ("budget", "share", "entry_noise"),
    [
        (ZCDP(0.4), 0.2, "equal"),
        (ApproxDP(3.0, 1e-6), 0.5, "equal"),
        (ZCDP(0.4), 0.2, "frobenius"),
    ],
)
def test_covariance_first_then_mean(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Step],
    budget: Budget,
    share: float,
    entry_noise: Literal["equal", "frobenius"],
) -> None:
    """The release is CoinPress on the whitened records, multiplied by the inverse transform."""
    n, d, radius = 301, 3, 2.5
    fits: list[Any] = []
    real = coinpress.fit_covariance

    def spy(*options: Any) -> Any:
        fits.append(real(*options))
        return fits[-1]

    monkeypatch.setattr(coinpress, "fit_covariance", spy)
    law = MultivariateGaussian(d=d, condition=50)
    x = law.sample(rng(10), 4, n).values + 0.5
    estimator = WhitenedCoinPressMean(
        radius=radius,
        bound=1.5,
        rounds=3,
        covariance_rounds=2,
        covariance_share=share,
        entry_noise=entry_noise,
    )
    reduced = entry_noise == "frobenius"
    weights = math.sqrt(2) ** (reduced * np.array([0, 1, 1, 0, 1, 0]))  # of the upper triangle
    estimate = run(estimator, x, budget)
    rho = budget.rho if isinstance(budget, ZCDP) else GDP.within(ApproxDP(3.0, 1e-6)).mu ** 2 / 2
    paid = [rho * share * s for s in round_shares(2)] + [
        rho * (1 - share) * s for s in round_shares(3)
    ]
    assert [rho_of(s.budget) for s in steps] == pytest.approx(paid, rel=1e-9)
    (fit,) = fits
    for trial, rows in enumerate(x):
        pairs = (rows[1::2] - rows[:-1:2]) / math.sqrt(2)
        # A and Z, computed from the releases.
        half = n // 2
        eta = (2 * math.sqrt(d / half) + d / half) / 2
        z = positive(filled(steps[0].released[trial] / weights, d))
        a = np.linalg.inv(root(z + eta * np.eye(d))) / math.sqrt(1.5)
        moment = second_moment(pairs, np.asarray(a, dtype=np.float64), gamma(d))
        seen = filled(steps[1].values[trial] / weights, d)
        np.testing.assert_allclose(seen, moment, rtol=1e-7, atol=1e-9)
        z = positive(filled(steps[1].released[trial] / weights, d))
        sd = gamma(d) ** 2 / (math.sqrt(paid[1] * (1 + reduced)) * half)
        slack = eta + sd * (2 * math.sqrt(d) + 2 * math.sqrt(math.log(100)))
        assert fit.slack == pytest.approx(slack, rel=1e-9)
        b = a @ np.linalg.inv(root(z + slack * np.eye(d)))
        # The whitening may differ by a rotation, which changes no norm: b b' is what counts.
        largest = math.sqrt(np.linalg.eigvalsh(b @ b.T)[-1])
        plan = schedule(n, d, radius * largest, rho * (1 - share), 3, 0.01)
        clips = [float(np.asarray(planned.clip_radius)) for planned in plan]
        stated = [step.sensitivity[trial, 0] for step in steps[2:]]
        assert stated == pytest.approx([2 * clip / n for clip in clips], rel=1e-8)
        white = rows @ b  # the later rounds are rounds of `CoinPressMean`
        white *= np.minimum(1, clips[0] / np.linalg.norm(white, axis=1, keepdims=True))
        np.testing.assert_allclose(steps[2].values[trial], white.mean(axis=0), atol=1e-8 * clips[0])
        last = steps[-1]
        centre = sum(
            step.released[trial] for step in steps[2:-1]
        )  # steps release distances from it
        for value, inner in ((estimate.value, last.released), (estimate.before_noise, last.values)):
            expected = (centre + inner[trial]) @ np.linalg.inv(b)
            np.testing.assert_allclose(
                value[trial], expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max()
            )
