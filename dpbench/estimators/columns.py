"""Means of several columns of a table under one budget, and three ways to divide the budget.

A record is a vector of d columns. Column j is clipped to a public interval of width w_j. Neighbours
replace a record, so the mean of the n records moves by at most D_j = w_j/n in column j, and by this
much in all columns at once. There are two ways to pay for the d columns.

Composition. Column j is a release of its own, with the share s_j of the budget; the shares add up
to 1, because one record is in all columns (DR14, Theorem 3.16, number not checked). Which shares
minimise the sum of the d noise variances? Lagrange's condition has a closed form:

- Pure DP. Column j has epsilon_j = s_j epsilon and Laplace noise of variance 2 D_j^2/epsilon_j^2.
  The derivative D_j^2/s_j^3 must be equal in all columns, so s_j is proportional to D_j^(2/3). The
  sum is 2 (D_1^(2/3) + ... + D_d^(2/3))^3/epsilon^2. Equal shares give 2 d^2 (D_1^2 + ... +
  D_d^2)/epsilon^2.
- rho-zCDP. Column j has rho_j = s_j rho and Gaussian noise of variance D_j^2/(2 rho_j). Now
  D_j^2/s_j^2 is equal in all columns, so s_j is proportional to D_j. The sum is
  (D_1 + ... + D_d)^2/(2 rho). Equal shares give d (D_1^2 + ... + D_d^2)/(2 rho).
- mu-GDP. The squares mu_j^2 = s_j mu^2 add up, so rho = mu^2/2 gives the shares and sums of zCDP.
- (epsilon, delta)-DP. Column j has (s_j epsilon, s_j delta). The shares D_j^(2/3) are optimal for
  Laplace noise. For Gaussian noise they are optimal up to ln(1/s_j), the change of ln(1/delta_j).

If D_j is measured in units of w_j, all D_j are equal, and so are the best shares. The shares depend
on the unit in which the user measures the error of a column, and `units` states these units.

One vector mechanism. The columns are scaled to rows in a cube, x_j/w_j, so the mean of a replaced
record moves inside a cube of side 1/n. Noise for this cube is added once, and scaled back by w_j.

- Pure DP: noise z of density proportional to exp(-n epsilon max_j |z_j|) (HT10, number not
  checked). Its radius n epsilon max_j |z_j| is Gamma(d), so z is a Gamma(d + 1) radius over
  n epsilon, times a uniform point of the cube [-1, 1]^d. The variance of z_j is
  (d+1)(d+2)/(3 n^2 epsilon^2), against 2 d^2/(n^2 epsilon^2) for equal shares. For large d it is a
  sixth.
- zCDP and GDP: Gaussian noise for the l2 sensitivity sqrt(d)/n. The noise has the distribution of
  equal shares. (Rows scaled by other constants give any other shares: a split of rho and a scale of
  the rows are one choice. Nothing is lost by composition.)
- (epsilon, delta)-DP: the one of these two noises that has the smaller variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, RecordsInBox
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import ErrorBound, add_box_noise
from dpbench.privacy import GDP, ZCDP, Budget, Ledger
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["ColumnsClippedMean", "best_shares"]

Unit = Annotated[float, Field(gt=0, le=1e150)]


def best_shares(budget: Budget, sensitivities: ArrayLike) -> Floats:
    """Return the shares of a budget that minimise the sum of the noise variances of several means.

    The docstring of `dpbench.estimators.columns` derives the shares. The sensitivities D_j > 0 are
    in the units in which the errors count; only their ratios matter. The shares add up to 1. They
    are proportional to D_j under zCDP and GDP, else to D_j^(2/3).
    """
    power = 1.0 if isinstance(budget, ZCDP | GDP) else 2 / 3
    relative = np.asarray(sensitivities, dtype=float)
    weights = (relative / relative.max()) ** power
    return np.asarray(weights / weights.sum())


@validated
class ColumnsClippedMean(Estimator):
    """Clipped mean of columns with bounds of their own, under one budget (DR14, HT10).

    DR14, Theorem 3.16, and HT10, numbers not checked. The docstring of `dpbench.estimators.columns`
    derives sensitivities, shares and noise.

    Parameters
    ----------
    lower, upper : float or list of d floats
        Public bounds of every column, lower < upper, in the unit of the data. A number is the bound
        of all columns.
    split : {'equal', 'sensitivity', 'norm'}
        Division of the budget. ``equal``: every column has an equal share. ``sensitivity``: the
        shares minimise the sum of the squared errors that the noise causes. ``norm``: one noise for
        the whole row, scaled by the widths of the bounds.
    units : float or list of d floats
        Size of an error that counts as 1 in the sum, for every column, in the unit of the data. It
        is used by ``split: sensitivity`` only. By default all columns have the same unit.
    """

    lower: ErrorBound | list[ErrorBound]
    upper: ErrorBound | list[ErrorBound]
    split: Literal["equal", "sensitivity", "norm"] = "equal"
    units: Unit | list[Unit] = 1.0
    multivariate: ClassVar[bool] = True

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        lengths = self._listed_columns()
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(
                f"lower, upper and units list {lengths} columns; list the same number in each"
            )
        if np.any(np.asarray(self.lower) >= np.asarray(self.upper)):
            raise ValueError(f"upper must exceed lower, got {self.lower} and {self.upper}")
        return self

    def _listed_columns(self) -> list[int]:
        """Return the numbers of columns for which parameters are listed, in increasing order."""
        return sorted({len(x) for x in (self.lower, self.upper, self.units) if isinstance(x, list)})

    def column_bounds(self, d: int) -> tuple[Floats, Floats]:
        """Return the lower and the upper bounds of `d` columns, two arrays of shape (d,).

        Raise ValueError if the estimator lists parameters of another number of columns.
        """
        if self._listed_columns() not in ([], [d]):
            listed = self._listed_columns()[0]
            raise ValueError(
                f"lower: bounds of {listed} columns, but records have {d}; list a bound for each"
            )
        lower, upper = (np.asarray(end, dtype=float) for end in (self.lower, self.upper))
        return np.broadcast_to(lower, (d,)), np.broadcast_to(upper, (d,))

    def shares(self, d: int, budget: Budget) -> Floats:
        """Return the shares of the budget of `d` columns, unless ``split`` is ``norm``.

        The shares add up to 1.
        """
        if self.split == "equal":
            return np.full(d, 1 / d)
        lower, upper = self.column_bounds(d)
        return best_shares(budget, (upper - lower) / np.asarray(self.units, dtype=float))

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        lower, upper = self.column_bounds(d)
        return [RecordsInBox(float(lower[j]), float(upper[j]), column=j) for j in range(d)]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        lower, upper = self.column_bounds(sample.d)
        columns = sample.columns() if sample.vectors else sample
        centre, width = lower / 2 + upper / 2, upper - lower
        ends = (np.tile(part, sample.trials) for part in (centre, width / 2))
        clipped = columns.centred_mean(*ends).reshape(sample.trials, sample.d)
        if self.split == "norm":
            released = width * add_box_noise(clipped / width, 1 / sample.n, ledger)
        else:
            parts = ledger.split(*self.shares(sample.d, ledger.budget).tolist())
            noisy = [
                part.add_noise(clipped[:, j], width[j] / sample.n) for j, part in enumerate(parts)
            ]
            released = np.stack(noisy, axis=1)
        shape = clipped.shape if sample.vectors else (sample.trials,)
        return Estimate((centre + released).reshape(shape), (centre + clipped).reshape(shape))
