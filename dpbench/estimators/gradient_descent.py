"""Gradient descent on all records with noisy clipped gradients, and the mean by it."""

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
    """DP-SGD [ACG16] on all records, with the step sizes 2/(t + 1) of [LSB12].

    At rate r a step from theta along the mean g of gradients, each clipped to norm C, is towards
    m = theta - r g, which moves by at most 2rC/n with one record: theta is released. Step t = 1,
    ..., T goes 2/(t + 1) of the way to m_t + Z_t, which is known under T-th shares of the budget.
    So theta_T is the average of the m_t + Z_t with weights w_t = 2t/(T (T + 1)), of which the
    starting point has none, and its noise, for any records, is Gaussian with
    T sum w_t^2 = 2 (2T + 1)/(3 (T + 1)) < 4/3 of the variance of a single release of m.

    Parameters
    ----------
    point : callable
        m at theta, both (trials,) or (trials, d).
    start : array
    reach : float
        r C/n.
    steps : int
        T.
    ledger : Ledger
        Of Gaussian noise; see `under_zcdp`.

    Returns
    -------
    Estimate
        With the average of the m_t as the value before noise.
    """
    value, before = start, start
    for t, part in enumerate(under_zcdp(ledger).split(*[1 / steps] * steps), start=1):
        clean = point(value)
        before = before + 2 / (t + 1) * (clean - before)
        value = value + 2 / (t + 1) * (part.add_noise(clean, 2 * reach) - value)
    return Estimate(value, before)


@validated
class GradientDescentMean(Estimator):
    """The mean as what minimises squared, or Huber's, loss, by `descend` from 0 (L17, technique 2).

    The gradient of ||theta - x||^2/2 is theta - x. Clipped to norm C it is the gradient of Huber's
    loss with threshold C, so that one estimator is for both. At rate 1, m is the mean of the
    records projected on the ball of radius C around theta: of a record further out it sees the
    direction only. So theta_T tends to Huber's location, which is the mean of the records if all
    are within C of it, and is moved by a share eta of far ones by about C eta/(1 - eta). As step t
    is no longer than 2C/(t + 1), a mean further from 0 than about 2C ln(T) is not reached.

    Parameters
    ----------
    clip : float > 0
        C.
    steps : int
        T.
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
