"""Mechanisms of the local model: every record is randomised by itself, and only sums are used.

Let y = clip(x, -bound, bound)/bound for a record x. The functions draw the sums over all records of
a dataset. Estimators pay for them by `dpbench.privacy.Ledger.pay_for_custom_mechanism`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.samples import Sample

__all__ = ["count_heads", "sum_votes"]

# Largest number of records to randomise at once, so that they stay in the CPU cache.
CACHED_RECORDS = 1 << 16


def count_heads(sample: Sample, bound: float, lean: float, rng: np.random.Generator) -> Floats:
    """Toss a coin for each record, and return the number of heads of each dataset, (trials,).

    The coin of a record falls heads with probability (1 + lean y)/2, for `lean` from 0 to 1.
    """
    values, counts = sample.clipped_values(-bound, bound)
    heads = (1 + lean * np.clip(values / bound, -1, 1)) / 2
    if counts is not None:
        return np.asarray(rng.binomial(counts, heads).sum(axis=1), dtype=float)
    tossed = (np.count_nonzero(rng.random(rows.shape) < rows, axis=1) for rows in _pieces(heads))
    return np.concatenate([*tossed]).astype(float)


def sum_votes(
    sample: Sample,
    bound: float,
    low: Floats,
    high: Floats,
    weights: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Draw a vote for each record, and return the sum of the votes of each dataset, (trials,).

    A record votes up with grade i with probability low[i] + (high[i] - low[i]) max(y, 0), and down
    with probability low[i] + (high[i] - low[i]) max(-y, 0). Otherwise it does not vote. An up vote
    counts weights[i], and a down vote -weights[i]. All probabilities of a record sum to at most 1.
    """
    above, counts = sample.clipped_values(0.0, bound)
    below, _ = sample.clipped_values(-bound, 0.0)
    rises, falls = np.clip(above / bound, 0, 1), np.clip(-below / bound, 0, 1)
    grades = [*zip(low, high - low, strict=True)]
    if counts is not None:
        chances = ((a + b * rises, a + b * falls) for a, b in grades)
        return _draw_counted(counts, chances, weights, rng)
    pieces = zip(_pieces(rises), _pieces(falls), strict=True)
    return np.concatenate([_draw_each(*piece, grades, weights, rng) for piece in pieces])


def _pieces(rows: Floats) -> Iterator[Floats]:
    """Cut an array into successive rows of about `CACHED_RECORDS` numbers."""
    step = max(1, CACHED_RECORDS // rows.shape[1])
    return (rows[first : first + step] for first in range(0, len(rows), step))


def _draw_counted(
    counts: Ints,
    probabilities: Iterable[tuple[Floats, Floats]],
    weights: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the sum of the votes of each dataset, for `counts` records of equal probabilities.

    The probabilities are those of an up vote and of a down vote of each grade.
    """
    total, undecided, left = np.zeros(len(counts)), counts, np.ones(counts.shape[1])
    for (up, down), weight in zip(probabilities, weights, strict=True):
        drawn = []
        for probability in (up, down):
            left = np.maximum(left, probability)  # rounding may make it less
            share = probability / np.maximum(left, np.finfo(float).tiny)
            drawn.append(rng.binomial(undecided, share))
            undecided, left = undecided - drawn[-1], left - probability
        total += weight * (drawn[0] - drawn[1]).sum(axis=1)
    return total


def _draw_each(
    rises: Floats,
    falls: Floats,
    grades: Iterable[tuple[float, float]],
    weights: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the sum of the votes in each row of records; a grade is low[i] and high[i] - low[i].

    A vote counts at its own grade and at all later ones, where its weight is taken back.
    """
    chance, total = rng.random(rises.shape), np.zeros(len(rises))
    ups, downs = np.zeros(rises.shape), np.zeros(rises.shape)
    for (a, b), step in zip(grades, weights - np.append(weights[1:], 0.0), strict=True):
        ups, downs = ups + (a + b * rises), downs + (a + b * falls)
        net = np.count_nonzero(chance < ups, axis=1) - np.count_nonzero(chance >= 1 - downs, axis=1)
        total += step * net
    return total
