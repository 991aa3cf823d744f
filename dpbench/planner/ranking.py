"""Rank the estimators that apply to a problem by their error, computed or simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats, Ints
from dpbench.estimators.catalogue import Use, uses
from dpbench.estimators.public import Public
from dpbench.planner.prediction import (
    BoundedMoment,
    BoundedRecords,
    Clip,
    KnownDistribution,
    Problem,
)
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import under_replacement
from dpbench.samples import CountedSample, DenseSample, Sample
from dpbench.theory.bounds.class_bound import ErrorBound, class_bound, heavy_tailed
from dpbench.theory.bounds.numbers import two_point_lower_bound

__all__ = ["Candidate", "Ranked", "limit", "ranked"]

TRIALS = 400  # simulated releases per estimator
SLOW_TRIALS = 100  # simulated releases of a slow estimator with over `MOST_DRAWN` records in all
MOST_DRAWN = 1_000_000  # with more records, counts of atoms are drawn instead of single records


@dataclass(frozen=True)
class Candidate:
    """Entry of the catalogue and its estimator for standardised records.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    use : Use
        Entry of the catalogue.
    assumes : str
        Assumption about the records, in words.
    estimator : Estimator
        Estimator of the mean of (records - centre)/unit.
    centre, unit : float
        Public centre and unit of the standardisation; 0 and 1 by default.
    binary : bool
        Whether the records are 0 or 1.
    """

    name: str
    use: Use
    assumes: str
    estimator: est.Estimator
    centre: float = 0.0
    unit: float = 1.0
    binary: bool = False

    @property
    def clip(self) -> Clip | None:
        """Clip for which `KnownDistribution` computes the error; None if the estimator has none."""
        one = self.estimator
        if not isinstance(one, est.ClippedMean | est.TransformedNoiseMean):
            return None
        assert one.lower is not None
        assert one.upper is not None
        return one.lower, one.upper


class Ranked(NamedTuple):
    """Estimator, its assumption, and the 0.9 quantile of its error.

    Parameters
    ----------
    estimator : str
        Name in the catalogue.
    assumes : str
        Assumption about the records, in words.
    q90 : float
        0.9 quantile of the absolute error, in the unit of the records; infinite if more than a
        tenth of the trials release nothing.
    low, high : float
        95% interval of `q90`; both equal to it if it is computed.
    how : {'exact', 'simulated'}
        Origin of `q90`.
    trials : int
        Simulated releases per distribution; 0 if `q90` is computed.
    by : Candidate
        Estimator with its standardisation.
    """

    estimator: str
    assumes: str
    q90: float
    low: float
    high: float
    how: str
    trials: int
    by: Candidate


@dataclass(frozen=True)
class _Drawn:
    """Simulated datasets of one distribution, and the target of their means."""

    values: Floats
    counts: Ints | None
    target: float

    def sample(self, one: Candidate) -> Sample:
        """Return the datasets, standardised by the centre and unit of a candidate."""
        values = (self.values - one.centre) / one.unit
        return DenseSample(values) if self.counts is None else CountedSample(values, self.counts)

    def moved(self, by: float) -> _Drawn:
        """Return these datasets, shifted by `by`."""
        return _Drawn(self.values + by, self.counts, self.target + by)

    def first(self, trials: int) -> _Drawn:
        """Return the first `trials` datasets."""
        if self.counts is None:
            return _Drawn(self.values[:trials], None, self.target)
        return _Drawn(self.values, self.counts[:trials], self.target)

    @property
    def trials(self) -> int:
        """Number of datasets."""
        return len(self.values if self.counts is None else self.counts)


@dataclass(frozen=True)
class _Known:
    """Public knowledge about (records - centre)/unit, and its description."""

    public: Public
    words: str
    centre: float = 0.0
    unit: float = 1.0

    def assumed_by(self, use: Use) -> str:
        """Return the assumption of an estimator in words."""
        if self.public.local:
            return f"{self.words}; no trusted curator"
        placed = use.uses_radius and self.public.radius is not None
        guess = "" if use.guess is None else f"; fallback {use.guess:g}"
        return f"{self.words}{', mean in the bounds' if placed else ''}{guess}"


def _known(
    problem: Problem, law: dist.Distribution | None, clip: Clip, n: int, budget: Budget
) -> Iterator[_Known]:
    """Yield the public knowledge about the records, the weakest assumption first."""
    bounds = (problem.low, problem.high)
    ends = {"the bounds" if clip == bounds else "the clip": clip}
    if bool(np.isfinite(bounds).all()) and not isinstance(problem, BoundedMoment):
        ends["the bounds"] = bounds
    about = partial(Public, n, 1, budget)
    for which, pair in ends.items():
        words = f"records within {which}"
        if isinstance(problem, BoundedMoment):
            words = f"{_moment_words(problem)}, mean in the bounds"
        yield _Known(about(False, "bounded", bounds=pair), words)
    yield _Known(about(False, "any"), "nothing")
    if not isinstance(problem, BoundedRecords):
        for local in (False, True):
            yield from _by_moments(problem, law, partial(about, local))
    if isinstance(law, dist.Bernoulli):
        yield _Known(about(False, "binary"), "records 0 or 1")


def _moment_words(problem: Problem) -> str:
    return f"moment {problem.k if isinstance(problem, BoundedMoment) else 2:g}"


def _by_moments(
    problem: Problem, law: dist.Distribution | None, about: Callable[..., Public]
) -> Iterator[_Known]:
    """Yield knowledge of a moment, and of normality; the mean is bounded if the bounds are."""
    k, unit = (
        (problem.k, problem.scale) if isinstance(problem, BoundedMoment) else (2.0, problem.sd)
    )
    if not np.isfinite(unit):
        return
    unit = float(f"{unit:.4g}")  # short, because the printed code contains it
    bounded = bool(np.isfinite(problem.low) and np.isfinite(problem.high))
    centre = (problem.low + problem.high) / 2 if bounded else 0.0
    radius = float(f"{1.0005 * (problem.high - problem.low) / (2 * unit):.4g}") if bounded else None
    moments = about("moments", k=k, radius=radius)
    yield _Known(moments, _moment_words(problem), centre, unit)
    if isinstance(law, dist.Gaussian):
        yield _Known(about("gaussian", scale=1.0, radius=radius), "Gaussian", centre, unit)


def _candidates(known: Sequence[_Known]) -> Iterator[Candidate]:
    """Yield the estimators of the catalogue that apply, each under its weakest assumption."""
    for name, kind, use in uses():
        made = [(one, use.estimator(kind, one.public)) for one in known]
        apply = [(one, found) for one, found in made if found is not None]
        for one, found in apply:
            records = one.public.records
            if records == apply[0][0].public.records:
                about = (one.assumed_by(use), found, one.centre, one.unit, records == "binary")
                yield Candidate(name, use, *about)


def _hard(
    problem: BoundedRecords | BoundedMoment, n: int, budget: Budget
) -> Iterator[tuple[float, Clip]]:
    """Yield hard two-point distributions of a class: P(second point), and the two points."""
    # Some means are off the middle, because some estimators release the middle without any data.
    if isinstance(problem, BoundedRecords):
        yield from ((p, (problem.low, problem.high)) for p in (0.5, 0.9, 1.0))
        return
    rare = two_point_lower_bound(n, problem.k, under_replacement(budget)).p_star
    for p in {min(0.5, times * rare) if rare > 0 else 0.5 for times in (1, 3, 10, 30, np.inf)}:
        one = dist.TwoPoint(p=p, k=problem.k)
        for mean in (problem.middle, problem.high):
            low = mean - problem.scale * one.mean
            yield p, (low, low + problem.scale * one.tau)


def _drawn(problem: Problem, law: dist.Distribution | None, n: int, budget: Budget) -> list[_Drawn]:
    """Draw datasets of the distribution, or of the hard distributions of a class."""
    rng = np.random.default_rng(0)
    if isinstance(problem, BoundedRecords | BoundedMoment):
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
    """Return the 0.9 quantile of the error and its 95% interval, from order statistics."""
    ledger = Ledger(budget, np.random.default_rng(1))
    try:
        released = one.estimator.run(data.sample(one), ledger).value * one.unit + one.centre
    except ValueError:  # too few records for the parts of the estimator: nothing is released
        return np.inf, np.inf, np.inf
    away = np.sort(np.where(np.isnan(released), np.inf, np.abs(released - data.target)))
    spread = 1.96 * float(np.sqrt(0.09 * away.size))
    ranks = np.ceil(0.9 * away.size + np.array([0, -spread, spread])).astype(int) - 1
    q90, low, high = away[np.clip(ranks, 0, away.size - 1)]
    return float(q90), float(low), float(high)


def ranked(
    problem: Problem, law: dist.Distribution | None, clip: Clip, n: int, budget: Budget
) -> list[Ranked]:
    """Return the estimators that apply, by increasing 0.9 quantile of the error.

    Parameters
    ----------
    problem : Problem
        Public knowledge about the records.
    law : Distribution, optional
        Distribution to draw records from, for a `KnownDistribution`.
    clip : pair of float
        Planned clip.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    list of Ranked
    """
    rows, data, width = [], _drawn(problem, law, n, budget), clip[1] - clip[0]

    def places(one: Candidate) -> list[_Drawn]:
        # Shift the distribution too, so that a fixed fallback value does not hit the mean by luck.
        if one.use.guess is None or isinstance(problem, BoundedRecords | BoundedMoment):
            return data
        if not one.binary:
            return [*data, *(each.moved(width) for each in data)]
        coin = dist.Bernoulli(p=0.9 if problem.target <= 0.5 else 0.1)
        return [*data, *_drawn(KnownDistribution.of(coin), coin, n, budget)]

    for one in _candidates(list(_known(problem, law, clip, n, budget))):
        if one.clip and isinstance(problem, KnownDistribution):
            q90 = problem.error(one.clip, n, budget).q90
            rows.append(Ranked(one.name, one.assumes, q90, q90, q90, "exact", 0, one))
            continue
        trials = data[0].trials
        trials = SLOW_TRIALS if one.use.slow and n * trials > MOST_DRAWN else trials
        with np.errstate(over="ignore", invalid="ignore"):
            found = max(_simulated(one, each.first(trials), budget) for each in places(one))
        rows.append(Ranked(one.name, one.assumes, *found, "simulated", trials, one))
    return sorted(rows, key=lambda row: row.q90)


def limit(
    problem: Problem, law: dist.Distribution | None, n: int, budget: Budget
) -> tuple[ErrorBound, str]:
    """Return a lower bound on the worst 0.9 quantile over a class, and the class in words.

    Parameters
    ----------
    problem : Problem
        Public knowledge about the records.
    law : Distribution, optional
        Distribution of the records, if it is known; it decides the class.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    bound : Bound
        Lower bound, in the unit of the records.
    words : str
        Class of distributions.
    """
    promised = under_replacement(budget)
    if isinstance(problem, BoundedRecords):
        found, unit = class_bound(dist.Bernoulli(p=0.5), n, promised), problem.high - problem.low
        words = "distributions within the bounds"
    elif isinstance(law, dist.Gaussian | dist.Bernoulli):
        found, unit = class_bound(law, n, promised), 1.0
        gaussian = isinstance(law, dist.Gaussian)
        words = "Gaussian distributions with this sd" if gaussian else "Bernoulli distributions"
    else:
        k, unit = (
            (problem.k, problem.scale) if isinstance(problem, BoundedMoment) else (2.0, problem.sd)
        )
        found = heavy_tailed(n, k, promised) if np.isfinite(unit) else ErrorBound()
        words = "distributions with this " + (f"moment (k = {k:g})" if k != 2 else "sd")
    return ErrorBound(unit * found.value, found.by), words
