"""Standard deviations that make Gaussian noise (epsilon, delta)-DP.

.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism", ICML 2018.
.. [2] C. Dwork, A. Roth, "The algorithmic foundations of differential privacy", 2014.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

__all__ = ["analytic_sd", "gaussian_delta"]


def gaussian_delta(sd: float, epsilon: float) -> float:
    """The smallest delta for which N(0, sd^2) at sensitivity 1 is (epsilon, delta)-DP.

    Phi(1/(2 sd) - epsilon sd) - e^epsilon Phi(-1/(2 sd) - epsilon sd), Theorem 8 of
    [1]_, in logarithms so that neither e^epsilon overflows nor a tiny delta cancels.
    """
    first = log_ndtr(1 / (2 * sd) - epsilon * sd)
    second = epsilon + log_ndtr(-1 / (2 * sd) - epsilon * sd)
    return float(np.exp(first) * -np.expm1(second - first))


def analytic_sd(epsilon: float, delta: float) -> float:
    """The smallest standard deviation at sensitivity 1 that is (epsilon, delta)-DP.

    `gaussian_delta` falls as it grows; the root is bracketed from 1e-6 (delta is 1 there
    for any epsilon below 1e11) up to the classical value at the smaller of epsilon and 1,
    which suffices by Theorem A.1 of [2]_.
    """
    from scipy.optimize import brentq  # a slow import that few runs need

    enough = np.sqrt(2 * np.log(1.25 / delta)) / min(epsilon, 1.0)

    def excess(log_sd: float) -> float:
        return gaussian_delta(np.exp(log_sd), epsilon) - delta

    log_sd = brentq(excess, np.log(1e-6), np.log(enough), xtol=1e-15, rtol=1e-14)
    return float(np.exp(log_sd))
