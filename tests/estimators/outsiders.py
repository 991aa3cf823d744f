"""An estimator of outside code, and one release of an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbench import Estimator, OneDataset, PureDP, release
from dpbench.privacy import Budget
from tests.support import Floats, rng


def once(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    repeats: int | None = None,
    seed: int = 1,
) -> Any:
    """Return `dpbench.release` of the data with a seeded generator."""
    return release(estimator, data, budget, rng=rng(seed), repeats=repeats)


class _Scalars(OneDataset):
    """Outside code for numbers under pure DP: the mean plus Laplace noise of scale 1/epsilon."""

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        assert isinstance(budget, PureDP)
        return float(x.mean() + rng.laplace(0, 1 / budget.epsilon))
