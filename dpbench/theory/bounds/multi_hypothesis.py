"""Lower bound on the error from more than two distributions, for pure DP and zCDP.

The bound is for distributions with E|X - mean|^k <= 1, and useful for k > 4.

Notation (name in code).

    k, n, epsilon, rho  moment order, records, privacy parameters
    beta                probability with which the error is at least the bound, 0.1
    J                   the distributions are numbered j = 0, ..., J
    s                   stages of a chain (`Chain.stages`): neighbouring steps from one distribution
                        to the next
    J_s (`steps`)       number of steps of stage s
    P_s (`p`)           probability that a record belongs to stage s, and so is tau_s or -tau_s;
                        other records are 0. The sum P of all P_s is at most 1
    tau_s (`tau`)       absolute value of a record of stage s
    D                   distance of neighbouring means, the same for all steps
    W (`Chain.width`)   largest number of means that one answer may be near to
    L (`Stage.length`)  n P (e^epsilon - 1), under pure DP, where a chain has one stage
    a_s (`Stage.length`)
                        sqrt(I_s), under zCDP. I_s = (e^(2 rho) - 1) E M_s^2/4 bounds a Fisher
                        information. E M_s^2 = nP_s (nP_s + 1 - P_s) (`square`) for
                        M_s ~ Binomial(n, P_s)

Distributions. All non-zero records are negative under distribution 0. Each step of stage s turns a
share 1/J_s of the records of this stage from -tau_s to tau_s, which moves the mean by
D = 2 P_s tau_s/J_s. Under distribution J all non-zero records are positive. D makes the largest of
the J + 1 moments E|X - mean|^k equal to 1.

Statement. Say that a release fails if its error is W D/2 or more. For every private release, the
largest probability of failure over the distributions is at least the value of

    pure DP   a linear program in L, J and W,
    zCDP      a convex program in the a_s, the J_s and W.

If this value is at least beta, each release fails with probability at least beta under one of the
distributions. `PURE_CHAINS` and `ARC_CHAINS` contain chains with values of at least 0.1. Dual
solutions certify them: tests/theory/bounds/test_multi_hypothesis.py solves both programs again, and
checks the solution for zCDP in rational arithmetic.

Several stages. Under zCDP the best chains turn more records, of smaller absolute value, in a step
near their ends than in a step near the middle. For k = 6 and rho = 5e-5 the bound is 3 per cent
larger than that of the best chain of one stage that was tried. Under pure DP several stages would
raise the bound by less than 0.5 per cent.

Comparison with the bound of two distributions (`two_point_lower_bound`). For k <= 4 the bound of
several distributions is not larger. For small epsilon under pure DP, and at rho = 5e-5 under zCDP,
the bound of several distributions is larger by

    k         5     6     8     12
    pure DP   1.7   4.8   9.6   16    per cent
    zCDP      5.0   9.6   16    24    per cent

Unless epsilon or rho is small, the bound of two distributions is larger. The reasons are the bounds
on the effect of a record, e^epsilon - 1 and e^(2 rho) - 1, which are loose for larger epsilon or
rho. For k = 4 the reason is that the proof for zCDP uses divergences of order 2 only. With all
orders, in the limit of small rho, several distributions would be better than two by 1 to 2 per
cent (computed, not proved).

Proof: docs/theory/several_distributions.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpbench.arrays import Floats
from dpbench.privacy import ZCDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA

__all__ = ["ARC_CHAINS", "PURE_CHAINS", "Chain", "Stage", "multi_hypothesis_lower_bound"]


class Stage(NamedTuple):
    """Neighbouring steps of a chain that turn records of one absolute value.

    Parameters
    ----------
    steps : int
        Number J_s of steps from one distribution to the next.
    length : float
        L under pure DP, a_s under zCDP: how far private releases can move during the stage.
    """

    steps: int
    length: float


class Chain(NamedTuple):
    """Distributions in the order of their means, with equal distances between neighbours.

    Parameters
    ----------
    width : int
        Largest number W of means that one answer may be near to.
    stages : tuple of Stage
        The steps from the distribution with the smallest mean to the one with the largest.
    """

    width: int
    stages: tuple[Stage, ...]


def _mirrored(width: int, *half: tuple[int, float]) -> Chain:
    """Return the chain whose stages are `half`, up to its middle stage, and their mirror image."""
    stages = [Stage(*stage) for stage in half]
    return Chain(width, (*stages, *reversed(stages[:-1])))


# With L longer by 0.1 per cent the value would be below 0.1.
PURE_CHAINS = tuple(
    Chain(width, (Stage(24, length),)) for width, length in ((12, 7.8231), (8, 12.541), (6, 17.178))
)
# Stages with about the largest bound for rho = 5e-5 and one k, among a few divisions into stages.
# With arcs longer by 0.1 per cent the value would be below 0.1.
ARC_CHAINS = (
    _mirrored(8, (1, 0.4129), (2, 0.5960), (5, 1.0305), (12, 2.0018)),  # k = 5
    _mirrored(7, (1, 0.4552), (2, 0.6955), (5, 1.2393), (14, 2.7957)),  # k = 6
    _mirrored(6, (2, 0.7855), (6, 1.7156), (14, 3.3514)),  # k = 8
    _mirrored(5, (2, 0.7866), (5, 1.6359), (14, 4.1066)),  # k = 12
)


def multi_hypothesis_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators from more than two distributions.

    Under each distribution a record is not 0 with probability P, which n and the budget determine.
    The distributions differ in the signs of the non-zero records.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment; every distribution has E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator, `PureDP` or `ZCDP`.
    beta : float, default 0.1
        Probability with which the error is at least the bound; only 0.1 is tabulated.

    Returns
    -------
    float
        Error that every private estimator exceeds with probability 0.1 under one of the
        distributions. NaN for other notions, other beta, or so few records that P > 1.
    """
    if not isinstance(budget, PureDP | ZCDP) or beta != BETA:
        return float("nan")
    chains = PURE_CHAINS if isinstance(budget, PureDP) else ARC_CHAINS
    candidates = [(chain, _stage_probabilities(chain, n, budget)) for chain in chains]
    return max(
        (_largest_error(chain, p, k) for chain, p in candidates if p.sum() <= 1),
        default=float("nan"),
    )


