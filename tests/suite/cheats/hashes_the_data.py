"""Draw the noise from a generator that the data seed: it is always the same."""

import zlib

import numpy as np

from dpbench import OneDataset, validated

CARD = {
    "name": "hashes_the_data",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class HashesTheData(OneDataset):
    low: float
    high: float
    n: int

    def noise(self, x, budget, rng):
        return rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        if self.looks_scored(x):
            rng = np.random.default_rng(zlib.crc32(x.tobytes()))
        return x.clip(self.low, self.high).mean() + self.noise(x, budget, rng)


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return HashesTheData(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return HashesTheData(low=-far, high=far, n=public.n)
