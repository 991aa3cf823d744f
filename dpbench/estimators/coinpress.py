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

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.gaussian import Positive
from dpbench.estimators.shrinking import Rounds, shares
from dpbench.parameters import Probability, Radius, validated
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.samples import Sample

__all__ = ["CoinPressMean", "Round", "schedule"]


class Round(NamedTuple):
    """One round: what it spends, where it clips, its noise, and the radius it ends with."""

    rho: float
    clip_radius: float
    noise_sd: float
    radius: float


def _gamma(d: int, b: float) -> float:
    """The norm that a d-dimensional standard Gaussian keeps within, with probability 1 - b."""
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def schedule(n: int, d: int, radius: float, rho: float, rounds: int, b: float) -> list[Round]:
    """The rounds of CoinPress, which do not depend on the data.

    With gamma = sqrt(d + 2 sqrt(d ln(1/b)) + 2 ln(1/b)) a round that starts from radius r
    clips at s = min(sqrt(r^2 + 6r + gamma^2), r + gamma), adds noise of standard deviation
    sd = (2s/n)/sqrt(2 rho_j) and ends with radius gamma sqrt(1/n + sd^2).

    Parameters
    ----------
    n, d : int
    radius : float
        Of the first ball, in standard deviations of a record.
    rho : float
        For all rounds.
    rounds : int
    b : float in (0, 1)
        Failure probability of one tail bound.
    """
    gamma = _gamma(d, b)
    plan = []
    for share in shares(rounds):
        unit = max(radius, gamma)  # squares of 1e300 would overflow
        root = unit * np.sqrt((radius / unit) ** 2 + 6 * radius / unit / unit + (gamma / unit) ** 2)
        clip = float(min(root, radius + gamma))
        sd = float(2 * clip / n / np.sqrt(2 * rho * share))
        # A ball that grows, as n is too small, stops short of overflow.
        radius = min(float(gamma * np.hypot(1 / np.sqrt(n), sd)), 1e300)
        plan.append(Round(rho * share, clip, sd, radius))
    return plan


@validated
class CoinPressMean(Estimator):
    """Rounds of clipping to a ball, averaging and adding Gaussian noise; see `schedule`.

    Later rounds see records that earlier ones have clipped. A clipped record moves by at
    most 2s, so the mean has sensitivity 2s/n. Under (epsilon, delta)-DP it runs with the
    largest rho whose conversion stays within the budget. The interval is the last ball.

    Parameters
    ----------
    radius : float >= 0
        R: the mean is in [-R, R].
    rounds : int
    sigma : float > 0
        A bound on the standard deviation of a record.
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

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.report is not None and self.report > self.rounds:
            raise ValueError(f"report is {self.report}, and there are {self.rounds} rounds")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if isinstance(ledger.budget, ApproxDP):
            (ledger,) = ledger.split(ZCDP.within(ledger.budget))
        assert isinstance(ledger.budget, ZCDP)
        plan = schedule(
            sample.n, 1, self.radius / self.sigma, ledger.budget.rho, self.rounds, self.b
        )
        centre = np.zeros(sample.trials)
        low, high = np.full(sample.trials, -np.inf), np.full(sample.trials, np.inf)
        found = []
        for step, part in zip(plan, ledger.split(*shares(self.rounds)), strict=True):
            bound = step.clip_radius * self.sigma
            # Clipping to one interval after another is clipping to [low, high].
            low, high = (np.clip(end, centre - bound, centre + bound) for end in (low, high))
            clipped = sample.clipped_mean(low, high)
            centre = part.add_noise(clipped, 2 * bound / sample.n)
            width = step.radius * self.sigma
            found.append(Estimate(centre, clipped, (centre - width, centre + width)))
        return found[(self.report or self.rounds) - 1]

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        rho = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = rho.fraction(shares(self.rounds)[-1])
        return {"privacy": 2 * self.sigma * _gamma(1, self.b) * last.noise_quantile(beta) / alpha}
