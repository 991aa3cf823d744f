"""Private quantiles by the exponential mechanism."""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples.base import Sample, share_of_records

__all__ = ["audit_pairs", "private_quantile"]

# The cap on scores makes the total probability of all points with capped scores less than 2^-60.
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

    The mechanism is the exponential mechanism over t in [lower, upper] with the score

        -max(0, #{x < t - h} - q n, q n - #{x <= t + h}),    h = resolution,

    capped from below at -W (`cap` in the code). A replaced record changes either count by at most
    1, so the score has sensitivity 1. The score is 0 within h of a quantile, so that the mechanism
    finds a value shared by many records. At q = 1/2, on data without ties, it is the
    inverse-sensitivity mechanism of the median, up to a constant (L17).

    The points x - h and x + h cut [lower, upper] into pieces of constant score. The code draws a
    piece, weighted by its length, and then a uniform point in it. The cap does not change the
    sensitivity, and with it only records with ranks within W of q n matter. W depends on public
    numbers alone; the total probability of pieces with capped scores is below 2^-60.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers; records outside [lower, upper] are clipped to it.
    q : float
        Probability of the quantile, in (0, 1).
    lower, upper : float or ndarray of shape (trials,)
        Finite ends, public or released before; lower < upper.
    resolution : float or ndarray of shape (trials,)
        Distance h up to which a point counts as a quantile, above 0.
    ledger : Ledger
        Spent completely.

    Returns
    -------
    ndarray of shape (trials,)
        Private quantiles.

    Raises
    ------
    ValueError
        If `q`, the ends or the resolution are out of range.
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
    target = share_of_records(q, sample.n)
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
    return ledger.record_output(np.asarray(found))


def audit_pairs(n: int, q: float, lower: float, upper: float, resolution: float) -> list[Pair]:
    """Return a pair of datasets on which one record changes scores in both directions.

    Let k = ceil(q n) - 1, h = resolution and s = (upper - lower)/20. k records lie at `lower`, two
    at lower + 2h + s, and all others at `upper`. Around the two records there are a short piece of
    length s, with k records below it, and a long piece, with k + 2 records below it. If q n is a
    whole number, both have score -1. The pair moves one record from `upper` to `lower`, which
    raises the score of the short piece to 0 and lowers the score of the long piece to -2.

    Parameters
    ----------
    n : int
        Records in each dataset.
    q, lower, upper, resolution : float
        Arguments of `private_quantile`.

    Returns
    -------
    list of Pair
        One pair, or none if q n is too close to 0 or n.
    """
    short = (upper - lower) / 20
    below = int(np.ceil(share_of_records(q, n))) - 1
    if below < 1 or below + 3 > n:
        return []
    alone = lower + 2 * resolution + short
    records = np.repeat([lower, alone, upper], [below, 2, n - below - 2])
    return [Pair.replacing("around_the_quantile", records, n - 1, lower)]
