"""The factor on the noise of ledgers that are not given one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["checked_factor", "current_noise_factor", "noise_times"]

_CURRENT: ContextVar[float] = ContextVar("noise_factor", default=1.0)


def current_noise_factor() -> float:
    """Return the factor of the innermost `noise_times` block of this thread, 1 outside of all."""
    return _CURRENT.get()


def checked_factor(factor: float) -> float:
    """Return a factor on noise; ValueError if it is not a finite number above 0."""
    if not 0 < factor < float("inf"):
        raise ValueError(f"noise factor: {factor}: give a finite number above 0")
    return factor


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every mechanism by `factor`, while the ledger counts as before.

    Below 1 the estimators are less private than they claim: an audit, a claim or a comparison that
    does not notice such an error does not check for it. The factor is that of ledgers which are
    made in this thread while the block runs, unless they are given a ``noise_factor``, and that of
    a sweep which is run in the block, in all of its processes. What such a sweep stores is never
    taken for numbers with the right noise.

    The exponential mechanism chooses by scores over `factor`, which multiplies its Gumbel noise by
    `factor`. Geometric noise is rounded to whole numbers. Mechanisms that draw their own chance,
    as randomised response does, run at another budget (`Ledger.own_chance`). Quantiles of the noise
    (`Budget.noise_tail`), from which estimators compute their thresholds, are multiplied, too. The
    code of a `OneDataset` is not changed.

    Parameters
    ----------
    factor : float > 0

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
