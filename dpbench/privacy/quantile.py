"""Private quantiles by the exponential mechanism."""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples.base import Sample, share_of_records

__all__ = ["audit_pairs", "private_quantile"]

# The cap on scores bounds the total probability of all points with capped scores by 2^-60.
LOG_CAP_ODDS = 60 * np.log(2)
# Number of records above which a `BinnedSample` lists one value for each group of records.
MAX_VALUES = 10_000


def private_quantile(
    sample: Sample,
    q: float,
    lower: float | Floats,
    upper: float | Floats,
    resolution: float | Floats,
    ledger: Ledger,
) -> Floats:
    """Release a q-quantile of each dataset in [lower, upper], up to `resolution`; spend the ledger.

    Let n be the number of records x of a dataset, and let # count records. The mechanism is the
    exponential mechanism over t in [lower, upper] with the score

        -max(0, #{x < t - h} - q n, q n - #{x <= t + h}),    h = resolution.

    A replaced record changes each of the two counts by at most 1, so the score has sensitivity 1.
    The score is 0 if t is within h of a quantile. So the mechanism also finds a quantile that is
    the value of many records. At q = 1/2, on data without ties, the mechanism is the
    inverse-sensitivity mechanism of the median, up to a constant (L17).

    The points x - h and x + h, for all records x, cut [lower, upper] into pieces of constant score.
    The code draws a piece, weighted by its length, and then a uniform point in the piece. To save
    time, scores below a number -W are raised to -W (W is `cap` in the code). The number W depends
    on public numbers alone. The raised scores still have sensitivity 1. They depend only on records
    with ranks within about W of q n. The total probability of pieces with raised scores is
    below 2^-60.

    In a `BinnedSample` with more than `MAX_VALUES` (10^4) such records, one value stands for up to
    g records, where g is (2 W + 5)/10^4, rounded up. So the simulation moves both counts by at most
    g, and the log-probabilities of points by at most epsilon g, for the epsilon of the exponential
    mechanism. If g is large, epsilon g is about 4 (ln((upper - lower)/h) + 42)/10^4.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers; records outside [lower, upper] are clipped to it.
    q : float
        Probability of the quantile, in (0, 1).
    lower, upper : float or ndarray of shape (trials,)
        Finite ends, public or already released; lower < upper.
    resolution : float or ndarray of shape (trials,)
        Distance h up to which a point counts as a quantile, above 0.
    ledger : Ledger
        Ledger, spent completely.

    Returns
    -------
    ndarray of shape (trials,)
        Private quantiles.

    Raises
    ------
    ValueError
        If `q`, the ends or the resolution are out of range.
    """
    lower, upper, resolution = (np.reshape(end, (-1, 1)) for end in (lower, upper, resolution))
    finite = (-np.inf < lower) & (lower < upper) & (upper < np.inf)
    if not (np.all(finite & (resolution > 0) & (resolution < np.inf)) and 0 < q < 1):
        raise ValueError(
            f"needs finite lower < upper, resolution > 0 and 0 < q < 1; got [{lower}, {upper}], "
            f"{resolution}, {q}"
        )
    log_ratio = max(0.0, np.max(np.log(upper / 2 - lower / 2) - np.log(resolution / 2)))
    cap = np.ceil(2 / ledger.budget.exponential_epsilon * (log_ratio + LOG_CAP_ODDS))
    target = share_of_records(q, sample.n)
    first = int(max(0, np.floor(target) - cap - 2))
    last = int(min(sample.n - 1, np.ceil(target) + cap + 1))
    values, counts = sample.ranked(first, last, at_most=MAX_VALUES)
    values = np.clip(values, lower, upper)
    edges = np.clip(np.concatenate([values - resolution, values + resolution], 1), lower, upper)
    order = np.argsort(edges, axis=1, kind="stable")
    edges = np.take_along_axis(edges, order, 1)
    upto = [  # records <= t + h, then records < t - h, for t in the piece after each edge
        np.cumsum(np.take_along_axis(np.concatenate(parts, 1), order, 1), axis=1)
        for parts in ((counts, np.zeros_like(counts)), (np.zeros_like(counts), counts))
    ]
    zeros = np.zeros((sample.trials, 1))
    within, below = (first + np.concatenate([zeros, part], 1) for part in upto)
    scores = -np.clip(np.maximum(below - target, target - within), 0, cap)
    left = np.concatenate([zeros + lower, edges], 1)
    length = np.concatenate([edges, zeros + upper], 1) - left
    with np.errstate(divide="ignore"):
        chosen = ledger.exponential(scores, 1.0, np.log(length))
    rows = np.arange(sample.trials)
    points = left[rows, chosen] + length[rows, chosen] * ledger.rng.random(sample.trials)
    return ledger.record_output(np.asarray(points))


def audit_pairs(n: int, q: float, lower: float, upper: float, resolution: float) -> list[Pair]:
    """Return a pair of datasets on which one record raises one score and lowers another.

    The pair tests `private_quantile`. That function divides [lower, upper] into pieces, gives a
    score to each piece, and favours pieces with high scores. Let k = ceil(q n) - 1, h = resolution
    and s = (upper - lower)/20 (`below`, `resolution` and `short` in the code).

    In the first dataset k records equal `lower`, and two records equal lower + 2h + s. All other
    records equal `upper`. A short piece, of length s, has k records on its left. A long piece has
    k + 2 records on its left. If q n is a whole number, both pieces have score -1. In
    the second dataset one record is moved from `upper` to `lower`. Then the short piece has score
    0, and the long piece has score -2.

    Parameters
    ----------
    n : int
        Number of records in each dataset.
    q : float
        Probability of the quantile, in (0, 1).
    lower, upper : float
        Ends of the range in which the quantile is searched.
    resolution : float
        Distance up to which a point counts as a quantile, above 0.

    Returns
    -------
    list of Pair
        One pair, or none if q n is too close to 0 or n.
    """
    short = (upper - lower) / 20
    below = int(np.ceil(share_of_records(q, n))) - 1
    if below < 1 or below + 3 > n:
        return []
    isolated = lower + 2 * resolution + short
    records = np.repeat([lower, isolated, upper], [below, 2, n - below - 2])
    return [Pair.replacing("around_the_quantile", records, n - 1, lower)]
