"""Clipped means with noise: numbers, vectors by coordinate, and vectors projected on a ball."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, RecordsInBall, RecordsInBox
from dpbench.estimators.base import Estimate, Estimator, Terms, as_estimator
from dpbench.privacy import ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = [
    "BinaryMean",
    "ClippedMean",
    "CoordinateWise",
    "L2ClippedMean",
    "add_box_noise",
    "as_private_base",
    "noisy_clipped_mean",
]  # fmt: skip

ErrorBound = Annotated[float, Field(ge=-1e300, le=1e300)]
MIN_WIDTH = 1e-140  # of an interval to which records are clipped; squares do not underflow


@validated
class _ClippingEstimator(Estimator):
    """Base class of estimators that clip records to a public interval [lower, upper].

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, lower < upper, in the unit of the data. Choose them without looking
        at the data.
    """

    lower: ErrorBound
    upper: ErrorBound

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        if self.lower is None or self.upper is None:
            return ()
        return (RecordsInBox(self.lower, self.upper),)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.lower is None or self.upper is None:
            return self
        if not self.upper - self.lower >= MIN_WIDTH:
            raise ValueError(
                f"upper must exceed lower, by {MIN_WIDTH:g} or more, got "
                f"[{self.lower}, {self.upper}]"
            )
        return self


def add_box_noise(
    rows: Floats, side: float | Floats, ledger: Ledger, *, independent: bool = False
) -> Floats:
    """Release rows with noise, for neighbours whose rows differ by at most `side` per coordinate.

    Rows of d numbers then differ inside a cube of side length `side`. The noise z of the cube is
    epsilon-DP, and has density proportional to exp(-epsilon max_j |z_j|/side) (HT10, number not
    checked). Its standard deviation in a coordinate is sqrt((d+1)(d+2)/3) side/epsilon, against
    sqrt(2) d side/epsilon for independent Laplace noise. The ratio is 1.41 at d = 2, 1.79 at d = 4,
    and tends to sqrt(6) = 2.45. Under zCDP and GDP the noise is Gaussian. Under (epsilon, delta) it
    is the noise of the cube or Gaussian, whichever has the smaller variance.

    If `independent` is True, every coordinate has independent noise, for the sensitivities d side
    in l1 and sqrt(d) side in l2. `rows` has the shape (trials,) or (trials, d), and `side`
    broadcasts to it. The noise spends the whole ledger.
    """
    d, budget = rows.shape[1] if rows.ndim == 2 else 1, ledger.budget
    # Laplace noise of this l1 sensitivity has the variance of the noise of a cube of side 1.
    equivalent_l1 = float(np.sqrt((d + 1) * (d + 2) / 6))
    by_cube = isinstance(budget, PureDP | ApproxDP) and not independent and d > 1
    if by_cube and not budget.gaussian(equivalent_l1, float(np.sqrt(d))):
        return ledger.add_joint_noise(rows, side, base="box")
    return ledger.add_noise(rows, float(np.sqrt(d)) * side, l1=d * side)


def noisy_clipped_mean(
    sample: Sample,
    centre: float | Floats,
    half_width: float | Floats,
    ledger: Ledger,
    *,
    independent: bool = False,
) -> Estimate:
    """Clip every coordinate to centre +- half_width, average the records, and add noise.

    A replaced record moves its clipped value by at most 2 half_width in each of its d coordinates.
    So the mean of n records moves inside a cube of side 2 half_width/n, and `add_box_noise` adds
    the noise. The l1 sensitivity is 2 d half_width/n, and the l2 sensitivity 2 sqrt(d)
    half_width/n. The differences from the centre are averaged, and the centre is added after the
    noise. So a centre that is large compared with half_width does not round the mean before noise.

    The centre and `half_width` are public or released before, in the unit of the data: numbers, or
    arrays of shape (trials,). Where the centre is NaN, the estimate is NaN. If `independent` is
    True, every coordinate has independent noise. The whole ledger is spent. The value before noise
    is the clipped mean.
    """
    offset = sample.centred_mean(centre, half_width)
    step = 2 * half_width / sample.n
    noisy = add_box_noise(offset, step, ledger, independent=independent)
    middle = np.reshape(centre, (-1, *(1,) * (offset.ndim - 1))) if np.ndim(centre) else centre
    noise = (np.broadcast_to(step, offset.shape), ledger.budget) if offset.ndim == 1 else None
    return Estimate(middle + noisy, middle + offset, noise=noise)


@validated
class ClippedMean(_ClippingEstimator):
    """Clipped mean with noise, such as Laplace noise under pure DP (L15, 'Unbounded data').

    Every coordinate is clipped to the public interval [lower, upper]; the mean is released with
    noise. For n records of d coordinates, `noisy_clipped_mean` derives the sensitivities
    d (upper - lower)/n in l1 and sqrt(d) (upper - lower)/n in l2. The mean moves inside a cube of
    side (upper - lower)/n.

    Parameters
    ----------
    lower, upper : float or None
        Ends of the interval, lower < upper, in the unit of the data. Choose them without looking
        at the data. If an end is None the sensitivity is infinite: nothing is released or spent,
        and every trial is a failure (NaN).
    mechanism : {'cube', 'additive'}
        Noise of vectors. ``cube``: under pure DP, the K-norm mechanism of HT10 for the cube in
        which the mean moves. Under (epsilon, delta) it is used if its variance is smaller than that
        of Gaussian noise. ``additive``: independent noise in every coordinate. Numbers, and vectors
        under zCDP and GDP, have the same noise with both.
    """

    lower: ErrorBound | None  # type: ignore[assignment]
    upper: ErrorBound | None  # type: ignore[assignment]
    mechanism: Literal["cube", "additive"] = "cube"
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.lower is None or self.upper is None:
            nothing = np.full_like(sample.mean(), np.nan)
            return Estimate(nothing, nothing)
        centre, half_width = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        independent = self.mechanism == "additive"
        return noisy_clipped_mean(sample, centre, half_width, ledger, independent=independent)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        if self.lower is None or self.upper is None:
            return {}
        return {"privacy": (self.upper - self.lower) * budget.noise_quantile(beta) / alpha}


@validated
class BinaryMean(Estimator):
    """Mean of records clipped to [0, 1], with noise (L15, 'Binary Mean Estimation').

    A replaced record moves the mean of n clipped records by at most 1/n.
    """

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBox(0.0, 1.0),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return noisy_clipped_mean(sample, 0.5, 0.5, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        return {"privacy": budget.noise_quantile(beta) / alpha}


@validated
class L2ClippedMean(Estimator):
    """Mean of vectors projected on a public l2 ball, with additive or l2-norm noise (Z24, HT10).

    Z24 and HT10, theorem numbers not checked. Let L be `radius`. A replaced record moves its
    projection by at most 2L. So the mean of n vectors of d coordinates has l2 sensitivity 2L/n and
    l1 sensitivity 2L sqrt(d)/n. (Z24 writes 2L sqrt(d), which is the l1 sensitivity of the sum.)

    Parameters
    ----------
    radius : float > 0
        Radius L of the l2 ball around 0 on which records are projected, in the unit of the data.
    mechanism : {'additive', 'l2'}
        Noise of the mean. ``additive``: independent noise in every coordinate. ``l2``, for pure DP
        only: noise z of density proportional to exp(-epsilon n ||z||/(2L)), with the l2 norm ||z||.
        This is the K-norm mechanism of HT10 for the l2 ball.
    """

    radius: Annotated[float, Field(gt=0, le=1e300)]
    mechanism: Literal["additive", "l2"] = "additive"
    multivariate: ClassVar[bool] = True
    narrowed_by: ClassVar[tuple[str, ...]] = ("mechanism",)

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.mechanism == "additive" else (PureDP,)

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBall(self.radius),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        step = 2 * self.radius / sample.n
        clipped = sample.projected_mean(0.0, self.radius)
        if self.mechanism == "additive":
            return Estimate(ledger.add_noise(clipped, step), clipped)
        released = ledger.add_l2_noise(clipped.reshape(sample.trials, -1), step)
        return Estimate(released.reshape(clipped.shape), clipped)


def as_private_base(base: Any) -> Estimator:
    """Build the estimator of numbers that another estimator runs on each coordinate or column.

    `base` is an estimator, its registered name or its configuration. A ValueError is raised if it
    is not private.
    """
    estimator = as_estimator(base)
    if not isinstance(estimator, Estimator) or estimator.supports(NonPrivate()):
        raise ValueError("give a private estimator of scalars, by its name or configuration")
    return estimator


@validated
class _OnNumbers(Estimator):
    """Base class of estimators that run one private estimator of numbers."""

    base: Any
    narrowed_by: ClassVar[tuple[str, ...]] = ("base",)

    @field_validator("base")
    @classmethod
    def _check_base(cls, base: Any) -> Estimator:
        return as_private_base(base)

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.base.honoured  # type: ignore[no-any-return]

    @property
    def most_at_once(self) -> int | None:
        return self.base.most_at_once  # type: ignore[no-any-return]

    @property
    def most_records(self) -> int | None:
        return self.base.most_records  # type: ignore[no-any-return]


@validated
class CoordinateWise(_OnNumbers):
    """Coordinate-wise mean: a one-dimensional estimator on each coordinate, with 1/d of the budget.

    One replaced record may change all d coordinates, so the costs of the d releases add up
    (composition). The sensitivities are those of the one-dimensional estimator.

    Parameters
    ----------
    base : estimator of numbers, its registered name or its configuration
        The private estimator that is run on each coordinate.
    """

    multivariate: ClassVar[bool] = True

    def least_records(self, d: int, budget: Budget) -> int:
        return self.base.least_records(1, budget.fraction(1 / d))  # type: ignore[no-any-return]

    def working_records(self, d: int, budget: Budget) -> int:
        return self.base.working_records(1, budget.fraction(1 / d))  # type: ignore[no-any-return]

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return self.base.assumptions(n, 1)  # type: ignore[no-any-return]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        shape = sample.mean().shape
        if len(shape) > 1:
            sample, ledger = sample.columns(), ledger.repeated(sample.d)
        estimate: Estimate = self.base.run(sample, ledger)
        return estimate if len(shape) == 1 else estimate.reshaped(shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return self.base.audit_pairs(n, d, budget)  # type: ignore[no-any-return]
        # Put pairs that are hard in one coordinate into all coordinates at once.
        pairs = self.base.audit_pairs(n, None, budget.fraction(1 / d))
        return [pair.along(np.ones(d)) for pair in pairs]
