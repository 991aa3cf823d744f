"""CoinPress: the mean in a ball that shrinks, under zCDP (BDKU20, Algorithms 1 and 2)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.gaussian import Positive, Rounds, shares
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
    sd = (2s/n)/sqrt(2 rho_j) and ends with radius gamma sqrt(1/n + sd^2). The first r, a number
    or a (trials,) array, is in standard deviations of a record.
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


def shrinking_balls(
    sample: Sample, plan: list[Round], unit: float, ledger: Ledger
) -> list[Estimate]:
    """What every round of a plan releases, of numbers or of vectors.

    The plan is in units of `unit`, a bound on the standard deviation of a record; its radii may
    differ between trials. The ledger is under zCDP.
    """
    centre = np.zeros_like(sample.mean())
    rows = None if centre.ndim == 1 else sample.rows()
    # Clipping numbers to one interval after another is clipping them to [low, high].
    low, high = np.full(sample.trials, -np.inf), np.full(sample.trials, np.inf)
    found = []
    for step, part in zip(plan, ledger.split(*shares(len(plan))), strict=True):
        bound = step.clip_radius * unit
        if rows is None:
            low, high = (np.clip(end, centre - bound, centre + bound) for end in (low, high))
            clipped = sample.clipped_mean(low, high)
        else:
            rows = rows.projected(centre, bound)
            clipped = rows.mean()
        sensitivity = np.asarray(2 * bound / sample.n)
        centre = part.add_noise(
            clipped, sensitivity[:, None] if sensitivity.ndim else float(sensitivity)
        )
        width = step.radius * unit
        interval = (centre - width, centre + width) if rows is None else None
        found.append(Estimate(centre, clipped, interval))
    return found


@validated
class CoinPressMean(Estimator, kind="coinpress_mean"):
    """Rounds of clipping to a ball, averaging and adding Gaussian noise; see `schedule`.

    Later rounds see records that earlier ones have clipped. A clipped record moves by at
    most 2s, so the mean has l2 sensitivity 2s/n. Under (epsilon, delta)-DP see `under_zcdp`.
    One round is the naive estimator. The interval, of scalars, is the last ball.

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
        Report this round instead of the last; the later rounds are paid for all the same.
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
        (rho,) = ledger.budget.amounts
        radius = self.radius / self.sigma
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        found = shrinking_balls(sample, plan, self.sigma, ledger)
        return found[(self.report or self.rounds) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        rho = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = rho.fraction(shares(self.rounds)[-1])
        unit = 2 * self.sigma * gaussian_norm(1, self.b)
        return {"privacy": unit * last.noise_quantile(beta) / alpha}
