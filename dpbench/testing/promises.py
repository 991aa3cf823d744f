"""Checks of the properties that every estimator promises, on one dataset at a time."""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.external import OneDataset
from dpbench.estimators.releases import release
from dpbench.privacy import Ledger
from dpbench.privacy.replay import ROUNDING
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample
from dpbench.testing.case import TRIALS, CheckCase, fresh_rng, is_close, largest, raises_value_error

__all__ = [
    "check_caller_array",
    "check_equivariance",
    "check_failures",
    "check_refusal",
    "check_shapes",
    "check_spending",
    "check_trials",
]  # fmt: skip

# Absolute values of records far beyond all bounds.
FAR_RECORDS = (1e12, 1e150, -1e300, 1e300)


def check_refusal(case: CheckCase) -> None:
    """Check that the estimator refuses an unsupported notion of privacy and spends nothing."""
    ledger = Ledger(case.budget, fresh_rng())
    if not raises_value_error(case.estimator.run, DenseSample(case.batch), ledger):
        raise case.fail("an unsupported notion of privacy is not refused")
    if any(ledger.spent):
        raise case.fail("spends before it refuses a notion")


def check_shapes(case: CheckCase) -> None:
    """Check the shapes of an estimator's releases.

    If the estimator takes vectors, the value before noise must not change when numbers are written
    as vectors of one coordinate. If it takes numbers only, it must refuse vectors.
    """
    expected = case.estimator.shape(case.data.shape[1:])
    estimate = case.batch_run[0]
    parts = (*(estimate.interval or ()), estimate.scale)
    if any(part is not None and part.shape != (TRIALS,) for part in parts):
        raise case.fail("an interval or a scale is not one number per trial")
    value = release(case.estimator, case.data, case.release_budget, rng=fresh_rng())
    if np.shape(value) != expected:
        raise case.fail(f"a release has shape {np.shape(value)}, not {expected}")
    if case.data.ndim == 2:
        return
    wide = case.batch[..., None]  # vectors of one coordinate
    if case.estimator.multivariate:
        vectors = case.run(wide).before_noise.reshape(TRIALS)
        # A mean around a released centre rounds at the size of the centre's noise.
        if not is_close(estimate.before_noise, vectors, largest(estimate.value)):
            raise case.fail("vectors of one coordinate give another value than numbers")
    elif not raises_value_error(
        case.estimator.run, DenseSample(wide), Ledger(case.budget, fresh_rng())
    ):
        raise case.fail("takes vectors although multivariate is False")


def check_spending(case: CheckCase) -> None:
    """Check that the estimator spends its whole budget, unless it releases nothing."""
    estimate, ledger, _ = case.batch_run
    if not any(ledger.spent) and np.isnan(estimate.value).all():
        return  # nothing is released
    if not np.allclose(ledger.spent, case.budget.amounts, rtol=ROUNDING, atol=0):
        raise case.fail(f"spends {ledger.spent} of a budget of {case.budget.amounts}")


def check_failures(case: CheckCase) -> None:
    """Check that an estimator releases finite numbers or NaN, however large the records are."""
    places = np.arange(len(case.data), dtype=float)
    shapes = [places**0, (-1) ** places, places == 0, places / len(places)]
    wild = np.array([far * shape for far in FAR_RECORDS for shape in shapes])
    wild = wild.reshape(wild.shape + (1,) * (case.data.ndim - 1))
    estimate = case.run(np.broadcast_to(wild, (len(wild), *case.data.shape)))
    if any(np.isinf(part).any() for part in (*estimate.released, estimate.before_noise)):
        raise case.fail("an estimate from far records is infinite; return NaN for a failure")
    has_value_before_noise = not isinstance(
        case.estimator, OneDataset
    )  # other code has no value before noise
    if has_value_before_noise and np.any(
        np.isfinite(estimate.value) & np.isnan(estimate.before_noise)
    ):
        raise case.fail("a number is released where the value before noise is NaN")


def check_trials(case: CheckCase) -> None:
    """Check that the records of one trial do not change the estimates of other trials.

    Also check that runs with equal seeds give equal estimates, bit by bit.
    """
    batch, altered = case.batch, case.batch
    # All records of trial 1 are equal, so that they fill one bin in both datasets, and the other
    # trials draw from unchanged streams.
    batch[1], altered[1] = 0.25, 1e6
    estimate, repeated, altered_estimate = (case.run(x) for x in (batch, batch, altered))
    if not np.array_equal(estimate.value, repeated.value, equal_nan=True):
        raise case.fail("equal seeds give other bits: draw all noise from the ledger's rng")
    rest = [i for i in range(TRIALS) if i != 1]
    if not is_close(estimate.before_noise[rest], altered_estimate.before_noise[rest]):
        raise case.fail("the records of one trial change the value of another")
    _check_alone(case, batch[-1:], estimate.before_noise[-1])
    tiled = np.tile(case.data, (TRIALS,) + (1,) * case.data.ndim)
    copies = np.broadcast_to(case.data, tiled.shape)
    if not is_close(case.run(tiled).value, case.run(copies).value):
        raise case.fail("one dataset for all trials has another value than its copies")


def _check_alone(case: CheckCase, trial: Floats, in_batch: Floats) -> None:
    """Check that a trial has the same value before noise when run alone and when run in a batch.

    The values are not compared if the value before noise is itself random.
    """
    tape = Tape()
    ledgers = [Ledger(case.budget, np.random.default_rng(seed), tape=tape) for seed in (0, 1)]
    first, second = (case.run(trial, ledger).before_noise[0] for ledger in ledgers)
    paid = [step.mechanism for step in tape.steps].count("pay")
    direct = len(tape.steps) == 2 * paid <= 4 and is_close(first, second)
    if direct and not is_close(first, in_batch):
        raise case.fail("a trial has another value in a batch than alone")


def check_caller_array(case: CheckCase) -> None:
    """Check that the caller's array is unchanged, and that NaN and infinite records are refused."""
    if not case.batch_run[2]:
        raise case.fail("the caller's array is written to")
    for bad in (np.nan, np.inf):
        records = case.data.copy()
        records[0] = bad
        if not raises_value_error(
            release, case.estimator, records, case.release_budget, rng=fresh_rng()
        ):
            raise case.fail(f"a record that is {bad} is not refused")


def check_equivariance(case: CheckCase, how: str, factor: float = 1.0, shift: float = 0.0) -> None:
    """Check that the estimate is equivariant under the map factor * x + shift of the records.

    If it is not, an AssertionError is raised, whose message has the verb `how`: ``move`` or
    ``grow``.
    """
    original, mapped = case.run(case.batch), case.run(factor * case.batch + shift)
    for a, b in ((original.value, mapped.value), (original.before_noise, mapped.before_noise)):
        if not is_close(factor**case.estimator.estimand.degree * a + shift, b):
            raise case.fail(f"the estimate does not {how} with the records")
