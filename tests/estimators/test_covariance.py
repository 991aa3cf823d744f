"""CoinPress covariances: a loop over records, the noise, and what is better than what."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conftest import Step
from scipy import linalg, stats
from support import FALSE_ALARM, Floats, assert_follows, round_shares, run

from dpbench.distributions.multivariate import MultivariateGaussian
from dpbench.estimators import (
    CoinPressCovariance,
    WhitenedCoinPressMean,
    covariance,
)
from dpbench.estimators.coinpress import schedule
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger


def without_noise(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
    self.pay()
    return values


def gamma(d: int, b: float = 0.1) -> float:
    """algorithms.md, section 2: what a Gaussian vector is longer than with probability b."""
    log = math.log(1 / b)
    return math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)


def root(matrix: Floats) -> Floats:
    """The symmetric root, by another route than eigenvalues."""
    return np.asarray(linalg.sqrtm(matrix)).real


def filled(upper: Floats, d: int) -> Floats:
    """The symmetric matrix whose upper triangle, row by row, is given."""
    found = np.full((d, d), np.nan)
    for (i, j), x in zip(itertools.combinations_with_replacement(range(d), 2), upper, strict=True):
        found[i, j] = found[j, i] = x
    return found


def positive(matrix: Floats) -> Floats:
    """The nearest positive semidefinite matrix: (M + |M|)/2, |M| the root of M^2."""
    return np.asarray((matrix + root(matrix @ matrix)) / 2)


def second_moment(rows: Floats, transform: Floats, radius: float) -> Floats:
    """The mean of ww' over the rows times `transform`, each moved into a ball."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for row in rows:
        w = row @ transform
        size = math.sqrt(sum(float(x) ** 2 for x in w))
        w = w * radius / size if size > radius else w
        total += np.outer(w, w)
    return total / len(rows)


