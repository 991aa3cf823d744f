"""Add noise to the first calls alone, counted by folders that each load leaves behind."""

import os
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

FIRST = 20
FOLDER = Path(os.environ.get("TMPDIR", "/tmp")) / f"calls_{os.getpgid(0)}"


def counted():
    """Count the loads of this file up to FIRST, by folders: files stay empty."""
    count = 0
    while count < FIRST:
        if (FOLDER / str(count + 9)).is_dir():
            count += 10
            continue
        try:
            (FOLDER / str(count)).mkdir(parents=True)
            break
        except FileExistsError:
            count += 1
    return count


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


def entry(told):
    if told.local or told.d > 1 or told.records == "moments":
        return None
    if told.records == "binary":
        return CountsItsCalls(low=0, high=1, n=told.n)
    if told.radius is None:
        return None
    far = told.radius + 4 * told.scale
    return CountsItsCalls(low=-far, high=far, n=told.n)
