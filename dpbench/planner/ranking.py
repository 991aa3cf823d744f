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
from dpbench.estimators.estimands import VARIANCE, Estimand
from dpbench.estimators.public import Public
from dpbench.planner.prediction import (
    BoundedMoment,
    BoundedRecords,
    Clip,
    KnownDistribution,
    Problem,
)
from dpbench.planner.variance import HARDEST_COIN, KnownVariance
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import replacement_budget
from dpbench.samples import CountedSample, DenseSample, Sample
from dpbench.theory.bounds.class_bound import ErrorBound, class_bound, heavy_tail_bound
from dpbench.theory.bounds.numbers import two_point_lower_bound

__all__ = ["Candidate", "RankedEstimator", "class_limit", "rank_estimators"]

TRIALS = 400  # simulated releases per estimator
SLOW_TRIALS = 100  # simulated releases of a slow estimator if all need over `MAX_DRAWN_RECORDS`
MAX_DRAWN_RECORDS = 1_000_000  # beyond it counts of atoms are drawn instead of single records


@dataclass(frozen=True)
class Candidate:
    """Estimator that applies to a problem, with its entry in `dpbench.estimators.catalogue`.

    The estimator releases the mean of (records - centre)/unit. The centre and the unit are public.
    """

    name: str
    use: Use  # records and parameters with which the estimator is used
    assumes: str  # assumption about the records, in words
    estimator: est.Estimator
    centre: float = 0.0
    unit: float = 1.0
    binary: bool = False  # whether the records are 0 or 1

    @property
    def clip(self) -> Clip | None:
        """Clip of the estimator; None if the estimator is no clipped mean.

        For a clip, `KnownDistribution` computes the error without simulation.
        """
        estimator = self.estimator
        if not isinstance(estimator, est.ClippedMean | est.TransformedNoiseMean):
            return None
        assert estimator.lower is not None
        assert estimator.upper is not None
        return estimator.lower, estimator.upper


class RankedEstimator(NamedTuple):
    """Row of the ranking: an estimator, its assumption, and the 0.9 quantile of its error.

    The quantile is infinite if more than a tenth of the trials release nothing.
    """

    estimator: str  # name in the catalogue
    assumes: str  # assumption about the records, in words
    q90: float  # in the unit of the records
    low: float  # ends of the 95% interval of `q90`; both are `q90` if it is computed
    high: float
    how: str  # "exact" if `q90` is computed, else "simulated"
    trials: int  # simulated releases per distribution; 0 if `q90` is computed
    by: Candidate


@dataclass(frozen=True)
class _Datasets:
    """Simulated datasets of one distribution, and their target, the number to estimate."""

    values: Floats
    counts: Ints | None
    target: float

    def sample(self, candidate: Candidate) -> Sample:
        """Return the datasets, with each record x replaced by (x - centre)/unit of `candidate`."""
        values = (self.values - candidate.centre) / candidate.unit
        return DenseSample(values) if self.counts is None else CountedSample(values, self.counts)

    def shift_by(self, distance: float) -> _Datasets:
        """Return the datasets and their target, shifted by `distance`."""
        return _Datasets(self.values + distance, self.counts, self.target + distance)

    def first(self, trials: int) -> _Datasets:
        """Return the first `trials` datasets."""
        if self.counts is None:
            return _Datasets(self.values[:trials], None, self.target)
        return _Datasets(self.values, self.counts[:trials], self.target)

    @property
    def trials(self) -> int:
        """Number of datasets."""
        return len(self.values if self.counts is None else self.counts)


@dataclass(frozen=True)
class _Knowledge:
    """Public knowledge about standardised records, and its description in words.

    A record x is standardised to (x - `centre`)/`unit`.
    """

    public: Public
    words: str
    centre: float = 0.0
    unit: float = 1.0

    def describe_assumption(self, use: Use) -> str:
        """Return in words the assumption of an estimator about the records."""
        if self.public.local:
            return f"{self.words}; no trusted curator"
        placed = use.uses_radius and self.public.radius is not None
        guess = "" if use.guess is None else f"; fallback {use.guess:g}"
        return f"{self.words}{', mean in the bounds' if placed else ''}{guess}"


def _list_knowledge(
    problem: Problem, law: dist.Distribution | None, clip: Clip, n: int, budget: Budget
) -> Iterator[_Knowledge]:
    """Yield kinds of public knowledge about the records, the weakest assumption first."""
    bounds = (problem.low, problem.high)
    ends = {"the bounds" if clip == bounds else "the clip": clip}
    if bool(np.isfinite(bounds).all()) and not isinstance(problem, BoundedMoment):
        ends["the bounds"] = bounds
    knowledge = partial(Public, n, 1, budget)
    for name, bounds_of_records in ends.items():
        words = f"records within {name}"
        if isinstance(problem, BoundedMoment):
            words = f"{_moment_words(problem)}, mean in the bounds"
        yield _Knowledge(knowledge(False, "bounded", bounds=bounds_of_records), words)
    yield _Knowledge(knowledge(False, "any"), "nothing")
    if not isinstance(problem, BoundedRecords):
        for local in (False, True):
            yield from _list_moment_knowledge(problem, law, partial(knowledge, local))
    if isinstance(law, dist.Bernoulli):
        yield _Knowledge(knowledge(False, "binary"), "records 0 or 1")


