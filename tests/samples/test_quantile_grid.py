"""Cells of continuous distributions, against closed forms and scipy's distribution functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import (
    Beta,
    ContaminatedGaussian,
    Gaussian,
    Hyperexponential,
    LogNormal,
    Pareto,
    StudentT,
)
from dpbench.samples import quantile_grid as module
from dpbench.samples.quantile_grid import QuantileGrid, partial_mean, quantile_grid
from tests.support import FALSE_ALARM, rng

# Each distribution has the distribution of scipy beside it.
LAWS: list[tuple[Any, Any]] = [
    (Gaussian(location=2, scale=3), stats.norm(2, 3)),
    (StudentT(tail_index=2.5, location=-1), stats.t(2.5, -1)),
    (Pareto(tail_index=3, location=1.5), stats.pareto(3)),
    (LogNormal(sigma=1.5, scale=2), stats.lognorm(1.5, scale=2)),
    (Beta(a=2, b=8, location=-1, scale=4), stats.beta(2, 8, -1, 4)),
    (Beta(a=0.5, b=0.5), stats.beta(0.5, 0.5)),
]
MIXTURE = ContaminatedGaussian(eta=0.1, gap=50.0)
EVERY_LAW = [law for law, _ in LAWS] + [
    MIXTURE,
    ContaminatedGaussian(eta=0.01, gap=5, spread=10),
    Hyperexponential(p=0.02, ratio=20, location=3),
]


@pytest.mark.parametrize(("law", "other"), LAWS)
def test_tails_and_their_inverses_agree_with_scipy(law: Any, other: Any) -> None:
    t = 2.0 ** -np.linspace(1, 70, 300)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(law.tail_quantile(t, upper=False), other.ppf(t), 1e-9, 1e-13)
        np.testing.assert_allclose(law.tail_quantile(t, upper=True), other.isf(t), 1e-9)
    x = np.linspace(-30, 30, 301)
    np.testing.assert_allclose(law.tail(x, upper=False), other.cdf(x), 1e-9, 1e-300)
    np.testing.assert_allclose(law.tail(x, upper=True), other.sf(x), 1e-9, 1e-300)


@pytest.mark.parametrize("upper", [False, True])
def test_the_tails_of_two_exponentials_have_their_closed_form(upper: bool) -> None:
    law, x = Hyperexponential(p=0.02, ratio=20, location=1 - 0.02 + 0.4), np.linspace(0, 400, 101)
    parts = [stats.expon(scale=scale) for scale in (1, 20)]
    shares = [(one.sf if upper else one.cdf)(x) for one in parts]
    tail = 0.98 * shares[0] + 0.02 * shares[1]
    np.testing.assert_allclose(law.tail(x, upper=upper), tail, 1e-12)
    held = tail < 0.9  # beyond, a probability near 1 determines no quantile
    np.testing.assert_allclose(law.tail_quantile(tail[held], upper=upper), x[held], 1e-9, 1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_the_quantiles_of_a_mixture_invert_its_tails(upper: bool) -> None:
    t = 2.0 ** -np.linspace(1, 70, 300)
    x = MIXTURE.tail_quantile(t, upper=upper)
    # between its two parts the mixture has hardly any mass, so that tails determine no quantile
    apart = np.abs(t - (0.1 if upper else 0.9)) > 1e-3
    np.testing.assert_allclose(MIXTURE.tail(x, upper=upper)[apart], t[apart], 1e-12)


def _missing_share(grid: QuantileGrid) -> float:
    """Return the part of the variance that lies inside cells, without the two outermost cells."""
    low, high = grid.bounds
    t = low[:, None] + (high - low)[:, None] * (np.arange(64) + 0.5) / 64
    x = np.empty(t.shape)
    for upper, side in ((False, slice(grid.lower_cells)), (True, slice(grid.lower_cells, None))):
        x[side] = grid.law.tail_quantile(t[side], upper=upper)
    inside = slice(1, -1)
    p, x = (high - low)[inside], x[inside]
    return float(p @ x.var(axis=1) / (p @ (x - grid.means @ (high - low)) ** 2).mean())


@pytest.mark.parametrize("law", EVERY_LAW)
def test_cells_cover_the_line_and_add_up(law: Any) -> None:
    grid = quantile_grid(law, 10**6)
    low, high = grid.bounds
    p = high - low
    assert p.sum() == 1.0  # probabilities are dyadic fractions, so that the sum is exact
    assert np.all(np.diff(grid.edges) >= 0)
    rounding = 1e-12 * (1 + np.abs(grid.means))
    assert np.all(
        (grid.means >= grid.edges[:-1] - rounding) & (grid.means <= grid.edges[1:] + rounding)
    )
    assert abs(p @ grid.means - law.mean) < 1e-13 * (1 + abs(law.mean))
    assert _missing_share(grid) < 7e-5
    np.testing.assert_array_equal(grid.probabilities.sum(axis=2), 1.0)


@pytest.mark.parametrize("n", [1, 1000, 10**9])
def test_the_last_cells_are_empty(n: int) -> None:
    """Fewer than one in 10^9 datasets has a record in the last cell of either side."""
    probabilities = [tails[1] for tails in quantile_grid(Gaussian(), n).tails]
    assert all(0 < n * p <= 2.0**-30 for p in probabilities)


def test_infinite_clips_change_no_mean() -> None:
    grid = quantile_grid(Gaussian(), 100)
    np.testing.assert_array_equal(module.clipped_means(grid, -np.inf, np.inf), grid.means)
    low, high = (module.clipped_means(grid, *ends) for ends in ((0.5, np.inf), (0.5, 1e300)))
    np.testing.assert_array_equal(low, high)


def test_conditional_means_of_a_pareto_distribution_have_their_closed_form() -> None:
    a, law = 3.0, Pareto(tail_index=3, location=1.5)
    grid = quantile_grid(law, 10**6)
    tails = grid.tails[1]
    # E[X; t in (s, u)] is the integral of t^(-1/a)
    wanted = np.diff(tails ** (1 - 1 / a)) / (1 - 1 / a) / np.diff(tails)
    np.testing.assert_allclose(grid.means[grid.lower_cells :][::-1], wanted, 1e-10)


def test_a_partial_mean_passes_the_gap_of_a_mixture() -> None:
    # In the upper tail, 9 of 10 records at t < 0.2 - and all outliers - follow from the two parts.
    t = 0.2
    x = float(MIXTURE.tail_quantile(np.array(t), upper=True))
    clean, outliers = 0.9 * stats.norm.pdf(x), 0.1 * 50.0
    np.testing.assert_allclose(partial_mean(MIXTURE, 0.0, t, upper=True), clean + outliers, 1e-11)


@pytest.mark.parametrize("c", [1e-5, 1e-9, 1e-14])
def test_clips_near_0_end_at_rounding_errors(c: float) -> None:
    """Quantiles near 0 have the rounding errors of the location, which no bisection reduces."""
    grid, law = quantile_grid(Gaussian(location=1), 10**6), stats.norm(1)
    low, high = grid.bounds
    found = (high - low) @ grid.clipped_means(np.array([[-c]]), np.array([[c]]))[0]
    assert found == pytest.approx(c * (law.sf(0) - law.cdf(0)), rel=1e-4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("location", "scale"), [(0, 1e200), (0, 1e-200), (1e9, 1e-9), (1e9, 1)])
def test_cells_of_any_location_and_scale(location: float, scale: float) -> None:
    law = Gaussian(location=location, scale=scale)
    grid = quantile_grid(law, 10**6)
    low, high = grid.bounds
    assert abs((high - low) @ grid.means - location) <= 1e-13 * max(scale, location)


def test_numbers_are_located_in_their_cells() -> None:
    for law in EVERY_LAW:
        grid = quantile_grid(law, 10**5)
        cells = rng().integers(0, grid.means.size, 500)
        inside = (grid.edges[cells] + 1e-9 < grid.means[cells]) & (
            grid.means[cells] < grid.edges[cells + 1] - 1e-9
        )
        cells = cells[inside]
        found, tails = grid.locate(grid.means[cells])
        np.testing.assert_array_equal(found, cells)
        low, high = grid.bounds
        assert np.all((low[cells] <= tails) & (tails <= high[cells]))
        ends, _ = grid.locate(np.array([-np.inf, np.inf]))
        assert ends.tolist() == [0, grid.means.size - 1]


def _chi_square(grid: QuantileGrid, n: int, trials: int) -> float:
    """Return the p-value of Pearson's test of all drawn counts, with rare cells pooled."""
    counts = grid.draw(rng(), trials, n).sum(axis=0)
    low, high = grid.bounds
    wanted = n * trials * (high - low)
    common = wanted >= 20
    pooled = (
        np.r_[counts[common], counts[~common].sum()],
        np.r_[wanted[common], wanted[~common].sum()],
    )
    return float(stats.chisquare(*pooled).pvalue)


