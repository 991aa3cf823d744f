"""Conversions between notions of privacy: pure DP, zCDP, GDP and approximate DP.

Phi and phi are the standard normal distribution function and density. Let f(a) be the smallest
type II error of tests of neighbouring datasets with type I error a. By definition, mu-GDP means
f >= G for G(a) = Phi(Phi^-1(1 - a) - mu) (DRS22). G is convex, with G(0) = 1 and G(1) = 0.

Pure DP to GDP (`mu_of_pure`). epsilon-DP means f(a) >= max(1 - e^epsilon a, e^-epsilon (1 - a)).

1. The right-hand side consists of two segments, from (0, 1) and from (1, 0), which meet where
   a = f(a) = 1/(1 + e^epsilon).
2. The convex G lies below a segment if and only if it does at both ends. So epsilon-DP implies
   mu-GDP if and only if G is below the point where the segments meet.
3. This condition is Phi(mu/2) >= 1/(1 + e^-epsilon), or ln(Phi(mu/2)/Phi(-mu/2)) >= epsilon.

Exponential mechanism. With the parameter epsilon it is mu-GDP for the mu of (epsilon/2)-DP, which
is `mu_of_pure` at epsilon/2.

1. Each score times epsilon/(2 sensitivity) moves by at most epsilon/2, and the logarithm of the
   normalising sum moves by a constant. So the likelihood ratios of neighbours are in
   [e^(t-epsilon), e^t] for some t.
2. A test of size a then has power at most min(e^t a, 1 - e^(t-epsilon) (1 - a)). These two segments
   meet at a size q and a power p with logit p - logit q = epsilon. As above, mu-GDP is implied if
   and only if mu >= Phi^-1(p) - Phi^-1(q).
3. Let h be Phi^-1 of the logistic function. The bound is h(x + epsilon/2) - h(x - epsilon/2) for
   some x. It is largest at x = 0, because h is odd and, on the positive numbers, concave. To see
   that h is concave, note that its inverse, ln Phi(z) - ln Phi(-z), has the second derivative
   m'(z) - m'(-z) with m = phi/(1 - Phi), and m is convex [1]_. The largest value is 2 h(epsilon/2).

Pure DP to zCDP (`rho_of_pure`). epsilon-DP implies (epsilon tanh(epsilon/2))-zCDP.

1. No epsilon-DP mechanism distinguishes neighbours better than randomised response, which keeps a
   bit with odds e^epsilon [2]_. With u = epsilon/2, the Renyi divergence of order a of randomised
   response is (ln cosh((2a - 1) u) - ln cosh u)/(a - 1).
2. L(y) = ln cosh(sqrt(y)) has the decreasing derivative tanh(sqrt(y))/(2 sqrt(y)). So
   L((2a - 1)^2 u^2) - L(u^2) is at most the step 4 a (a - 1) u^2 times the derivative at u^2, which
   is tanh(u)/(2u).
3. Hence the divergence is at most a epsilon tanh(u), with equality as a tends to 1.

For the Laplace mechanism alone, the smallest rho is epsilon + e^-epsilon - 1 [3]_. The code does
not use this value, because `Ledger.add_noise` adds Gaussian noise under zCDP.

References
----------
.. [1] M. Sampford, "Some inequalities on Mill's ratio and related functions", Annals of
   Mathematical Statistics 1953.
.. [2] P. Kairouz, S. Oh, P. Viswanath, "The composition theorem for differential privacy",
   ICML 2015.
.. [3] C. Harrison, P. Manurangsi, "Exact zCDP characterizations for fundamental differentially
   private mechanisms", FORC 2026, arXiv:2510.25746.
.. [4] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian", arXiv:2004.00010, 2020.
.. [5] C. Dwork, A. Roth, "The algorithmic foundations of differential privacy", 2014.
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
    """Return the smallest mu such that epsilon-DP implies mu-GDP.

    This mu solves Phi(mu/2) - 1/2 = tanh(epsilon/2)/2, where Phi is the standard normal
    distribution function. For epsilon < 1 the code solves this form, because it loses no digits.
    """
    if epsilon < 1:
        return float(ROOT8 * erfinv(np.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(log_expit(-epsilon)))


def pure_of_mu(mu: float) -> float:
    """Return the largest epsilon such that epsilon-DP implies mu-GDP."""
    if mu < 1:
        return float(2 * np.arctanh(erf(mu / ROOT8)))
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def rho_of_pure(epsilon: float) -> float:
    """Return the smallest rho such that epsilon-DP implies rho-zCDP."""
    return float(epsilon * np.tanh(epsilon / 2))


def pure_of_rho(rho: float) -> float:
    """Return the largest epsilon such that epsilon-DP implies rho-zCDP.

    This epsilon solves epsilon tanh(epsilon/2) = rho. It lies between the solutions of
    epsilon^2/2 = rho and epsilon^2/(2 + epsilon) = rho, because x/(1 + x) <= tanh(x) <= x.
    """
    from scipy.optimize import brentq

    # Search in units of the lower end, which may be as small as 1e-6.
    low, high = np.sqrt(2 * rho), (rho + np.sqrt(rho**2 + 8 * rho)) / 2
    ratio = brentq(
        lambda x: rho_of_pure(x * low) / rho - 1, 1 - 1e-9, high / low + 1e-9, rtol=1e-15
    )
    return float(ratio * low)


def approx_of_rho(rho: float, delta: float) -> float:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP, for a given delta.

    The formula is from Canonne, Kamath and Steinke [4]_, Proposition 12. For each order a > 1,
    a Renyi divergence of at most rho a implies the epsilon
    rho a + ln(1/(a delta))/(a - 1) + ln(1 - 1/a). The result is the minimum over a. A smaller
    epsilon may be possible.

    Parameters
    ----------
    rho : float
        zCDP parameter, above 0.
    delta : float
        Probability in (0, 1).

    Returns
    -------
    float
        Epsilon; a value below 0 means (0, delta)-DP.
    """
    from scipy.optimize import minimize_scalar

    def epsilon(log_excess: float) -> float:
        a = 1 + np.exp(log_excess)
        spread = -(np.log(a) + np.log(delta)) / (a - 1)
        return float(rho * a + spread + np.log1p(-1 / a))

    # Search around 1 + sqrt(ln(1/delta)/rho), the best order of the looser classical conversion.
    start = 0.5 * np.log(np.log(1 / delta) / rho)
    minimum = minimize_scalar(
        epsilon, bounds=(start - 5, start + 5), method="bounded", options={"xatol": 1e-10}
    )
    return float(minimum.fun)


