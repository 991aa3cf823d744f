"""What a number of one notion of privacy is worth in another.

A test of neighbours of type I error a has a type II error of at least f(a). mu-GDP is the promise
f >= G, G(a) = Phi(Phi^-1(1 - a) - mu) [1]_: convex, G(0) = 1, G(1) = 0.

Pure to Gaussian. epsilon-DP is f(a) >= max(1 - e^epsilon a, e^-epsilon (1 - a)), two segments from
(0, 1) and (1, 0) that meet at a = f(a) = 1/(1 + e^epsilon). A convex G is below a segment if it is
below at both ends. So epsilon-DP implies mu-GDP if and only if G is below where they meet, that is
if Phi(mu/2) >= 1/(1 + e^-epsilon): ln(Phi(mu/2)/Phi(-mu/2)) >= epsilon.

The exponential mechanism. Its scores times epsilon/(2 sensitivity) move by at most epsilon/2 each,
and the logarithm of its normalising sum by a constant: likelihood ratios of neighbours are in
[e^(t-epsilon), e^t] for some t. A test of size a has then at most the power
min(e^t a, 1 - e^(t-epsilon) (1 - a)): two segments again, which meet at a size q and a power p
with logit p - logit q = epsilon. As before mu-GDP is implied if and only if
mu >= Phi^-1(p) - Phi^-1(q). With h = Phi^-1 of the logistic function, that is
h(x + epsilon/2) - h(x - epsilon/2) for some x, and largest at x = 0: h is odd, and concave where
it is positive, for its inverse, ln Phi(z) - ln Phi(-z), has the second derivative m'(z) - m'(-z),
m = phi/(1 - Phi), and m is convex [2]_. So the mechanism costs 2 h(epsilon/2), which is what
epsilon/2-DP does.

Pure to zCDP. Neighbours under epsilon-DP are no easier to tell than randomised response, a bit that
is kept with odds e^epsilon [5]_, whose Renyi divergence of order a is, with u = epsilon/2,
(ln cosh((2a - 1) u) - ln cosh u)/(a - 1). L(y) = ln cosh(sqrt(y)) has the derivative
tanh(sqrt(y))/(2 sqrt(y)), which falls, so L((2a - 1)^2 u^2) - L(u^2) is at most the step
4 a (a - 1) u^2 times the slope at u^2, tanh(u)/(2u): the divergence is at most a epsilon tanh(u),
which is (epsilon tanh(epsilon/2))-zCDP. It is attained as a tends to 1. (For Laplace noise alone
epsilon + e^-epsilon - 1 is exact [6]_; no step under zCDP has that noise.)

References
----------
.. [1] J. Dong, A. Roth, W. Su, "Gaussian differential privacy", JRSS B 2022.
.. [2] M. Sampford, "Some inequalities on Mill's ratio and related functions", Annals of
   Mathematical Statistics 1953.
.. [3] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018.
.. [4] C. Dwork, A. Roth, "The algorithmic foundations of differential privacy", 2014.
.. [5] P. Kairouz, S. Oh, P. Viswanath, "The composition theorem for differential privacy",
   ICML 2015.
.. [6] C. Harrison, P. Manurangsi, "Exact zCDP characterizations for fundamental differentially
   private mechanisms", FORC 2026, arXiv:2510.25746.
.. [7] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian", arXiv:2004.00010, 2020.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf, erfinv, log_expit, log_ndtr, ndtr, ndtri_exp

__all__ = [
    "analytic_sd", "approx_of_rho", "gaussian_delta", "mu_of_pure", "pure_of_mu", "pure_of_rho",
    "rho_of_pure",
]  # fmt: skip

ROOT8 = float(np.sqrt(8))


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu at which epsilon-DP implies mu-GDP, see the module.

    By Phi(mu/2) - 1/2 = tanh(epsilon/2)/2 where that keeps the digits.
    """
    if epsilon < 1:
        return float(ROOT8 * erfinv(np.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(log_expit(-epsilon)))


def pure_of_mu(mu: float) -> float:
    """The largest epsilon at which epsilon-DP implies mu-GDP."""
    if mu < 1:
        return float(2 * np.arctanh(erf(mu / ROOT8)))
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def rho_of_pure(epsilon: float) -> float:
    """The smallest rho at which epsilon-DP implies rho-zCDP, see the module."""
    return float(epsilon * np.tanh(epsilon / 2))


def pure_of_rho(rho: float) -> float:
    """The largest epsilon at which epsilon-DP implies rho-zCDP.

    Between the roots of epsilon^2/2 and of epsilon^2/(2 + epsilon), as x/(1 + x) <= tanh(x) <= x.
    """
    from scipy.optimize import brentq  # a slow import that few runs need

    # In units of the lower end, which may be as small as 1e-6.
    low, high = np.sqrt(2 * rho), (rho + np.sqrt(rho**2 + 8 * rho)) / 2
    ratio = brentq(
        lambda x: rho_of_pure(x * low) / rho - 1, 1 - 1e-9, high / low + 1e-9, rtol=1e-15
    )
    return float(ratio * low)


def approx_of_rho(rho: float, delta: float) -> float:
    """The smallest epsilon at which rho-zCDP implies (epsilon, delta)-DP, which may be below 0.

    epsilon = min over a > 1 of rho a + ln(1/(a delta))/(a - 1) + ln(1 - 1/a), Proposition 12 of
    [7]_ with (a, rho a)-Renyi DP.
    """
    from scipy.optimize import minimize_scalar

    def epsilon(log_excess: float) -> float:
        a = 1 + np.exp(log_excess)
        spread = -(np.log(a) + np.log(delta)) / (a - 1)
        return float(rho * a + spread + np.log1p(-1 / a))

    # The best order of the looser classical conversion is near 1 + sqrt(ln(1/delta)/rho).
    start = 0.5 * np.log(np.log(1 / delta) / rho)
    found = minimize_scalar(
        epsilon, bounds=(start - 5, start + 5), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.fun)


def gaussian_delta(sd: float, epsilon: float) -> float:
    """The smallest delta for which N(0, sd^2) at sensitivity 1 is (epsilon, delta)-DP.

    Phi(1/(2 sd) - epsilon sd) - e^epsilon Phi(-1/(2 sd) - epsilon sd), Theorem 8 of
    [3]_, in logarithms so that neither e^epsilon overflows nor a tiny delta cancels. Where noise
    is wide, Phi(m + h/2) - Phi(m - h/2) is h phi(m) (1 + h^2 (m^2 - 1)/24), up to h^4.
    """
    h, m = 1 / sd, -epsilon * sd
    a, b = m + h / 2, m - h / 2
    if h < 1e-4 and m > -37:
        between = h * np.exp(-(m**2) / 2) / np.sqrt(2 * np.pi) * (1 + h**2 * (m**2 - 1) / 24)
        return float(between - np.expm1(epsilon) * ndtr(b))
    first, second = log_ndtr(a), epsilon + log_ndtr(b)
    return float(np.exp(first) * -np.expm1(second - first))


def analytic_sd(epsilon: float, delta: float) -> float:
    """The smallest standard deviation at sensitivity 1 that is (epsilon, delta)-DP.

    `gaussian_delta` falls as it grows, from 1 at 1e-6 (for any epsilon below 1e11); the classical
    value at the smaller of epsilon and 1 suffices by Theorem A.1 of [4]_.
    """
    from scipy.optimize import brentq  # a slow import that few runs need

    def excess(log_sd: float) -> float:
        return gaussian_delta(np.exp(log_sd), epsilon) - delta

    enough = np.sqrt(2 * np.log(1.25 / delta)) / min(epsilon, 1.0)
    log_sd = brentq(excess, np.log(1e-6), np.log(enough), xtol=1e-15, rtol=1e-14)
    return float(np.exp(log_sd))
