"""Clipped means of heavy-tailed data, with the clip that balances clipping bias and noise.

Assumption: a record X has mean mu in [-R, R], and E|X - mu|^k <= 1. Set R = 0 if mu is known up to
an error as small as the error of the estimate. See KSU20, section 3 and Theorem 3.5. An estimator
with the parameter `scale` assumes E|X - mu|^k <= scale^k. It applies these formulas to X/scale and
R/scale, and multiplies the lengths that they give by scale.

Bias. Records are clipped to +-(R + T), where T is the threshold. Clipping moves the mean by at most
E(|X - mu| - T)_+, where (y)_+ = max(y, 0). For y >= 0,

    (y - T)_+ <= b y^k,   b = b(T) = (k-1)^(k-1)/(k^k T^(k-1)),

with equality at y = kT/(k-1). So the bias is at most b(T) (`worst_clipping_bias`). Two-point
distributions approach this bound as T grows.

Error. Let the error be B + s Z, where B is the bias, s the sensitivity, and Z symmetric noise at
sensitivity 1. Let t(p) be the point that Z exceeds with probability p. The error quantile is the
number x that |B + s Z| exceeds with probability beta. Let p be the probability that B + s Z is
below -x. Then B + s Z is above x with probability beta - p. Hence s t(p) = x + B and
s t(beta - p) = x - B. So each p <= beta/2 determines

    u = B/s = (t(p) - t(beta - p))/2,   v = x/s = (t(p) + t(beta - p))/2.

For Laplace noise of scale 1, v = ln(cosh(u)/beta). For n records, `best_clip` sets B = b(T) and
s = 2 (R + T)/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.local_votes import (
    GRADED_RATIO,
    TYPICAL_RATIO,
    Votes,
    graded_votes,
    three_values,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.local import count_heads, sum_votes
from dpbench.registry import MomentOrder, MomentScale, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["LocalMean", "TunedClippedMean", "best_clip", "worst_clipping_bias"]


def worst_clipping_bias(threshold: float, k: float) -> float:
    """Return a bound on the bias of a mean if records are clipped at distance T from the mean.

    Let mu be the mean of a record X. Clipping moves the mean by at most E max(|X - mu| - T, 0). The
    result bounds this expectation for all X with E|X - mu|^k <= 1. T = `threshold` > 0 and the bias
    are in the unit of the data, and k >= 2.
    """
    return float(((k - 1) / k) ** (k - 1) / k * threshold ** -(k - 1))  # k^k may overflow


@cache
def best_clip(
    k: float, radius: float, beta: float, effective: float, budget: Budget
) -> tuple[float, float]:
    """Return the clipping threshold with the smallest error quantile, and that quantile.

    Records X of mean mu have E|X - mu|^k <= 1. They are clipped to +-(R + T), R = `radius`. The
    error of the noisy mean is B + s Z. Here B = b(T) is the largest bias (`worst_clipping_bias`),
    s = 2 (R + T)/n is the sensitivity, and Z is noise at sensitivity 1. T minimises the 1 - beta
    quantile x of |B + s Z|. Let p <= beta/2 be the probability that B + s Z is below -x. The search
    is over p, because each p determines u = B/s, and then b(T) = u s determines T. For Laplace
    noise the quantile is convex in T, because s ln(cosh(B/s)/beta) is convex in (B, s).

    `effective` is n/q, where q is the 1 - beta quantile of the absolute noise at sensitivity 1. It
    carries the scale of the noise; the budget gives the noise's distribution. The quantile is that
    of a distribution with the largest bias. Lengths are in the unit of the data.
    """
    from scipy.optimize import brentq, minimize_scalar

    q = budget.noise_quantile(beta)
    log_bias = float(np.log(worst_clipping_bias(1.0, k)))
    log_radius = float(np.log(radius)) if radius else -np.inf

    def tail(p: float) -> float:
        point = float(budget.noise_tail(np.asarray(min(p, 1 - p)), 1.0, 1.0))
        return point / q if p <= 0.5 else -point / q

    def solve(log_fall: float) -> tuple[float, float]:
        share = float(np.exp(-np.exp(log_fall)))  # p is this share of beta/2
        far, near = tail(beta / 2 * share), tail(beta / 2 * (2 - share))
        log_slope = float(np.log((far - near) / effective))  # ln(2u/n)

        def excess(log_t: float) -> float:
            log_width = float(np.logaddexp(log_radius, log_t))
            return log_bias - (k - 1) * log_t - log_slope - log_width

        t = float(np.exp(brentq(excess, -1e3, 1e3, xtol=1e-14)))
        return t, (radius + t) * (far + near) / effective

    def error(log_fall: float) -> float:
        return solve(log_fall)[1]

    best = minimize_scalar(error, bounds=(-14, 6), method="bounded", options={"xatol": 1e-9})
    return solve(float(best.x))


@validated
class _Clipped(Estimator):
    """Base class of means of records clipped to +-(R + T), with a public threshold T.

    R = `radius` bounds the mean. T depends on the number of records, the budget and the parameters,
    not on the data.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: records X of mean mu have E|X - mu|^k <= scale^k.
    scale : float > 0
        Bound on the k-th root of the central moment of order k, in the unit of the data. For k = 2
        it bounds the standard deviation.
    radius : float >= 0
        R, a public bound on the absolute value of the mean, in the unit of the data. Set it to 0 if
        the mean is known up to an error as small as the error of the estimate.
    beta : float in (0, 1)
        Failure probability of the error bound for which T is tuned.
    """

    k: MomentOrder
    scale: MomentScale
    radius: Radius = 0.0
    beta: Probability = 0.1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = MomentSpread(self.k, self.scale)
        return spread, MeanWithin(self.radius, spread)

    @property
    def _unit_radius(self) -> float:
        """Public bound on the absolute value of the mean, in units of `scale`."""
        return min(self.radius / self.scale, 1e300)


@validated
class TunedClippedMean(_Clipped):
    """Clipped mean of heavy-tailed data with a bounded k-th moment (KSU20, section 3).

    Records are clipped to +-(R + T). R = `radius` bounds the mean, and T is a threshold. The mean
    of n clipped records has sensitivity 2 (R + T)/n. The docstring of
    `dpbench.estimators.heavy_tailed` derives the error.

    Parameters
    ----------
    policy : {'minimax', 'ksu20_order', 'keep_all'}
        Rule for T. Let beta be the failure probability, and q the 1 - beta quantile of the absolute
        noise at sensitivity 1 (``ln(1/beta)/epsilon`` for pure DP).

        - ``minimax``: T minimises the 1 - beta quantile of the largest bias plus the noise
          (`best_clip`). For R = 0 this T is (n/q)^(1/k) times a factor that depends on k, beta and
          the shape of the noise.
        - ``ksu20_order``: T = c (n ln(1/beta)/q)^(1/k), the T of KSU20 up to its constant.
        - ``keep_all``: T = (n/beta)^(1/k). With probability 1 - beta this T clips no record, by
          Markov's inequality and a union bound. L15 has the threshold sqrt(n), which is this T for
          k = 2 without the factor beta^(-1/2).

        Each T is in units of `scale`.
    c : float > 0
        Constant c of ``ksu20_order``.
    threshold : float > 0, optional
        Value of T that overrides `policy`, in the unit of the data.
    """

    policy: Literal["minimax", "ksu20_order", "keep_all"] = "minimax"
    c: Annotated[float, Field(gt=0)] = 0.7
    threshold: Annotated[float, Field(gt=0)] | None = None

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """Return the threshold T, in the unit of the data.

        Records are clipped to +-(radius + T).
        """
        if self.threshold is not None:
            return self.threshold
        if self.policy == "keep_all":
            return self.scale * float((n / self.beta) ** (1 / self.k))
        effective = n / budget.noise_quantile(self.beta)
        if self.policy == "ksu20_order":
            unit = float(self.c * (effective * np.log(1 / self.beta)) ** (1 / self.k))
            return self.scale * unit
        return self.scale * best_clip(self.k, self._unit_radius, self.beta, effective, budget)[0]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # With R = 0 and `minimax` the error is n^(-(k-1)/k) times the error at n = 1.
        if self.policy != "minimax" or self.radius or self.threshold is not None:
            return {}
        _, unit_error = best_clip(self.k, 0.0, beta, 1 / budget.noise_quantile(beta), budget)
        power = self.k / (self.k - 1)
        return {"privacy": float((unit_error / (alpha / self.scale)) ** power)}


@cache
def _laguerre_nodes() -> tuple[Floats, Floats]:
    """Return nodes and weights of a quadrature for integrals of f(s) e^-s over s > 0."""
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    return nodes, weights


def _averaging_budget(budget: Budget) -> Budget:
    """Return `budget` for noise that is added to every single record before averaging.

    A pure-DP budget is returned with Laplace noise, even if it has staircase noise, and with the
    neighbouring relation ``replace``. An (epsilon, delta) budget with Tulap noise is returned with
    Laplace noise. Any other budget is returned unchanged.
    """
    if isinstance(budget, ApproxDP) and budget.noise_by == "tulap":
        return replace(budget, noise_by="laplace")
    return PureDP(budget.epsilon) if isinstance(budget, PureDP) else budget


@validated
class LocalMean(_Clipped):
    """Mean in the local model of privacy: each record is clipped and privatised by itself (DJW13).

    Every record is clipped to [-C, C], C = R + T. R = `radius` bounds the mean, and T is a
    threshold. The clipped record has sensitivity 2C and is released with the whole budget. The
    costs of different records do not add up, because each release uses one record. The estimate
    averages the n releases. See DJW13, Corollary 1; KSU20, section 1.2.

    Parameters
    ----------
    policy : {'minimax', 'ksu20_order'}
        Rule for T. Let s be the standard deviation of the averaged noise at C = 1.

        - ``minimax``: T minimises the 1 - beta quantile of the largest bias plus the averaged
          noise, as if the noise were normal. For R = 0 this T is s^(-1/k) times a factor that
          depends on k and beta.
        - ``ksu20_order``: T = (n (ln(1/beta)/q)^2)^(1/(2k)), with q the 1 - beta quantile of the
          absolute noise at sensitivity 1; (n epsilon^2)^(1/(2k)) for pure DP. This T has the rate
          of ``minimax``, but not the constant.

        Each T is in units of `scale`.
    mechanism : {'additive', 'randomised_response', 'three_values', 'graded_votes'}
        Release of one clipped record x in [-C, C].

        - ``additive``: x plus noise of sensitivity 2C.
        - ``randomised_response``: C/t with probability (1 + t x/C)/2, and -C/t otherwise, where
          t = tanh(epsilon/2). This has mean x and variance C^2/t^2 - x^2. The probabilities are
          between (1-t)/2 and (1+t)/2. The ratio of these numbers is e^epsilon, so the release is
          epsilon-DP (`budget.pure_epsilon`). For small epsilon the standard deviation is about
          2C/epsilon; Laplace noise has 2 sqrt(2) C/epsilon.
        - ``three_values``: C/(b-a), 0 or -C/(b-a), of mean x. The function `three_values` computes
          the numbers a and b, which determine the probabilities. The variance is small for records
          near 0. T is chosen for records with mean |x| = C/20. For these the standard deviation is
          0.84 times that of randomised response at epsilon = 1, and 0.79 times that of Gaussian
          noise at mu = 1.
        - ``graded_votes``: as ``three_values``, with numbers that are better for zCDP, and with ten
          grades of a vote for GDP (`dpbench.estimators.local_votes`). T is chosen for records with
          mean |x| = C/100. For these the standard deviation is 0.79 times that of
          ``three_values`` at mu = 1, and 0.77 times at rho = 1/2.
    """

    policy: Literal["minimax", "ksu20_order"] = "minimax"
    mechanism: Literal["additive", "randomised_response", "three_values", "graded_votes"] = (
        "additive"
    )
    bounded_in: ClassVar[Literal["local"]] = "local"

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """Return the threshold T, in the unit of the data.

        Records are clipped to +-(radius + T). The budget is that of every record.
        """
        if self.policy == "ksu20_order":
            epsilon = np.log(1 / self.beta) / _averaging_budget(budget).noise_quantile(self.beta)
            return self.scale * float((n * epsilon**2) ** (1 / (2 * self.k)))
        sd = self._release_sd(budget) / np.sqrt(n)
        effective = float(-1 / (sd * ndtri(self.beta / 2)))
        normal = ZCDP(1.0)  # its noise
        return self.scale * best_clip(self.k, self._unit_radius, self.beta, effective, normal)[0]

    def _release_sd(self, budget: Budget) -> float:
        """Return a bound on the standard deviation of the release of one record x in [-1/2, 1/2].

        For ``three_values`` the bound is for records with mean |x| = 1/40, and for ``graded_votes``
        for records with mean |x| = 1/200.
        """
        if self.mechanism == "randomised_response":
            return float(0.5 / np.tanh(budget.pure_epsilon / 2))
        if (votes := self._votes(budget)) is not None:
            graded = self.mechanism == "graded_votes"
            return votes.typical_sd(GRADED_RATIO if graded else TYPICAL_RATIO) / 2
        # E Z^2 is the integral of t(e^-s/2)^2 e^-s over s > 0, with t(p) the upper p-quantile.
        s, weights = _laguerre_nodes()
        return float(
            np.sqrt(weights @ _averaging_budget(budget).noise_tail(np.exp(-s) / 2, 1.0, 1.0) ** 2)
        )

    def _votes(self, budget: Budget) -> Votes | None:
        """Return the votes that release a record; None for the other mechanisms."""
        if self.mechanism == "graded_votes":
            return graded_votes(budget)
        if self.mechanism == "three_values":
            return Votes(*(np.array([x]) for x in (*three_values(budget), 1.0)))
        return None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        clipped = sample.clipped_mean(-bound, bound)
        if self.mechanism == "additive":
            return Estimate(ledger.add_noise(clipped, 2 * bound, draws=sample.n), clipped)
        budget = ledger.pay_for_custom_mechanism(
            f"{self.mechanism.replace('_', ' ')} of every record"
        )
        if (votes := self._votes(budget)) is not None:
            total = sum_votes(sample, bound, votes.low, votes.high, votes.weights, ledger.rng)
            return Estimate(total / sample.n * (bound / votes.slope), clipped)
        lean = float(np.tanh(budget.pure_epsilon / 2))
        heads = count_heads(sample, bound, lean, ledger.rng)
        return Estimate((2 * heads / sample.n - 1) * (bound / lean), clipped)