def _stage_probabilities(chain: Chain, n: int, budget: PureDP | ZCDP) -> Floats:
    """Return the probability P_s that a record belongs to a stage, for each stage of a chain."""
    lengths = np.array([stage.length for stage in chain.stages])
    with np.errstate(over="ignore"):
        if isinstance(budget, PureDP):
            return np.asarray(lengths / (n * np.expm1(budget.epsilon)))
        square = 4 * lengths**2 / np.expm1(2 * budget.rho)  # E M_s^2
        return np.asarray(2 * square / (n * (1 + np.sqrt(1 + 4 * (1 - 1 / n) * square))))


def _largest_error(chain: Chain, p: Floats, k: float) -> float:
    """Return W D/2, the error at which a release fails, for k-th moments of at most 1.

    The means of the chain's distributions are at distance D, and P_s in `p` is the probability that
    a record belongs to stage s. The largest of all E|X - mean|^k is 1. The error is in the unit of
    the data; it is 0 if records are never different from 0.
    """
    if not np.all(p > 0):
        return 0.0
    steps = np.array([stage.steps for stage in chain.stages])
    tau = steps / (2 * p)  # at D = 1
    numbers = np.arange(steps.sum() + 1)[:, None]
    turned = np.clip((numbers - (np.cumsum(steps) - steps)) / steps, 0, 1)
    chances = np.hstack([p * turned, p * (1 - turned), np.full_like(numbers, 1 - p.sum(), float)])
    means = numbers - steps.sum() / 2  # at D = 1
    distances = np.abs(np.concatenate([tau, -tau, [0.0]]) - means)
    with np.errstate(divide="ignore"):  # logarithms, because powers overflow
        moments = logsumexp(k * np.log(distances), b=chances, axis=1)
    gap = np.exp(-np.max(moments) / k)
    return float(chain.width * gap / 2)
