"""The core of records of little leverage: sets by enumeration, the proof by search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from dpbench.distributions import Distribution, Gaussian, MultivariateGaussian
from dpbench.estimators import AffineInvariantMean
from dpbench.estimators.affine_invariant import StableCore, leverages
from dpbench.privacy import ApproxDP, Ledger
from dpbench.privacy.account import OverdraftError
from dpbench.samples import CountedSample, DenseSample
from dpbench.theory.exact.value import exact
from tests import support
from tests.support import Floats

BUDGET = ApproxDP(1.0, 1e-6)
MEAN = AffineInvariantMean()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def find_largest_good(z: Floats, limit: float, most: int) -> set[int] | None:
    """Return the largest set with leverages up to the limit; None if it lacks more than `most`."""
    for size in range(len(z), len(z) - most - 1, -1):
        for subset in itertools.combinations(range(len(z)), size):
            rows = z[list(subset)]
            inverse = np.linalg.inv(rows.T @ rows)
            if np.einsum("ij,jk,ik->i", rows, inverse, rows).max() <= limit:
                return set(subset)
    return None


@pytest.mark.parametrize("d", [1, 2])
def test_levels_are_those_of_the_largest_sets_by_enumeration(d: int) -> None:
    core = StableCore(n=20, inverse=8.0 - d, most=2, ramp=1.0)
    x = rng(d).standard_normal((12, 20, d)) * rng(9).choice([1.0, 1.0, 1.0, 3.0], (12, 20, 1))
    all_levels, seen = core._levels(x), set()
    for rows, levels in zip(x, all_levels, strict=True):
        z = np.column_stack([np.ones(20), rows])
        for level in range(4):
            good = find_largest_good(z, 1 / (core.inverse - level), 2)
            inside = set(np.flatnonzero(levels <= level))
            seen.add(len(good or ()))
            assert good == inside if good else len(inside) < 18
    assert len(seen) >= 3


def test_the_score_is_the_least_level_with_as_many_outside() -> None:
    far = np.arange(50) < rng(1).integers(0, 5, (40, 1))
    x = rng().standard_normal((40, 50, 1)) * (1 + 3 * far)[..., None]
    core = StableCore(n=50, inverse=8.0, most=3, ramp=1.0)
    level, (_, score) = core._levels(x), core.weights(x)
    outside = (level[..., None] > np.arange(4)).sum(axis=1) <= np.arange(4)
    expected = np.where(outside.any(axis=1), outside.argmax(axis=1), 4)
    np.testing.assert_array_equal(score, expected)
    assert set(score) >= {0, 1, 2, 3}


def scatter(x: Floats, w: Floats) -> tuple[Floats, Floats]:
    mean = (w[..., None] * x).sum(axis=1) / w.sum(axis=1)[:, None]
    offset = x - mean[:, None]
    return mean, (w[..., None] * offset).transpose(0, 2, 1) @ offset


@pytest.mark.parametrize(
    ("d", "core", "most"),
    [
        (1, StableCore(n=40, inverse=12.0, most=1, ramp=3.0), 0.35),
        (1, StableCore(n=300, inverse=80.0, most=1, ramp=25.0), 0.65),
        (2, StableCore(n=60, inverse=15.0, most=1, ramp=4.0), 0.35),
    ],
)
def test_no_neighbour_moves_the_core_by_more_than_is_proved(
    d: int, core: StableCore, most: float
) -> None:
    """Search neighbours at the surface where records are pruned.

    No pair exceeds the proved bounds, and a pair attains more than the share `most` of `step`.
    """
    trials, n, r = 1500, core.n, rng()
    x = r.standard_normal((trials, n, d))
    x[::2] /= np.linalg.norm(x[::2], axis=2, keepdims=True)
    far = np.arange(n) < r.integers(1, 4, trials)[:, None]
    along = r.standard_normal((trials, 1, d))
    along *= np.sqrt(n / core.inverse) / np.linalg.norm(along, axis=2, keepdims=True)
    along = along * r.uniform(0.7, 2.5, (trials, 1, 1)) * r.uniform(1, 1.1, (trials, n, 1))
    x = np.where(far[..., None], along, x)
    y = x.copy()
    y[:, 0] *= -r.uniform(0, 1.5, (trials, 1))
    (w, u), (v, t) = core.weights(x), core.weights(y)
    assert np.abs(u - t).max() == 1
    good = (u <= core.most) & (t <= core.most)
    assert good.sum() > 100
    apart = np.abs(core._levels(x) - core._levels(y))[good, 1:]
    assert apart.max() <= 1
    (m, scatter_x), (k, scatter_y) = scatter(x[good], w[good]), scatter(y[good], v[good])
    square = np.einsum("td,tde,te->t", m - k, np.linalg.inv(scatter_y), m - k)
    moved = np.sqrt(square).max() / core.step
    assert most < moved <= 1
    eigenvalues = np.linalg.eigvals(np.linalg.solve(scatter_y, scatter_x)).real - 1
    up, down = (np.maximum(sign * eigenvalues, 0).sum(axis=1).max() for sign in (1, -1))
    assert 0.3 < up / (core.loss / (1 - core.loss)) <= 1
    assert 0.25 < down / core.loss <= 1


@pytest.mark.parametrize("budget", [BUDGET, ApproxDP(4.0, 0.1)], ids=str)
def test_the_farthest_gaussians_of_one_number_are_close(budget: ApproxDP) -> None:
    """Check (e) and (f) by quadrature of the positive part of P - e^epsilon Q."""
    n = MEAN.least_records(1, budget)
    plan = MEAN._core(n, 1, budget)
    assert plan is not None
    assert MEAN._core(n - 1, 1, budget) is None
    core, _, (test, shape, fine) = plan
    sd = core.step * fine._gaussian
    epsilon = budget.epsilon - test.epsilon
    for ratio in (1 - core.loss, 1 / (1 - core.loss)):
        # The norm of (d) belongs to the narrower distribution.
        shift, wide = core.step * min(1, ratio) ** 0.5, sd * ratio**0.5
        for p, q in itertools.permutations([stats.norm(0, sd), stats.norm(shift, wide)]):
            x = np.linspace(-60 * sd, 60 * sd, 400_001)
            excess = np.maximum(p.pdf(x) - np.exp(epsilon) * q.pdf(x), 0)
            assert integrate.trapezoid(excess, x) <= 0.75 * budget.delta
    assert shape.epsilon + fine.epsilon == pytest.approx(epsilon)
    # An event of probability fine.delta at equal shapes has e^eps_V times that at different shapes.
    half = budget.delta / 2
    assert np.exp(shape.epsilon) * fine.delta == pytest.approx(half, rel=1e-12)
    assert fine.delta + shape.delta == pytest.approx(budget.delta - budget.delta / 4, rel=1e-12)


def test_it_follows_affine_maps() -> None:
    x = rng().standard_normal((3, 12_000, 3))
    x[:, :5] *= 20.0
    x[0, 5] = 1e150
    estimate = support.run(MEAN, x, ApproxDP(2.0, 1e-5))
    lower = np.array([[1e3, 0, 0], [-400.0, 1.0, 0], [50.0, 0.3, 1e-3]])  # triangular, as roots are
    x[0, 5] = 1.0, 1e140, 0
    mapped = support.run(MEAN, x @ lower.T + [5.0, -7.0, 1e-3], ApproxDP(2.0, 1e-5))
    back = np.linalg.solve(lower, (mapped.value - [5.0, -7.0, 1e-3]).T).T
    np.testing.assert_allclose(back, estimate.value, atol=1e-6)
    assert estimate.core is not None
    assert np.all((estimate.core < 1) & (estimate.core > 0.999))


def test_too_few_records_release_nothing_whatever_they_are() -> None:
    n = MEAN.least_records(2, BUDGET)
    for records, releases in ((n - 1, False), (n, True)):
        ledger = Ledger(BUDGET, rng())
        value = MEAN.run(DenseSample(rng(1).standard_normal((2, records, 2))), ledger).value
        assert np.isfinite(value).all() == np.isfinite(value).any() == any(ledger.spent) == releases


def test_records_that_stand_out_or_lie_in_a_plane_release_nothing() -> None:
    x = rng().standard_normal((3, 12_000, 2))
    x[0, :200] = 1e6 * rng(1).standard_normal((200, 2))
    x[1, :, 1] = x[1, :, 0]
    value = support.run(MEAN, x, BUDGET).value
    assert np.isnan(value[:2]).all()
    assert np.isfinite(value[2]).all()


def test_leverages_of_correlated_records_keep_their_digits() -> None:
    """Compare with a QR decomposition; variances are 1e10 apart, and their axes rotated."""
    x = (
        rng().standard_normal((1, 200, 3))
        * [1.0, 1e-2, 1e-5]
        @ stats.ortho_group.rvs(3, random_state=0)
    )
    basis, _ = np.linalg.qr(np.column_stack([np.ones(200), x[0]]))
    leverage, flat = leverages(x + 3.0, np.ones((1, 200), dtype=bool))
    np.testing.assert_allclose(leverage[0], (basis**2).sum(axis=1), rtol=1e-7)
    assert not flat.any()


@pytest.mark.parametrize("apart", [1e-5, 4e-7, 1e-9, 1e-11])
def test_records_near_a_plane_are_like_others(apart: float) -> None:
    """Only a set that is exactly in a plane counts as flat; a set near a plane does not."""
    first, second = rng().standard_normal((2, 500))
    held = np.ones((1, 500), dtype=bool)
    expected, _ = leverages(np.stack([first, second], axis=1)[None], held)
    leverage, flat = leverages(np.stack([first, first + apart * second], axis=1)[None], held)
    np.testing.assert_allclose(leverage, expected, rtol=1e-15 / apart)
    assert not flat.any()
    _, flat = leverages(np.stack([first, first], axis=1)[None], held)
    assert flat.all()


def test_no_record_decides_whether_squares_of_all_vanish() -> None:
    x = np.where(np.arange(12_000) % 2 == 0, -1.5e-162, 1.5e-162)
    neighbour = x.copy()
    neighbour[1] = 1.6e-162  # half of its square is more than half of the least number there is
    for scale in (1.0, 1e30):
        values = support.run(MEAN, scale * np.stack([x, neighbour]), BUDGET).value
        assert np.isnan(values).all()
    values = support.run(MEAN, 1e33 * np.stack([x, neighbour]), BUDGET).value
    assert np.isfinite(values).all()


def test_counted_records_are_refused() -> None:
    with pytest.raises(ValueError, match="one by one"):
        MEAN.run(CountedSample([0.0, 1.0], [[5, 5]]), Ledger(BUDGET, rng()))


@pytest.mark.parametrize("budget", [BUDGET, ApproxDP(4.0, 0.1)], ids=str)
def test_the_worst_three_laws_lose_the_whole_budget(budget: ApproxDP) -> None:
    """Compose (e) and (f) with distributions on two outcomes that attain the bound of (f).

    An event has probability r under the last distribution, r' = e^eps_m r + delta_m under the
    middle one, and e^eps_V r' + delta_V under the first. So neighbouring distributions are exactly
    as close as (e) and (f) allow. The first and the last are no closer than
    (eps_V + eps_m, delta_V + e^eps_V delta_m). Together with delta_1 of (g) this uses all of delta.
    Without the factor e^-eps_V in delta_m it would exceed delta.
    """
    parts = MEAN._core(MEAN.least_records(1, budget), 1, budget)
    assert parts is not None
    core, bound, (test, shape, fine) = parts
    delta_1 = float(stats.laplace(scale=1 / test.epsilon).cdf(-bound))
    # `shape_epsilon` inverts the tail of chi-square at delta_V = delta/4.
    low, high = (core.shape_epsilon(times * budget.delta / 4) for times in (1.001, 0.999))
    assert low < shape.epsilon < high
    delta_v, r = budget.delta / 4, budget.delta / 1000
    between = np.exp(fine.epsilon) * r + fine.delta
    first = np.exp(shape.epsilon) * between + delta_v
    assert first < 1
    lost = first - np.exp(shape.epsilon + fine.epsilon) * r + delta_1
    assert lost <= budget.delta * (1 + 1e-9)
    assert lost == pytest.approx(budget.delta, rel=1e-9)
    assert test.epsilon + shape.epsilon + fine.epsilon == pytest.approx(budget.epsilon)


def test_a_mean_that_pays_too_much_delta_overdraws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger refuses delta/2 for the noise of the mean, because (f) has a factor e^eps_V."""
    x = rng().standard_normal((1, 12_000))
    parts = MEAN._core(12_000, 1, BUDGET)
    assert parts is not None
    *others, (test, shape, fine) = parts
    assert np.isfinite(support.run(MEAN, x, BUDGET).value).all()
    wrong = (*others, (test, shape, ApproxDP(fine.epsilon, BUDGET.delta / 2, "analytic")))
    monkeypatch.setattr(AffineInvariantMean, "_core", lambda *_: wrong)
    with pytest.raises(OverdraftError):
        support.run(MEAN, x, BUDGET)


@pytest.mark.parametrize(
    "law", [Gaussian(location=1, scale=2), MultivariateGaussian(d=2, norm=0.5)], ids=["d1", "d2"]
)
def test_errors_are_as_computed(law: Distribution) -> None:
    """The shares below the exact 0.9 quantiles are 0.9; false alarms 1e-6 over four shares."""
    n, trials = 12_000, 400
    found = MEAN.run(law.sample(rng(), trials, n), Ledger(BUDGET, rng(1)))
    for metric, other in (("noise_q90", found.before_noise), ("q90", np.asarray(law.mean))):
        errors = np.linalg.norm((found.value - other).reshape(trials, -1), axis=1)
        within = int(np.count_nonzero(errors <= exact(metric, MEAN, law, n, BUDGET)))
        assert stats.binomtest(within, trials, 0.9).pvalue > 1e-6 / 4