def test_counts_are_multinomial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test alarms falsely with probability 1e-6, and sees a probability 5% too large."""
    grid = quantile_grid(StudentT(tail_index=2.5), 10**5)
    assert _chi_square(grid, 10**5, 400) > FALSE_ALARM
    wrong = grid.probabilities.copy()
    wrong[0, 2, :2] *= 1.05, 0.95
    broken = QuantileGrid(grid.law, grid.octaves)
    monkeypatch.setitem(broken.__dict__, "probabilities", wrong)
    assert _chi_square(broken, 10**5, 400) < FALSE_ALARM


def test_totals_of_datasets_are_n() -> None:
    for law in EVERY_LAW:
        counts = quantile_grid(law, 10**12).draw(rng(), 3, 10**12)
        assert counts.sum(axis=1).tolist() == [10**12] * 3
        assert counts.min() >= 0


def test_sparse_cells_of_a_gap_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = _missing_share(quantile_grid(MIXTURE, 1000))
    monkeypatch.setattr(module, "MAX_HALVINGS", 0)
    rough = _missing_share(QuantileGrid(MIXTURE, 40))
    assert rough > 1e-3
    assert fine < 1e-5


HEAVY = [
    Pareto(tail_index=1.01),
    StudentT(tail_index=1.01),
    LogNormal(sigma=5.0),
    Hyperexponential(p=1e-4, ratio=1e4),
]


@pytest.mark.parametrize("law", HEAVY, ids=str)
@pytest.mark.parametrize("n", [10**6, 10**12])
def test_cell_means_of_heavy_tails_sum_to_the_mean(law: Any, n: int) -> None:
    """Half of the mean of Pareto(1.01) belongs to tail probabilities below 1e-30."""
    grid = quantile_grid(law, n)
    shares = np.concatenate([np.diff(grid.tails[0]), np.diff(grid.tails[1])[::-1]])
    assert shares @ grid.means == pytest.approx(law.mean, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("clip", "most", "stated"),
    [
        (1.0, 6e-5, "at most 6·10⁻⁵ if it is clipped at 1 standard deviation"),
        (0.1, 2.7e-4, "2.7·10⁻⁴ at 0.1"),
        (1e-4, 8e-3, "lacks up to 8·10⁻³"),
    ],
)
def test_the_variance_that_narrow_clips_miss(clip: float, most: float, stated: str) -> None:
    """The variance of a clipped normal record, in closed form, against that of its cell means."""
    page = " ".join((Path(__file__).parents[2] / "docs/limits.md").read_text("utf-8").split())
    assert stated in page
    grid, z = quantile_grid(Gaussian(), 10**6), stats.norm
    shares = np.concatenate([np.diff(grid.tails[0]), np.diff(grid.tails[1])[::-1]])
    means = module.clipped_means(grid, -clip, clip)
    inside = z.cdf(clip) - z.cdf(-clip) - 2 * clip * z.pdf(clip)  # E X^2 where |X| < clip
    exact = inside + 2 * clip**2 * z.sf(clip)
    assert shares @ means == pytest.approx(0, abs=1e-12)
    assert 0 < 1 - shares @ means**2 / exact <= most


class Uniform:
    """Uniform distribution on [0, 1], whose quantiles and tail probabilities do not round."""

    def tail_quantile(self, t: Any, *, upper: bool) -> Any:
        return 1 - t if upper else t

    def tail(self, x: Any, *, upper: bool) -> Any:
        return np.clip(1 - x if upper else x, 0.0, 1.0)


def test_a_number_at_an_edge_belongs_to_the_cell_above() -> None:
    grid = QuantileGrid(Uniform(), 6)
    edges = grid.edges
    cells, _ = grid.locate(edges[:-1])
    assert cells.tolist() == list(range(edges.size - 1))
    cells, tails = grid.locate((edges[1:] + edges[:-1]) / 2)
    assert cells.tolist() == list(range(edges.size - 1))
    assert np.all(tails <= 0.5)
