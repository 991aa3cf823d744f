"""Means of heavy-tailed data: clip where clipping bias and noise balance.

The class is E|X - mu|^k <= 1 with mu known to lie in [-R, R]; R = 0 stands for a mean
known up to the error that is sought. Clipping to +-(R + T) biases the mean by at most
E(|X - mu| - T)_+. Since (x - T)_+ <= b x^k with equality at x = kT/(k-1) for
b = (k-1)^(k-1)/(k^k T^(k-1)), that is at most b, which the bias of two-point laws
approaches as T grows. See KSU20, section 3 and Theorem 3.5.

What errs by B + s Z, with Z the noise at sensitivity 1 and t(p) what it exceeds with probability
p, has an absolute error above x with probability beta if p and beta - p are the shares of
B + s Z < -x and B + s Z > x: s t(p) = x + B and s t(beta - p) = x - B. So each p <= beta/2 names
u = B/s = (t(p) - t(beta - p))/2 and v = x/s = (t(p) + t(beta - p))/2; for Laplace noise of scale 1
v = ln(cosh(u)/beta). `best_clip` takes B = b(T) and s = 2 (R + T)/n.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import ZCDP, Budget, Ledger, PureDP
from dpbench.registry import MomentOrder, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["HeavyTailedMean", "LocalMean", "best_clip", "worst_clipping_bias"]


# Of records over their clip, which a release of three values is made for.
SMALL = 0.05


def worst_clipping_bias(threshold: float, k: float) -> float:
    """The largest E(|X - mu| - T)_+ over E|X - mu|^k <= 1: the module's b."""
    return float(((k - 1) / k) ** (k - 1) / k * threshold ** -(k - 1))  # k^k may overflow


@cache
def best_clip(
    k: float, radius: float, beta: float, effective: float, budget: Budget
) -> tuple[float, float]:
    """The T at which the 1 - beta quantile of |b(T) + noise| is least, and that quantile.

    Of n records, `effective` is n/q, q the 1 - beta quantile of the noise at sensitivity 1: only
    the shape of the budget's noise counts. A search for the p of the module, which gives u, and T
    by b(T) = 2 u (R + T)/n. For Laplace noise the quantile is convex in T, as
    s ln(cosh(B/s)/beta) is in (B, s).
    """
    from scipy.optimize import brentq, minimize_scalar  # a slow import

    q = budget.noise_quantile(beta)
    log_bias = float(np.log(worst_clipping_bias(1.0, k)))
    log_radius = float(np.log(radius)) if radius else -np.inf

    def tail(p: float) -> float:
        point = float(budget.noise_tail(np.asarray(min(p, 1 - p)), 1.0, 1.0))
        return point / q if p <= 0.5 else -point / q

    def found(log_fall: float) -> tuple[float, float]:
        share = float(np.exp(-np.exp(log_fall)))  # p is this share of beta/2
        far, near = tail(beta / 2 * share), tail(beta / 2 * (2 - share))
        log_slope = float(np.log((far - near) / effective))  # of 2u/n

        def excess(log_t: float) -> float:
            wide = float(np.logaddexp(log_radius, log_t))
            return log_bias - (k - 1) * log_t - log_slope - wide

        t = float(np.exp(brentq(excess, -1e3, 1e3, xtol=1e-14)))
        return t, (radius + t) * (far + near) / effective

    def error(log_fall: float) -> float:
        return found(log_fall)[1]

    best = minimize_scalar(error, bounds=(-14, 6), method="bounded", options={"xatol": 1e-9})
    return found(float(best.x))


@validated
class _Clipped(Estimator):
    """To +-(R + T), where T depends on public numbers only: n, the budget and the parameters.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment.
    radius : float >= 0
        R, a bound on abs(mu).
    beta : float in (0, 1)
        Failure probability that T is tuned for.
    """

    k: MomentOrder
    radius: Radius = 0.0
    beta: Probability = 0.1


