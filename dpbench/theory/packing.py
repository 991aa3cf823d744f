"""A lower bound in many dimensions: a packing of laws that a private estimator must tell apart.

Lemma (KSU20, Lemma 6.2, with constants). Let M laws have total-variation distance at most tau
from each other, and let an epsilon-DP procedure name the right one with probability 1 - beta
from n records. Then n >= ln((M-1)(1-beta)/beta)/ln(1 + tau (e^epsilon - 1)).

Proof. Change one record's law from P to Q, the others staying as they are. The probability of
an answer, given that record, is some phi with phi(x) <= e^epsilon phi(y); P and Q share a part of
mass 1 - tau, so the probability grows by a factor of at most
((1-tau) m + tau e^epsilon m)/m = 1 + tau (e^epsilon - 1). After n records the law of the answer
under P_j is at most that to the n times the law under P_i. So under P_i the M - 1 wrong answers
have a total probability of at least (M-1)(1-beta)(1 + tau (e^epsilon - 1))^-n, which is at
most beta.

Laws (KSU20, Theorem 6.1): where a code word has a one a coordinate is p^(-1/2) with
probability p = alpha^2/d, else 0. Words at distance d/4 or more have means sqrt(d/4) sqrt(p)
= alpha/2 apart, so that an error below alpha/4 names the word; tau <= 1 - (1-p)^d. By Gilbert
and Varshamov there are at least 2^d/sum_(i < d/4) C(d, i) such words, above 2^(0.188 d).

KSU20 is G. Kamath, V. Singhal, J. Ullman, "Private mean estimation of heavy-tailed distributions",
COLT 2020.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from dpbench.privacy import Budget, PureDP
from dpbench.theory.lower_bounds import BETA

__all__ = ["code_size", "packing_lower_bound"]


def code_size(d: int) -> float:
    """The logarithm of Gilbert's and Varshamov's bound on binary words d/4 apart."""
    i = np.arange(-(-d // 4))
    log_choose = gammaln(d + 1) - gammaln(i + 1) - gammaln(d - i + 1)
    return float(d * np.log(2) - logsumexp(log_choose))


def packing_lower_bound(n: int, d: int, budget: Budget) -> float:
    """An error that every estimator exceeds with probability 0.1 on one of the laws.

    alpha/4 for the largest alpha at which the lemma needs n records, p being at most 1/2. NaN but
    for pure DP.
    """
    if not isinstance(budget, PureDP):
        return float("nan")
    size = code_size(d)
    # M is a whole number, and above e^30 so large that M - 1 is as good as M.
    odds = (np.log(np.floor(np.exp(size) + 1e-9) - 1) if size < 30 else size) + np.log(1 / BETA - 1)
    log_tau = _log_expm1(odds / n) - _log_expm1(budget.epsilon)
    tau = np.exp(min(log_tau, -2e-16))  # below 1 after rounding
    p = -np.expm1(np.log1p(-tau) / d) if log_tau < 0 else 0.5
    return float(np.sqrt(d * min(p, 0.5)) / 4)


def _log_expm1(x: float) -> float:
    """ln(e^x - 1) of x > 0, where e^x may overflow."""
    return float(x + np.log(-np.expm1(-x)))
