"""CoinPress (BDKU20): multivariate mean, covariance, and mean with unknown covariance."""

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
ErrorBound = Annotated[float, Field(ge=1e-100, le=1e100)]
LARGEST = 1e300
WIDEST = 1e150  # records are clipped to +-WIDEST, so that sums of their products do not overflow
COVARIANCE_B = 0.1  # failure probability of the norm bound of a covariance round; authors' code


class Round(NamedTuple):
    """One round: its rho, its clip radius, the sd of its noise, and the radius after it."""

    rho: float
    clip_radius: float | Floats
    noise_sd: float | Floats
    radius: float | Floats


def gaussian_norm(d: int, b: float) -> float:
    """Return gamma, which bounds the norm of a standard Gaussian vector with probability 1 - b.

    gamma^2 = d + 2 sqrt(d ln(1/b)) + 2 ln(1/b), by LM00, Lemma 1.

    Parameters
    ----------
    d : int
        Dimension.
    b : float in (0, 1)
        Probability that the norm exceeds gamma.

    Returns
    -------
    float
    """
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def schedule(
    n: int, d: int, radius: float | Floats, rho: float, rounds: int, b: float
) -> list[Round]:
    """Return the rounds of CoinPress, which do not depend on the data.

    With gamma from `gaussian_norm`, round j starts from radius r. It clips to a ball of radius
    s = min(sqrt(r^2 + 6r + gamma^2), r + gamma), adds noise of standard deviation
    sd = (2s/n)/sqrt(2 rho_j), and ends with radius gamma sqrt(1/n + sd^2).

    Why s: a record minus the centre is g + o, with g of norm at most gamma and o, the mean minus
    the centre, of norm at most r. So r + gamma suffices. The root suffices because
    |g + o|^2 <= gamma^2 + 2 g.o + r^2, and g.o is normal of standard deviation at most r. Its 6r is
    2r * 3 of the authors' code, with 3 in place of sqrt(log(2/b)); the paper has
    2r sqrt(log(1/b)).

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Coordinates of a record.
    radius : float or (trials,) array
        First r, in standard deviations of a record.
    rho : float
        zCDP budget of all rounds together.
    rounds : int
        Number of rounds; `shares` divides rho among them.
    b : float in (0, 1)
        Failure probability of one tail bound.

    Returns
    -------
    list of Round
        Radii and standard deviations are in standard deviations of a record.
    """
    gamma = gaussian_norm(d, b)
    plan = []
    for share in shares(rounds):
        unit = np.maximum(radius, gamma)  # squares of 1e300 would overflow
        root = unit * np.sqrt((radius / unit) ** 2 + 6 * radius / unit / unit + (gamma / unit) ** 2)
        clip = np.minimum(root, radius + gamma)
        sd = 2 * clip / n / np.sqrt(2 * rho * share)
        # If n is too small the ball grows from round to round; keep it from overflowing.
        radius = np.minimum(gamma * np.hypot(1 / np.sqrt(n), sd), LARGEST)
        plan.append(Round(rho * share, clip, sd, radius))
    return plan


def under_zcdp(ledger: Ledger) -> Ledger:
    """Return a ledger for Gaussian noise: under (epsilon, delta), of the largest rho within it.

    Under zCDP or GDP the ledger itself is returned.
    """
    if isinstance(ledger.budget, ApproxDP):
        (ledger,) = ledger.split(ZCDP.within(ledger.budget))
    return ledger


def rho_of(budget: Budget) -> float:
    """Return the rho of the Gaussian noise that a zCDP budget pays for, or a GDP budget: mu^2/2."""
    (amount,) = budget.amounts
    return amount**2 / 2 if isinstance(budget, GDP) else amount


