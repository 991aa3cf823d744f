"""Ranks by noisy binary search, and a mean around a centre, clipped at such a rank.

HLY21 (Huang, Liang, Yi 2021) and PLAN (Aumueller, Lebeda, Nelson, Pagh 2024) are made of these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.samples.rows import norms

__all__ = ["mean_in_ball", "noisy_rank"]


def noisy_rank(
    below: Callable[[Floats], Floats],
    rank: float,
    lower: Floats,
    upper: float | Floats,
    steps: int,
    ledger: Ledger,
) -> Floats:
    """Release the point in [lower, upper] that `rank` records are below; spend the ledger.

    Each step asks how many are below the middle of what is left, at 1/steps of the ledger, and
    keeps the half that the noisy answer points to. A replaced record moves a count by at most 1,
    and those of d coordinates by at most sqrt(d) in l2; steps compose adaptively. Under zCDP that
    is HLY21's N(0, steps d/(2 rho)) on every count. What is found is within (upper -
    lower)/2^(steps + 1) of the end of a half where noise would have had to turn the answer.

    Parameters
    ----------
    below : callable
        How many records of each trial are below points, (trials,), or (trials, d) by coordinate.
    rank : float
    lower : (trials,) or (trials, d) array
        A public end, which gives the shape; or one that rests on releases that are paid for.
    upper : float or array
    steps : int
    ledger : Ledger

    Returns
    -------
    array of the shape of `lower`
    """
    low, high = np.broadcast_arrays(lower, upper)
    sensitivity = float(np.sqrt(low[0].size))
    for part in ledger.split(*[1 / steps] * steps):
        middle = low / 2 + high / 2
        left = part.add_noise(below(middle), sensitivity) < rank
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.asarray(low / 2 + high / 2)


def mean_in_ball(
    offset: Floats,
    held: Floats,
    rank: float,
    upper: Floats,
    steps: int,
    search: Ledger,
    fine: Ledger,
) -> tuple[Floats, Floats]:
    """The mean of offsets from a centre, projected on a ball that holds `rank` of them, with noise.

    The radius C is `noisy_rank` of their norms, paid by `search`. A projected record moves by at
    most 2C, so the mean has l2 sensitivity 2C/n, paid by `fine`.

    Parameters
    ----------
    offset : (trials, m, d) array
    held : (trials, m) array
        How many records there are of each, n in all.
    rank : float
    upper : (trials,) array
        C is sought in [0, upper].

    Returns
    -------
    tuple of two (trials, d) arrays
        With noise, and before it.
    """
    length, n = norms(offset), held[0].sum()
    radius = noisy_rank(
        lambda points: (held * (length < points[:, None])).sum(axis=1),
        max(1.0, rank), np.zeros_like(upper), upper, steps, search,
    )  # fmt: skip
    bound = radius[:, None]
    weights = held / n * (bound / np.maximum(length, bound))
    clipped = (weights[:, None] @ offset)[:, 0]
    return fine.add_noise(clipped, 2 * bound / n), clipped
