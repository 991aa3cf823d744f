"""Baselines of a few errors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.runner.origin import Origin
from dpbench.tracking.baseline import Baseline
from dpbench.tracking.comparison import KEY

LAWS = ("inside", "at_a_bound")


def errors(factor: float = 1.0, stream: str = "s", seed: int = 0) -> Baseline:
    """Two rows of the same errors, the first by a factor."""
    drawn = np.random.default_rng(seed).exponential(size=200)
    key = dict(zip(KEY, ("mine", "", "pure", 1.0, np.nan, np.nan, np.nan, 100), strict=True))
    rows = [
        {**key, "distribution": law, "stream": stream, "errors": drawn * f}
        for law, f in zip(LAWS, (factor, 1.0), strict=True)
    ]
    about = {"commit": "abc", "dirty": False}
    origin = Origin("source", "machine", stored=about)
    return Baseline(pd.DataFrame(rows), "accuracy", seed, origin)