def shrinking_balls(
    sample: Sample, plan: list[Round], unit: float, ledger: Ledger
) -> list[Estimate]:
    """Run the rounds of a plan: clip to the ball, average, add noise, shrink the ball.

    Parameters
    ----------
    sample : Sample
        The datasets: (trials, n) numbers or (trials, n, d) vectors.
    plan : list of Round
        See `schedule`.
    unit : float
        Standard deviation of a record, the unit of the plan.
    ledger : Ledger
        See `under_zcdp`.

    Returns
    -------
    list of Estimate
        The release of every round.
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
    """CoinPress mean: rounds of clipping to a shrinking ball, with Gaussian noise (BDKU20).

    Algorithms 1 and 2 of BDKU20; `schedule` has the radii. Later rounds see the records that
    earlier rounds have clipped. A clipped record moves by at most 2s, s the clip radius, so the
    mean has l2 sensitivity 2s/n. For numbers, the released interval is the last ball. Under
    (epsilon, delta) the noise is that of the largest rho within the budget (`under_zcdp`).

    Parameters
    ----------
    radius : float >= 0
        R, a public bound on the l2 norm of the mean, in the unit of the data.
    rounds : int
        Number of rounds.
    sigma : float > 0
        Public bound on the standard deviation of a record in every direction.
    b : float in (0, 1)
        Failure probability of one tail bound; 0.01 in the authors' code.
    reported_round : int, optional
        Round whose estimate is released, counted from 1; default: the last. The later rounds are
        paid for all the same.
    """

    first_names: ClassVar[dict[str, str]] = {"reported_round": "report"}

    radius: Radius
    rounds: Rounds = 4
    sigma: Positive = 1.0
    b: Probability = 0.01
    reported_round: Rounds | None = None

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.reported_round is not None and self.reported_round > self.rounds:
            raise ValueError(
                f"reported_round is {self.reported_round}, and there are {self.rounds} rounds"
            )
        return self

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = under_zcdp(ledger)
        rho, radius = rho_of(ledger.budget), self.radius / self.sigma
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        found = shrinking_balls(sample, plan, self.sigma, ledger)
        return found[(self.reported_round or self.rounds) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        rho = ZCDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = rho.fraction(shares(self.rounds)[-1])
        unit = 2 * self.sigma * gaussian_norm(1, self.b)
        return {"privacy": unit * last.noise_quantile(beta) / alpha}


class CovarianceFit(NamedTuple):
    """State of the last round of `fit_covariance`: A, its inverse, and the eigenpairs of Z.

    The eigenvalues are at least 0.
    """

    transform: Floats  # A, (trials, d, d)
    back: Floats  # its inverse
    values: Floats
    vectors: Floats
    clean: Floats  # Z without noise
    slack: float  # half of the largest error of the eigenvalues by sampling, plus that by noise


def fit_covariance(x: Floats, bound: float, rounds: int, b: float, ledger: Ledger) -> CovarianceFit:
    """Fit the covariance of Gaussian vectors x of mean 0, by rounds that make them nearly N(0, I).

    The covariance is at most u I, u = `bound`. With gamma from `gaussian_norm` a record is longer
    than gamma with probability b.

    1. Start from A = I/sqrt(u). A round takes w = xA, whose covariance is at most I, projects it on
       the ball of radius gamma, and releases Z = W'W/n with noise.
    2. Sensitivity. One record changes W'W by ww' - vv', of squared Frobenius norm
       |w|^4 + |v|^4 - 2 (w.v)^2 <= 2 gamma^4. So the upper triangle of Z has l2 sensitivity
       sqrt(2) gamma^2/n. (This norm counts entries off the diagonal twice, so these could do with
       noise smaller by sqrt(2); the authors use equal noise everywhere, and so does this code.)
    3. Negative eigenvalues are set to 0. The next A is A (Z + eta I)^(-1/2), which makes the
       covariance of w nearly I. (The authors' code multiplies from the other side, which is wrong
       from the third round on, and takes absolute values of eigenvalues.)
    4. Choice of eta. Let w have the covariance S <= I, and y = sqrt(d/n) <= 1. The singular values
       of n standard Gaussian rows are within sqrt(n) +- sqrt(d), up to their tails (Davidson and
       Szarek 2001, Theorem II.13). So the sampling error W'W/n - S is between ((1 - y)^2 - 1) S and
       ((1 + y)^2 - 1) S, of a norm of at most 2y + y^2. eta is half of that, as in the authors'
       code. Then W'W/n + eta I >= ((1 - y)^2 + eta) S = (1 - y + 3y^2/2) S >= (5/6) S. So the next
       covariance is at most (6/5) I, apart from noise; twice eta would make it at most I.
    5. Slack. A symmetric matrix of N(0, s^2) entries has a norm above s (2 sqrt(d) + t) with
       probability about e^(-t^2/4), as it is sqrt(2) s-Lipschitz in them. The slack is eta plus
       that norm at t^2 = 4 ln(100).

    Parameters
    ----------
    x : (trials, n, d) array
        Records, of mean 0.
    bound : float > 0
        u.
    rounds : int
        Number of rounds.
    b : float in (0, 1)
        Probability that a record is projected.
    ledger : Ledger
        See `under_zcdp`.

    Returns
    -------
    Fit
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
        # Inverting A, which may be nearly singular, could fail for some data: update its inverse.
        inverse = _rebuilt((values + eta) ** 0.5, vectors) @ back
    rho = rho_of(part.budget)
    sd = sensitivity / np.sqrt(2 * rho)
    slack = eta + float(sd * 2 * (np.sqrt(d) + np.sqrt(np.log(100))))
    return CovarianceFit(transform, back, values, vectors, clean, slack)


