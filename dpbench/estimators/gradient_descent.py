"""Mean by full-batch gradient descent with clipped gradients and Gaussian noise (DP-SGD)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import under_zcdp
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["Clip", "GradientDescentMean", "Steps", "descend"]

Clip = Annotated[float, Field(gt=0, le=1e100)]
Steps = Annotated[int, Field(ge=1, le=1000)]


def descend(
    point: Callable[[Floats], Floats], start: Floats, reach: float, steps: int, ledger: Ledger
) -> Estimate:
    """Run DP-SGD (ACG16) on all records in every step, with the step sizes 2/(t + 1) of LSB12.

    A gradient step of rate r from theta, along the mean g of n gradients clipped to norm C, ends
    at m = theta - r g. For a released theta, one record moves m by at most 2rC/n. Step t = 1, ...,
    T goes 2/(t + 1) of the way from theta to m_t + Z_t; the noise Z_t is paid for by a T-th of the
    budget. So theta_T is the average of the m_t + Z_t with weights w_t = 2t/(T (T + 1)); the start
    has weight 0. Its noise is Gaussian for any records, with T sum w_t^2 =
    2 (2T + 1)/(3 (T + 1)) < 4/3 times the variance of a single release of m.

    Parameters
    ----------
    point : callable
        Maps theta to m, both (trials,) or (trials, d).
    start : (trials,) or (trials, d) array
        First theta.
    reach : float
        r C/n, half of the sensitivity of m.
    steps : int
        Number of steps T.
    ledger : Ledger
        Pays for Gaussian noise; see `under_zcdp`.

    Returns
    -------
    Estimate
        theta_T, with the average of the m_t as the value before noise.
    """
    value, before = start, start
    for t, part in enumerate(under_zcdp(ledger).split(*[1 / steps] * steps), start=1):
        clean = point(value)
        before = before + 2 / (t + 1) * (clean - before)
        value = value + 2 / (t + 1) * (part.add_noise(clean, 2 * reach) - value)
    return Estimate(value, before)


@validated
class GradientDescentMean(Estimator):
    """Mean by noisy gradient descent (DP-SGD) on squared or Huber loss, from 0 (L17, ACG16).

    Technique 2 of L17; `descend` has the steps and their sensitivity. The gradient of
    ||theta - x||^2/2 is theta - x. Clipped to norm C, it is the gradient of Huber's loss with
    threshold C, so one estimator covers both losses. At rate 1, m is the mean of the records
    projected on the ball of radius C around theta; only the direction of a record further away
    counts. So theta_T tends to Huber's location, which is the mean of the records if all are within
    C of it. A share eta of distant records moves it by about C eta/(1 - eta). Step t is no longer
    than 2C/(t + 1), so a mean further from 0 than about 2C ln(T) is not reached.

    Parameters
    ----------
    clip : float > 0
        Norm C that gradients are clipped to, in the unit of the data.
    steps : int
        Number of steps T; each spends a T-th of the budget.
    """

    clip: Clip
    steps: Steps = 10
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        start = np.zeros_like(sample.mean())

        def point(theta: Floats) -> Floats:
            if theta.ndim == 1:
                return sample.clipped_mean(theta - self.clip, theta + self.clip)
            return sample.rows().projected(theta, self.clip).mean()

        return descend(point, start, self.clip / sample.n, self.steps, ledger)
