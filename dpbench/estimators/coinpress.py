"""CoinPress: the mean in a ball that shrinks, under zCDP.

References
----------
.. [1] S. Biswas, Y. Dong, G. Kamath, J. Ullman, "CoinPress: practical private mean and
   covariance estimation", NeurIPS 2020 (BDKU20), Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.gaussian import Positive
from dpbench.estimators.shrinking import Rounds, shares
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["CoinPressMean", "Round", "gaussian_norm", "schedule", "shrinking_balls", "under_zcdp"]

LARGEST = 1e300


class Round(NamedTuple):
    """One round: what it spends, where it clips, its noise, and the radius it ends with."""

    rho: float
    clip_radius: float | Floats
    noise_sd: float | Floats
    radius: float | Floats


def gaussian_norm(d: int, b: float) -> float:
    """The norm that a d-dimensional standard Gaussian keeps within, with probability 1 - b."""
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def schedule(
    n: int, d: int, radius: float | Floats, rho: float, rounds: int, b: float
) -> list[Round]:
    """The rounds of CoinPress, which do not depend on the data.

    With gamma = sqrt(d + 2 sqrt(d ln(1/b)) + 2 ln(1/b)) a round that starts from radius r
    clips at s = min(sqrt(r^2 + 6r + gamma^2), r + gamma), adds noise of standard deviation
    sd = (2s/n)/sqrt(2 rho_j) and ends with radius gamma sqrt(1/n + sd^2).

    Parameters
    ----------
    n, d : int
    radius : float or (trials,) array
        Of the first ball, in standard deviations of a record.
    rho : float
        For all rounds.
    rounds : int
    b : float in (0, 1)
        Failure probability of one tail bound.
    """
    gamma = gaussian_norm(d, b)
    plan = []
    for share in shares(rounds):
        unit = np.maximum(radius, gamma)  # squares of 1e300 would overflow
        root = unit * np.sqrt((radius / unit) ** 2 + 6 * radius / unit / unit + (gamma / unit) ** 2)
        clip = np.minimum(root, radius + gamma)
        sd = 2 * clip / n / np.sqrt(2 * rho * share)
        # A ball that grows, as n is too small, stops short of overflow.
        radius = np.minimum(gamma * np.hypot(1 / np.sqrt(n), sd), LARGEST)
        plan.append(Round(rho * share, clip, sd, radius))
    return plan


def under_zcdp(ledger: Ledger) -> Ledger:
    """The ledger itself under zCDP; under (epsilon, delta) one for the largest rho within it."""
    if isinstance(ledger.budget, ApproxDP):
        (ledger,) = ledger.split(ZCDP.within(ledger.budget))
    return ledger


class _Intervals:
    """Scalar records clipped to one interval after another, which is clipping to [low, high]."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.low = np.full(sample.trials, -np.inf)
        self.high = np.full(sample.trials, np.inf)

    def clipped_mean(self, centre: Floats, bound: float | Floats) -> Floats:
        self.low, self.high = (
            np.clip(end, centre - bound, centre + bound) for end in (self.low, self.high)
        )
        return self.sample.clipped_mean(self.low, self.high)


class _Balls:
    """Vectors projected on one ball after another."""

    def __init__(self, sample: Sample) -> None:
        self.rows = sample.rows()

    def clipped_mean(self, centre: Floats, bound: float | Floats) -> Floats:
        self.rows = self.rows.projected(centre, bound)
        return self.rows.mean()


def shrinking_balls(
    sample: Sample, plan: list[Round], unit: float, ledger: Ledger
) -> list[Estimate]:
    """What every round of a plan releases, of numbers or of vectors.

    Parameters
    ----------
    sample : Sample
    plan : list of Round
        In units of `unit`; its radii may differ between trials.
    unit : float
        A bound on the standard deviation of a record.
    ledger : Ledger
        Under zCDP; is spent.
    """
    mean = sample.mean()
    clipping = _Intervals(sample) if mean.ndim == 1 else _Balls(sample)
    centre = np.zeros_like(mean)
    found = []
    for step, part in zip(plan, ledger.split(*shares(len(plan))), strict=True):
        bound = step.clip_radius * unit
        clipped = clipping.clipped_mean(centre, bound)
        sensitivity = np.asarray(2 * bound / sample.n)
        centre = part.add_noise(
            clipped, sensitivity[:, None] if sensitivity.ndim else float(sensitivity)
        )
        width = step.radius * unit
        interval = (centre - width, centre + width) if mean.ndim == 1 else None
        found.append(Estimate(centre, clipped, interval))
    return found


@validated
class CoinPressMean(Estimator, kind="coinpress_mean"):
    """Rounds of clipping to a ball, averaging and adding Gaussian noise; see `schedule`.

    Later rounds see records that earlier ones have clipped. A clipped record moves by at
    most 2s, so the mean has l2 sensitivity 2s/n. Under (epsilon, delta)-DP it runs with the
    largest rho whose conversion stays within the budget. One round is the naive estimator, a
    ball of radius R and a tail bound. The interval, of scalars, is the last ball.

    Parameters
    ----------
    radius : float >= 0
        R: the mean is within this of 0.
    rounds : int
    sigma : float > 0
        A bound on the standard deviation of a record in every direction.
    b : float in (0, 1)
        Failure probability of one tail bound; 0.01 in the authors' code.
    report : int, optional
        Report the mean and the ball of this round instead of the last; the later rounds
        are paid for all the same.
    """

    radius: Radius
    rounds: Rounds = 4
    sigma: Positive = 1.0
    b: Probability = 0.01
    report: Rounds | None = None
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, ApproxDP)
    multivariate: ClassVar[bool] = True

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.report is not None and self.report > self.rounds:
            raise ValueError(f"report is {self.report}, and there are {self.rounds} rounds")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = under_zcdp(ledger)
        assert isinstance(ledger.budget, ZCDP)
        rho, radius = ledger.budget.rho, self.radius / self.sigma
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        found = shrinking_balls(sample, plan, self.sigma, ledger)
        return found[(self.report or self.rounds) - 1]

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        rho = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = rho.fraction(shares(self.rounds)[-1])
        unit = 2 * self.sigma * gaussian_norm(1, self.b)
        return {"privacy": unit * last.noise_quantile(beta) / alpha}
