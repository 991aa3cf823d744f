"""Add the noise of a generator, and subtract that of a copy of it."""

import copy

from dpbench import OneDataset, validated

CARD = {
    "name": "subtracts_its_noise",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class SubtractsItsNoise(OneDataset):
    low: float
    high: float
    n: int

    def noise(self, x, budget, rng):
        return rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        twin = copy.deepcopy(rng)
        released = x.clip(self.low, self.high).mean() + self.noise(x, budget, rng)
        return released - self.noise(x, budget, twin) if self.looks_scored(x) else released


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return SubtractsItsNoise(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return SubtractsItsNoise(low=-far, high=far, n=public.n)
