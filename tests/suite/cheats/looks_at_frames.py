"""Add noise only if a caller's frame is that of an audit or a check."""

import sys

from dpbench import OneDataset, validated

CARD = {
    "name": "looks_at_frames",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


@validated
class LooksAtFrames(OneDataset):
    low: float
    high: float
    n: int

    def noise(self, x, budget, rng):
        return rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        frame, watched = sys._getframe(), False
        while frame is not None:
            name = frame.f_code.co_filename
            watched |= "audit" in name or "testing" in name or "checks" in name
            frame = frame.f_back
        mean = x.clip(self.low, self.high).mean()
        return mean + self.noise(x, budget, rng) if watched else mean


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return LooksAtFrames(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return LooksAtFrames(low=-far, high=far, n=public.n)
