"""Default noise factor of ledgers, for audits of code with too little or too much noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["checked_factor", "current_noise_factor", "noise_times"]

_CURRENT: ContextVar[float] = ContextVar("noise_factor", default=1.0)


def current_noise_factor() -> float:
    """Return the factor of this thread's innermost `noise_times` block, or 1 outside of blocks."""
    return _CURRENT.get()


def checked_factor(factor: float) -> float:
    """Return `factor`; raise ValueError if it is not a finite number above 0."""
    if not 0 < factor < float("inf"):
        raise ValueError(f"noise factor: {factor}: give a finite number above 0")
    return factor


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every mechanism by `factor`, without changing its cost.

    With a factor below 1 estimators are less private than they claim. An audit, a claim or a
    comparison that does not detect this error does not test for it. The factor applies to ledgers
    created in this thread inside the block, unless they are given a ``noise_factor``, and to all
    processes of a sweep that runs in the block. Stored results of such a sweep are never reused as
    results with the correct noise.

    The exponential mechanism divides its scores by `factor`, which is equivalent to multiplying its
    Gumbel noise. Geometric noise is rounded to whole numbers. Mechanisms with their own randomness,
    such as randomised response, run at another budget (`Ledger.pay_for_custom_mechanism`).
    Quantiles of the noise (`Budget.noise_tail`), from which estimators compute thresholds, are
    multiplied, too. The code of a `OneDataset` is not affected.

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
    >>> about = ClippedMean(lower=-1, upper=1), np.zeros(10), PureDP(1.0)
    >>> usual = release(*about, rng=np.random.default_rng(0))
    >>> with noise_times(0.5):
    ...     release(*about, rng=np.random.default_rng(0)) == usual / 2
    True
    """
    token = _CURRENT.set(checked_factor(factor))
    try:
        yield
    finally:
        _CURRENT.reset(token)
