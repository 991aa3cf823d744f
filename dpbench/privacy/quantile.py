"""Private quantiles by the exponential mechanism."""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples.base import Sample, share

__all__ = ["audit_pairs", "private_quantile"]

# Scores are capped where all points below the cap together weigh less than 2^-60.
NEGLIGIBLE = 60 * np.log(2)


def private_quantile(
    sample: Sample,
    q: float,
    lower: float | Floats,
    upper: float | Floats,
    resolution: float | Floats,
    ledger: Ledger,
) -> Floats:
    """Release a q-quantile of each dataset in [lower, upper], up to `resolution`; spend the ledger.

    The exponential mechanism with score

        -max(0, #{x < t - h} - q n, q n - #{x <= t + h}),    h = resolution,

    over t in [lower, upper], capped from below at -W. A replaced record moves either count by at
    most one, so the score has sensitivity 1. It is 0 within h of a quantile, so that a value
    shared by many records is found. At q = 1/2 on untied data it is the inverse-sensitivity
    mechanism of the median, up to a constant (lecture 17).

    Between neighbouring points of x - h and x + h the score is constant: one draw among these
    pieces, weighed by their lengths, then a uniform one. The cap leaves the privacy as it is and
    lets only the records of ranks within W of q n matter; W rests on public numbers alone, and
    pieces beyond it are chosen with probability below 2^-60 in all.

    Parameters
    ----------
    sample : Sample
        Numbers; those outside [lower, upper] count at its ends.
    q : float in (0, 1)
    lower, upper : float or (trials,) array
        Bounds that are public or released before, ``lower < upper``.
    resolution : float > 0 or (trials,) array
    """
    lower, upper, resolution = (np.reshape(one, (-1, 1)) for one in (lower, upper, resolution))
    finite = (-np.inf < lower) & (lower < upper) & (upper < np.inf)
    if not (np.all(finite & (resolution > 0) & (resolution < np.inf)) and 0 < q < 1):
        raise ValueError(
            f"needs finite lower < upper, resolution > 0 and 0 < q < 1; got [{lower}, {upper}], "
            f"{resolution}, {q}"
        )
    log_ratio = max(0.0, np.max(np.log(upper / 2 - lower / 2) - np.log(resolution / 2)))
    cap = np.ceil(2 / ledger.budget.exponential_epsilon * (log_ratio + NEGLIGIBLE))
    target = share(q, sample.n)
    first = int(max(0, np.floor(target) - cap - 2))
    last = int(min(sample.n - 1, np.ceil(target) + cap + 1))
    values, counts = sample.ranked(first, last)
    values = np.clip(values, lower, upper)
    edges = np.clip(np.concatenate([values - resolution, values + resolution], 1), lower, upper)
    order = np.argsort(edges, axis=1, kind="stable")
    edges = np.take_along_axis(edges, order, 1)
    upto = [  # records <= t + h, then records < t - h, for t in the piece after each edge
        np.cumsum(np.take_along_axis(np.concatenate(parts, 1), order, 1), axis=1)
        for parts in ((counts, np.zeros_like(counts)), (np.zeros_like(counts), counts))
    ]
    none = np.zeros((sample.trials, 1))
    within, below = (first + np.concatenate([none, part], 1) for part in upto)
    scores = -np.clip(np.maximum(below - target, target - within), 0, cap)
    left = np.concatenate([none + lower, edges], 1)
    length = np.concatenate([edges, none + upper], 1) - left
    with np.errstate(divide="ignore"):
        chosen = ledger.exponential(scores, 1.0, np.log(length))
    rows = np.arange(sample.trials)
    found = left[rows, chosen] + length[rows, chosen] * ledger.rng.random(sample.trials)
    return ledger.told(np.asarray(found))


def audit_pairs(n: int, q: float, lower: float, upper: float, resolution: float) -> list[Pair]:
    """Datasets on which a record raises the score of one piece by 1 and lowers all others'.

    Two records are left alone by a short piece, whose rank is one too low, and a long one, whose
    rank is one too high; a record goes from the upper end to the lower.
    """
    short = (upper - lower) / 20
    below = int(np.ceil(share(q, n))) - 1
    if below < 1 or below + 3 > n:
        return []
    alone = lower + 2 * resolution + short
    records = np.repeat([lower, alone, upper], [below, 2, n - below - 2])
    return [Pair.replacing("around_the_quantile", records, n - 1, lower)]
