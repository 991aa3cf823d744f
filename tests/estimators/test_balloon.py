"""The balloon mean against a loop, its budget, and its resistance to outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.estimators import BalloonMean
from dpbench.privacy import ZCDP, Ledger
from dpbench.samples import DenseSample
from tests.support import Floats, rng, run

SURE = ZCDP(1e6)  # next to no noise


def project(records: Floats, centre: Floats, radius: float) -> Floats:
    """Return the mean of records, projected one by one on a ball."""
    projected = []
    for record in records:
        length = float(np.linalg.norm(record - centre))
        projected.append(centre + (record - centre) * min(1.0, radius / length))
    return np.asarray(np.mean(projected, axis=0))


def smallest_radius(lengths: Floats, sigma: float, growth: float, count: float) -> float:
    """Return the first radius sigma growth^i within which so many lengths are."""
    radius = sigma
    while np.sum(lengths <= radius) < count:
        radius *= growth
    return radius


def test_by_a_loop() -> None:
    """The shares are between two counts, so that the small noise decides nothing."""
    x = 3 + 2 * rng().standard_normal((3, 201, 4))
    estimator = BalloonMean(radius=9.0, sigma=2.0, inside=[0.9, 0.6], growth=1.05)
    estimate = run(estimator, x, SURE)
    for records, value in zip(x, estimate.value, strict=True):
        centre = project(records, np.zeros(4), 9.0)
        for share in (0.9, 0.6):
            lengths = np.linalg.norm(records - centre, axis=1)
            radius = smallest_radius(lengths, 2.0, 1.05, share * 201)
            centre = project(records, centre, radius)
        np.testing.assert_allclose(value, centre, atol=1e-3)


@pytest.mark.parametrize("radius", [0.1, 1.0, 50.0, 1e100])
def test_the_radii_of_the_search(radius: float) -> None:
    radii = BalloonMean(radius=radius, sigma=0.5, growth=1.01).radii()
    assert radii[0] == 0.5
    assert radii[-1] == pytest.approx(max(2 * radius, 0.5))
    assert np.all(np.diff(radii) > 0)
    np.testing.assert_allclose(radii[1:-1] / radii[:-2], 1.01)
    assert radius < 1 or radii[-1] / radii[-2] <= 1.01 * (1 + 1e-12)


def test_what_each_step_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means pay for diameters: 2R/n for the first, and 2r/n for the radius r of every round."""
    means, searches, chosen = list[Any](), list[Any](), list[Floats]()
    add_noise, above_threshold = Ledger.add_noise, Ledger.above_threshold
    estimator = BalloonMean(radius=9.0, sigma=1.0, inside=[0.9, 0.7, 0.5])

    def noise(self: Ledger, values: Floats, sensitivity: Any) -> Floats:
        means.append((self.budget.amounts[0], sensitivity))
        return add_noise(self, values, sensitivity)

    def search(self: Ledger, counts: Floats, *rest: Any, **options: Any) -> Any:
        searches.append((self.budget.amounts[0], *rest))
        index = above_threshold(self, counts, *rest, **options)
        chosen.append(estimator.radii()[index])
        assert np.all(np.diff(counts) >= 0)
        return index

    monkeypatch.setattr(Ledger, "add_noise", noise)
    monkeypatch.setattr(Ledger, "above_threshold", search)
    run(estimator, rng().standard_normal((2, 80, 4)), ZCDP(1.0))
    assert [rho for rho, _ in means] == pytest.approx([0.1, 0.15, 0.15, 0.15])
    assert searches == [(pytest.approx(0.15), 1.0, share * 80) for share in (0.9, 0.7, 0.5)]
    for (_, sensitivity), radius in zip(means, [np.full(2, 9.0), *chosen], strict=True):
        np.testing.assert_allclose(sensitivity[:, 0], 2 * radius / 80)


@pytest.mark.parametrize(("inside", "resists"), [(0.7, True), (0.95, False)])
def test_outliers_up_to_the_share_outside(inside: float, resists: bool) -> None:
    """A fifth of the records is 1,000 away; the clean records have norms of about 2."""
    x = rng().standard_normal((1, 1000, 4))
    x[:, :200, 0] += 1000.0
    estimator = BalloonMean(radius=2000.0, sigma=1.0, inside=[inside] * 10)
    error = np.linalg.norm(run(estimator, DenseSample(x), ZCDP(1e4)).value)
    assert (error < 2) == resists


def test_the_value_before_noise_lacks_the_last_noise_only(monkeypatch: pytest.MonkeyPatch) -> None:
    noises, add_noise = list[Floats](), Ledger.add_noise

    def noise(self: Ledger, values: Floats, sensitivity: Any) -> Floats:
        noisy = add_noise(self, values, sensitivity)
        noises.append(noisy - values)
        return noisy

    monkeypatch.setattr(Ledger, "add_noise", noise)
    estimate = run(BalloonMean(radius=9.0, sigma=1.0), rng().standard_normal((2, 80, 4)), ZCDP(1.0))
    np.testing.assert_allclose(estimate.value - estimate.before_noise, noises[-1], atol=1e-12)