@pytest.mark.parametrize(
    ("budget", "n", "d", "rounds"),
    [
        (ZCDP(0.5), 40, 1, 5),
        (ZCDP(0.5), 300, 3, 3),
        (ApproxDP(2.0, 1e-6), 9, 4, 2),
        (ZCDP(0.5), 2, 5, 1),
        (ApproxDP(2.0, 1e-6), 1, 2, 3),
    ],
)
def test_rounds_against_a_loop(
    steps: list[Step], budget: Budget, n: int, d: int, rounds: int
) -> None:
    u = 5.0
    x = np.random.default_rng(1).standard_normal((3, n, d)) @ np.diag(np.linspace(0.5, 2, d))
    x[1, 0] *= 1e6
    before = x.copy()
    found = run(CoinPressCovariance(bound=u, rounds=rounds), x, budget)
    np.testing.assert_array_equal(x, before)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(2.0, 1e-6)).rho
    eta = (2 * math.sqrt(d / n) + d / n) / 2
    assert len(steps) == rounds
    for trial, rows in enumerate(x):
        transform = np.eye(d) / math.sqrt(u)
        for j, (step, share) in enumerate(zip(steps, round_shares(rounds), strict=True)):
            assert isinstance(step.budget, ZCDP)
            assert step.budget.rho == pytest.approx(rho * share, rel=1e-9, abs=0)
            # Entry variance gamma^4/(rho_j n^2), which is sensitivity^2/(2 rho_j).
            variance = gamma(d) ** 4 / (rho * share * n**2)
            stated = step.sensitivity**2 / (2 * step.budget.rho)
            assert stated == pytest.approx(variance, rel=1e-9, abs=0)
            clean = second_moment(rows, transform, gamma(d))
            assert step.values.shape == (3, d * (d + 1) // 2)
            np.testing.assert_allclose(
                filled(step.values[trial], d), clean, rtol=1e-8, atol=1e-8 * gamma(d) ** 2
            )
            z = positive(filled(step.released[trial], d))
            back = np.linalg.inv(transform)
            if j < rounds - 1:
                transform = transform @ np.linalg.inv(root(z + eta * np.eye(d)))
        for value, inner in ((found.value[trial], z), (found.before_noise[trial], clean)):
            wanted = back.T @ inner @ back
            size = float(np.abs(wanted).max() + np.abs(back.T @ back).max() * 1e-2)
            np.testing.assert_allclose(value, wanted, rtol=1e-7, atol=1e-7 * size)


def test_noise_of_the_matrix() -> None:
    """Where no eigenvalue is negative the release is u Z: the noise shows."""
    n, d, u, rho = 400, 4, 3.0, 20.0
    x = np.zeros((4000, n, d))
    x[:, np.arange(n), np.arange(n) % d] = 2 * math.sqrt(u)  # Z = I before the noise
    found = run(CoinPressCovariance(bound=u, rounds=1), x, ZCDP(rho))
    np.testing.assert_allclose(found.before_noise, np.tile(u * np.eye(d), (4000, 1, 1)))
    np.testing.assert_array_equal(found.value, found.value.transpose(0, 2, 1))
    noise = (found.value - found.before_noise) / u
    law = stats.norm(scale=gamma(d) ** 2 / (math.sqrt(rho) * n))
    entries = list(itertools.combinations_with_replacement(range(d), 2))
    for i, j in entries:  # the diagonal too
        # Kolmogorov-Smirnov tests with false-alarm probability 1e-6 in all.
        assert_follows(noise[:, i, j], law, FALSE_ALARM / len(entries))
    z = np.stack([noise[:, i, j] for i, j in entries], axis=1) / law.std()
    pairs = list(itertools.combinations(range(len(entries)), 2))
    limit = stats.norm.isf(FALSE_ALARM / 2 / len(pairs)) / math.sqrt(4000)
    for a, b in pairs:  # z-tests with false-alarm probability 1e-6 in all
        assert abs(float((z[:, a] * z[:, b]).mean())) <= limit


@pytest.mark.parametrize(("n", "d"), [(1, 2), (5, 6), (50, 2)])
def test_sensitivity_of_the_upper_triangle_by_brute_force(
    steps: list[Step], n: int, d: int
) -> None:
    """sqrt(2) gamma^2/n, for rows w and v in a ball; attained by orthogonal axes."""
    rng = np.random.default_rng(2)
    base = rng.normal(0, 2, (n, d))
    rows = np.concatenate(
        [1e3 * np.eye(d), rng.normal(0, 3, (300, d)), rng.choice([-9.0, 9.0], (50, d)), 0 * base]
    )
    x = np.tile(base, (len(rows), 1, 1))
    x[:, n // 2] = rows
    # The later rounds have transforms of their own in every trial: no neighbours.
    run(CoinPressCovariance(bound=1.0, rounds=1), x, ZCDP(0.5))
    (step,) = steps
    moves = np.linalg.norm(step.values[:, None] - step.values[None], axis=2)
    assert step.sensitivity == pytest.approx(math.sqrt(2) * gamma(d) ** 2 / n, rel=1e-12)
    assert moves.max() <= step.sensitivity * (1 + 1e-12)
    if d > 1:
        assert moves[0, 1] == pytest.approx(step.sensitivity, rel=1e-12)


def test_sensitivity_of_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was released before, one record moves a round by what is stated at most."""
    rng = np.random.default_rng(3)
    n, d, rounds = 12, 3, 4
    given = [np.diag([1.0, 1e-6, 3.0]), np.zeros((d, d)), -np.eye(d) + 2, 5 * np.eye(d)]
    upper = [z[np.triu_indices(d)] for z in given]
    x = np.tile(rng.normal(0, 1, (n, d)), (200, 1, 1))
    x[1:, 4] = rng.normal(0, 1, (199, d)) * np.geomspace(1e-3, 1e300, 199)[:, None]
    found = iter(upper)
    ratios = []

    def freeze(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
        self.pay()
        ratios.append(np.linalg.norm(values - values[0], axis=1).max() / sensitivity)
        return np.tile(next(found), (len(values), 1))

    monkeypatch.setattr(Ledger, "add_noise", freeze)
    run(CoinPressCovariance(bound=2.0, rounds=rounds), x, ZCDP(0.5))
    assert len(ratios) == rounds
    assert 0.3 < max(ratios) <= 1 + 1e-9


def hard(name: str, n: int, d: int) -> Floats:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((6, n, d))
    if name == "collinear":
        x[:] = x[..., :1] * np.arange(1, d + 1)
    elif name == "equal":
        x[:] = 0.25
    elif name == "zero":
        x[:] = 0.0
    elif name == "integers":
        x = np.round(x)
    elif name == "wide":
        x *= 1e200
    else:
        x[:, 0] = float(name)
    return x


NAMES = ["collinear", "equal", "zero", "integers", "wide", "1e12", "1e150", "-1e300", "1.7e308"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("n", "d", "rounds", "rho"),
    [(1, 1, 3, 1e3), (2, 3, 10, 1e-3), (60, 4, 1, 1e-3), (60, 4, 8, 1e3)],
)
def test_the_release_is_positive_semidefinite(
    name: str, n: int, d: int, rounds: int, rho: float
) -> None:
    x = hard(name, n, d)
    before = x.copy()
    found = run(CoinPressCovariance(bound=4.0, rounds=rounds), x, ZCDP(rho))
    np.testing.assert_array_equal(x, before)
    assert found.value.shape == found.before_noise.shape == (6, d, d)
    assert np.all(np.isfinite(found.before_noise))
    assert np.all(np.isfinite(found.value))
    np.testing.assert_array_equal(found.value, found.value.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(found.value)
    assert np.all(values[:, 0] >= -1e-9 * values[:, -1])
    if n > 1:
        mean = run(WhitenedCoinPressMean(radius=2.0, bound=4.0), x, ZCDP(rho))
        assert mean.value.shape == (6, d)
        assert np.all(np.isfinite(mean.value))
        assert np.all(np.isfinite(mean.before_noise))
        np.testing.assert_array_equal(x, before)


def theirs(x: Floats, u: float, noises: list[Floats]) -> Floats:
    """The authors' code: A <- (Z + eta I)^(-1/2) A, |eigenvalues|, and at last A^-1 Z A^-1."""
    trials, n, d = x.shape
    a = np.tile(np.eye(d) / math.sqrt(u), (trials, 1, 1))
    eta = (2 * math.sqrt(d / n) + d / n) / 2
    for noise in noises:
        before = a
        w = x @ a
        w = w * np.minimum(1, gamma(d) / np.linalg.norm(w, axis=2, keepdims=True))
        values, vectors = np.linalg.eigh(w.transpose(0, 2, 1) @ w / n + noise)
        values = np.abs(values)[:, None]
        a = (vectors * (values + eta) ** -0.5) @ vectors.transpose(0, 2, 1) @ a
    back = np.linalg.inv(before)
    return np.asarray(back @ (vectors * values) @ vectors.transpose(0, 2, 1) @ back)


def symmetric(rng: np.random.Generator, shape: tuple[int, int, int], sd: float) -> Floats:
    drawn = rng.normal(0, sd, shape)
    return np.asarray(np.triu(drawn) + np.triu(drawn, 1).transpose(0, 2, 1))


def test_the_side_matters_from_the_third_round_on() -> None:
    """The same data and noise: two rounds agree, three do not."""
    rng, n, d = np.random.default_rng(7), 4000, 3
    x = MultivariateGaussian(d=d, condition=10).sample(rng, 3, n).values
    noises = [symmetric(rng, (3, d, d), 0.02) for _ in range(3)]
    upper = np.triu_indices(d)

    def both(rounds: int) -> tuple[Floats, Floats]:
        left = iter(noises)

        def given(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
            self.pay()
            return values + next(left)[:, *upper]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "add_noise", given)
            ours = run(CoinPressCovariance(bound=1.0, rounds=rounds), x, ZCDP(1.0)).value
        return ours, theirs(x, 1.0, noises[:rounds])

    for rounds in (1, 2):
        np.testing.assert_allclose(*both(rounds), rtol=1e-9, atol=1e-12)
    ours, other = both(3)
    assert np.abs(ours - other).max() > 1e-3


# Whitening.


def pairs_of(monkeypatch: pytest.MonkeyPatch, x: Floats) -> Floats:
    """What the covariance of `WhitenedCoinPressMean` is made of."""
    seen: list[Floats] = []
    real = covariance.fit_covariance

    def spy(rows: Floats, *options: Any) -> Any:
        seen.append(rows.copy())
        return real(rows, *options)

    with monkeypatch.context() as patch:
        patch.setattr(covariance, "fit_covariance", spy)
        run(WhitenedCoinPressMean(radius=2.0, bound=4.0), x, ZCDP(0.5))
    (rows,) = seen
    return rows


@pytest.mark.parametrize("n", [2, 3, 7, 8])
def test_pairs_are_disjoint_and_by_index(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    x = np.random.default_rng(9).standard_normal((2, n, 3))
    pairs = pairs_of(monkeypatch, x)
    wanted = [
        [(x[t, 2 * i + 1] - x[t, 2 * i]) / math.sqrt(2) for i in range(n // 2)] for t in (0, 1)
    ]
    np.testing.assert_allclose(np.abs(pairs), np.abs(wanted), rtol=1e-12)
    for i, far in itertools.product(range(n), (7.0, 1e150, -1e300)):
        other = x.copy()
        other[0, i] = far
        changed = (pairs_of(monkeypatch, other) != pairs).any(axis=2)
        touched = {(0, i // 2)} if i // 2 < n // 2 else set()
        assert set(zip(*np.nonzero(changed), strict=True)) == touched


def test_one_record_makes_no_pair() -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        run(WhitenedCoinPressMean(radius=2.0, bound=4.0), np.zeros((1, 1, 2)), ZCDP(0.5))


@pytest.mark.parametrize(("budget", "share"), [(ZCDP(0.4), 0.2), (ApproxDP(3.0, 1e-6), 0.5)])
def test_covariance_first_then_mean(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step], budget: Budget, share: float
) -> None:
    """The mean is that of CoinPress on the whitened records, brought back."""
    n, d, radius = 301, 3, 2.5
    fits: list[Any] = []
    real = covariance.fit_covariance

    def spy(*options: Any) -> Any:
        fits.append(real(*options))
        return fits[-1]

    monkeypatch.setattr(covariance, "fit_covariance", spy)
    law = MultivariateGaussian(d=d, condition=50)
    x = law.sample(np.random.default_rng(10), 4, n).values + 0.5
    estimator = WhitenedCoinPressMean(
        radius=radius, bound=1.5, rounds=3, covariance_rounds=2, covariance_share=share
    )
    found = run(estimator, x, budget)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(3.0, 1e-6)).rho
    paid = [rho * share * s for s in round_shares(2)] + [
        rho * (1 - share) * s for s in round_shares(3)
    ]
    assert [s.budget.amounts[0] for s in steps] == pytest.approx(paid, rel=1e-9)
    (fit,) = fits
    for trial, rows in enumerate(x):
        pairs = (rows[1::2] - rows[:-1:2]) / math.sqrt(2)
        # A and Z from what was released.
        half = n // 2
        eta = (2 * math.sqrt(d / half) + d / half) / 2
        z = positive(filled(steps[0].released[trial], d))
        a = np.linalg.inv(root(z + eta * np.eye(d))) / math.sqrt(1.5)
        moment = second_moment(pairs, np.asarray(a, dtype=np.float64), gamma(d))
        seen = filled(steps[1].values[trial], d)
        np.testing.assert_allclose(seen, moment, rtol=1e-7, atol=1e-9)
        z = positive(filled(steps[1].released[trial], d))
        sd = gamma(d) ** 2 / (math.sqrt(paid[1]) * half)
        slack = eta + sd * (2 * math.sqrt(d) + 2 * math.sqrt(math.log(100)))
        assert fit.slack == pytest.approx(slack, rel=1e-9)
        b = a @ np.linalg.inv(root(z + slack * np.eye(d)))
        # The whitening may differ by a rotation, which changes no norm: b b' is what counts.
        largest = math.sqrt(np.linalg.eigvalsh(b @ b.T)[-1])
        plan = schedule(n, d, radius * largest, rho * (1 - share), 3, 0.01)
        white, centre = rows @ b, np.zeros(d)
        for step, wanted in zip(steps[2:], plan, strict=True):
            clip = float(np.asarray(wanted.clip_radius))
            assert step.sensitivity[trial, 0] == pytest.approx(2 * clip / n, rel=1e-8)
            offset = white - centre
            length = np.linalg.norm(offset, axis=1, keepdims=True)
            white = np.where(length > clip, centre + offset * clip / length, white)
            np.testing.assert_allclose(step.values[trial], white.mean(axis=0), atol=1e-8 * clip)
            centre = step.released[trial]
        for value, inner in ((found.value, centre), (found.before_noise, white.mean(axis=0))):
            wanted_value = inner @ np.linalg.inv(b)
            np.testing.assert_allclose(
                value[trial], wanted_value, rtol=1e-7, atol=1e-7 * np.abs(wanted_value).max()
            )


@pytest.mark.parametrize("factor", [2.0**-40, 8.0])
def test_units_do_not_matter(factor: float) -> None:
    x = MultivariateGaussian(d=3, condition=10).sample(np.random.default_rng(13), 5, 200).values
    one = run(WhitenedCoinPressMean(radius=2.0, bound=1.0), x, ZCDP(0.5))
    scaled = WhitenedCoinPressMean(radius=2.0 * factor, bound=factor**2)
    two = run(scaled, x * factor, ZCDP(0.5))
    np.testing.assert_allclose(two.value, one.value * factor, rtol=1e-9)
    one = run(CoinPressCovariance(bound=1.0), x, ZCDP(0.5))
    two = run(CoinPressCovariance(bound=factor**2), x * factor, ZCDP(0.5))
    np.testing.assert_allclose(two.value, one.value * factor**2, rtol=1e-9, atol=0)


def test_axes_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, rotated data give the rotated answer."""
    monkeypatch.setattr(Ledger, "add_noise", without_noise)
    x = MultivariateGaussian(d=4, condition=10).sample(np.random.default_rng(14), 3, 200).values
    turn = np.asarray(stats.ortho_group(4, seed=0).rvs())
    estimator = CoinPressCovariance(bound=1.0, rounds=4)
    one, two = (run(estimator, rows, ZCDP(0.5)).value for rows in (x, x @ turn))
    np.testing.assert_allclose(two, turn.T @ one @ turn, rtol=1e-8, atol=1e-8)
    mean = WhitenedCoinPressMean(radius=2.0, bound=1.0)
    one, two = (run(mean, rows, ZCDP(0.5)).value for rows in (x, x @ turn))
    np.testing.assert_allclose(two, one @ turn, rtol=1e-8, atol=1e-8)
