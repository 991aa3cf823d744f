"""CoinPress (BDKU20): the mean in a ball that shrinks, the covariance, and one by the other."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.gaussian import Positive, Rounds, shares
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import Probability, Radius, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.rows import norms

__all__ = ["CoinPressCovariance", "CoinPressMean", "WhitenedCoinPressMean", "under_zcdp"]

FewRounds = Annotated[int, Field(ge=1, le=10)]  # the transforms of more may overflow
Bound = Annotated[float, Field(ge=1e-100, le=1e100)]
LARGEST = 1e300
WIDEST = 1e150  # numbers are moved within it, so that sums of their products do not overflow
COVARIANCE_B = 0.1  # in the authors' code


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

    With the gamma of `gaussian_norm` a round that starts from radius r clips at
    s = min(sqrt(r^2 + 6r + gamma^2), r + gamma), adds noise of standard deviation
    sd = (2s/n)/sqrt(2 rho_j) and ends with radius gamma sqrt(1/n + sd^2). The first r, a number or
    (trials,), is in standard deviations of a record.
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
    """The ledger itself under zCDP or GDP; one for the largest rho within (epsilon, delta)."""
    if isinstance(ledger.budget, ApproxDP):
        (ledger,) = ledger.split(ZCDP.within(ledger.budget))
    return ledger


def rho_of(budget: Budget) -> float:
    """The rho of Gaussian noise that a zCDP budget buys, or a GDP one: mu^2/2."""
    (amount,) = budget.amounts
    return amount**2 / 2 if isinstance(budget, GDP) else amount


def shrinking_balls(
    sample: Sample, plan: list[Round], unit: float, ledger: Ledger
) -> list[Estimate]:
    """What every round of a plan, in units of `unit`, releases; see `under_zcdp`."""
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
        step_size = 2 * bound / sample.n
        sensitivity = step_size[:, None] if isinstance(step_size, np.ndarray) else step_size
        centre = part.add_noise(clipped, sensitivity)
        width = step.radius * unit
        interval = (centre - width, centre + width) if rows is None else None
        found.append(Estimate(centre, clipped, interval))
    return found


class _Gaussian(Estimator):
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True


@validated
class CoinPressMean(_Gaussian, kind="coinpress_mean"):
    """Rounds of clipping to a ball, averaging and adding Gaussian noise; see `schedule`.

    Algorithms 1 and 2. Later rounds see records that earlier ones have clipped. A clipped record
    moves by at most 2s, so the mean has l2 sensitivity 2s/n. The interval, of scalars, is the last
    ball. Under (epsilon, delta) see `under_zcdp`.

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

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.report is not None and self.report > self.rounds:
            raise ValueError(f"report is {self.report}, and there are {self.rounds} rounds")
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = under_zcdp(ledger)
        rho, radius = rho_of(ledger.budget), self.radius / self.sigma
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        found = shrinking_balls(sample, plan, self.sigma, ledger)
        return found[(self.report or self.rounds) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        rho = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = rho.fraction(shares(self.rounds)[-1])
        unit = 2 * self.sigma * gaussian_norm(1, self.b)
        return {"privacy": unit * last.noise_quantile(beta) / alpha}


class Fit(NamedTuple):
    """What the last round of a covariance knows: eigenvalues of Z, at least 0, and vectors."""

    transform: Floats  # A, (trials, d, d)
    back: Floats  # its inverse
    values: Floats
    vectors: Floats
    clean: Floats  # Z without noise
    slack: float  # half of what sampling, and all of what noise may take from the eigenvalues


def fit_covariance(x: Floats, bound: float, rounds: int, b: float, ledger: Ledger) -> Fit:
    """Look at Gaussian vectors x of mean 0 round by round, more and more like N(0, I).

    Their covariance is at most u I, u the bound; b is the probability that one is longer than
    gamma; see `under_zcdp`. With A = I/sqrt(u) at first, a round looks at w = xA, whose
    covariance is at most I, projects it on the ball of radius gamma, and releases Z = W'W/n. One
    record changes W'W by ww' - vv', of squared Frobenius norm |w|^4 + |v|^4 - 2 (w.v)^2
    <= 2 gamma^4, so the upper triangle of Z has l2 sensitivity sqrt(2) gamma^2/n. (As that norm
    counts what is off the diagonal twice, noise of 1/sqrt(2) would do there; the authors' noise is
    the same everywhere, and so it is here.) Negative eigenvalues are set to 0, and the next A is
    A (Z + eta I)^(-1/2), which makes the covariance of w nearly I. (The authors' code multiplies
    from the other side, wrong from the third round on, and takes absolute values of eigenvalues.)

    Let w have the covariance S <= I. The singular values of n standard Gaussian rows are within
    sqrt(n) +- sqrt(d), up to their tails (Davidson and Szarek 2001, Theorem II.13). With x =
    sqrt(d/n) <= 1 the sampling error W'W/n - S is between ((1 - x)^2 - 1) S and ((1 + x)^2 - 1) S,
    of a norm of at most 2x + x^2: eta is half of that, as the authors have it. So W'W/n + eta I
    >= ((1 - x)^2 + eta) S = (1 - x + 3x^2/2) S >= (5/6) S: the next covariance is at most (6/5) I,
    but for noise. Twice eta would make it at most I.

    A symmetric matrix of N(0, s^2) entries has a norm above s (2 sqrt(d) + t) with probability
    about e^(-t^2/4), as it is sqrt(2) s-Lipschitz in them: the slack is eta, that half, plus that
    norm, t^2 = 4 ln(100).
    """
    trials, n, d = x.shape
    x = np.clip(x, -WIDEST, WIDEST)
    gamma = gaussian_norm(d, b)
    eta = float(np.sqrt(d / n) + d / n / 2)
    sensitivity = np.sqrt(2) * gamma**2 / n
    upper = np.triu_indices(d)
    after = np.broadcast_to(np.eye(d) / np.sqrt(bound), (trials, d, d))
    inverse = np.broadcast_to(np.eye(d) * np.sqrt(bound), (trials, d, d))
    for part in ledger.split(*shares(rounds)):
        transform, back = after, inverse
        w = x @ transform
        w *= np.minimum(1, gamma / np.maximum(norms(w), gamma))[..., None]
        clean = w.transpose(0, 2, 1) @ w / n
        noisy = np.empty_like(clean)
        noisy[:, *upper] = part.add_noise(clean[:, *upper], sensitivity)
        noisy[:, *upper[::-1]] = noisy[:, *upper]
        values, vectors = np.linalg.eigh(noisy)
        values = np.maximum(values, 0)
        after = transform @ _rebuilt((values + eta) ** -0.5, vectors)
        # By inverting what may be nearly singular, data could stop the release.
        inverse = _rebuilt((values + eta) ** 0.5, vectors) @ back
    rho = rho_of(part.budget)
    sd = sensitivity / np.sqrt(2 * rho)
    slack = eta + float(sd * 2 * (np.sqrt(d) + np.sqrt(np.log(100))))
    return Fit(transform, back, values, vectors, clean, slack)


def _rebuilt(values: Floats, vectors: Floats) -> Floats:
    """The symmetric matrices of these eigenvalues and eigenvectors."""
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _records(sample: Sample, what: str) -> Floats:
    if not isinstance(sample, DenseSample) or sample.mean().ndim == 1:
        raise ValueError(f"{what} needs vectors, record by record")
    return sample.values


@validated
class CoinPressCovariance(_Gaussian, kind="coinpress_covariance"):
    """The covariance of Gaussian vectors of mean 0; see `fit_covariance` and `under_zcdp`.

    Algorithms 3 and 4. Its error is ||S^(-1/2) (estimate - S) S^(-1/2)||_F, S the covariance.

    Parameters
    ----------
    bound : float > 0
        u: the covariance is at most u I.
    rounds : int
    b : float in (0, 1)
        Probability that a record is projected; 0.1 in the authors' code.
    """

    bound: Bound
    rounds: FewRounds = 3
    b: Probability = COVARIANCE_B
    estimand: ClassVar[str] = "covariance"
    bounded_in: ClassVar[None] = None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x = _records(sample, "a covariance")
        fit = fit_covariance(x, self.bound, self.rounds, self.b, under_zcdp(ledger))
        moments = _rebuilt(fit.values, fit.vectors), fit.clean
        value, before = (fit.back.transpose(0, 2, 1) @ z @ fit.back for z in moments)
        return Estimate((value + value.transpose(0, 2, 1)) / 2, before)


@validated
class WhitenedCoinPressMean(_Gaussian, kind="whitened_coinpress_mean"):
    """The mean of a Gaussian whose covariance is not known: covariance first, then mean.

    Of disjoint pairs of records the half differences (x - y)/sqrt(2) have mean 0 and the records'
    covariance; replacing one record changes one of them. A share of the budget goes to
    `fit_covariance` on them. With its last A and Z, B = A (Z + slack I)^(-1/2), the records times B
    have a covariance of at most (6/5) I, if those times A have one of at most I, with high
    probability, and near I where Z exceeds the slack.
    With the rest they go through the rounds of `CoinPressMean` from radius R ||B||, and the result
    goes back: its noise is as wide as the data where the covariance's noise lets it see.

    Parameters
    ----------
    radius : float >= 0
        R: the mean is within this of 0.
    bound : float > 0
        u: the covariance is at most u I.
    rounds, covariance_rounds : int
        For the mean, and for the covariance.
    covariance_share : float in (0, 1)
        Of the budget.
    b : float in (0, 1)
        Failure probability of one tail bound of the mean.
    """

    radius: Radius
    bound: Bound
    rounds: Rounds = 4
    covariance_rounds: FewRounds = 3
    covariance_share: Probability = 0.5
    b: Probability = 0.01

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x = np.clip(_records(sample, "an unknown covariance"), -WIDEST, WIDEST)
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        spread, fine = under_zcdp(ledger).split(self.covariance_share, 1 - self.covariance_share)
        pairs = (x[:, 1 : sample.n - sample.n % 2 : 2] - x[:, : sample.n - 1 : 2]) / np.sqrt(2)
        fit = fit_covariance(pairs, self.bound, self.covariance_rounds, COVARIANCE_B, spread)
        root = np.sqrt(fit.values + fit.slack)
        whiten = fit.transform @ _rebuilt(1 / root, fit.vectors)
        colour = _rebuilt(root, fit.vectors) @ fit.back
        rho = rho_of(fine.budget)
        largest = np.linalg.norm(whiten, ord=2, axis=(1, 2))
        radius = np.minimum(self.radius * largest, LARGEST)
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        last = shrinking_balls(DenseSample(x @ whiten), plan, 1.0, fine)[-1]
        value, before = ((v[:, None] @ colour)[:, 0] for v in (last.value, last.before_noise))
        return Estimate(value, before)
