r"""Mean clipped at private quantiles, and its guarantee for every dataset.

**Privacy.** The bounds l <= u spend a share of the budget, and the mean of the n records clipped to
[l, u] spends the rest, at sensitivity (u - l)/n. Given l and u, a replaced record moves its clipped
value by at most u - l. So the costs add up (adaptive composition).

**Choice of the clipped records.** Let m records lie beyond each bound, and let the noise of the
mean have the 0.9 quantile A (u - l)/n; A is ln(10)/epsilon for Laplace noise.

1. Clipping m records on a side moves the sum by at most m times the distance from the bound to the
   extreme record. So at m = A clipping bias and noise are together at most A D/n, where D is the
   largest minus the smallest record. The argument is from HLY21, in d dimensions. Fewer records
   do not reduce this bound, because the noise stays. More records may raise it.
2. The bounds are noisy. Let c be the smallest number of records for which

       P(l or u has fewer than A records beyond, although m = A + c are asked for) <= beta

   holds for each bound, up to the distance of two points of the search. Sparse vector technique,
   exponential noise of scale b = 3/epsilon: let e be the first edge with at most A records beyond.
   The search goes past e only if Z - Z' > c for two independent noises, and

       P(Z - Z' > c) = e^(-c/b)/2,  so  c = b ln(1/(2 beta)).

   (For Laplace noise and beta = 0.1 the probability at this c is at most 0.181.) Exponential
   mechanism at resolution h in a range of length R: the score is at most -c in the points h or more
   beyond the place with A records beyond. Score 0 fills an interval of length at least h. So the
   probability is at most (R/h) e^(-epsilon c/2), and c = (2/epsilon) ln(R/(h beta)).
3. The rule `level=None` takes m = A + c with beta = 0.1, but at most n/4.

The exponential mechanism needs more records, because its range is long in comparison with the gaps
between records. If the bounds have the budget epsilon together, c is 37/epsilon for R/h = 1000, and
4.8/epsilon for the sparse vector technique. (Each of the two exponential mechanisms has epsilon/2.)

**Bias.** A fixed level q clips q n records at each end. For a skewed distribution the two biases do
not cancel, and no n removes their difference. With the rule, m/n falls like 1/(epsilon n), and the
bias vanishes with growing n. The estimator is also biased at every n for skewed records.

**Guarantee for each dataset** (the idea of DKSS23; the proof and its constants are ours). Let the
sorted dataset be x_1 <= ... <= x_n with mean mu. Let T_K and B_K be the distances by which the
mean moves if the K largest, or the K smallest, records are replaced by the mean of the others. No
private estimator has an error below max(T_K, B_K)/2 on all datasets from which K records or fewer
were removed in this way; K is about 3.2/epsilon (`dpbench.theory.bounds.subsets`). Suppose that at
least K and at most M >= K records lie beyond each of l and u, and that u is at least the mean
without the K largest records, and l at most the mean without the K smallest.

1. Bias. The M largest records exceed u by at most M/K times as much as the K largest, in sum. The
   latter exceed u by at most n T_K. So the bias is at most (M/K) max(T_K, B_K).
2. Noise. u is at most the mean of the K largest records, and l at least the mean of the K smallest.
   So u - l <= (n/K)(T_K + B_K), and A (u - l)/n <= 2 (A/K) max(T_K, B_K).
3. Together the error against mu is at most (2 M + 4 A)/K times the lower bound. Both A and the
   expected M are multiples of 1/epsilon, up to a logarithm of the number of edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, RecordsInBox
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import ErrorBound, noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.geometric_histogram import GeometricGrid, private_bounds_by_sparse_vector
from dpbench.privacy.histogram import smallest_passing
from dpbench.privacy.ledger import ThresholdNoise
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["QuantileClippedMean"]

BETA = 0.1  # beta of the rule for the number of clipped records
MAX_CLIPPED = 0.25  # largest share of the records beyond each bound under the rule
POINTS = 1000  # default number of resolutions in the range of the exponential mechanism
LARGEST_EDGE = 1e300
TAIL = 100.0  # distance of the tails from 0 in audits, without public bounds


@validated
class QuantileClippedMean(Estimator):
    """Mean clipped at private quantiles: a private winsorised mean (D23, RS25).

    Theorem numbers of D23 and RS25 were not checked. OpenDP's documentation recommends bounds at
    the 0.05 and 0.95 quantiles. The steps are:

    1. With `share` of the budget, release a lower and an upper bound, each with about m records
       beyond it: by the sparse vector technique on a geometric grid
       (`private_bounds_by_sparse_vector`), or by the exponential mechanism (`private_quantile`).
       If noise puts the lower above the upper one, swap them. Move both into the public bounds.
    2. With the rest, clip the n records to the bounds, average, and add noise of sensitivity
       (upper - lower)/n.

    `dpbench.estimators.quantile_clipped` derives the privacy and the rule for m. With this rule
    (`level` null) the estimator is subset-optimal: on every dataset its error is at most a
    logarithmic factor above a lower bound for the dataset (DKSS23).

    The estimator is biased for skewed distributions. At a fixed level the bias does not vanish.

    With too few records, noise may end the sparse vector technique at any edge of the grid. Let n
    be the number of records, b the scale of the noises, and E the number of edges, 2 max_power, of
    a search. At an edge before all records the count is 0. There the search ends with probability
    at most e^(-(n - m)/b)/2, or (2 + v) e^-v/4 at v = (n - m)/b for Laplace noise. Without both
    public bounds nothing is released (NaN) if 2 E times this probability exceeds 0.1. This means
    fewer than about 90/epsilon records by default. With both bounds a value is always released.
    Then the error is at most upper - lower before the last noise.

    Parameters
    ----------
    search : {'sparse_vector', 'exponential'}
        Mechanism that finds the bounds. ``sparse_vector`` needs no public bounds.
        ``exponential`` needs both, and loses accuracy if they are far apart.
    level : float in (0, 0.5), optional
        Share of the records beyond each bound. By default m = A + c records, a number of order
        1/epsilon at which bias and noise balance.
    share : float in (0, 1)
        Share of the budget that pays for the bounds.
    lower, upper : float, optional
        Public bounds on the records, in the unit of the data. Each may be left out for
        ``sparse_vector``.
    resolution : float > 0, optional
        Error of the bounds that does not matter, in the unit of the data, for ``exponential`` only;
        by default (upper - lower)/1000.
    unit : float > 0
        Unit u of the grid, in the unit of the data. Near 0 its edges are about (base - 1) u apart.
        Take a fraction of the spread of the records; a smaller unit costs only a logarithm.
    base : float > 1
        Growth of the grid: its edges are 0 and +-u (base^j - 1). Far from 0, bounds are too wide by
        a factor of up to `base`.
    max_power : int
        Largest j. Records beyond the last edge are clipped; by default this is at 1.3e12 u.
    noise : {'exponential', 'laplace'}
        Noise of the sparse vector technique.
    """

    search: Literal["sparse_vector", "exponential"] = "sparse_vector"
    level: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    share: Probability = 0.5
    lower: ErrorBound | None = None
    upper: ErrorBound | None = None
    resolution: Annotated[float, Field(gt=0, le=1e300)] | None = None
    unit: Annotated[float, Field(ge=1e-300, le=1e300)] = 0.001
    base: Annotated[float, Field(gt=1, le=1000)] = 1.01
    max_power: Annotated[int, Field(ge=1, le=100_000)] = 3500
    noise: ThresholdNoise = "exponential"

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        low, high = self._public_bounds
        if not low < high:
            raise ValueError(f"upper must exceed lower, got [{low}, {high}]")
        if self.search == "exponential" and not np.isfinite([low, high]).all():
            raise ValueError(
                "the search `exponential` needs lower and upper; give both, or search=sparse_vector"
            )
        if self.search != "exponential" and self.resolution is not None:
            raise ValueError("resolution is for search=exponential only; leave it out")
        if np.log(self.unit) + self.max_power * np.log(self.base) > np.log(LARGEST_EDGE):
            raise ValueError(
                f"the last edge unit base^max_power is above {LARGEST_EDGE:g}; "
                "take a smaller unit, base or max_power"
            )
        return self

    @property
    def _public_bounds(self) -> tuple[float, float]:
        return (
            -np.inf if self.lower is None else self.lower,
            np.inf if self.upper is None else self.upper,
        )

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        if self.lower is None or self.upper is None:
            return ()
        return (RecordsInBox(self.lower, self.upper),)

    def count_clipped(self, n: int, search: Budget, fine: Budget) -> float:
        """Return the number m of records that should lie beyond each bound.

        The budget `search` is for the two bounds together, and `fine` is for the mean.
        """
        if self.level is not None:
            return self.level * n
        if self.search == "sparse_vector":
            slack = 3 / search.pure_epsilon * np.log(1 / (2 * BETA))
        else:
            epsilon = search.fraction(0.5).exponential_epsilon
            slack = 2 / epsilon * np.log(self._width / (self._resolution * BETA))
        return float(min(fine.noise_quantile(BETA) + slack, MAX_CLIPPED * n))

    @property
    def _width(self) -> float:
        low, high = self._public_bounds
        return high - low

    @property
    def _resolution(self) -> float:
        return self._width / POINTS if self.resolution is None else self.resolution

    def working_records(self, d: int, budget: Budget) -> int:
        parts = budget.fraction(self.share), budget.fraction(1 - self.share)
        return smallest_passing(lambda n: self._ends_anywhere(n, *parts))

    def _ends_anywhere(self, n: int, search: Budget, fine: Budget) -> bool:
        """Return whether noise may end a search before all records, without public bounds."""
        if self.search == "exponential" or np.isfinite(self._public_bounds).all():
            return False
        scales = (n - self.count_clipped(n, search, fine)) * search.pure_epsilon / 3
        factor = 0.5 if self.noise == "exponential" else (2 + scales) / 4
        return bool(4 * self.max_power * factor * np.exp(-scales) > BETA)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(self.share, 1 - self.share)
        m = self.count_clipped(sample.n, coarse.budget, fine.budget)
        ends = np.clip(self._search_bounds(sample, m, coarse), *self._public_bounds)
        low, high = ends.min(axis=0), ends.max(axis=0)
        failed = self._ends_anywhere(sample.n, coarse.budget, fine.budget)
        centre = np.full_like(low, np.nan) if failed else low / 2 + high / 2
        return noisy_clipped_mean(sample, centre, high / 2 - low / 2, fine)

    def _search_bounds(self, sample: Sample, m: float, ledger: Ledger) -> Floats:
        """Release a lower and an upper bound, (2, trials), and spend the ledger."""
        if self.search == "sparse_vector":
            grid = GeometricGrid(1, self.max_power, self.base, self.unit, offset=1.0)
            return np.stack(
                private_bounds_by_sparse_vector(sample, grid, m, ledger, noise=self.noise)
            )
        levels = m / sample.n, 1 - m / sample.n
        found = [
            private_quantile(sample, q, *self._public_bounds, self._resolution, part)
            for q, part in zip(levels, ledger.split(0.5, 0.5), strict=True)
        ]
        return np.stack(found)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # About m records are in each tail. The replaced record moves from one tail to the other.
        # So it moves the counts of both searches between the tails, where they are near the
        # threshold, and if a bound is in a tail, it moves the clipped mean by the whole width.
        low, high = (
            far if np.isinf(end) else end
            for end, far in zip(self._public_bounds, (-TAIL, TAIL), strict=True)
        )
        m = self.count_clipped(n, budget.fraction(self.share), budget.fraction(1 - self.share))
        tail = min(max(int(m), 1), (n - 1) // 2)
        centre, step = low / 2 + high / 2, (high / 2 - low / 2) / 100
        middle = centre + step * (-1.0) ** np.arange(n - 2 * tail)
        records = np.concatenate([np.full(tail, low), middle, np.full(tail, high)])
        return [Pair.replacing("from_tail_to_tail", records, 0, high)]