def gaussian_delta(sd: float, epsilon: float) -> float:
    """Return the smallest delta such that N(0, sd^2) noise at sensitivity 1 is (epsilon, delta)-DP.

    Let Phi and phi be the standard normal distribution function and density. Then delta is
    Phi(1/(2 sd) - epsilon sd) - e^epsilon Phi(-1/(2 sd) - epsilon sd) (BW18, Theorem 8). The code
    uses logarithms, because e^epsilon may overflow and a tiny delta may lose all digits.

    Let h = 1/sd and m = -epsilon sd. For wide noise (h < 1e-4) the code replaces
    Phi(m + h/2) - Phi(m - h/2) by h phi(m) (1 + h^2 (m^2 - 1)/24), with a relative error of order
    h^4.

    Parameters
    ----------
    sd : float
        Standard deviation of the noise, above 0.
    epsilon : float
        Privacy parameter, at least 0.

    Returns
    -------
    float
    """
    h, m = 1 / sd, -epsilon * sd
    a, b = m + h / 2, m - h / 2
    if h < 1e-4 and m > -37:
        between = h * np.exp(-(m**2) / 2) / np.sqrt(2 * np.pi) * (1 + h**2 * (m**2 - 1) / 24)
        return float(between - np.expm1(epsilon) * ndtr(b))
    first, second = log_ndtr(a), epsilon + log_ndtr(b)
    return float(np.exp(first) * -np.expm1(second - first))


def analytic_sd(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation at which Gaussian noise is (epsilon, delta)-DP.

    The sensitivity is 1. The smallest delta, `gaussian_delta`, decreases in the standard deviation,
    so the code searches between two values. At the standard deviation 1e-6 delta is 1, for any
    epsilon below 1e11. The value sqrt(2 ln(1.25/delta))/min(epsilon, 1) is large enough by Dwork
    and Roth [5]_, Theorem A.1.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, above 0.
    delta : float
        Probability in (0, 1).

    Returns
    -------
    float
    """
    from scipy.optimize import brentq

    def excess(log_sd: float) -> float:
        return gaussian_delta(np.exp(log_sd), epsilon) - delta

    upper = np.sqrt(2 * np.log(1.25 / delta)) / min(epsilon, 1.0)
    log_sd = brentq(excess, np.log(1e-6), np.log(upper), xtol=1e-15, rtol=1e-14)
    return float(np.exp(log_sd))