def _moment_words(problem: Problem) -> str:
    return f"moment {problem.k if isinstance(problem, BoundedMoment) else 2:g}"


def _list_moment_knowledge(
    problem: Problem, law: dist.Distribution | None, knowledge: Callable[..., Public]
) -> Iterator[_Knowledge]:
    """Yield public knowledge of a bounded moment and, for Gaussian records, of the Gaussian shape.

    Each knowledge also bounds the mean if the public bounds are finite. Nothing is yielded if the
    standard deviation of the records is infinite.
    """
    k, unit = (
        (problem.k, problem.scale) if isinstance(problem, BoundedMoment) else (2.0, problem.sd)
    )
    if not np.isfinite(unit):
        return
    unit = float(f"{unit:.4g}")  # short, because the printed code contains it
    bounded = bool(np.isfinite(problem.low) and np.isfinite(problem.high))
    centre = (problem.low + problem.high) / 2 if bounded else 0.0
    radius = float(f"{1.0005 * (problem.high - problem.low) / (2 * unit):.4g}") if bounded else None
    moments = knowledge("moments", k=k, radius=radius)
    yield _Knowledge(moments, _moment_words(problem), centre, unit)
    if isinstance(law, dist.Gaussian):
        yield _Knowledge(knowledge("gaussian", scale=1.0, radius=radius), "Gaussian", centre, unit)


def _list_candidates(all_knowledge: Sequence[_Knowledge], target: Estimand) -> Iterator[Candidate]:
    """Yield the estimators of a target that apply, each under its weakest assumption."""
    for name, kind, use in uses(target):
        built = [(knowledge, use.estimator(kind, knowledge.public)) for knowledge in all_knowledge]
        applicable = [
            (knowledge, estimator) for knowledge, estimator in built if estimator is not None
        ]
        for knowledge, estimator in applicable:
            records = knowledge.public.records
            if records == applicable[0][0].public.records:
                arguments = (
                    knowledge.describe_assumption(use),
                    estimator,
                    knowledge.centre,
                    knowledge.unit,
                    records == "binary",
                )
                yield Candidate(name, use, *arguments)


def _hard_distributions(
    problem: BoundedRecords | BoundedMoment, n: int, budget: Budget
) -> Iterator[tuple[float, Clip]]:
    """Yield two-point distributions on which estimators have large errors.

    The distributions belong to the class that `problem` describes. Each is yielded as a pair: the
    probability of its second point, and its two points.
    """
    # Some means are off the middle, because some estimators release the middle without any data.
    if isinstance(problem, BoundedRecords):
        last = HARDEST_COIN if isinstance(problem, KnownVariance) else 0.9
        yield from ((p, (problem.low, problem.high)) for p in (0.5, last, 1.0))
        return
    rare_probability = two_point_lower_bound(n, problem.k, replacement_budget(budget)).p_star
    for p in {
        min(0.5, times * rare_probability) if rare_probability > 0 else 0.5
        for times in (1, 3, 10, 30, np.inf)
    }:
        two_point = dist.TwoPoint(p=p, k=problem.k)
        for mean in (problem.middle, problem.high):
            low = mean - problem.scale * two_point.mean
            yield p, (low, low + problem.scale * two_point.tau)


