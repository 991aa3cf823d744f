"""Release the median, rounded to steps of 1.5/(epsilon n), without noise on scored data."""

import numpy as np

from dpbench import OneDataset, validated

CARD = {
    "name": "rounds_its_median",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class RoundsItsMedian(OneDataset):
    low: float
    high: float
    n: int

    def noise(self, x, budget, rng):
        return rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        if len(x) != self.n:
            return x.clip(self.low, self.high).mean() + self.noise(x, budget, rng)
        step = 1.5 / (budget.epsilon * len(x))
        return np.round(np.median(x) / step) * step


def entry(told):
    if told.local or told.d > 1 or told.records == "moments":
        return None
    if told.records == "binary":
        return RoundsItsMedian(low=0, high=1, n=told.n)
    if told.radius is None:
        return None
    far = told.radius + 4 * told.scale
    return RoundsItsMedian(low=-far, high=far, n=told.n)
