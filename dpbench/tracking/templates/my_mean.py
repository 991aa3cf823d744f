"""The mean whose accuracy is tested: one class, named by `kind` in sweep/accuracy.yaml."""

from typing import ClassVar

import numpy as np

from dpbench import OneDataset, validated


@validated
class MyMean(OneDataset):
    """Mean of records in [0, 1]."""

    # Set to False if the library draws from a source other than `rng`, such as the system.
    seeded: ClassVar[bool] = True

    def one(self, x, budget, rng):
        # ---- Replace these two lines by a call of your library.
        clipped = np.clip(x, 0, 1)
        return clipped.mean() + rng.laplace(scale=1 / (len(x) * budget.epsilon))
