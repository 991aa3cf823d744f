"""The mean of vectors in a ball, and one-dimensional estimators coordinate by coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["BoundedMean", "CoordinateWise"]


@validated
class BoundedMean(Estimator):
    """Vectors projected on the ball of radius L around 0, averaged, with noise (Z24).

    A projected record moves by at most 2L, so the mean has l2 sensitivity 2L/n and l1
    sensitivity 2L sqrt(d)/n (where the blog writes 2L sqrt(d), the noise is that of the sum).
    Laplace noise has expected norm about 2 sqrt(2) d L/(epsilon n), the l2 mechanism
    2 d L/(epsilon n), Gaussian noise about sqrt(d) times its standard deviation.

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
        mean = sample.mean()
        if mean.ndim == 1:
            clipped = sample.clipped_mean(-self.radius, self.radius)
        else:
            clipped = sample.rows().projected(np.zeros_like(mean), self.radius).mean()
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
        spec = {"kind": base} if isinstance(base, str) else base
        made = Estimator.build(spec, "") if isinstance(spec, Mapping) else spec
        if not isinstance(made, Estimator) or made.supports(NonPrivate()):
            raise ValueError("give a private estimator of scalars")
        return made

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.base.honoured  # type: ignore[no-any-return]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        mean = sample.mean()
        if mean.ndim == 1:
            return self.base.run(sample, ledger)  # type: ignore[no-any-return]
        found: Estimate = self.base.run(sample.columns(), ledger.repeated(sample.d))
        return found.reshaped(mean.shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return self.base.audit_pairs(n, d, budget)  # type: ignore[no-any-return]
        # What strains one coordinate, in all of them at once.
        own = self.base.audit_pairs(n, None, budget.fraction(1 / d))
        return [pair.along(np.ones(d)) for pair in own]
