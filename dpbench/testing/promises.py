"""Checks of the properties that every estimator promises, on one dataset at a time."""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, release
from dpbench.estimators.external import OneDataset
from dpbench.privacy import Ledger
from dpbench.privacy.replay import ROUNDING
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample
from dpbench.testing.case import TRIALS, Case, fresh_rng, is_close, refuses

__all__ = [
    "check_caller", "check_failures", "check_follows", "check_refused", "check_shapes",
    "check_spending", "check_trials",
]  # fmt: skip

# Absolute values of records far beyond all bounds.
FAR = (1e12, 1e150, -1e300, 1e300)


def check_refused(case: Case) -> None:
    """Check that an unsupported notion of privacy is refused before any budget is spent."""
    ledger = Ledger(case.budget, fresh_rng())
    if not refuses(case.estimator.run, DenseSample(case.batch), ledger):
        raise case.fail("an unsupported notion of privacy is not refused")
    if any(ledger.spent):
        raise case.fail("spends before it refuses a notion")


def check_shapes(case: Case) -> None:
    """Check the shapes of releases.

    Vectors of one coordinate must give the values of numbers, or be refused.
    """
    expected = case.estimator.shape(case.data.shape[1:])
    if any(part.shape != (TRIALS,) for part in _beside(case.once[0])):
        raise case.fail("an interval or a scale is not one number per trial")
    value = release(case.estimator, case.data, case.given, rng=fresh_rng())
    if np.shape(value) != expected:
        raise case.fail(f"a release has shape {np.shape(value)}, not {expected}")
    if case.data.ndim == 2:
        return
    wide = case.batch[..., None]  # vectors of one coordinate
    if case.estimator.multivariate:
        one, many = case.once[0].before_noise, case.run(wide).before_noise
        if not is_close(one, many.reshape(TRIALS)):
            raise case.fail("vectors of one coordinate give another value than numbers")
    elif not refuses(case.estimator.run, DenseSample(wide), Ledger(case.budget, fresh_rng())):
        raise case.fail("takes vectors although multivariate is False")


def check_spending(case: Case) -> None:
    """Check that the whole budget is spent."""
    found, ledger, _ = case.once
    if not any(ledger.spent) and np.isnan(found.value).all():
        return  # nothing is released
    if not np.allclose(ledger.spent, case.budget.amounts, rtol=ROUNDING, atol=0):
        raise case.fail(f"spends {ledger.spent} of a budget of {case.budget.amounts}")


def check_failures(case: Case) -> None:
    """Check that releases are finite numbers or NaN, however large the records are."""
    places = np.arange(len(case.data), dtype=float)
    shapes = [places**0, (-1) ** places, places == 0, places / len(places)]
    wild = np.array([far * shape for far in FAR for shape in shapes])
    wild = wild.reshape(wild.shape + (1,) * (case.data.ndim - 1))
    found = case.run(np.broadcast_to(wild, (len(wild), *case.data.shape)))
    parts = [found.value, found.before_noise, *_beside(found)]
    if any(np.isinf(part).any() for part in parts):
        raise case.fail("an estimate from far records is infinite; return NaN for a failure")
    known = not isinstance(case.estimator, OneDataset)  # outside code has no value before noise
    if known and np.any(np.isfinite(found.value) & np.isnan(found.before_noise)):
        raise case.fail("a number is released where the value before noise is NaN")


def check_trials(case: Case) -> None:
    """Check that trials are independent, and that equal seeds give equal bits."""
    one, other = case.batch, case.batch
    # All records of trial 1 are equal, so that they fill one bin in both datasets, and the other
    # trials draw from unchanged streams.
    one[1], other[1] = 0.25, 1e6
    found, again, changed = (case.run(x) for x in (one, one, other))
    if not np.array_equal(found.value, again.value, equal_nan=True):
        raise case.fail("equal seeds give other bits: draw all noise from the ledger's rng")
    rest = [i for i in range(TRIALS) if i != 1]
    if not is_close(found.before_noise[rest], changed.before_noise[rest]):
        raise case.fail("the records of one trial change the value of another")
    _check_alone(case, one[-1:], found.before_noise[-1])
    tiled = np.tile(case.data, (TRIALS,) + (1,) * case.data.ndim)
    copies = np.broadcast_to(case.data, tiled.shape)
    if not is_close(case.run(tiled).value, case.run(copies).value):
        raise case.fail("one dataset for all trials has another value than its copies")


def _check_alone(case: Case, trial: Floats, in_batch: Floats) -> None:
    """Check that a trial alone has the value that it has in the batch, if that is not random."""
    tape = Tape()
    ledgers = [Ledger(case.budget, np.random.default_rng(seed), tape=tape) for seed in (0, 1)]
    one, other = (case.run(trial, ledger).before_noise[0] for ledger in ledgers)
    paid = [step.mechanism for step in tape.steps].count("pay")
    direct = len(tape.steps) == 2 * paid <= 4 and is_close(one, other)
    if direct and not is_close(one, in_batch):
        raise case.fail("a trial has another value in a batch than alone")


def check_caller(case: Case) -> None:
    """Check that the caller's array is not written to, and that NaN and infinity are refused."""
    if not case.once[2]:
        raise case.fail("the caller's array is written to")
    for bad in (np.nan, np.inf):
        records = case.data.copy()
        records[0] = bad
        if not refuses(release, case.estimator, records, case.given, rng=fresh_rng()):
            raise case.fail(f"a record that is {bad} is not refused")


def check_follows(case: Case, how: str, factor: float = 1.0, shift: float = 0.0) -> None:
    """Check that the estimate is equivariant: it maps with factor * x + shift.

    Parameters
    ----------
    case : Case
        Estimator, budget and dataset.
    how : str
        Verb for the message: ``move`` or ``grow``.
    factor, shift : float
        Affine map of the records. The identity by default.

    Raises
    ------
    AssertionError
        If the estimate does not follow the records.
    """
    one, other = case.run(case.batch), case.run(factor * case.batch + shift)
    power = 1 if case.estimator.estimand == "mean" else 2
    for a, b in ((one.value, other.value), (one.before_noise, other.before_noise)):
        if not is_close(factor**power * a + shift, b):
            raise case.fail(f"the estimate does not {how} with the records")


def _beside(found: Estimate) -> list[Floats]:
    """Return the interval's ends and the scale, if the estimate has them."""
    return [part for part in (*(found.interval or ()), found.scale) if part is not None]