def _rebuilt(values: Floats, vectors: Floats) -> Floats:
    """Return the symmetric matrices with these eigenvalues and eigenvectors."""
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _records(sample: Sample, what: str) -> Floats:
    if not isinstance(sample, DenseSample) or sample.mean().ndim == 1:
        raise ValueError(f"{what} needs vectors, record by record")
    return sample.values


@validated
class CoinPressCovariance(_Gaussian, kind="coinpress_covariance"):
    """CoinPress covariance of Gaussian vectors of mean 0, by rounds of whitening (BDKU20).

    Algorithms 3 and 4 of BDKU20; see `fit_covariance`. With S the covariance, the error is
    ||S^(-1/2) (estimate - S) S^(-1/2)||_F. Under (epsilon, delta) the noise is that of the largest
    rho within the budget (`under_zcdp`).

    Parameters
    ----------
    bound : float > 0
        u: the covariance is at most u I, in the squared unit of the data.
    rounds : int
        Number of rounds.
    b : float in (0, 1)
        Probability that a record is projected; 0.1 in the authors' code.
    """

    bound: ErrorBound
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
    """CoinPress mean of a Gaussian with unknown covariance, which is fitted first (BDKU20).

    1. The scaled differences (x - y)/sqrt(2) of disjoint pairs of records have mean 0 and the
       records' covariance; replacing one record changes one of them. A share of the budget pays
       for `fit_covariance` on them.
    2. Let A and Z be those of its last round, and B = A (Z + slack I)^(-1/2). If xA has a
       covariance of at most I, then xB has one of at most (6/5) I with high probability, and one
       near I where Z exceeds the slack.
    3. The rest of the budget pays for the rounds of `CoinPressMean` on the records xB, from radius
       R ||B||. The result is multiplied by B^-1, so its noise has the shape of the data wherever
       the noise of the covariance allows it.

    Parameters
    ----------
    radius : float >= 0
        R, a public bound on the l2 norm of the mean, in the unit of the data.
    bound : float > 0
        u: the covariance is at most u I, in the squared unit of the data.
    rounds : int
        Number of rounds for the mean.
    covariance_rounds : int
        Number of rounds for the covariance.
    covariance_share : float in (0, 1)
        Share of the budget for the covariance.
    b : float in (0, 1)
        Failure probability of one tail bound of the mean.
    """

    radius: Radius
    bound: ErrorBound
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
