"""Private linear regression of the last coordinate y of a record on the others, x (L17, goal 4).

An estimate theta predicts y by <x, theta>. Let S be the mean of x x' under the distribution, and
theta* its least-squares coefficients. The excess risk E (<x, theta> - y)^2 - E (<x, theta*> - y)^2
is |S^(1/2) (theta - theta*)|^2, and the error reported is its root. For y = <x, theta*> + z with z
of variance s^2 and independent of the d coordinates of x, the excess risk of least squares is about
d s^2/n, and privacy adds a term of order d^2/(n^2 rho). `dpbench.theory.exact.regression` has both
with constants.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import WIDEST, rho_of, under_zcdp
from dpbench.estimators.gradient_descent import Clip, Steps, descend
from dpbench.estimators.nonprivate import _NonPrivateEstimator
from dpbench.estimators.subsample import SubsampleAggregate
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = [
    "AdaSSP", "GradientDescentRegression", "LeastSquares", "SubsampleLeastSquares", "least_squares",
]  # fmt: skip

Rate = Annotated[float, Field(gt=0, le=1e6)]
RIDGE_SHARE = 0.1  # share of the budget that AdaSSP spends on the least eigenvalue


def least_squares(moment: Floats) -> Floats:
    """Return the shortest theta of least squared error, (..., d).

    Parameters
    ----------
    moment : ndarray of shape (..., d + 1, d + 1)
        Second moments of records (x, y). A matrix that is not finite counts as 0.

    Returns
    -------
    ndarray of shape (..., d)
    """
    finite = np.isfinite(moment).all(axis=(-2, -1), keepdims=True)
    moment = np.where(finite, moment, 0.0)  # sums that overflowed carry no information
    largest = np.abs(moment).max(axis=(-2, -1), keepdims=True)
    moment = moment / np.where(largest > 0, largest, 1.0)
    inverse = np.linalg.pinv(moment[..., :-1, :-1], hermitian=True)
    return np.asarray((inverse @ moment[..., :-1, -1:])[..., 0])


def _check(sample: Sample) -> None:
    """Raise a ValueError unless records have a feature and a response."""
    if sample.d < 2:
        raise ValueError("a regression needs vectors of two coordinates or more")


def _records(sample: Sample) -> tuple[Floats, Floats, Floats]:
    """Return features (trials, m, d), responses (trials, m) and multiplicities (trials, m)."""
    _check(sample)
    values, counts = sample.listed()
    values = np.clip(values, -WIDEST, WIDEST)
    return values[..., :-1], values[..., -1], counts


def _flipped(n: int, d: int | None, others: Floats) -> list[Pair]:
    """Return a pair that flips the sign of a large response at x = (1, ..., 1), beside `others`."""
    if d is None or d < 2:
        return []
    record = np.append(np.ones(d - 1), 1e6)
    rows = np.vstack([record, np.broadcast_to(others, (n - 1, d))])
    return [Pair.replacing("response_flips", rows, 0, record * np.append(np.ones(d - 1), -1))]


class _Regression(Estimator):
    """Base class of private regressions."""

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True
    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None


@validated
class LeastSquares(_NonPrivateEstimator):
    """Least squares, without privacy; the shortest solution if there are several."""

    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        _check(sample)
        with np.errstate(over="ignore", invalid="ignore"):
            found = least_squares(sample.second_moment())
        return Estimate(found, found)


@validated
class AdaSSP(_Regression, kind="adassp"):
    """AdaSSP: linear regression by noisy moments and an adaptive ridge (W18, Algorithm 2).

    Here with Gaussian noise, and with constants for replacing a record. Let |x| <= B and |y| <= Y,
    and write u = x/B, and y for y/Y.

    1. With 0.9 of the budget release A = mean of u u' and b = mean of y u at once, as the vector of
       the diagonal of A, sqrt(2) times the entries above it, and b. Its l2 norm is that of (A, b).
    2. With 0.1 release the least eigenvalue of A. It changes by at most 1/n, because it is at least
       that of A - v v'/n. Let L be a lower bound on it that holds with probability 1 - beta/2.
    3. Solve for theta with the ridge max(0, G - L), where G bounds the norm of the noise of A.
       Eigenvalues below s are raised to s, the standard deviation of the noise.

    Sensitivity of step 1. Let t = <u, v>, where |u|, |v|, |y|, |z| <= 1. Replacing (u, y) by (v, z)
    moves n times the vector by the root of

        |uu' - vv'|_F^2 + |yu - zv|^2 <= (2 - 2t^2) + (2 + 2|t|) <= 9/2,

    because the first term is |u|^4 + |v|^4 - 2t^2, and the second y^2 |u|^2 + z^2 |v|^2 - 2yzt. The
    bound is attained at t = 1/2, z = -y. (W18 releases A and b separately, at a cost of 2 + 4, with
    twice the noise of A off the diagonal.)

    Bound G. The noise N of A is a symmetric matrix with variances s^2 on and s^2/2 off the
    diagonal. Its largest eigenvalue has a mean of at most s sqrt(2d) (Davidson and Szarek 2001,
    II.11), and each end of its spectrum is an s-Lipschitz function of d (d + 1)/2 independent N(0,
    1). So |N| <= G = s (sqrt(2d) + sqrt(2 ln(2/beta))) with probability 1 - beta.

    Parameters
    ----------
    feature_bound : float > 0
        Bound B on the norm of the features x, in their unit; longer x are projected on that ball.
    response_bound : float > 0
        Bound Y on abs(y), in the unit of the response; y is clipped to +-Y. The noise of the
        solution is proportional to Y/B.
    beta : float in (0, 1)
        Probability that the bounds G and L fail; a smaller value makes the ridge larger.
    """

    feature_bound: Clip
    response_bound: Clip
    beta: Probability = 0.05

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, y, counts = _records(sample)
        u = x / np.maximum(norms(x), self.feature_bound)[..., None]
        y = np.clip(y / self.response_bound, -1, 1)
        weighted = (u * (counts / sample.n)[..., None]).transpose(0, 2, 1)
        a, b = weighted @ u, (weighted @ y[..., None])[..., 0]
        ridge_part, part = under_zcdp(ledger).split(RIDGE_SHARE, 1 - RIDGE_SHARE)
        upper = np.triu_indices(u.shape[2])
        stretch = np.where(upper[0] == upper[1], 1.0, 2**0.5)
        sensitivity = 3 / 2**0.5 / sample.n
        noisy = part.add_noise(np.hstack([a[:, *upper] * stretch, b]), sensitivity)
        noisy_a = np.empty_like(a)
        noisy_a[:, *upper] = noisy_a[:, *upper[::-1]] = noisy[:, : stretch.size] / stretch
        s = sensitivity / float(np.sqrt(2 * rho_of(part.budget)))
        enough = s * float(np.sqrt(2 * u.shape[2]) + np.sqrt(2 * np.log(2 / self.beta)))
        least = np.asarray(np.linalg.eigvalsh(a)[:, 0], dtype=float)
        least = ridge_part.add_noise(least, 1 / sample.n)
        least -= ridge_part.budget.noise_quantile(self.beta) / sample.n
        ridge = np.maximum(0, enough - np.maximum(0, least))
        unit = self.response_bound / self.feature_bound
        found = (_solved(m, v, ridge, s) for m, v in ((noisy_a, noisy[:, stretch.size :]), (a, b)))
        value, before = (unit * theta for theta in found)
        return Estimate(value, before)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None or d < 2:
            return []
        # The other records make the least eigenvalue so large that no ridge is added.
        rest = 1e6 * np.eye(d - 1, d)[np.arange(n - 1) % (d - 1)]
        return _flipped(n, d, rest)


def _solved(a: Floats, b: Floats, ridge: Floats, least: float) -> Floats:
    """Return (A + ridge I)^(-1) b, (trials, d), with eigenvalues raised to `least` or more."""
    values, vectors = np.linalg.eigh(a)
    values = np.maximum(values + ridge[:, None], least)
    turned = (b[:, None] @ vectors)[:, 0] / values
    return np.asarray((vectors @ turned[..., None])[..., 0])


@validated
class GradientDescentRegression(_Regression):
    """DP gradient descent (DP-GD) for linear regression: squared loss with clipped gradients.

    The descent (`descend`) starts at 0. A record's gradient is x (<x, theta> - y), clipped to norm
    C. No bounds on x or y are needed. The noise is proportional to C, which may be as small as the
    residuals of the least-squares coefficients. While theta is far from them gradients are clipped,
    and the steps are short.

    Parameters
    ----------
    clip : float > 0
        Norm C to which a record's gradient is clipped, in the unit of x times that of y.
    rate : float > 0
        Step size r. It is best near 1 over the eigenvalues of S, the mean of x x'. Above 2 over the
        largest eigenvalue the descent does not converge.
    steps : int
        Number T of steps, each with 1/T of the budget.
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
        return _flipped(n, d, np.zeros(d or 1))  # the gradients of the other records are 0


@validated
class SubsampleLeastSquares(SubsampleAggregate):
    """Sample and aggregate for linear regression: least squares on buckets, aggregated privately.

    The parameters are those of `SubsampleAggregate`, with `LeastSquares` as the base.
    """

    base: Any = LeastSquares()
    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None or d < 2:
            return []
        far = np.where(np.arange(n) % 2, 1e6, -1e6)
        pairs = super().audit_pairs(n, None, budget) or [Pair.replacing("far", far, 0, 1e6)]
        # At x = (1, ..., 1) and y = (d - 1) v, the shortest theta is (v, ..., v).
        x = np.ones((n, d - 1))
        both = ((np.column_stack([x, (d - 1) * v]) for v in (p.left, p.right)) for p in pairs)
        return [Pair(p.name, *sides) for p, sides in zip(pairs, both, strict=True)]
