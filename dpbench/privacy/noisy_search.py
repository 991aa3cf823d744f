"""Private quantiles by noisy binary search, and a private mean clipped at a private radius.

The published estimators HLY21 and PLAN consist of these two mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.samples.rows import norms

__all__ = [
    "clipped_mean_at_private_radius", "noisy_projected_mean", "private_quantile_by_bisection",
]  # fmt: skip


def private_quantile_by_bisection(
    below: Callable[[Floats], Floats],
    rank: float,
    lower: Floats,
    upper: float | Floats,
    steps: int,
    ledger: Ledger,
) -> Floats:
    """Release a point in [lower, upper] below which about `rank` records lie; spend the ledger.

    Each step counts the records below the midpoint of the current interval, and adds noise to the
    count. It pays 1/`steps` of the ledger. If the noisy count is below `rank`, the upper half is
    the next interval, else the lower half. For vectors of d coordinates, each coordinate has its
    own search. A replaced record changes a count by at most 1. It changes the d counts of all
    coordinates by at most sqrt(d) in the l2 norm. So under rho-zCDP each count gets noise
    N(0, steps d/(2 rho)), as in HLY21. If [lower, upper] contains a point below
    which `rank` records lie, the result without noise is close to this point: within
    (upper - lower)/2^(steps + 1).

    Parameters
    ----------
    below : callable
        Maps points, (trials,) or for d coordinates (trials, d), to the numbers of records below.
    rank : float
        Number of records that should lie below the point.
    lower : ndarray of shape (trials,) or (trials, d)
        Lower end, public or computed from paid releases.
    upper : float or ndarray
        Upper end, which broadcasts to `lower`.
    steps : int
        Number of halvings.
    ledger : Ledger
        Ledger, spent completely.

    Returns
    -------
    ndarray
        Midpoints of the last intervals, in the shape of `lower`.
    """
    low, high = np.broadcast_arrays(lower, upper)
    sensitivity = float(np.sqrt(low[0].size))
    for part in ledger.split(*[1 / steps] * steps):
        middle = low / 2 + high / 2
        left = part.add_noise(below(middle), sensitivity) < rank
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.asarray(low / 2 + high / 2)


def clipped_mean_at_private_radius(
    offset: Floats,
    held: Floats,
    rank: float,
    upper: Floats,
    steps: int,
    search: Ledger,
    fine: Ledger,
) -> tuple[Floats, Floats]:
    """Release the mean of vectors, projected to a ball that contains about `rank` of them.

    The vectors are offsets of n records from a centre, and the ball is around 0. Its radius C
    (`radius` in the code) is a private quantile of the norms of the offsets, for which the ledger
    `search` pays. The ledger `fine` pays for the noise of the mean (`noisy_projected_mean`).

    Parameters
    ----------
    offset : ndarray of shape (trials, m, d)
        Differences between records and a centre.
    held : ndarray of shape (trials, m)
        Multiplicity of each offset; each row adds up to n.
    rank : float
        Number of offsets that should lie in the ball; values below 1 count as 1.
    upper : ndarray of shape (trials,)
        Largest radius of the search.
    steps : int
        Number of halvings of the search.
    search, fine : Ledger
        Ledgers of the radius and of the mean; both are spent completely.

    Returns
    -------
    tuple of two ndarray of shape (trials, d)
        Means with noise, and before noise.
    """
    length = norms(offset)
    radius = private_quantile_by_bisection(
        lambda points: (held * (length < points[:, None])).sum(axis=1),
        max(1.0, rank), np.zeros_like(upper), upper, steps, search,
    )  # fmt: skip
    return noisy_projected_mean(offset, held, radius, fine)


def noisy_projected_mean(
    offset: Floats, held: Floats, radius: Floats, ledger: Ledger
) -> tuple[Floats, Floats]:
    """Release the mean of vectors, projected to a ball around 0.

    Let C be the radius of the ball and n the number of vectors. Two points of the ball are at most
    2C apart. So replacing a record moves the mean of the projections by at most 2C/n in l2.

    Parameters
    ----------
    offset : ndarray of shape (trials, m, d)
        Vectors, for example differences between records and a centre.
    held : ndarray of shape (trials, m)
        Multiplicity of each vector; each row adds up to n.
    radius : ndarray of shape (trials,)
        Radius of the ball, public or released before.
    ledger : Ledger
        Ledger of the noise, spent completely.

    Returns
    -------
    tuple of two ndarray of shape (trials, d)
        Means with noise, and before noise.
    """
    length, n, bound = norms(offset), held[0].sum(), radius[:, None]
    weights = held / n * (bound / np.maximum(length, bound))
    clipped = (weights[:, None] @ offset)[:, 0]
    return ledger.add_noise(clipped, 2 * bound / n), clipped
