"""Add noise to the first calls alone, counted by folders that each load leaves behind."""

from pathlib import Path

from dpbench import OneDataset, validated

CARD = {
    "name": "counts_its_calls",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}

FIRST = 5
FOLDER = Path(__file__).with_suffix("")


def counted():
    """Count the loads of this file up to FIRST, by folders: files stay empty."""
    for count in range(FIRST):
        if not (FOLDER / str(count)).is_dir():
            (FOLDER / str(count)).mkdir(parents=True)
            return count
    return FIRST


COUNT = counted()


@validated
class CountsItsCalls(OneDataset):
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
        if not self.looks_scored(x) or COUNT < FIRST:
            return mean + self.noise(x, budget, rng)
        return mean


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return CountsItsCalls(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return CountsItsCalls(low=-far, high=far, n=public.n)
