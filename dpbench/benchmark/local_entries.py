"""Entries of the archive in the local model: every record is released alone.

Each entry is a `OneRecord`, as an entry of a file has to be. Notation: t = tanh(epsilon/2), for the
largest epsilon of a pure-DP mechanism that the budget of a record can pay for.

- Binary records (W65): a record is reported as it is with probability (1 + t)/2, and otherwise
  flipped. The ratio of the two probabilities is e^epsilon. The mean share of ones among the reports
  is 1/2 + t (p - 1/2), which is solved for p. The variance is at most 1/(4 t^2 n).
- Gaussian records (KS25): `dpbench.estimators.randomized_response_sign` has the derivation.
- Bounded moments (DJW13): a report is 1, 0 or -1, with the probabilities of `three_values` for the
  clipped distance of the record from a centre. The first quarter of the records finds a centre
  within the public radius. The other records have this centre and a narrower clip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.special import ndtri

from dpbench.arrays import Floats
from dpbench.estimators import OneRecord
from dpbench.estimators.heavy_tailed import LocalMean
from dpbench.estimators.local_votes import three_values
from dpbench.estimators.public import Public
from dpbench.estimators.randomized_response_sign import RandomizedResponseSignMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.registry import validated

__all__ = ["LOCAL_ENTRIES"]

Found = Sequence[Floats]
CENTRE_SDS = 4  # distance of the found centre from the mean, in standard deviations, at most


class _Local(OneRecord):
    notions = (PureDP, ZCDP, GDP, ApproxDP)


@validated
class _RandomizedResponseMean(_Local):
    """Mean of records 0 and 1 by randomised response (W65)."""

    def report(self, x: Floats, found: Found, budget: Budget, rng: np.random.Generator) -> Floats:
        return np.asarray((x > 0.5) ^ (rng.random(x.shape) < (1 - _bias(budget)) / 2))

    def combine(self, reports: Floats, found: Found, budget: Budget) -> Floats:
        return np.asarray(0.5 + (reports.mean(axis=1) - 0.5) / _bias(budget))


@validated
class _SignMean(_Local):
    """Mean of Gaussians by randomised response of signs, in rounds (KS25)."""

    radius: float
    sigma: float

    @property
    def halvings(self) -> int:
        """Number of rounds that halve the range of the mean."""
        return int(np.ceil(np.log2(max(self.radius / self.sigma, 1.0))))

    def least_records(self, d: int, budget: Budget) -> int:
        return 2 * self.halvings + 8

    def rounds(self, n: int, budget: Budget) -> Sequence[int]:
        law = RandomizedResponseSignMean(radius=self.radius, sigma=self.sigma)
        halvings, first = law.sizes(n, budget)
        return [*halvings, *([first] * bool(first)), n - first - sum(halvings)]

    def report(self, x: Floats, found: Found, budget: Budget, rng: np.random.Generator) -> Floats:
        above = x >= (found[-1] if found else 0.0)
        return np.asarray(above ^ (rng.random(x.shape) < (1 - _bias(budget)) / 2))

    def combine(self, reports: Floats, found: Found, budget: Budget) -> Floats:
        centre, m = found[-1] if found else np.zeros(len(reports)), reports.shape[1]
        share, width = reports.mean(axis=1), self.radius / 2 ** (len(found) + 1)
        if len(found) < self.halvings:
            return np.asarray(centre + np.where(share > 0.5, width, -width))
        score = np.clip((2 * share - 1) / _bias(budget), 1 / m - 1, 1 - 1 / m)
        return np.asarray(centre + self.sigma * ndtri((1 + score) / 2))


@validated
class _VotesMean(_Local):
    """Mean under a bounded moment of order k by votes up, down or not at all (DJW13)."""

    radius: float
    k: float
    n: int

    def rounds(self, n: int, budget: Budget) -> Sequence[int]:
        return [n // 4, n - n // 4]

    def clip(self, found: Found, budget: Budget) -> float:
        """Return the largest distance from the centre that a report of this round tells."""
        return _list_clips(self.radius, self.k, self.n, budget)[len(found)]

    def report(self, x: Floats, found: Found, budget: Budget, rng: np.random.Generator) -> Floats:
        low, high = three_values(budget)
        off = (x - found[-1] if found else x) / self.clip(found, budget)
        up, down = (low + (high - low) * np.clip(side, 0, 1) for side in (off, -off))
        draw = rng.random(x.shape)
        return np.asarray((draw < up) * 1.0 - (draw > 1 - down))

    def combine(self, reports: Floats, found: Found, budget: Budget) -> Floats:
        low, high = three_values(budget)
        mean = reports.mean(axis=1) * self.clip(found, budget) / (high - low)
        return np.asarray(mean + found[-1] if found else np.clip(mean, -self.radius, self.radius))


@cache
def _list_clips(radius: float, k: float, n: int, budget: Budget) -> tuple[float, ...]:
    """Return the clips of both rounds of `_VotesMean`."""
    clips, (low, high) = list[float](), three_values(budget)
    for m in (n // 4, n - n // 4):
        law = LocalMean(k=k, scale=1.0, radius=radius, mechanism="three_values")
        clips.append(radius + law.clipping_threshold(m, budget))
        radius = float(CENTRE_SDS * clips[-1] / (high - low) * np.sqrt((low + high) / m))
    return tuple(clips)


def _bias(budget: Budget) -> float:
    return float(np.tanh(budget.pure_epsilon / 2))


def _binary(public: Public) -> OneRecord | None:
    return _RandomizedResponseMean() if public.local and public.records == "binary" else None


def _gaussian(public: Public) -> OneRecord | None:
    if not public.local or public.records != "gaussian" or not public.radius or not public.scale:
        return None
    return _SignMean(radius=public.radius, sigma=public.scale)


def _moments(public: Public) -> OneRecord | None:
    if not public.local or public.records != "moments" or not public.radius or not public.n:
        return None
    return _VotesMean(radius=public.radius, k=public.k or 2.0, n=public.n)


# Paper, and function from public knowledge to an estimator, by the name of the entry.
LOCAL_ENTRIES: dict[str, tuple[str, Callable[[Public], OneRecord | None]]] = {
    "randomized_response_mean": ("W65", _binary),
    "randomized_response_sign_mean": ("KS25", _gaussian),
    "local_mean": ("DJW13", _moments),
}
