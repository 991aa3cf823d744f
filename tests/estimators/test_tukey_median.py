"""Tukey median: depth by its definition, the sensitivity of the score, and its error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpbench import release
from dpbench.audit import audit_pair
from dpbench.distributions import MultivariateGaussian
from dpbench.estimators import TukeyMedian
from dpbench.estimators.tukey_median import directions, halfspace_depth
from dpbench.privacy import Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from tests.support import Floats, rng


def counted_depth(rows: Floats, point: Floats, lines: Floats) -> int:
    """Return the least number of records on one side of a point, record by record."""
    sides = [*lines, *-lines]
    return min(sum(float(v @ (x - point)) >= -1e-12 for x in rows) for v in sides)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_depth_is_the_number_of_records_on_a_side(d: int) -> None:
    """Compare with the definition, on data with ties and with multiplicities."""
    rows = np.round(rng().normal(size=(40, d)), 1)
    points = np.concatenate([rows[:10], rng().uniform(-3, 3, (40, d))])
    lines, counts = directions(d, 7), np.ones(40)
    depth = halfspace_depth(rows, counts, points, lines)
    away = [abs(lines @ (x - p)).min() > 1e-12 or not (x - p).any() for p in points for x in rows]
    exact = np.reshape(away, (50, 40)).all(axis=1)  # without records on a side's boundary, rounded
    wanted = np.array([counted_depth(rows, point, lines) for point in points])
    assert exact.sum() > 30
    np.testing.assert_array_equal(depth[exact], wanted[exact])
    listed, multiplicity = np.unique(rows, axis=0, return_counts=True)
    np.testing.assert_array_equal(
        halfspace_depth(listed, multiplicity.astype(float), points, lines), depth
    )


@pytest.mark.parametrize("d", [2, 3])
def test_lines_are_spread_over_all_directions(d: int) -> None:
    """Check that a random direction is near one of the lines."""
    lines = directions(d, 200)
    np.testing.assert_allclose(np.linalg.norm(lines, axis=1), 1)
    v = rng().normal(size=(300, d))
    v /= np.linalg.norm(v, axis=1)[:, None]
    assert np.abs(v @ lines.T).max(axis=1).min() > np.cos(0.15)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_replaced_record_changes_a_depth_by_at_most_one(d: int) -> None:
    estimator = TukeyMedian(lower=-1, upper=1, resolution=0.4)
    points, lines, counts = estimator.grid(d), directions(d, 16), np.ones(15)
    values = np.round(rng().normal(size=(200, 15, d)), 1)
    moves = []
    for rows in values:
        other = rows.copy()
        other[0] = 10 ** rng().uniform(-3, 6) * rows[1]
        depths = [halfspace_depth(one, counts, points, lines) for one in (rows, other)]
        moves.append(np.abs(depths[0] - depths[1]).max())
    assert max(moves) == 1


def test_the_release_has_the_probabilities_of_the_mechanism() -> None:
    """Enumerate a grid of nine points, with a depth from the definition (false alarm 1e-6)."""
    rows = np.array([[0.2, 0.1], [0.9, -0.3], [-0.4, 0.8], [0.3, 0.35], [0.1, -0.7]])
    estimator, epsilon = TukeyMedian(lower=-1, upper=1, resolution=1, directions=5), 1.3
    points = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=2)))
    depth = np.array([counted_depth(rows, point, directions(2, 5)) for point in points])
    weight = np.exp(epsilon * depth / 2)
    values = np.asarray(release(estimator, rows, PureDP(epsilon), rng=rng(), repeats=20_000))
    found = [np.all(values == point, axis=1).sum() for point in points]
    assert sum(found) == 20_000
    assert stats.chisquare(found, 20_000 * weight / weight.sum()).pvalue > 1e-6


def test_outliers_hardly_move_it() -> None:
    rows = rng().normal(size=(400, 2))
    rows[:100] = 1e9
    estimator = TukeyMedian(lower=-5, upper=5, resolution=0.25)
    assert np.abs(np.asarray(release(estimator, rows, PureDP(1.0), rng=rng()))).max() < 1.5


def test_the_error_of_the_docstring() -> None:
    """Check 19.5/(epsilon n) for normal records, within 15% and the noise of 150 trials."""
    n, epsilon, law = 4000, 0.03, MultivariateGaussian(d=2)
    estimator = TukeyMedian(lower=-0.8, upper=0.8, resolution=0.05, directions=8)
    estimate = estimator.run(law.sample(rng(), 150, n), Ledger(PureDP(epsilon), rng()))
    error = np.linalg.norm(estimate.value - law.target, axis=1)
    mean = 2 * 2 * np.sqrt(2 * np.pi) / (epsilon * n)  # the mean of a Gamma(2) radius
    assert error.mean() == pytest.approx(mean, rel=0.25)
    assert 3.8897 * 2 * np.sqrt(2 * np.pi) == pytest.approx(19.5, abs=0.01)


def test_an_audit_detects_a_wrong_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator, budget = TukeyMedian(lower=-1, upper=1, resolution=0.05), PureDP(2.0)
    (pair,) = estimator.audit_pairs(60, None, budget)

    def refuted(one: Pair) -> bool:
        audit = audit_pair(estimator, budget, one, runs=8000, failure_probability=1e-6, rng=rng())
        return audit.verdict == "refuted"

    assert not refuted(pair)
    stated = Ledger.sensitivity_for_relation
    monkeypatch.setattr(Ledger, "sensitivity_for_relation", lambda self, s: stated(self, s) / 2)
    assert refuted(pair)


def test_what_is_refused() -> None:
    estimator = TukeyMedian(lower=-1, upper=1, resolution=0.001)
    for d, message in ((2, "more than 20,000 points in 2 coordinates"), (4, "at most 3 coord")):
        with pytest.raises(ValueError, match=message):
            release(estimator, np.zeros((9, d)), PureDP(1.0), rng=rng())
