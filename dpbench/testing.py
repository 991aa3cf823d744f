"""Checks that every estimator should pass, for the author of one.

`check_estimator` asks of an estimator what the base class promises of all of them. It cannot
prove privacy: it sees the mechanisms of the ledger, and what an estimator states for them, on
data that strain it. What it passes over is for an estimator's own tests and for the audit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, release
from dpbench.estimators.outside import OneDataset
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.samples import DenseSample

__all__ = ["check_estimator"]

APPROX = ApproxDP(1.0, 1e-5)
REPLACE: tuple[Any, ...] = (PureDP(1.0), ZCDP(0.5), GDP(1.0), APPROX)
ADD_REMOVE = [replace(one, neighbours="add_remove") for one in REPLACE]
NOTIONS: tuple[Budget, ...] = (NonPrivate(), *REPLACE, *ADD_REMOVE)
# So large that steps with noise of their own choose alike on neighbouring data; so small that
# all noise shows.
LARGE = {one.notion: one for one in (PureDP(1e4), ZCDP(1e4), GDP(200.0), ApproxDP(1e4, 1e-5))}
SMALL = {one.notion: one for one in (PureDP(0.01), ZCDP(1e-5), GDP(0.01), ApproxDP(0.01, 1e-5))}
# Where a record is replaced to, and where many of them are.
NEAR, WILD = 1e6, 1e150
FAR = (1e12, 1e150, -1e300, 1e300)
RECORDS, TRIALS, DIMENSION = 60, 4, 3
# Shares of a budget and conversions round; sums of a batch round alike up to their last digits.
ROUNDING = 1e-9


def check_estimator(
    estimator: Estimator,
    *,
    records: ArrayLike | None = None,
    d: int | None = None,
    budgets: Sequence[Budget] | None = None,
    translation: bool = False,
    scale: bool = False,
) -> None:
    """Check that `estimator` keeps the promises of its base class.

    Shapes; that the whole ledger is spent, and notions that are not honoured are refused; that
    no noisy release moves by more than its stated sensitivity when a record goes far away, or is
    removed, that being the same on both datasets; that a release is a finite number or NaN,
    whatever the records; that trials do not mix, the same stream gives the same bits, and nothing
    is written to the caller's array.

    Parameters
    ----------
    estimator : Estimator
    records : (n,) or (n, d) array_like, optional
        A dataset that the estimator suits, as many records as it needs; by default 60
        Gaussian ones, of numbers and, if it takes them, of vectors.
    d : int, optional
        Check it on vectors of d coordinates only.
    budgets : sequence of Budget, optional
        By default one of every notion and relation of neighbours; those that it does not support
        must be refused.
    translation, scale : bool
        Whether the estimate must move with the records, or grow with them; a covariance by
        the square.

    Raises
    ------
    AssertionError
        At the first promise that is not kept, in one line.

    Examples
    --------
    >>> from dpbench.estimators import ClippedMean, EmpiricalMean
    >>> from dpbench.testing import check_estimator
    >>> check_estimator(ClippedMean(lower=0, upper=300))
    >>> check_estimator(EmpiricalMean(), translation=True, scale=True)
    >>> check_estimator(ClippedMean(lower=0, upper=300), translation=True)
    Traceback (most recent call last):
        ...
    AssertionError: ClippedMean under pure on numbers: the estimate does not move with the records
    """
    budgets = NOTIONS if budgets is None else budgets
    honoured = [budget for budget in budgets if estimator.supports(budget)]
    if not honoured:
        raise AssertionError(f"{type(estimator).__name__} honours none of the notions")
    for data in _datasets(estimator, records, d):
        for budget in budgets:
            case = _Case(estimator, budget, data)
            if budget not in honoured:
                case.refused()
                continue
            case.shapes()
            case.spending()
            case.failures()
            if case.given is not None:
                case.sensitivity()
                case.noise()
            case.trials()
            case.caller()
            if translation:
                case.follows("move", shift=4.0)
            if scale:
                case.follows("grow", factor=4.0)


def _datasets(estimator: Estimator, records: ArrayLike | None, d: int | None) -> list[Floats]:
    """The datasets to check on, (n,) and (n, d)."""
    rng = _rng()
    shapes = [(RECORDS,), (RECORDS, DIMENSION)] if estimator.multivariate else [(RECORDS,)]
    if records is not None:
        found = [np.array(records, dtype=float)]
    else:
        found = [rng.standard_normal(one) for one in (shapes if d is None else [(RECORDS, d)])]
    for data in found:
        data.flags.writeable = False  # every check sees the same
    return found


@dataclass
class _Step:
    """What one mechanism was given and what it released."""

    mechanism: str
    values: Floats = field(default_factory=lambda: np.zeros(0))
    stated: dict[str, Any] = field(default_factory=dict)  # sensitivities by norm
    released: Any = None
    weights: Any = 0.0
    draws: int = 1

    def like(self, other: _Step) -> bool:
        """Whether it is the same mechanism with the same range of outputs."""
        same = self.mechanism == other.mechanism and self.values.shape == other.values.shape
        return same and np.array_equal(self.weights, other.weights)


@contextmanager
def _taped(earlier: Sequence[_Step] = ()) -> Iterator[list[_Step]]:
    """Keep the steps of a run, which release what the `earlier` ones of another run did."""
    tape: list[_Step] = []

    def taped(mechanism: str, norm: str) -> Callable[..., Any]:
        released_by = getattr(Ledger, mechanism)

        def release(
            self: Ledger, values: Floats, sensitivity: Any, *weights: Any, **options: Any
        ) -> Any:
            released = released_by(self, values, sensitivity, *weights, **options)
            stated = {options.get("base", norm): self.stated(sensitivity)}
            if options.get("l1") is not None:
                stated["l1"] = self.stated(options["l1"])
            measure = weights[0] if weights else options.get("log_weights", 0.0)
            draws, at = options.get("draws", 1), len(tape)
            tape.append(_Step(mechanism, values.copy(), stated, released, measure, draws))
            same = at < len(earlier) and tape[at].like(earlier[at])
            return earlier[at].released if same else released

        return release

    def pay(self: Ledger, *about: Any) -> None:
        spend(self, *about)
        tape.append(_Step("pay"))

    def told(_: Ledger, found: Floats) -> Floats:
        at, tape[-1].released = len(tape) - 1, found
        known = np.asarray(earlier[at].released if at < len(earlier) else None)
        return known if known.shape == found.shape else found

    spend = Ledger.pay
    norms = dict.fromkeys(["exponential", "above_threshold"], "max")
    many = ["add_noise", "add_l2_noise", "add_geometric_noise", "add_joint_noise"]
    norms |= dict.fromkeys(many, "l2")
    releases: dict[str, Any] = {name: taped(name, norm) for name, norm in norms.items()}
    with mock.patch.multiple(Ledger, pay=pay, told=told, **releases):
        yield tape


@dataclass(frozen=True)
class _Case:
    """An estimator, a budget, which `release` is given unless it is none, and a dataset."""

    estimator: Estimator
    budget: Budget
    data: Floats

    @property
    def given(self) -> Budget | None:
        return None if isinstance(self.budget, NonPrivate) else self.budget

    def fail(self, what: str) -> AssertionError:
        where = f"under {self.budget.label} on {('numbers', 'vectors')[self.data.ndim - 1]}"
        return AssertionError(f"{type(self.estimator).__name__} {where}: {what}")

    def run(self, values: Floats, ledger: Ledger | None = None) -> Estimate:
        """An estimate of (trials, n) or (trials, n, d) records."""
        ledger = Ledger(self.budget, _rng()) if ledger is None else ledger
        try:
            return self.estimator.run(DenseSample(values), ledger)
        except Exception as error:
            text = " ".join(str(error).split())
            raise self.fail(f"a run raised {type(error).__name__}: {text}") from error

    @property
    def batch(self) -> Floats:
        """Datasets of records of the given one, (TRIALS, n) or (TRIALS, n, d)."""
        n = len(self.data)
        return np.asarray(self.data[np.random.default_rng(1).integers(n, size=(TRIALS, n))])

    @cached_property
    def once(self) -> tuple[Estimate, Ledger, bool]:
        """A run on the batch, what it paid from, and whether the batch is as it was."""
        values, ledger = self.batch, Ledger(self.budget, _rng())
        return self.run(values, ledger), ledger, np.array_equal(values, self.batch)

    def refused(self) -> None:
        ledger = Ledger(self.budget, _rng())
        if not _refuses(self.estimator.run, DenseSample(self.batch), ledger):
            raise self.fail("a notion that it does not support is not refused")
        if any(ledger.spent):
            raise self.fail("spends before it refuses a notion")

    def shapes(self) -> None:
        expected = self.estimator.shape(self.data.shape[1:])
        if any(part.shape != (TRIALS,) for part in _beside(self.once[0])):
            raise self.fail("an interval or a scale is not one number per trial")
        value = release(self.estimator, self.data, self.given, rng=_rng())
        if np.shape(value) != expected:
            raise self.fail(f"a release has shape {np.shape(value)}, not {expected}")
        if self.data.ndim == 2:
            return
        wide = self.batch[..., None]  # vectors of one coordinate
        if self.estimator.multivariate:
            one, many = self.once[0].before_noise, self.run(wide).before_noise
            if not _close(one, many.reshape(TRIALS)):
                raise self.fail("vectors of one coordinate have another value than numbers")
        elif not _refuses(self.estimator.run, DenseSample(wide), Ledger(self.budget, _rng())):
            raise self.fail("takes vectors, and multivariate is False")

    def spending(self) -> None:
        found, ledger, _ = self.once
        if not any(ledger.spent) and np.isnan(found.value).all():
            return  # nothing is released
        if not np.allclose(ledger.spent, self.budget.amounts, rtol=ROUNDING, atol=0):
            raise self.fail(f"spends {ledger.spent} of a budget of {self.budget.amounts}")

    def of_size(self, sizes: dict[str, Any]) -> Budget:
        """One of these budgets, of the notion and the neighbours of the case's."""
        return replace(sizes[self.budget.notion], neighbours=self.budget.neighbours)  # type: ignore[no-any-return]

    def sensitivity(self) -> None:
        n, tail = len(self.data), self.data.shape[1:]
        near, far = np.eye(*tail)[0] if tail else np.ones(()), np.ones(tail)
        places = [NEAR * near, -NEAR * near, WILD * far, -WILD * far]
        flat = np.repeat(self.data[:1], n, axis=0)  # as many records, all like the first

        def steps(values: Floats, earlier: Sequence[_Step] = ()) -> list[_Step]:
            with _taped(earlier) as tape:
                self.run(values[None], Ledger(self.of_size(LARGE), _rng()))
            return tape

        first = steps(flat)
        for record in {0, n - 1}:
            tapes = []
            for place in places:
                neighbour = flat.copy()
                neighbour[record] = place
                tapes.append(steps(neighbour, first))
            both = list(itertools.combinations([*tapes, first], 2))
            if self.budget.neighbours == "add_remove":
                fewer = steps(np.delete(flat, record, axis=0), first)
                both = [(one, fewer) for one in [*tapes, first]]
            for one, other in both:
                self.compare(one, other, record)

    def compare(self, one: list[_Step], other: list[_Step], record: int) -> None:
        """Compare the steps of runs on neighbouring datasets, given the same releases."""
        if [step.mechanism for step in one] != [step.mechanism for step in other]:
            raise self.fail(f"which mechanisms it runs depends on record {record}")
        changing = "replacing" if self.budget.neighbours == "replace" else "removing"
        for a, b in zip(one, other, strict=True):
            if not a.like(b):
                continue  # a choice among pieces that the records cut up
            for norm, limit in a.stated.items():
                if not _close(np.asarray(limit), np.asarray(b.stated[norm])):
                    raise self.fail(f"the sensitivity of {a.mechanism} depends on record {record}")
                moved = _move(a.values, b.values, norm) * a.draws
                # One limit may be stated for each coordinate: the largest bounds a row's.
                wide = np.broadcast_to(np.asarray(limit, dtype=float), a.values.shape)
                allowed = wide.reshape(len(wide), -1).max(axis=1)
                digits = 1e-14 * max(_size(a.values), _size(b.values))
                for step, most in zip(moved, allowed, strict=True):
                    if not step <= most * (1 + ROUNDING) + digits:
                        raise self.fail(
                            f"{changing} record {record} moves {a.mechanism} by {step:.6g}, "
                            f"above its {norm} sensitivity {most:.6g}"
                        )

    def noise(self) -> None:
        copies = np.broadcast_to(self.data, (50, *self.data.shape))
        value = self.run(copies, Ledger(self.of_size(SMALL), _rng())).value
        if np.isfinite(value).all() and np.all(value == value[0]):
            raise self.fail("50 releases of a small budget are equal: there is no noise")

    def failures(self) -> None:
        places = np.arange(len(self.data), dtype=float)
        shapes = [places**0, (-1) ** places, places == 0, places / len(places)]
        wild = np.array([far * shape for far in FAR for shape in shapes])
        wild = wild.reshape(wild.shape + (1,) * (self.data.ndim - 1))
        found = self.run(np.broadcast_to(wild, (len(wild), *self.data.shape)))
        parts = [found.value, found.before_noise, *_beside(found)]
        if any(np.isinf(part).any() for part in parts):
            raise self.fail("an estimate of far records is infinite; NaN declares failure")
        known = not isinstance(self.estimator, OneDataset)  # of outside code it is not
        if known and np.any(np.isfinite(found.value) & np.isnan(found.before_noise)):
            raise self.fail("a number is released where the value before noise is NaN")

    def trials(self) -> None:
        one, other = self.batch, self.batch
        # Equal records fill one bin wherever they are: the noise has the same stream.
        one[1], other[1] = 0.25, 1e6
        found, again, changed = (self.run(x) for x in (one, one, other))
        if not np.array_equal(found.value, again.value, equal_nan=True):
            raise self.fail("the same stream gives other bits: all chance is the ledger's rng's")
        rest = [i for i in range(TRIALS) if i != 1]
        if not _close(found.before_noise[rest], changed.before_noise[rest]):
            raise self.fail("the records of one trial change the value of another")
        self.alone(one[-1:], found.before_noise[-1])
        tiled = np.tile(self.data, (TRIALS,) + (1,) * self.data.ndim)
        copies = np.broadcast_to(self.data, tiled.shape)
        if not _close(self.run(tiled).value, self.run(copies).value):
            raise self.fail("one dataset for all trials has another value than its copies")

    def alone(self, trial: Floats, in_batch: Floats) -> None:
        """Where the value before noise is not itself of chance."""
        with _taped() as tape:
            ledgers = [Ledger(self.budget, np.random.default_rng(seed)) for seed in (0, 1)]
            one, other = (self.run(trial, ledger).before_noise[0] for ledger in ledgers)
        paid = [step.mechanism for step in tape].count("pay")
        direct = len(tape) == 2 * paid <= 4 and _close(one, other)
        if direct and not _close(one, in_batch):
            raise self.fail("a trial has another value in a batch than alone")

    def caller(self) -> None:
        if not self.once[2]:
            raise self.fail("the caller's array is written to")
        for bad in (np.nan, np.inf):
            records = self.data.copy()
            records[0] = bad
            if not _refuses(release, self.estimator, records, self.given, rng=_rng()):
                raise self.fail(f"a record that is {bad} is not refused")

    def follows(self, how: str, factor: float = 1.0, shift: float = 0.0) -> None:
        one, other = self.run(self.batch), self.run(factor * self.batch + shift)
        power = 1 if self.estimator.estimand == "mean" else 2
        for a, b in ((one.value, other.value), (one.before_noise, other.before_noise)):
            if not _close(factor**power * a + shift, b):
                raise self.fail(f"the estimate does not {how} with the records")


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _beside(found: Estimate) -> list[Floats]:
    """The interval and the scale, if there are any."""
    return [part for part in (*(found.interval or ()), found.scale) if part is not None]


def _refuses(ask: Callable[..., object], *given: Any, **options: Any) -> bool:
    try:
        ask(*given, **options)
    except ValueError:
        return True
    return False


def _close(one: Floats, other: Floats) -> bool:
    return np.allclose(one, other, rtol=ROUNDING, atol=1e-11 * max(1.0, _size(one)), equal_nan=True)


def _size(values: Floats) -> float:
    return float(np.abs(np.nan_to_num(values)).max())


def _move(one: Floats, other: Floats, norm: str) -> Floats:
    """How far apart two batches of numbers or vectors are, row by row."""
    both = np.isnan(one) & np.isnan(other)
    gaps = np.where(both, 0.0, np.abs(one - other))
    if gaps.ndim == 1:
        return gaps
    if norm == "ball":  # of sums; the last is a count
        return np.maximum(_move(one[:, :-1], other[:, :-1], "l2"), gaps[:, -1])
    largest = gaps.max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)  # squares may overflow
    order = {"l1": 1, "l2": 2, "max": np.inf, "box": np.inf}[norm]
    return np.asarray(unit * np.linalg.norm(gaps / unit[:, None], order, axis=1))