@validated
class HeavyTailedMean(_Clipped):
    """Clip to +-(R + T), average, add noise of sensitivity 2 (R + T)/n.

    Parameters
    ----------
    policy : {'minimax', 'rate', 'all'}
        How T is chosen. With q the 1 - beta quantile of the budget's noise at
        sensitivity 1 (``ln(1/beta)/epsilon`` for pure DP):

        - ``minimax``: T minimises the 1 - beta quantile of the worst bias and the noise together,
          `best_clip`. For R = 0 that is c (n/q)^(1/k), c a number of k, beta and the noise's law.
        - ``rate``: T = c (n ln(1/beta)/q)^(1/k), that of KSU20 up to its constant.
        - ``all``: T = (n/beta)^(1/k), which keeps every record with probability 1 - beta by
          Markov's inequality and a union bound; tau = sqrt(n) of L15.
    c : float > 0
        The constant of ``rate``.
    clip_at : float > 0, optional
        This T, whatever the policy says.
    """

    policy: Literal["minimax", "rate", "all"] = "minimax"
    c: Annotated[float, Field(gt=0)] = 0.7
    clip_at: Annotated[float, Field(gt=0)] | None = None

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """The T of n records."""
        if self.clip_at is not None:
            return self.clip_at
        if self.policy == "all":
            return float((n / self.beta) ** (1 / self.k))
        effective = n / budget.noise_quantile(self.beta)
        if self.policy == "rate":
            return float(self.c * (effective * np.log(1 / self.beta)) ** (1 / self.k))
        return best_clip(self.k, self.radius, self.beta, effective, budget)[0]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        return noisy_clipped_mean(sample, 0.0, bound, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        # At the T of `minimax` the error is that of one record, times n^(-(k-1)/k).
        if self.policy != "minimax" or self.radius or self.clip_at is not None:
            return {}
        _, one = best_clip(self.k, 0.0, beta, 1 / budget.noise_quantile(beta), budget)
        return {"privacy": float((one / alpha) ** (self.k / (self.k - 1)))}


def _of_many(budget: Budget) -> Budget:
    """The budget with the noise that averages of many have: no staircase."""
    return PureDP(budget.epsilon) if isinstance(budget, PureDP) else budget


@cache
def three_values(budget: Budget) -> tuple[float, float]:
    """The a and b of a record x in [-1, 1] that releases 1, 0 or -1, private for that record.

    1 with probability a + (b-a) x and -1 with a where x > 0, the other way round where x < 0: a
    mixture of what -1, 0 and 1 release, (b, 1-a-b, a) mirrored, (a, 1-2a, a) and (b, 1-a-b, a), so
    that, by convexity, the worst records are these. 1 less -1 has the mean (b-a) x and a variance
    of at most 2a + (b-a) abs(x); a is what makes that over (b-a)^2 least at the mean size `SMALL`.

    - epsilon-DP: a = 1/(e^epsilon + 2), b = e^epsilon a, where 1-2a = b and 1-a-b = a.
    - mu-GDP: b = g(a), g(a) = Phi(Phi^-1(a) + mu) the largest power of a test of size a. Tests of
      0 against 1, by likelihood ratios, add -1 to 1: a + b <= g(2a), as g has a slope of at least 1
      up to Phi(-mu/2) >= 2a. Those of -1 against 1 add 0 to 1: 1-a = g(1-b), by symmetry.
    - rho-zCDP: as GDP of mu = sqrt(2 rho), which implies it.
    """
    amounts = budget.named_amounts
    if "epsilon" in amounts:
        fall = float(np.exp(-budget.pure_epsilon))
        return fall / (1 + 2 * fall), 1 / (1 + 2 * fall)
    mu = amounts["mu"] if "mu" in amounts else float(np.sqrt(2 * amounts["rho"]))
    mu = min(mu, 20.0)  # from where on b is 1 in all digits
    sizes = ndtr(-mu / 2) / 2 * np.geomspace(1e-6, 1, 10_000)
    powers = ndtr(ndtri(sizes) + mu)
    best = np.argmin(_spread(sizes, powers))
    return float(sizes[best]), float(powers[best])


def _spread(low: Floats | float, high: Floats | float) -> Floats:
    """The standard deviation of a release by `three_values`, at the mean size `SMALL`."""
    return np.asarray(np.sqrt(2 * low + (high - low) * SMALL) / (high - low))


@validated
class LocalMean(_Clipped):
    """Each record clipped to +-(R + T) and released by itself; the average of all releases.

    The local model (DJW13, Corollary 1; KSU20, section 1.2). Every record pays the whole budget,
    in parallel.

    Parameters
    ----------
    policy : {'minimax', 'rate'}
        How T is chosen. With s the standard deviation of the averaged noise at R + T = 1:

        - ``minimax``: T minimises the 1 - beta quantile of the worst bias and the averaged noise
          together, taken for normal. For R = 0 that is c/s^(1/k), c a number of k and beta.
        - ``rate``: T = (n (ln(1/beta)/q)^2)^(1/(2k)), (n epsilon^2)^(1/(2k)) for pure DP, with q
          as in `HeavyTailedMean`: the same up to its constant.
    mechanism : {'additive', 'randomised_response', 'three_values'}
        What releases a record x in [-C, C], C = R + T. ``additive``: noise of sensitivity 2C.
        ``randomised_response``: +-C/t with probability (1 +- t x/C)/2, t = tanh(epsilon/2), of mean
        x and variance C^2/t^2 - x^2. A probability is between (1-t)/2 and (1+t)/2, whose ratio is
        e^epsilon: epsilon-DP, at the epsilon that the budget pays for. For small epsilon the
        standard deviation is 2C/epsilon; Laplace noise has 2 sqrt(2) C/epsilon.
        ``three_values``: C/(b-a), 0 or -C/(b-a), see the function of that name, of mean x. Its
        variance is small where nearly all records are: at a mean size of C/20, which T is chosen
        for, the standard deviation is 0.84 of that of randomised response at epsilon = 1, and
        0.79 of that of Gaussian noise at mu = 1.
    """

    policy: Literal["minimax", "rate"] = "minimax"
    mechanism: Literal["additive", "randomised_response", "three_values"] = "additive"
    bounded_in: ClassVar[Literal["local"]] = "local"

    def clipping_threshold(self, n: int, budget: Budget) -> float:
        """The T of n records."""
        if self.policy == "rate":
            epsilon = np.log(1 / self.beta) / _of_many(budget).noise_quantile(self.beta)
            return float((n * epsilon**2) ** (1 / (2 * self.k)))
        sd = self._unit(budget) / np.sqrt(n)
        effective = float(-1 / (sd * ndtri(self.beta / 2)))
        return best_clip(self.k, self.radius, self.beta, effective, ZCDP(1.0))[0]  # normal noise

    def _unit(self, budget: Budget) -> float:
        """The largest standard deviation of one release, over that of noise 1 for 2C."""
        if self.mechanism == "randomised_response":
            return float(0.5 / np.tanh(budget.pure_epsilon / 2))
        if self.mechanism == "three_values":
            return float(_spread(*three_values(budget)) / 2)
        # E Z^2 is the integral of t(e^-s/2)^2 e^-s over s > 0, t as in the module.
        s, weights = np.polynomial.laguerre.laggauss(40)
        return float(np.sqrt(weights @ _of_many(budget).noise_tail(np.exp(-s) / 2, 1.0, 1.0) ** 2))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bound = self.radius + self.clipping_threshold(sample.n, ledger.budget)
        clipped = sample.clipped_mean(-bound, bound)
        if self.mechanism == "additive":
            return Estimate(ledger.add_noise(clipped, 2 * bound, draws=sample.n), clipped)
        budget = ledger.own_chance(f"{self.mechanism.replace('_', ' ')} of every record")
        if self.mechanism == "three_values":
            low, high = three_values(budget)
            votes = sample.votes(bound, low, high, ledger.rng)
            return Estimate(votes / sample.n * (bound / (high - low)), clipped)
        lean = float(np.tanh(budget.pure_epsilon / 2))
        heads = sample.heads(bound, lean, ledger.rng)
        return Estimate((2 * heads / sample.n - 1) * (bound / lean), clipped)
