"""Best cap on the contributions of people, from public knowledge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpbench.distributions import UserLevelData
from dpbench.errors import check_instance, check_whole_number
from dpbench.estimators import BoundedContributionMean
from dpbench.privacy import Budget
from dpbench.registry import ConfigError
from dpbench.theory.exact.people import cap_errors

__all__ = ["CapChoice", "best_cap"]

MAX_ALL_CAPS = 64  # up to this number every cap is tried, above it about 32 to each factor of 10
CAPS_PER_FACTOR_10 = 32


@dataclass(frozen=True)
class CapChoice:
    """Cap with the smallest predicted error.

    Attributes
    ----------
    cap : int
        Largest weight of a person with the smallest root mean square error; on ties the smallest.
    rmse : float
        This error, in the unit of the data.
    errors : DataFrame
        For each cap, the columns ``cap``, ``rmse``, and its parts ``bias`` (from clipping),
        ``sampling`` and ``noise``. Caps without a known error are left out.
    """

    cap: int
    rmse: float
    errors: pd.DataFrame


def best_cap(
    estimator: BoundedContributionMean, law: UserLevelData, n: int, budget: Budget
) -> CapChoice:
    """Find the cap on the records of a person with the smallest predicted error.

    The prediction uses public knowledge only: a distribution of the numbers of records, the
    variances within and between people, n and the budget. It draws no random numbers.

    The public interval and the weights come from `estimator`; its own cap is not used. `law` has
    Gaussian records, with Gaussian effects of people or none, or records with two values inside
    the interval; the numbers of records may differ. n counts people, and the budget covers all
    records of a person. A `ConfigError` says if no error is known for this distribution.

    Examples
    --------
    >>> from dpbench import PureDP
    >>> from dpbench.distributions import BoundedZipf, Gaussian
    >>> people = UserLevelData(of=Gaussian(location=0.4, scale=0.1),
    ...                    m=BoundedZipf(exponent=1.5, largest=128))
    >>> mean = BoundedContributionMean(lower=0, upper=1, cap=1)
    >>> best_cap(mean, people, 3000, PureDP(1.0)).cap
    5
    """
    example = "BoundedContributionMean(lower=0, upper=1, cap=1)"
    check_instance("estimator", estimator, BoundedContributionMean, "a mean of people", example)
    check_instance(
        "law", law, UserLevelData, "a distribution of people", "UserLevelData(of=..., m=...)"
    )
    check_whole_number("n", n, 1)
    check_instance("budget", budget, Budget, "a budget", "PureDP(1.0)")
    largest = int(law.numbers[0].max())
    caps = np.arange(1, min(largest, MAX_ALL_CAPS) + 1)
    if largest > MAX_ALL_CAPS:
        steps = int(np.ceil(CAPS_PER_FACTOR_10 * np.log10(largest / MAX_ALL_CAPS))) + 1
        caps = np.append(caps, np.rint(np.geomspace(MAX_ALL_CAPS, largest, steps))[1:])
    errors = cap_errors(estimator, law, n, budget, np.unique(caps)).dropna(ignore_index=True)
    if errors.empty:
        raise ConfigError(
            "law: no error is known: give Gaussian records, with Gaussian effects or none, or "
            "records of two values inside the interval; or more people"
        )
    best = errors.iloc[int(np.argmin(errors["rmse"]))]
    return CapChoice(int(best["cap"]), float(best["rmse"]), errors)
