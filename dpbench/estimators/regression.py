"""Linear regression (L17, goal 4): the last coordinate y of a record on the others, x.

The value theta predicts y by <x, theta>. With S the mean of x x' under the law, and theta* the
least squares of the law, E (<x, theta> - y)^2 exceeds its minimum by |S^(1/2) (theta - theta*)|^2:
the error is the root of this excess risk, a norm, as the errors of means are. For y = <x, theta*>
+ z, z of variance s^2 independent of the d coordinates of x, the excess risk of least squares is
about d s^2/n, and what privacy adds is of order d^2/(n^2 rho); with constants these rates are in
`dpbench.theory.exact.regression`.
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
RIDGE_SHARE = 0.1


def least_squares(moment: Floats) -> Floats:
    """The shortest theta that fits best, (..., d), by the (..., d+1, d+1) second moments."""
    finite = np.isfinite(moment).all(axis=(-2, -1), keepdims=True)
    moment = np.where(finite, moment, 0.0)  # sums that overflow tell nothing
    largest = np.abs(moment).max(axis=(-2, -1), keepdims=True)
    moment = moment / np.where(largest > 0, largest, 1.0)
    inverse = np.linalg.pinv(moment[..., :-1, :-1], hermitian=True)
    return np.asarray((inverse @ moment[..., :-1, -1:])[..., 0])


def _check(sample: Sample) -> None:
    if sample.d < 2:
        raise ValueError("a regression needs vectors of two coordinates or more")


def _records(sample: Sample) -> tuple[Floats, Floats, Floats]:
    """Features x, (trials, m, d), responses y, (trials, m), and how many there are of each."""
    _check(sample)
    values, counts = sample.listed()
    values = np.clip(values, -WIDEST, WIDEST)
    return values[..., :-1], values[..., -1], counts


def _flipped(n: int, d: int | None, others: Floats) -> list[Pair]:
    """One large response changes its sign, at x = (1, ..., 1); `others` are the other records."""
    if d is None or d < 2:
        return []
    record = np.append(np.ones(d - 1), 1e6)
    rows = np.vstack([record, np.broadcast_to(others, (n - 1, d))])
    return [Pair.replacing("response_flips", rows, 0, record * np.append(np.ones(d - 1), -1))]


class _Regression(Estimator):
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True
    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None


@validated
class LeastSquares(_NonPrivateEstimator):
    """Least squares, the shortest where there are several."""

    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        _check(sample)
        with np.errstate(over="ignore", invalid="ignore"):
            found = least_squares(sample.second_moment())
        return Estimate(found, found)


@validated
class AdaSSP(_Regression, kind="adassp"):
    """Ridge regression on noisy moments, by no more than their noise calls for.

    W18, Algorithm 2, with constants for replacing a record, by Gaussian noise. Let |x| <= B
    and |y| <= Y, and write u = x/B, y for y/Y. With all but a tenth of the budget A = mean of
    u u' and b = mean of y u are released at once, as the vector of the diagonal of A, of sqrt(2)
    times what is above it, and of b: its l2 norm is that of (A, b). Replacing (u, y) by (v, z)
    moves n times it by the root of

        |uu' - vv'|_F^2 + |yu - zv|^2 <= (2 - 2t^2) + (2 + 2|t|) <= 9/2,    t = <u, v>,

    for with |u|, |v| at most 1 the first is |u|^4 + |v|^4 - 2t^2, and the second y^2 |u|^2 +
    z^2 |v|^2 - 2yzt; attained where t = 1/2 and z = -y. (The source's separate releases would be of
    2 + 4, at twice the noise of A beside the diagonal.)

    The noise N of A is that of a symmetric matrix of variances s^2 on the diagonal and s^2/2 beside
    it: the largest eigenvalue has a mean of at most s sqrt(2d) (Davidson and Szarek 2001, II.11),
    and each end of its spectrum is s-Lipschitz in d (d + 1)/2 independent N(0, 1): |N| <= G = s
    (sqrt(2d) + sqrt(2 ln(2/beta))) with probability 1 - beta. The rest of the budget is for the
    least eigenvalue of A, which moves by at most 1/n: it is at least that of A - vv'/n. Where its
    lower bound L, of probability 1 - beta/2, is below G a ridge G - L is added to A + N.
    Eigenvalues below s are set to it.

    Parameters
    ----------
    feature_bound, response_bound : float > 0
        B and Y: x is projected on that ball, y clipped to +-Y.
    beta : float in (0, 1)
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
        rest = 1e6 * np.eye(d - 1, d)[np.arange(n - 1) % (d - 1)]  # no ridge
        return _flipped(n, d, rest)


def _solved(a: Floats, b: Floats, ridge: Floats, least: float) -> Floats:
    """(A + ridge I)^(-1) b, with eigenvalues of at least `least`."""
    values, vectors = np.linalg.eigh(a)
    values = np.maximum(values + ridge[:, None], least)
    turned = (b[:, None] @ vectors)[:, 0] / values
    return np.asarray((vectors @ turned[..., None])[..., 0])


@validated
class GradientDescentRegression(_Regression):
    """Squared loss by `descend` from 0: x (<x, theta> - y), clipped to norm C, is a gradient.

    Nothing need be known of x or y. The noise follows C, which may be as small as the residuals of
    theta*: far from theta* gradients are clipped, and the steps are short.

    Parameters
    ----------
    clip : float > 0
        C.
    rate : float > 0
        r: best near 1 over the eigenvalues of S. Above 2 over the largest it does not converge.
    steps : int
        T.
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
        return _flipped(n, d, np.zeros(d or 1))  # other gradients are 0


@validated
class SubsampleLeastSquares(SubsampleAggregate):
    """Least squares of every bucket, aggregated as `SubsampleAggregate` does."""

    base: Any = LeastSquares()
    estimand: ClassVar[str] = "regression"
    bounded_in: ClassVar[None] = None

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None or d < 2:
            return []
        far = np.where(np.arange(n) % 2, 1e6, -1e6)
        pairs = super().audit_pairs(n, None, budget) or [Pair.replacing("far", far, 0, 1e6)]
        # of x = (1, ..., 1) and y = (d - 1) v the shortest theta is (v, ..., v)
        x = np.ones((n, d - 1))
        both = ((np.column_stack([x, (d - 1) * v]) for v in (p.left, p.right)) for p in pairs)
        return [Pair(p.name, *sides) for p, sides in zip(pairs, both, strict=True)]
