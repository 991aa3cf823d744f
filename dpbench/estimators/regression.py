"""Private linear regression of a record's last coordinate y on its other coordinates x.

Regression is goal 4 of L17. A record (x, y) has d coordinates in x. Coefficients theta predict y by
<x, theta>. Let S be the mean of x x' under the distribution, and theta* the coefficients with the
least mean square error under the distribution. The excess risk of theta is E (<x, theta> - y)^2
- E (<x, theta*> - y)^2 = |S^(1/2) (theta - theta*)|^2, and the reported error is its root.

Let y = <x, theta*> + z, with z of variance s^2 and independent of the d coordinates of x. The
excess risk of least squares is then about d s^2/n, and privacy under rho-zCDP adds a term of order
d^2/(n^2 rho). `dpbench.theory.exact.regression` has both terms with constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, RecordsInBall
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import MAX_COORDINATE, frobenius_weights, rho_of, to_gdp
from dpbench.estimators.estimands import REGRESSION, Estimand, least_squares
from dpbench.estimators.gradient_descent import Clip, Steps, descend
from dpbench.estimators.nonprivate import _NonPrivateEstimator
from dpbench.estimators.subsample import SubsampleAggregate
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = [
    "AdaSSP", "GradientDescentRegression", "LeastSquares", "SubsampleLeastSquares",
]  # fmt: skip

Rate = Annotated[float, Field(gt=0, le=1e6)]
RIDGE_SHARE = 0.1  # share of the budget that AdaSSP spends on the smallest eigenvalue


def _check(sample: Sample) -> None:
    """Raise ValueError unless records have at least two coordinates, a feature and a response."""
    if sample.d < 2:
        raise ValueError("a regression needs vectors of two coordinates or more")


def _records(sample: Sample) -> tuple[Floats, Floats, Floats]:
    """Return the features, the responses and the multiplicities of the records of a regression.

    A record is (x, y). The features x are (trials, m, d), the responses y and the multiplicities
    (trials, m).
    """
    _check(sample)
    values, counts = sample.listed()
    values = np.clip(values, -MAX_COORDINATE, MAX_COORDINATE)
    return values[..., :-1], values[..., -1], counts


def _flip_pairs(n: int, d: int | None, others: Floats) -> list[Pair]:
    """Return a list with one pair of neighbouring datasets for a privacy audit.

    The datasets differ in the sign of one record's response. This record has the features
    x = (1, ..., 1) and the response 1e6 or -1e6. The other n - 1 records, `others`, are the same in
    both datasets. `others` has the shape (n - 1, d), or (d,) for one record that is repeated. The
    list is empty if d, the number of coordinates of a record, is below 2 or unknown.
    """
    if d is None or d < 2:
        return []
    record = np.append(np.ones(d - 1), 1e6)
    rows = np.vstack([record, np.broadcast_to(others, (n - 1, d))])
    return [Pair.replacing("response_flips", rows, 0, record * np.append(np.ones(d - 1), -1))]


class _Regression(Estimator):
    """Base class of private estimators of linear regression coefficients."""

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True
    estimand: ClassVar[Estimand] = REGRESSION
    bounded_in: ClassVar[None] = None


@validated
class LeastSquares(_NonPrivateEstimator):
    """Least-squares coefficients of a linear regression, without privacy.

    If there are several solutions, the shortest is returned.
    """

    estimand: ClassVar[Estimand] = REGRESSION
    bounded_in: ClassVar[None] = None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        _check(sample)
        with np.errstate(over="ignore", invalid="ignore"):
            theta = least_squares(sample.second_moment())
        return Estimate(theta, theta)


@validated
class AdaSSP(_Regression, kind="adassp"):
    """AdaSSP: linear regression by noisy moments and an adaptive ridge (W18, Algorithm 2).

    Records (x, y) have d features x and a response y, which coefficients theta predict by
    <x, theta>. This implementation uses Gaussian noise, and constants for neighbours that differ in
    a replaced record. Let |x| <= B and |y| <= Y, and let u = x/B. In the steps, y stands for the
    scaled response y/Y.

    1. With 0.9 of the budget release A = mean of u u' and b = mean of y u at once. They form one
       vector: the diagonal of A, sqrt(2) times the entries above it, and b. The l2 norm of the
       vector is the Frobenius norm of (A, b).
    2. With 0.1 release the smallest eigenvalue of A. A replaced record moves it by at most 1/n,
       because adding v v'/n with |v| <= 1 to a matrix raises its smallest eigenvalue by 0 to 1/n.
       Let L be a lower bound on the smallest eigenvalue that holds with probability 1 - beta/2.
    3. Solve (A + ridge I) theta = b with the ridge max(0, G - L), where G bounds the spectral norm
       of the noise of A. Let s be the standard deviation of the noise. Eigenvalues of A + ridge I
       below s are raised to s.

    Sensitivity of step 1. Let t = <u, v>, where |u|, |v|, |y|, |z| <= 1. Replacing a record (u, y)
    by (v, z) moves n times the vector of step 1 by the root of

        |uu' - vv'|_F^2 + |yu - zv|^2 <= (2 - 2t^2) + (2 + 2|t|) <= 9/2,

    because the first term is |u|^4 + |v|^4 - 2t^2, and the second y^2 |u|^2 + z^2 |v|^2 - 2yzt. The
    bound is attained at t = 1/2, z = -y. (W18 releases A and b separately, with squared
    sensitivities 2 and 4, and with twice the variance of A off the diagonal.)

    Bound G. The noise N of A is a symmetric matrix. Its entries have variance s^2 on the diagonal
    and s^2/2 elsewhere. The mean of the largest eigenvalue of N is at most s sqrt(2d) (Davidson and
    Szarek 2001, II.11). Each end of its spectrum is an s-Lipschitz function of d (d + 1)/2
    independent N(0, 1). So |N| <= G = s (sqrt(2d) + sqrt(2 ln(2/beta))) with probability 1 - beta.

    Parameters
    ----------
    feature_bound : float > 0
        Bound B on the norm of the features x, in the unit of x; longer x are projected on the ball
        of radius B.
    response_bound : float > 0
        Bound Y on abs(y), in the unit of y, which is clipped to +-Y. The noise of the coefficients
        is proportional to Y/B.
    beta : float in (0, 1)
        Probability that the noise exceeds G, and twice the probability that L exceeds the
        eigenvalue. A smaller value makes the ridge larger.
    """

    feature_bound: Clip
    response_bound: Clip
    beta: Probability = 0.05

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (
            RecordsInBall(self.feature_bound, "feature_bound", stop=d - 1),
            RecordsInBall(self.response_bound, "response_bound", start=d - 1),
        )

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, y, counts = _records(sample)
        u = x / np.maximum(norms(x), self.feature_bound)[..., None]
        y = np.clip(y, -self.response_bound, self.response_bound) / self.response_bound
        weighted = (u * (counts / sample.n)[..., None]).transpose(0, 2, 1)
        a, b = weighted @ u, (weighted @ y[..., None])[..., 0]
        ridge_part, part = to_gdp(ledger).split(RIDGE_SHARE, 1 - RIDGE_SHARE)
        upper = np.triu_indices(u.shape[2])
        weights = frobenius_weights(upper)
        sensitivity = 3 / 2**0.5 / sample.n
        noisy = part.add_noise(np.hstack([a[:, *upper] * weights, b]), sensitivity)
        noisy_a = np.empty_like(a)
        noisy_a[:, *upper] = noisy_a[:, *upper[::-1]] = noisy[:, : weights.size] / weights
        s = sensitivity / float(np.sqrt(2 * rho_of(part.budget)))
        noise_bound = s * float(np.sqrt(2 * u.shape[2]) + np.sqrt(2 * np.log(2 / self.beta)))
        smallest = np.asarray(np.linalg.eigvalsh(a)[:, 0], dtype=float)
        smallest = ridge_part.add_noise(smallest, 1 / sample.n)
        smallest -= ridge_part.budget.noise_quantile(self.beta) / sample.n
        ridge = np.maximum(0, noise_bound - np.maximum(0, smallest))
        unit = self.response_bound / self.feature_bound
        solutions = (
            _solve_ridge(m, v, ridge, s) for m, v in ((noisy_a, noisy[:, weights.size :]), (a, b))
        )
        value, before = (unit * theta for theta in solutions)
        return Estimate(value, before)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None or d < 2:
            return []
        # The other records make the least eigenvalue so large that no ridge is added.
        rest = 1e6 * np.eye(d - 1, d)[np.arange(n - 1) % (d - 1)]
        return _flip_pairs(n, d, rest)


def _solve_ridge(a: Floats, b: Floats, ridge: Floats, floor: float) -> Floats:
    """Return the solutions theta of (A + ridge I) theta = b, one for each trial, (trials, d).

    Eigenvalues of A + ridge I below `floor` are raised to `floor`.
    """
    values, vectors = np.linalg.eigh(a)
    values = np.maximum(values + ridge[:, None], floor)
    rotated = (b[:, None] @ vectors)[:, 0] / values
    return np.asarray((vectors @ rotated[..., None])[..., 0])


@validated
class GradientDescentRegression(_Regression):
    """DP gradient descent for linear regression: squared loss with clipped gradients (ACG16).

    Records (x, y) have features x and a response y, which coefficients theta predict by <x, theta>.
    The descent starts at theta = 0. The function `descend` documents the steps and their
    sensitivity. The gradient of a record is x (<x, theta> - y), clipped to norm C. No bounds on x
    or y are needed. The noise is proportional to C, which may be as small as the gradients at the
    least-squares coefficients. While theta is far from these coefficients, gradients are clipped
    and the steps are short.

    Parameters
    ----------
    clip : float > 0
        Norm C to which a record's gradient is clipped, in the unit of x times the unit of y.
    rate : float > 0
        Step size, by which the mean of the clipped gradients is multiplied. Let S be the mean of x
        x'. The best size is near the reciprocals of the eigenvalues of S. Above 2 divided by the
        largest eigenvalue the descent does not converge.
    steps : int >= 1
        Number T of steps, each with 1/T of the budget. More steps get closer to the least-squares
        coefficients, with more noise in each step.
    """

    clip: Clip
    rate: Rate
    steps: Steps = 10

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, y, counts = _records(sample)
        lengths, shares = norms(x), counts / sample.n

        def point(theta: Floats) -> Floats:
            residual = (x @ theta[..., None])[..., 0] - y
            with np.errstate(divide="ignore", over="ignore"):
                residual = np.clip(residual, -self.clip / lengths, self.clip / lengths)
            gradient = ((residual * shares)[:, None] @ x)[:, 0]
            return np.asarray(theta - self.rate * gradient)

        reach = self.rate * self.clip / sample.n
        return descend(point, np.zeros_like(x[:, 0]), reach, self.steps, ledger)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return _flip_pairs(n, d, np.zeros(d or 1))  # the gradients of the other records are 0


@validated
class SubsampleLeastSquares(SubsampleAggregate):
    """Sample and aggregate for linear regression: least squares on buckets of records (NRS07).

    This estimator is `SubsampleAggregate` with `LeastSquares` on every bucket. `SubsampleAggregate`
    states the parameters and the sensitivity. The theorem number of NRS07 was not checked.
    """

    base: Any = LeastSquares()
    estimand: ClassVar[Estimand] = REGRESSION
    bounded_in: ClassVar[None] = None

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None or d < 2:
            return []
        far = np.where(np.arange(n) % 2, 1e6, -1e6)
        pairs = super().audit_pairs(n, None, budget) or [Pair.replacing("far", far, 0, 1e6)]
        # At x = (1, ..., 1) and y = (d - 1) v, the shortest theta is (v, ..., v).
        x = np.ones((n, d - 1))
        sides_of_pairs = (
            (np.column_stack([x, (d - 1) * v]) for v in (p.left, p.right)) for p in pairs
        )
        return [Pair(p.name, *sides) for p, sides in zip(pairs, sides_of_pairs, strict=True)]
