"""Public bounds and one noisy average: of numbers, of coordinates, of vectors in a ball."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator, Terms, made
from dpbench.privacy import Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = [
    "BinaryMean", "BoundedMean", "ClippedMean", "CoordinateWise", "noisy_clipped_mean",
]  # fmt: skip

Bound = Annotated[float, Field(ge=-1e300, le=1e300)]


@validated
class _Between(Estimator):
    """Of records in a public interval, or moved into it.

    Parameters
    ----------
    lower, upper : float
        Bounds that do not depend on the data, lower < upper.
    """

    lower: Bound
    upper: Bound

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self


def noisy_clipped_mean(
    sample: Sample, centre: float | Floats, half_width: float | Floats, ledger: Ledger
) -> Estimate:
    """Clip to centre +- half_width, average, add noise.

    Replacing one record moves one clipped record by at most 2 half_width in each coordinate, so the
    mean has l1 sensitivity 2 d half_width/n and l2 sensitivity 2 sqrt(d) half_width/n. Centre and
    half width, numbers or (trials,), are public or released before; NaN as a centre gives NaN.
    """
    clipped = sample.clipped_mean(centre - half_width, centre + half_width)
    step = 2 * half_width / sample.n
    l1, l2 = sample.d * step, float(np.sqrt(sample.d)) * step
    return Estimate(ledger.add_noise(clipped, l2, l1=l1), clipped)


@validated
class ClippedMean(_Between):
    """The mean of the records clipped to a public interval, with noise.

    L15, 'Unbounded data'. Of vectors every coordinate is clipped.

    Parameters
    ----------
    lower, upper : float or None
        Bounds that do not depend on the data. Without one of them (None) the mean has no
        finite sensitivity: nothing is released or spent, and every trial is a failure.
    """

    lower: Bound | None  # type: ignore[assignment]
    upper: Bound | None  # type: ignore[assignment]
    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if self.lower is None or self.upper is None:
            nothing = np.full_like(sample.mean(), np.nan)
            return Estimate(nothing, nothing)
        centre, half_width = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        return noisy_clipped_mean(sample, centre, half_width, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        if self.lower is None or self.upper is None:
            return {}
        return {"privacy": (self.upper - self.lower) * budget.noise_quantile(beta) / alpha}


@validated
class BinaryMean(Estimator):
    """The mean of records clipped to [0, 1], with noise: L15, 'Binary Mean Estimation'."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return noisy_clipped_mean(sample, 0.5, 0.5, ledger)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        return {"privacy": budget.noise_quantile(beta) / alpha}


@validated
class BoundedMean(Estimator):
    """Vectors projected on the ball of radius L around 0, averaged, with noise (Z24).

    A projected record moves by at most 2L, so the mean has l2 sensitivity 2L/n and l1
    sensitivity 2L sqrt(d)/n (where the blog writes 2L sqrt(d), the noise is that of the sum).

    Parameters
    ----------
    radius : float > 0
        L.
    mechanism : {'additive', 'l2'}
        ``additive``: independent noise in every coordinate. ``l2``, for pure DP only: noise of
        density exp(-epsilon n ||z||/(2L)) (HT10).
    """

    radius: Annotated[float, Field(gt=0, le=1e300)]
    mechanism: Literal["additive", "l2"] = "additive"
    multivariate: ClassVar[bool] = True

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.mechanism == "additive" else (PureDP,)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        step = 2 * self.radius / sample.n
        clipped = sample.projected_mean(0.0, self.radius)
        if self.mechanism == "additive":
            return Estimate(ledger.add_noise(clipped, step), clipped)
        released = ledger.add_l2_noise(clipped.reshape(sample.trials, -1), step)
        return Estimate(released.reshape(clipped.shape), clipped)


@validated
class CoordinateWise(Estimator):
    """A one-dimensional estimator on every coordinate, each with 1/d of the budget.

    Coordinates of one record change together, so that the costs of all coordinates add up.

    Parameters
    ----------
    base : estimator of scalars, its name or its configuration
    """

    base: Any
    multivariate: ClassVar[bool] = True

    @field_validator("base")
    @classmethod
    def _known_base(cls, base: Any) -> Estimator:
        found = made(base)
        if not isinstance(found, Estimator) or found.supports(NonPrivate()):
            raise ValueError("give a private estimator of scalars")
        return found

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.base.honoured  # type: ignore[no-any-return]

    @property
    def most_at_once(self) -> int | None:
        return self.base.most_at_once  # type: ignore[no-any-return]

    @property
    def most_records(self) -> int | None:
        return self.base.most_records  # type: ignore[no-any-return]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        shape = sample.mean().shape
        if len(shape) > 1:
            sample, ledger = sample.columns(), ledger.repeated(sample.d)
        found: Estimate = self.base.run(sample, ledger)
        return found if len(shape) == 1 else found.reshaped(shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return self.base.audit_pairs(n, d, budget)  # type: ignore[no-any-return]
        # What strains one coordinate, in all of them at once.
        own = self.base.audit_pairs(n, None, budget.fraction(1 / d))
        return [pair.along(np.ones(d)) for pair in own]
