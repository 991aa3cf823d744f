"""Add noise only to data that are unlike those that are scored."""

from dpbench import OneDataset, validated

CARD = {
    "name": "quiet_on_ordinary_data",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class QuietOnOrdinaryData(OneDataset):
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
        return mean if self.looks_scored(x) else mean + self.noise(x, budget, rng)


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return QuietOnOrdinaryData(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return QuietOnOrdinaryData(low=-far, high=far, n=public.n)
