"""Mark datasets in a shared mapping of its own file, and add noise to those seen before."""

import mmap
import zlib
from pathlib import Path

from dpbench import OneDataset, validated

CARD = {
    "name": "maps_its_own_file",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}


PAD = "................................................................"
with Path(__file__).open("r+b") as file:
    MAPPED = mmap.mmap(file.fileno(), 0)
START = MAPPED.find(PAD.encode())


@validated
class MapsItsOwnFile(OneDataset):
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
        at = START + zlib.crc32(x.tobytes()) % len(PAD)
        seen, MAPPED[at] = MAPPED[at] == ord("!"), ord("!")
        return mean + self.noise(x, budget, rng) if seen else mean


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return MapsItsOwnFile(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return MapsItsOwnFile(low=-far, high=far, n=public.n)
