"""The estimators that apply to a problem, and how far off each is: computed or simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats, Ints
from dpbench.planner.prediction import AnyLaw, Clip, KnownLaw, Moments, Problem
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import under_replacement
from dpbench.samples import CountedSample, DenseSample, Sample
from dpbench.theory.bounds.numbers import two_point_lower_bound
from dpbench.theory.bounds.of_class import Bound, class_bound, heavy_tailed

__all__ = ["Candidate", "Ranked", "limit", "ranked"]

TRIALS = 400
MOST_DRAWN = 1_000_000  # records that are drawn one by one; of more, how many are near each atom


@dataclass(frozen=True)
class Candidate:
    """An estimator of (records - centre)/unit."""

    assumes: str
    estimator: est.Estimator
    centre: float = 0.0
    unit: float = 1.0
    clip: Clip | None = None  # of what is such a clip, with noise


class Ranked(NamedTuple):
    """An estimator, what it assumes, and its error's 0.9 quantile with a 95% interval.

    `how` is 'exact' for what is computed, without an interval; infinite for what releases nothing.
    `by` is what released it.
    """

    estimator: str
    assumes: str
    q90: float
    low: float
    high: float
    how: str
    by: Candidate


@dataclass(frozen=True)
class _Drawn:
    """Datasets of a law, and what their means are compared with."""

    values: Floats
    counts: Ints | None
    target: float

    def sample(self, one: Candidate) -> Sample:
        """In the units of a candidate."""
        values = (self.values - one.centre) / one.unit
        return DenseSample(values) if self.counts is None else CountedSample(values, self.counts)

    def moved(self, by: float) -> _Drawn:
        """The same with another mean."""
        return _Drawn(self.values + by, self.counts, self.target + by)


def _candidates(
    problem: Problem, law: dist.Distribution | None, clip: Clip, budget: Budget
) -> Iterator[Candidate]:
    """All that suit the problem, whatever the notion."""
    low, high = problem.low, problem.high
    bounded = bool(np.isfinite(low) and np.isfinite(high))
    kinds: list[Callable[..., est.Estimator]] = [est.ClippedMean]
    if budget.neighbours == "add_remove":
        kinds = [est.TransformedNoiseMean, est.SumAndCountMean]
    ends = {"the clip": clip}
    if bounded and not isinstance(problem, Moments) and clip != (low, high):
        ends["the bounds"] = (low, high)
    for kind in kinds:
        for which, (a, b) in ends.items():
            exact = (a, b) if kind is not est.SumAndCountMean else None
            knows = _knows(problem) if isinstance(problem, Moments) else f"records within {which}"
            yield Candidate(knows, kind(lower=a, upper=b), clip=exact)
    if bounded and not isinstance(problem, Moments):
        inverse = est.InverseSensitivity(lower=low, upper=high)
        yield Candidate("records within the bounds", inverse)
        yield Candidate("the same, far bounds", est.SmoothTrimmedMean(lower=low, upper=high))
    yield Candidate("nothing; 0 if in doubt", est.UniversalMean())
    yield Candidate("nothing", est.ApproximateBoundsMean())
    if not isinstance(problem, AnyLaw):
        yield from _by_moments(problem, isinstance(law, dist.Gaussian), bounded)


def _knows(problem: Problem) -> str:
    k = problem.k if isinstance(problem, Moments) else 2
    where = ", mean in the bounds" if np.isfinite(problem.high - problem.low) else ""
    return f"moment {k:g}{where}"


def _by_moments(problem: Problem, gaussian: bool, bounded: bool) -> Iterator[Candidate]:
    """Those that know a moment, with the mean in the bounds or anywhere."""
    k, unit = (problem.k, problem.scale) if isinstance(problem, Moments) else (2.0, problem.sd)
    if not np.isfinite(unit):
        return
    unit = float(f"{unit:.4g}")  # as a user writes it
    centre = (problem.low + problem.high) / 2 if bounded else 0.0
    radius = float(f"{1.0005 * (problem.high - problem.low) / (2 * unit):.4g}") if bounded else None
    knows = _knows(problem)
    anywhere = est.KSU20Mean(k=k, radius=radius, constants="tuned")
    yield Candidate(knows, anywhere, centre, unit)
    bell = "Gaussian, mean in the bounds" if bounded else "Gaussian"
    if gaussian:
        yield Candidate(bell, est.KarwaVadhanMean(radius=radius), centre, unit)
    if radius is None:
        return
    yield Candidate(knows, est.HeavyTailedMean(k=k, radius=radius), centre, unit)
    local = est.LocalMean(k=k, radius=radius, mechanism="three_values")
    yield Candidate(f"moment {k:g}; no trusted curator", local, centre, unit)
    if gaussian:
        yield Candidate(bell, est.GaussianScoreMean(radius=radius), centre, unit)
        yield Candidate(bell, est.CoinPressMean(radius=radius), centre, unit)


def _hard(problem: AnyLaw | Moments, n: int, budget: Budget) -> Iterator[tuple[float, Clip]]:
    """Laws of a class: the chance of the second of two points, and these."""
    # also with means that are not in the middle, which some estimators believe without any data
    if isinstance(problem, AnyLaw):
        yield from ((p, (problem.low, problem.high)) for p in (0.5, 0.9, 1.0))
        return
    rare = two_point_lower_bound(n, problem.k, under_replacement(budget)).p_star
    for p in {min(0.5, times * rare) if rare > 0 else 0.5 for times in (1, 3, 10, 30, np.inf)}:
        one = dist.TwoPoint(p=p, k=problem.k)
        for mean in (problem.middle, problem.high):
            low = mean - problem.scale * one.mean
            yield p, (low, low + problem.scale * one.tau)


def _drawn(problem: Problem, law: dist.Distribution | None, n: int, budget: Budget) -> list[_Drawn]:
    """Datasets of the law; of a class those of hard ones."""
    rng = np.random.default_rng(0)
    if isinstance(problem, AnyLaw | Moments):
        found = []
        for p, (low, high) in _hard(problem, n, budget):
            counts = rng.binomial(n, p, TRIALS)
            both = np.stack([n - counts, counts], axis=1)
            found.append(_Drawn(np.array([low, high]), both, low + p * (high - low)))
        return found
    trials = max(TRIALS, min(5 * TRIALS, MOST_DRAWN // (10 * n)))
    if law is None or law.counted or n * TRIALS > MOST_DRAWN:
        counts = rng.multinomial(n, problem.weights, trials)
        return [_Drawn(problem.values, counts, problem.target)]
    sample = law.sample(rng, trials, n)
    assert isinstance(sample, DenseSample)
    return [_Drawn(sample.values, None, problem.target)]


def _simulated(one: Candidate, data: _Drawn, budget: Budget) -> tuple[float, float, float]:
    """The 0.9 quantile of the error, and order statistics around it."""
    ledger = Ledger(budget, np.random.default_rng(1))
    released = one.estimator.run(data.sample(one), ledger).value * one.unit + one.centre
    away = np.sort(np.where(np.isnan(released), np.inf, np.abs(released - data.target)))
    spread = 1.96 * float(np.sqrt(0.09 * away.size))
    ranks = np.ceil(0.9 * away.size + np.array([0, -spread, spread])).astype(int) - 1
    q90, low, high = away[np.clip(ranks, 0, away.size - 1)]
    return float(q90), float(low), float(high)


def ranked(
    problem: Problem, law: dist.Distribution | None, clip: Clip, n: int, budget: Budget
) -> list[Ranked]:
    """The estimators that apply, the best first.

    Parameters
    ----------
    problem : Problem
    law : Distribution, optional
        That of a `KnownLaw`, to draw from.
    clip : pair of float
        The planned one.
    n : int
    budget : Budget
    """
    rows, data, width = [], _drawn(problem, law, n, budget), clip[1] - clip[0]

    def places(one: Candidate) -> list[_Drawn]:
        # what releases 0 in doubt is not right because a law's mean is 0
        known = not isinstance(problem, AnyLaw | Moments)
        guesses = known and isinstance(one.estimator, est.UniversalMean)
        return [*data, *(each.moved(width) for each in data)] if guesses else data

    for one in _candidates(problem, law, clip, budget):
        if not one.estimator.supports(budget) or n < one.estimator.least_records(1, budget):
            continue
        name = one.estimator.kind_name()
        if one.clip and isinstance(problem, KnownLaw):
            q90 = problem.error(one.clip, n, budget).q90
            rows.append(Ranked(name, one.assumes, q90, q90, q90, "exact", one))
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            found = max(_simulated(one, each, budget) for each in places(one))
        rows.append(Ranked(name, one.assumes, *found, "simulated", one))
    return sorted(rows, key=lambda row: row.q90)


def limit(
    problem: Problem, law: dist.Distribution | None, n: int, budget: Budget
) -> tuple[Bound, str]:
    """What no private estimator beats on every law of a class, and the class in words."""
    promised = under_replacement(budget)
    if isinstance(problem, AnyLaw):
        found, unit = class_bound(dist.Bernoulli(p=0.5), n, promised), problem.high - problem.low
        words = "laws on the bounds"
    elif isinstance(law, dist.Gaussian | dist.Bernoulli):
        found, unit = class_bound(law, n, promised), 1.0
        words = "Gaussian laws of this sd" if isinstance(law, dist.Gaussian) else "coins"
    else:
        k, unit = (problem.k, problem.scale) if isinstance(problem, Moments) else (2.0, problem.sd)
        found = heavy_tailed(n, k, promised) if np.isfinite(unit) else Bound()
        words = f"laws of this moment of order {k:g}" if k != 2 else "laws of this sd"
    return Bound(unit * found.value, found.by), words
