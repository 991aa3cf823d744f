"""CoinPress (BDKU20): multivariate mean, covariance, and mean with unknown covariance.

The estimators clip records to a ball that shrinks from round to round, with Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats, Ints
from dpbench.estimators.assumptions import Assumption, GaussianSpread, MeanWithin
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.estimands import COVARIANCE, Estimand
from dpbench.estimators.gaussian import Rounds, shares
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.registry import Deviation, Probability, Radius, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.rows import norms

__all__ = [
    "CoinPressCovariance",
    "CoinPressMean",
    "WhitenedCoinPressMean",
    "frobenius_weights",
    "to_gdp",
]

EntryNoise = Literal["equal", "frobenius"]  # noise of the entries of a symmetric matrix
FewRounds = Annotated[int, Field(ge=1, le=10)]  # with more rounds, transforms may overflow
ErrorBound = Annotated[float, Field(ge=1e-100, le=1e100)]
MAX_RADIUS = 1e300  # radii are cut here, so that they do not overflow
MAX_COORDINATE = 1e150  # records are clipped to +- this, so that sums of products do not overflow
COVARIANCE_B = 0.1  # default b of covariance rounds, from the authors' code; see `fit_covariance`


class Round(NamedTuple):
    """One round of the CoinPress mean: budget rho, clip radius, noise, and radius of the next ball.

    The next ball holds the mean with high probability. Lengths are in standard deviations of a
    record.
    """

    rho: float
    clip_radius: float | Floats
    noise_sd: float | Floats
    radius: float | Floats


def gaussian_norm(d: int, b: float) -> float:
    """Return a bound gamma on the l2 norm of a standard normal vector of d coordinates.

    The norm is at most gamma with probability 1 - b. By LM00, Lemma 1,
    gamma^2 = d + 2 sqrt(d ln(1/b)) + 2 ln(1/b).
    """
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def schedule(
    n: int, d: int, radius: float | Floats, rho: float, rounds: int, b: float
) -> list[Round]:
    """Compute the clip radius, noise and budget of each round of the CoinPress mean.

    These numbers do not depend on the data.

    A standard normal vector of d coordinates is longer than gamma (`gaussian_norm`) with
    probability at most b. Round j has the budget rho_j and starts from a ball of radius r that
    holds the mean. It clips records to a ball of radius
    s = min(sqrt(r^2 + 6r + gamma^2), r + gamma) and adds noise of standard deviation
    sd = (2s/n)/sqrt(2 rho_j). The next ball has the radius gamma sqrt(1/n + sd^2).

    A record is within s of the centre of the ball, for the following reason. Let g be the record
    minus the mean, of norm at most gamma. Let o be the mean minus the centre, of norm at most r.
    The record minus the centre is g + o, so its norm is at most r + gamma. The square root is a
    bound, too, because |g + o|^2 <= gamma^2 + 2 g.o + r^2. The inner product g.o is normal with
    standard deviation at most r. Three standard deviations of 2 g.o give the term 6r, as in the
    authors' code. The paper has 2r sqrt(log(1/b)) instead.

    The budget rho is zCDP, and `dpbench.estimators.gaussian.shares` divides it among the rounds.
    Lengths are in standard deviations of a record. The first radius is a number or has shape
    (trials,).
    """
    gamma = gaussian_norm(d, b)
    plan = []
    for share in shares(rounds):
        unit = np.maximum(radius, gamma)  # squares of 1e300 would overflow
        root = unit * np.sqrt((radius / unit) ** 2 + 6 * radius / unit / unit + (gamma / unit) ** 2)
        clip = np.minimum(root, radius + gamma)
        sd = 2 * clip / n / np.sqrt(2 * rho * share)
        # If n is too small the ball grows from round to round; keep it from overflowing.
        radius = np.minimum(gamma * np.hypot(1 / np.sqrt(n), sd), MAX_RADIUS)
        plan.append(Round(rho * share, clip, sd, radius))
    return plan


def to_gdp(ledger: Ledger) -> Ledger:
    """Return a ledger with a zCDP or GDP budget, which pays for Gaussian noise.

    An (epsilon, delta) ledger is converted to the largest GDP budget mu that implies
    (epsilon, delta)-DP. Gaussian steps add up to mu-GDP without a loss (DRS22, Corollary 3.3,
    number not checked), so all steps together cost exactly (epsilon, delta). If the conversion went
    through zCDP, the noise at delta = 1e-6 would be larger by 7 per cent at epsilon = 1, and by 11
    per cent at epsilon = 0.01. A zCDP or GDP ledger is returned unchanged.
    """
    if isinstance(ledger.budget, ApproxDP):
        (ledger,) = ledger.split(GDP.within(ledger.budget))
    return ledger


def rho_of(budget: Budget) -> float:
    """Return rho of a zCDP budget, or mu^2/2 of a GDP budget mu.

    Both amounts pay for the same Gaussian noise.
    """
    (amount,) = budget.amounts
    return amount**2 / 2 if isinstance(budget, GDP) else amount


def run_rounds(sample: Sample, plan: list[Round], unit: float, ledger: Ledger) -> list[Estimate]:
    """Run the rounds of a CoinPress mean: clip to a ball, average, add noise, shrink the ball.

    The lengths in `plan` are in units of `unit`, the standard deviation of a record. The ledger
    holds the zCDP or GDP budget of all rounds; see `to_gdp`. The release of every round is
    returned. For numbers its confidence interval (`Estimate.interval`) is the ball to which the
    round shrinks; for vectors it is None.
    """
    centre = np.zeros_like(sample.mean())
    rows = None if centre.ndim == 1 else sample.rows()
    # Clipping numbers to one interval after another amounts to clipping them to [low, high].
    low, high = np.full(sample.trials, -np.inf), np.full(sample.trials, np.inf)
    releases = []
    for step, part in zip(plan, ledger.split(*shares(len(plan))), strict=True):
        bound = step.clip_radius * unit
        if rows is None:
            low, high = (np.clip(end, centre - bound, centre + bound) for end in (low, high))
            middle = low / 2 + high / 2
            offset = sample.centred_mean(middle, high / 2 - low / 2)
        else:
            rows, middle = rows.projected(centre, bound), centre
            offset = rows.mean_offset(middle)
        step_size = 2 * bound / sample.n
        sensitivity = step_size[:, None] if isinstance(step_size, np.ndarray) else step_size
        centre = middle + part.add_noise(offset, sensitivity)
        width = step.radius * unit
        interval = (centre - width, centre + width) if rows is None else None
        releases.append(Estimate(centre, middle + offset, interval))
    return releases


class _Gaussian(Estimator):
    """Base class of estimators with Gaussian noise, under zCDP, GDP or (epsilon, delta)-DP."""

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True


@validated
class CoinPressMean(_Gaussian, kind="coinpress_mean"):
    """CoinPress mean: rounds of clipping to a shrinking ball, with Gaussian noise (BDKU20).

    Algorithms 1 and 2 of BDKU20; `schedule` derives the radii. Every round starts from the clipped
    records of the round before. Let s be the clip radius of a round. A replaced record moves the
    clipped record by at most 2s, so the mean of n records has l2 sensitivity 2s/n. For numbers, the
    released interval is the ball after the reported round. An (epsilon, delta) budget is first
    converted to GDP by `to_gdp`.

    Parameters
    ----------
    radius : float >= 0
        Public bound on the l2 norm of the mean, in the unit of the data.
    rounds : int
        Number of rounds.
    sigma : float > 0
        Public bound on the standard deviation of a record in every direction, in the unit of the
        data.
    b : float in (0, 1)
        Probability that the bound on the norm of a normal vector fails (`schedule`); 0.01 in the
        authors' code.
    reported_round : int, optional
        Round whose estimate is released, counted from 1; default: the last. Later rounds spend
        their budget, too.
    """

    radius: Radius
    rounds: Rounds = 4
    sigma: Deviation
    b: Probability = 0.01
    reported_round: Rounds | None = None

    @model_validator(mode="after")
    def _check_reported_round(self) -> Self:
        if self.reported_round is not None and self.reported_round > self.rounds:
            raise ValueError(
                f"reported_round is {self.reported_round}, and there are {self.rounds} rounds"
            )
        return self

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = GaussianSpread(self.sigma)
        return spread, MeanWithin(self.radius, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = to_gdp(ledger)
        rho, radius = rho_of(ledger.budget), self.radius / self.sigma
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        releases = run_rounds(sample, plan, self.sigma, ledger)
        return releases[(self.reported_round or self.rounds) - 1]

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        whole = GDP.within(budget) if isinstance(budget, ApproxDP) else budget
        last = whole.fraction(shares(self.rounds)[-1])
        unit = 2 * self.sigma * gaussian_norm(1, self.b)
        return {"privacy": unit * last.noise_quantile(beta) / alpha}


class CovarianceFit(NamedTuple):
    """State of the last round of `fit_covariance`.

    The round multiplies the records x by a matrix A, which makes them nearly standard normal. It
    releases Z, the second moments of the vectors xA with noise.

    Attributes
    ----------
    transform, back : (trials, d, d) array
        A and its inverse.
    values : (trials, d) array
        Eigenvalues of Z; negative ones are set to 0.
    vectors : (trials, d, d) array
        Eigenvectors of Z, in columns.
    clean : (trials, d, d) array
        Z without noise.
    slack : float
        Bound on the error of the eigenvalues of Z by sampling and noise.
    """

    transform: Floats
    back: Floats
    values: Floats
    vectors: Floats
    clean: Floats
    slack: float


def frobenius_weights(upper: tuple[Ints, Ints]) -> Floats:
    """Return the weights of a symmetric matrix's entries in its Frobenius norm: 1 or sqrt(2).

    Let a vector hold the entries on and above the diagonal, times these weights. Its l2 norm is the
    Frobenius norm of the matrix, which counts entries off the diagonal twice. `upper` holds the
    rows and the columns of the entries.
    """
    return np.where(upper[0] == upper[1], 1.0, 2**0.5)


def fit_covariance(
    x: Floats,
    bound: float,
    rounds: int,
    b: float,
    ledger: Ledger,
    entry_noise: EntryNoise = "equal",
) -> CovarianceFit:
    """Release the covariance of Gaussian vectors x of mean 0, by rounds of whitening.

    Each round transforms the vectors, which brings their distribution nearer to N(0, I). The
    covariance is at most u I, where u = `bound` and I is the identity. An N(0, I) record is
    longer than gamma (`gaussian_norm`) with probability at most b. Vectors are rows, and ' is the
    transpose.

    1. Start from A = I/sqrt(u). A round takes w = xA, whose covariance is at most I, and projects w
       on the ball of radius gamma. Let W be the matrix of these n rows. The round releases
       Z = W'W/n with noise.
    2. Sensitivity. Replacing a row w by v changes W'W by v'v - w'w. The squared Frobenius norm of
       this matrix is |w|^4 + |v|^4 - 2 (w.v)^2 <= 2 gamma^4, with equality for orthogonal w and v
       of norm gamma. So Z has the sensitivity sqrt(2) gamma^2/n in the Frobenius norm. The l2 norm
       of its upper triangle is not larger. With ``equal`` noise, as in the authors' code, all
       entries of the upper triangle get noise for this sensitivity. But the Frobenius norm counts
       entries off the diagonal twice. So with ``frobenius`` noise they are multiplied by sqrt(2)
       before the noise is added, and divided by sqrt(2) afterwards (`frobenius_weights`). This
       divides the standard deviation of their noise by sqrt(2), at no cost.
    3. Negative eigenvalues of Z are set to 0. The next A is A (Z + eta I)^(-1/2), which makes the
       covariance of w nearly I. (The authors' code multiplies from the other side, which is wrong
       from the third round on, and takes absolute values of eigenvalues.)
    4. Choice of eta. Let w have the covariance S <= I, and y = sqrt(d/n) <= 1. The singular values
       of n standard Gaussian rows are within sqrt(n) +- sqrt(d), up to their tails (Davidson and
       Szarek 2001, Theorem II.13). So the sampling error W'W/n - S is between ((1 - y)^2 - 1) S and
       ((1 + y)^2 - 1) S, of a norm of at most 2y + y^2. The authors' code has half of this bound,
       eta = y + y^2/2. Then W'W/n + eta I >= ((1 - y)^2 + eta) S = (1 - y + 3y^2/2) S >= (5/6) S,
       with equality at y = 1/3. So the next covariance is at most (6/5) I, apart from noise. With 2
       eta in place of eta it would be at most I.
    5. Slack. A symmetric matrix of N(0, s^2) entries has a norm above s (2 sqrt(d) + t) with
       probability about e^(-t^2/4), because the norm is sqrt(2) s-Lipschitz in the entries. Let s
       be the standard deviation of the noise of Z, and t^2 = 4 ln(100), for a probability of about
       1 per cent. The slack is eta + s (2 sqrt(d) + t). With ``frobenius`` noise s is divided by
       sqrt(2), because the norm is then above s (sqrt(2d) + t/sqrt(2)) with this probability.

    The records have shape (trials, n, d), and `bound` is in the squared unit of the data. The
    ledger holds the zCDP or GDP budget of all rounds; see `to_gdp`. The result has A, Z and the
    slack of the last round.
    """
    trials, n, d = x.shape
    x = np.clip(x, -MAX_COORDINATE, MAX_COORDINATE)
    gamma = gaussian_norm(d, b)
    eta = float(np.sqrt(d / n) + d / n / 2)
    sensitivity = np.sqrt(2) * gamma**2 / n
    upper = np.triu_indices(d)
    weights = frobenius_weights(upper) if entry_noise == "frobenius" else 1.0
    after = np.broadcast_to(np.eye(d) / np.sqrt(bound), (trials, d, d))
    inverse = np.broadcast_to(np.eye(d) * np.sqrt(bound), (trials, d, d))
    for part in ledger.split(*shares(rounds)):
        transform, back = after, inverse
        w = x @ transform
        w *= np.minimum(1, gamma / np.maximum(norms(w), gamma))[..., None]
        clean = w.transpose(0, 2, 1) @ w / n
        noisy = np.empty_like(clean)
        noisy[:, *upper] = part.add_noise(clean[:, *upper] * weights, sensitivity) / weights
        noisy[:, *upper[::-1]] = noisy[:, *upper]
        values, vectors = np.linalg.eigh(noisy)
        values = np.maximum(values, 0)
        after = transform @ _rebuild((values + eta) ** -0.5, vectors)
        # Update the inverse of A: inverting A, which may be nearly singular, could fail.
        inverse = _rebuild((values + eta) ** 0.5, vectors) @ back
    rho = rho_of(part.budget)
    sd = sensitivity / np.sqrt((4 if entry_noise == "frobenius" else 2) * rho)
    slack = eta + float(sd * 2 * (np.sqrt(d) + np.sqrt(np.log(100))))
    return CovarianceFit(transform, back, values, vectors, clean, slack)


def _rebuild(values: Floats, vectors: Floats) -> Floats:
    """Return symmetric matrices, (trials, d, d), with the given eigenvalues and eigenvectors."""
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _records(sample: Sample, quantity: str) -> Floats:
    """Return the records of a sample as an array, (trials, n, d).

    Raise ValueError if records are numbers, or if the sample does not hold them one by one.
    """
    if not isinstance(sample, DenseSample) or sample.mean().ndim == 1:
        raise ValueError(f"{quantity} needs vectors, record by record")
    return sample.values


@validated
class CoinPressCovariance(_Gaussian, kind="coinpress_covariance"):
    """CoinPress covariance of Gaussian vectors of mean 0, by rounds of whitening (BDKU20).

    Algorithms 3 and 4 of BDKU20; `fit_covariance` has the steps and their sensitivity. With the
    true covariance S, the error is the Frobenius norm of S^(-1/2) (estimate - S) S^(-1/2). An
    (epsilon, delta) budget is first converted to GDP by `to_gdp`.

    Parameters
    ----------
    bound : float > 0
        Public bound u, in the squared unit of the data: the variance in every direction is at most
        u.
    rounds : int
        Number of rounds.
    b : float in (0, 1)
        Bound on the probability that a N(0, I) record is projected; 0.1 in the authors' code.
    entry_noise : {'equal', 'frobenius'}
        Noise of the entries of the covariance. ``equal``, as in the authors' code: equal noise in
        the upper triangle. ``frobenius``: entries off the diagonal get 1/sqrt(2) of this noise.
    """

    bound: ErrorBound
    rounds: FewRounds = 3
    b: Probability = COVARIANCE_B
    entry_noise: EntryNoise = "equal"
    estimand: ClassVar[Estimand] = COVARIANCE
    bounded_in: ClassVar[None] = None

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = GaussianSpread(float(np.sqrt(self.bound)), "the root of bound")
        return spread, MeanWithin(0.0, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x = _records(sample, "a covariance")
        fit = fit_covariance(x, self.bound, self.rounds, self.b, to_gdp(ledger), self.entry_noise)
        moments = _rebuild(fit.values, fit.vectors), fit.clean
        value, before = (fit.back.transpose(0, 2, 1) @ z @ fit.back for z in moments)
        return Estimate((value + value.transpose(0, 2, 1)) / 2, before)


@validated
class WhitenedCoinPressMean(_Gaussian, kind="whitened_coinpress_mean"):
    """CoinPress mean of a Gaussian with unknown covariance, which is fitted first (BDKU20).

    BDKU20, algorithm number not checked. Records x are rows of d coordinates.

    1. The scaled differences (x - y)/sqrt(2) of disjoint pairs of records have mean 0 and the
       records' covariance. Replacing one record changes one difference. The share
       `covariance_share` of the budget pays for `fit_covariance` on the differences.
    2. The last round of the fit multiplies differences by a matrix A, and releases their second
       moments Z with noise. Its `slack` bounds the error of the eigenvalues of Z. Let I be the
       identity, and B = A (Z + slack I)^(-1/2). If xA has a covariance of at most I, the covariance
       of xB is at most (6/5) I with high probability. The covariance of xB is near I in directions
       in which Z exceeds the slack.
    3. The rest of the budget pays for the rounds of `CoinPressMean` on the records xB. The first
       ball has the radius R ||B||, where ||B|| is the spectral norm. A round with clip radius s has
       l2 sensitivity 2s/n for n records. The result is multiplied by B^-1. So its noise has the
       shape of the data in directions in which Z exceeds the slack.

    Parameters
    ----------
    radius : float >= 0
        R, a public bound on the l2 norm of the mean, in the unit of the data.
    bound : float > 0
        Public bound on the variance in every direction, in the squared unit of the data.
    rounds : int
        Number of rounds for the mean.
    covariance_rounds : int
        Number of rounds for the covariance.
    covariance_share : float in (0, 1)
        Share of the budget for the covariance.
    b : float in (0, 1)
        Probability that the bound on the norm of a normal vector fails in a round of the mean.
    entry_noise : {'equal', 'frobenius'}
        Noise of the entries of the covariance, as in `CoinPressCovariance`. ``frobenius`` has less.
    """

    radius: Radius
    bound: ErrorBound
    rounds: Rounds = 4
    covariance_rounds: FewRounds = 3
    covariance_share: Probability = 0.5
    b: Probability = 0.01
    entry_noise: EntryNoise = "equal"
    fewest_records: ClassVar[int] = 2  # one record makes no pair

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = GaussianSpread(float(np.sqrt(self.bound)), "the root of bound")
        return spread, MeanWithin(self.radius, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x = np.clip(_records(sample, "an unknown covariance"), -MAX_COORDINATE, MAX_COORDINATE)
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        spread, fine = to_gdp(ledger).split(self.covariance_share, 1 - self.covariance_share)
        pairs = (x[:, 1 : sample.n - sample.n % 2 : 2] - x[:, : sample.n - 1 : 2]) / np.sqrt(2)
        fit = fit_covariance(
            pairs, self.bound, self.covariance_rounds, COVARIANCE_B, spread, self.entry_noise
        )
        root = np.sqrt(fit.values + fit.slack)
        whiten = fit.transform @ _rebuild(1 / root, fit.vectors)
        colour = _rebuild(root, fit.vectors) @ fit.back
        rho = rho_of(fine.budget)
        largest = np.linalg.norm(whiten, ord=2, axis=(1, 2))
        radius = np.minimum(self.radius * largest, MAX_RADIUS)
        plan = schedule(sample.n, sample.d, radius, rho, self.rounds, self.b)
        last = run_rounds(DenseSample(x @ whiten), plan, 1.0, fine)[-1]
        value, before = ((v[:, None] @ colour)[:, 0] for v in (last.value, last.before_noise))
        return Estimate(value, before)
