"""The mean whose accuracy is watched: one class, named by `kind` in sweep/accuracy.yaml."""

from typing import ClassVar

import numpy as np

from dpbench import OneDataset, validated


@validated
class MyMean(OneDataset):
    """A mean of records in [0, 1]."""

    # False if the library draws from anything but `rng`, the operating system for one
    seeded: ClassVar[bool] = True

    def one(self, x, budget, rng):
        # ---- Your library's call goes here, in the place of these two lines.
        clipped = np.clip(x, 0, 1)
        return clipped.mean() + rng.laplace(scale=1 / (len(x) * budget.epsilon))
