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


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return RoundsItsMedian(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return RoundsItsMedian(low=-far, high=far, n=public.n)