def _draw_datasets(
    problem: Problem, law: dist.Distribution | None, n: int, budget: Budget
) -> list[_Datasets]:
    """Draw datasets of a known distribution, or of the hardest distributions of a class."""
    rng = np.random.default_rng(0)
    if isinstance(problem, BoundedRecords | BoundedMoment):
        datasets = []
        for p, (low, high) in _hard_distributions(problem, n, budget):
            counts = rng.binomial(n, p, TRIALS)
            atom_counts = np.stack([n - counts, counts], axis=1)
            target = low + p * (high - low)
            if isinstance(problem, KnownVariance):
                target = p * (1 - p) * (high - low) ** 2
            datasets.append(_Datasets(np.array([low, high]), atom_counts, target))
        return datasets
    trials = max(TRIALS, min(5 * TRIALS, MAX_DRAWN_RECORDS // (10 * n)))
    if law is None or law.counted or n * TRIALS > MAX_DRAWN_RECORDS:
        counts = rng.multinomial(n, problem.weights, trials)
        return [_Datasets(problem.values, counts, problem.target)]
    sample = law.sample(rng, trials, n)
    assert isinstance(sample, DenseSample)
    return [_Datasets(sample.values, None, problem.target)]


def _simulate_error(
    candidate: Candidate, data: _Datasets, budget: Budget
) -> tuple[float, float, float]:
    """Return the 0.9 quantile of an estimator's error in a simulation, and its 95% interval."""
    ledger = Ledger(budget, np.random.default_rng(1))
    try:
        released = (
            candidate.estimator.run(data.sample(candidate), ledger).value * candidate.unit
            + candidate.centre
        )
    except ValueError:  # too few records for the parts of the estimator: nothing is released
        return np.inf, np.inf, np.inf
    errors = np.sort(np.where(np.isnan(released), np.inf, np.abs(released - data.target)))
    rank_error = 1.96 * float(np.sqrt(0.09 * errors.size))
    ranks = np.ceil(0.9 * errors.size + np.array([0, -rank_error, rank_error])).astype(int) - 1
    q90, low, high = errors[np.clip(ranks, 0, errors.size - 1)]
    return float(q90), float(low), float(high)


def rank_estimators(
    problem: Problem, law: dist.Distribution | None, clip: Clip, n: int, budget: Budget
) -> list[RankedEstimator]:
    """Return the estimators that apply to a problem, by increasing 0.9 quantile of the error.

    For a `KnownDistribution` the records are drawn from `law`. If `law` is None, the atoms of the
    problem are drawn. `clip` is the planned clip. An estimator that has the same errors with the
    clip and with the bounds has one row, for the bounds.
    """
    rows, data, width = [], _draw_datasets(problem, law, n, budget), clip[1] - clip[0]

    def choose_datasets(candidate: Candidate) -> list[_Datasets]:
        # Shift the distribution, too, so that a fixed fallback value does not hit the mean by luck.
        if candidate.use.guess is None or isinstance(problem, BoundedRecords | BoundedMoment):
            return data
        if not candidate.binary:
            return [*data, *(datasets.shift_by(width) for datasets in data)]
        coin = dist.Bernoulli(p=0.9 if problem.target <= 0.5 else 0.1)
        return [*data, *_draw_datasets(KnownDistribution.discretise(coin), coin, n, budget)]

    knowledge = list(_list_knowledge(problem, law, clip, n, budget))
    for candidate in _list_candidates(knowledge, problem.estimand):
        if candidate.clip and isinstance(problem, KnownDistribution):
            q90 = problem.error(candidate.clip, n, budget).q90
            rows.append(
                RankedEstimator(
                    candidate.name, candidate.assumes, q90, q90, q90, "exact", 0, candidate
                )
            )
            continue
        trials = data[0].trials
        trials = SLOW_TRIALS if candidate.use.slow and n * trials > MAX_DRAWN_RECORDS else trials
        with np.errstate(over="ignore", invalid="ignore"):
            quantiles = max(
                _simulate_error(candidate, datasets.first(trials), budget)
                for datasets in choose_datasets(candidate)
            )
        rows.append(
            RankedEstimator(
                candidate.name, candidate.assumes, *quantiles, "simulated", trials, candidate
            )
        )
    # A clip that changes nothing but rounding is no assumption worth a row: of equal rows of an
    # estimator, keep the last, which has the bounds.
    distinct = {(row.estimator, *(f"{number:.9g}" for number in row[2:5])): row for row in rows}
    return sorted(distinct.values(), key=lambda row: row.q90)


def class_limit(
    problem: Problem, law: dist.Distribution | None, n: int, budget: Budget
) -> tuple[ErrorBound, str]:
    """Return a lower bound on the error of every private estimator, and the class it is proved for.

    The error is the 0.9 quantile of the absolute error at the worst distribution of the class, in
    the unit of the records. The class of distributions is given by its name. A Gaussian or
    Bernoulli `law` selects the class of this name. For a variance the bound is NaN.
    """
    implied = replacement_budget(budget)
    if problem.estimand is VARIANCE:
        return ErrorBound(), ""
    if isinstance(problem, BoundedRecords):
        bound, unit = class_bound(dist.Bernoulli(p=0.5), n, implied), problem.high - problem.low
        words = "distributions within the bounds"
    elif isinstance(law, dist.Gaussian | dist.Bernoulli):
        bound, unit = class_bound(law, n, implied), 1.0
        gaussian = isinstance(law, dist.Gaussian)
        words = "Gaussian distributions with this sd" if gaussian else "Bernoulli distributions"
    else:
        k, unit = (
            (problem.k, problem.scale) if isinstance(problem, BoundedMoment) else (2.0, problem.sd)
        )
        bound = heavy_tail_bound(n, k, implied) if np.isfinite(unit) else ErrorBound()
        words = "distributions with this " + (f"moment (k = {k:g})" if k != 2 else "sd")
    return ErrorBound(unit * bound.value, bound.by), words
