"""Factor that multiplies the noise of mechanisms, to test that audits detect wrong noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dpbench.errors import check_instance

__all__ = ["check_noise_factor", "current_noise_factor", "noise_times"]

_CURRENT: ContextVar[float] = ContextVar("noise_factor", default=1.0)


def current_noise_factor() -> float:
    """Return the factor of the innermost enclosing `noise_times` block, or 1 without a block."""
    return _CURRENT.get()


def check_noise_factor(factor: float) -> float:
    """Return `factor`; raise ValueError if it is not a finite number above 0."""
    check_instance("noise factor", factor, float | int, "a number", "0.5")
    if not 0 < factor < float("inf"):
        raise ValueError(f"noise factor: {factor}: give a finite number above 0")
    return factor


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every mechanism in a ``with`` block, without changing its cost.

    With a factor below 1 estimators are less private than they claim. A good audit reports this
    error, so a block tests the audit. The factor applies to ledgers that this thread creates inside
    the block without a ``noise_factor``. It also applies to all processes of a sweep (a set of runs
    on many configurations) in the block. The stored results of this sweep are never reused as
    results with the correct noise.

    The exponential mechanism divides its scores by `factor`, which is equivalent to multiplying its
    Gumbel noise. Geometric noise is rounded to whole numbers. Mechanisms with their own randomness,
    such as randomised response, run at another budget (`Ledger.pay_for_custom_mechanism`).
    Quantiles of the noise (`Budget.noise_tail`), from which estimators compute thresholds, are
    multiplied, too. An estimator that wraps code outside of dpbench (`OneDataset`) is not affected.

    Parameters
    ----------
    factor : float > 0
        Number that multiplies the noise.

    Raises
    ------
    ValueError
        If `factor` is not a finite number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release
    >>> from dpbench.audit import noise_times
    >>> from dpbench.estimators import ClippedMean
    >>> arguments = ClippedMean(lower=-1, upper=1), np.zeros(10), PureDP(1.0)
    >>> usual = release(*arguments, rng=np.random.default_rng(0))
    >>> with noise_times(0.5):
    ...     release(*arguments, rng=np.random.default_rng(0)) == usual / 2
    True
    """
    token = _CURRENT.set(check_noise_factor(factor))
    try:
        yield
    finally:
        _CURRENT.reset(token)
