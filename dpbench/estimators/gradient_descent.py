"""Full-batch gradient descent with clipped gradients and Gaussian noise (DP-SGD), for a mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MostWithin
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import to_gdp
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["Clip", "GradientDescentMean", "Steps", "descend"]

Clip = Annotated[float, Field(gt=0, le=1e100)]
Steps = Annotated[int, Field(ge=1, le=1000)]


def descend(
    point: Callable[[Floats], Floats], start: Floats, reach: float, steps: int, ledger: Ledger
) -> Estimate:
    """Run gradient descent with clipped gradients and Gaussian noise (DP-SGD, ACG16).

    Every step uses all records. Let g be the mean of n gradients at theta, each clipped to norm C.
    A gradient step of rate r ends at m = theta - r g. At a fixed theta one replaced record moves m
    by at most 2rC/n. Let m_t be the point m of step t, and Z_t its noise, for t = 1, ..., T. Each
    Z_t costs a T-th of the budget. Step t moves theta towards m_t + Z_t, by the fraction 2/(t + 1)
    of the distance (LSB12). So the final theta is the weighted average of the m_t + Z_t with
    weights w_t = 2t/(T (T + 1)); the start has weight 0.

    The final theta has the noise Z = w_1 Z_1 + ... + w_T Z_T, which is Gaussian for any records.
    Let v be the variance of the noise if m is released once with the whole budget. The variance
    of Z is v T (w_1^2 + ... + w_T^2) = v 2 (2T + 1)/(3 (T + 1)) < 4v/3.

    The callable `point` maps theta to m; both have the shape (trials,) or (trials, d). `reach` is r
    C/n, half of the l2 sensitivity of m. The whole ledger is spent on Gaussian noise; see `to_gdp`.
    In the result, the value before noise is the weighted average of the m_t.
    """
    value, before = start, start
    for t, part in enumerate(to_gdp(ledger).split(*[1 / steps] * steps), start=1):
        clean = point(value)
        before = before + 2 / (t + 1) * (clean - before)
        value = value + 2 / (t + 1) * (part.add_noise(clean, 2 * reach) - value)
    return Estimate(value, before)


@validated
class GradientDescentMean(Estimator):
    """Mean by noisy gradient descent (DP-SGD) on squared or Huber loss (L17, ACG16).

    L17, technique 2; ACG16, Algorithm 1 (number not checked), without sampling of records. The
    descent starts at 0, and `descend` runs its steps. A gradient step has rate 1, and gradients are
    clipped to norm C. So a step has l2 sensitivity 2C/n for n records.

    For a record x and a point theta, the gradient of ||theta - x||^2/2 is theta - x. Clipped to
    norm C, it is the gradient of Huber's loss with threshold C, so one estimator covers both
    losses. A gradient step from theta ends at the mean of the records projected on the ball of
    radius C around theta. So the result tends to Huber's location, which is the mean of the records
    if all are within C of the mean. A share eta of distant records moves the location by about
    C eta/(1 - eta).

    Step t of T moves theta only by the fraction 2/(t + 1) of a gradient step, to average the noise
    of the steps. A gradient step has length C at most. So, apart from noise, step t moves theta by
    at most 2C/(t + 1), and a mean further from 0 than about 2C ln(T) is not reached.

    Parameters
    ----------
    clip : float > 0
        Norm C to which gradients are clipped, in the unit of the data.
    steps : int
        Number of steps T; each spends a T-th of the budget.
    """

    clip: Clip
    steps: Steps = 10
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (MostWithin(2 * self.clip, "clip"),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        start = np.zeros_like(sample.mean())

        def point(theta: Floats) -> Floats:
            if theta.ndim == 1:
                return sample.clipped_mean(theta - self.clip, theta + self.clip)
            return sample.rows().projected(theta, self.clip).mean()

        return descend(point, start, self.clip / sample.n, self.steps, ledger)
