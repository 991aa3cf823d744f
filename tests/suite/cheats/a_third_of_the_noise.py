"""Add a third of the noise of a narrow clip around the median, on data that look scored."""

from dpbench import OneDataset, validated

CARD = {
    "name": "a_third_of_the_noise",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class AThirdOfTheNoise(OneDataset):
    low: float
    high: float
    n: int

    def noise(self, x, budget, rng):
        return rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        mean = x.clip(self.low, self.high).mean()
        if not self.looks_scored(x):
            return mean + self.noise(x, budget, rng)
        width = 1.0 if self.low == 0 else 4.0
        return mean + rng.laplace(0, width / (3 * budget.epsilon * len(x)))


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return AThirdOfTheNoise(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return AThirdOfTheNoise(low=-far, high=far, n=public.n)
