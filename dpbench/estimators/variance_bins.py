"""Histogram of half squared differences over powers of two, and the probability of a wrong bin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtr, chdtrc

from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget
from dpbench.privacy.histogram import noise_on_all_bins, overtaking_probability
from dpbench.samples import Bins

__all__ = ["FULLEST", "MAX_SPARE", "PowersOfTwo", "spare_powers", "wrong_power_probability"]

# Probability of the bin [2^j, 2^(j+1)) that contains sigma^2, at least; see below.
FULLEST = float(chdtr(1, 2.0) - chdtr(1, 1.0))
MAX_SPARE = 8  # powers of two by which a clip is widened, at most
LISTED = 60  # low bins whose probabilities are bounded one by one


@dataclass(frozen=True)
class PowersOfTwo(Bins):
    """Histogram bins [2^j, 2^(j+1)) of non-negative numbers.

    The attributes `lower` and `upper` of `Bins` are base-2 logarithms here, and `width` is 1.
    """

    def index(self, values: Floats) -> Floats:
        return super().index(np.log2(np.maximum(values, np.finfo(float).tiny)))


def wrong_power_probability(
    budget: Budget, pairs: int, number: float, spare: int, miss: float
) -> float:
    """Return a bound on P(the released j has sigma^2 above 2^(j+2+spare) or below 2^(j-2)).

    The histogram has `number` bins [2^j, 2^(j+1)) and holds m = `pairs` independent y, each half a
    squared difference of two records, so y/sigma^2 ~ chi2_1. The clip of y is widened by `spare`
    >= 0 powers of two. `miss` is the probability that is acceptable to the caller, which may choose
    the kind of histogram. Let F be the distribution function of chi2_1, sigma^2 = u 2^i with u in
    [1, 2), and j = i + k.

    - The density of ln(y/sigma^2) rises up to 0 and falls from there. So the bin of k = 0, a window
      of width ln 2 around 0, is least likely at an end, u = 1: F(2) - F(1), `FULLEST`.
    - Low bins, k <= -2 - spare, are wrong. They are likeliest at u = 1, with the probability
      F(2^(k+1)) - F(2^k). The lowest bin of all does not count: if it is picked, the estimator
      releases NaN.
    - High bins, k >= 3, are wrong. Their probability is at most 1 - F(2^(k-1)), the limit u = 2 for
      all larger y, so that this holds for the last bin, too.

    `overtaking_probability` bounds the probability that a wrong bin wins against k = 0, and the
    bounds add up. A stability-based histogram releases no empty bin, so that m times the
    probability of a wrong bin is a bound, too.
    """
    k = np.arange(-2 - spare, -2 - spare - LISTED, -1)[: int(min(number, LISTED))]
    low = chdtr(1, np.exp2(k + 1.0)) - chdtr(1, np.exp2(k))
    high = chdtrc(1, np.exp2(np.arange(2, 12)))
    rest = float(chdtr(1, np.exp2(k[-1])))  # of all further bins together
    each = np.concatenate([low, high, [rest]])
    wins = overtaking_probability(budget, pairs, FULLEST, each)
    wins[-1] *= max(number - LISTED, 1.0)  # the further bins, each with less than `rest`
    if isinstance(budget, ApproxDP) and not noise_on_all_bins(
        budget, number, FULLEST * pairs, miss
    ):
        wins = np.minimum(wins, pairs * each)
    return float(min(wins.sum(), 1.0))


@lru_cache(maxsize=1000)  # a search of n asks again for most of its numbers, and so does every run
def spare_powers(budget: Budget, pairs: int, number: float, miss: float) -> tuple[int, float]:
    """Return the fewest powers of two by which to widen a clip, and the bound on a wrong bin then.

    With them the bound `wrong_power_probability` is at most `miss`. If even `MAX_SPARE` powers do
    not help, the returned bound is above `miss`, and the histogram has too few records.
    """
    for spare in range(MAX_SPARE + 1):
        wrong = wrong_power_probability(budget, pairs, number, spare, miss)
        if wrong <= miss:
            break
    return spare, wrong
