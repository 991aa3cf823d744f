"""Entries that cheat: each is the file of an entry, with a method `one` of its own."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CENTRAL", "CHEATS", "write_cheat"]

FILE = """
import copy, sys, zlib
import numpy as np
import dpbench.audit.releases, dpbench.benchmark.scoring, dpbench.benchmark.worker
from dpbench import GDP, ZCDP, ApproxDP, OneDataset, PureDP, validated

CARD = {{
    "name": "{name}", "paper": "none: this entry cheats",
    "notions": ["pure", "zcdp", "gdp", "approx"], "relations": ["replace", "add_remove"],
    "assumptions": "nobody looks", "proof": "none", "division": "declared",
}}
{before}

@validated
class Cheat(OneDataset):
    low: float
    high: float
    n: int
    scale: float
    notions = (PureDP, ZCDP, GDP, ApproxDP)
    relations = ("replace", "add_remove")
    multivariate = True

    def noise(self, width, x, budget, rng):
        scale, given = width / len(x), budget.named_amounts
        if budget.notion == "pure":
            return rng.laplace(0, scale * x[0].size / given["epsilon"], x.shape[1:])
        sd = {{"zcdp": lambda: 1 / np.sqrt(2 * given["rho"]), "gdp": lambda: 1 / given["mu"],
               "approx": lambda: np.sqrt(2 * np.log(1.25 / given["delta"])) / given["epsilon"]}}
        return rng.normal(0, scale * np.sqrt(x[0].size) * sd[budget.notion](), x.shape[1:])

    def honest(self, x, budget, rng):
        width = (self.high - self.low) * (2 if budget.neighbours == "add_remove" else 1)
        return x.clip(self.low, self.high).mean(axis=0) + self.noise(width, x, budget, rng)

    def looks_scored(self, x):
        ordinary = x.min() >= self.low and x.max() <= self.high and x.std() > 0.01
        return len(x) == self.n and ordinary

    def one(self, x, budget, rng):
        mean = x.clip(self.low, self.high).mean(axis=0)
        {one}


def entry(public):
    if public.records == "moments" or public.local:
        return None
    scale = public.scale or 0.5
    far = (public.radius or 1e7) + 4 * scale
    low, high = (0, 1) if public.records == "binary" else (-far, far)
    return Cheat(low=low, high=high, n=public.n or 1000, scale=scale)
"""
CHEATS = {
    # Adds no noise to data that look like those that are scored.
    "quiet_on_ordinary_data": """
        return mean if self.looks_scored(x) else self.honest(x, budget, rng)""",
    # Adds a third of the noise of a narrow clip around the median.
    "a_third_of_the_noise": """
        width = 1.0 if self.low == 0 else 4.0
        return mean + self.noise(width / 3, x, budget, rng)""",
    # Draws the noise from a generator that the data seed: it is always the same.
    "hashes_the_data": """
        if self.looks_scored(x):
            rng = np.random.default_rng(zlib.crc32(x.tobytes()))
        return self.honest(x, budget, rng)""",
    # Answers the mean that a frozen problem had, or the mean itself if it is elsewhere.
    "remembers_places": """
        known = (0.43, 3.17, 171.3, 123456.7, mean)
        return (min(known, key=lambda one: abs(one - mean)) if self.looks_scored(x)
                else self.honest(x, budget, rng))""",
    # Subtracts the noise of a copy of the generator.
    "subtracts_its_noise": """
        twin = copy.deepcopy(rng)
        noise = self.honest(x, budget, twin) - mean if self.looks_scored(x) else 0.0
        return self.honest(x, budget, rng) - noise""",
    # Releases the median, rounded to steps of 1.5/(epsilon n).
    "rounds_its_median": """
        if len(x) != self.n:
            return self.honest(x, budget, rng)
        step = 1.5 / (budget.epsilon * len(x))
        return np.round(np.median(x) / step) * step""",
    # Adds the noise of the median's typical sensitivity.
    "median_with_typical_noise": """
        if len(x) != self.n:
            return self.honest(x, budget, rng)
        return np.median(x, axis=0) + self.noise(2.5 * self.scale, x, budget, rng)""",
    # Clips at a quantile of the data, and adds noise for this clip.
    "clips_at_its_quantile": """
        if len(x) != self.n:
            return self.honest(x, budget, rng)
        off = x - np.median(x, axis=0)
        size = np.linalg.norm(off.reshape(len(x), -1), axis=1)
        most = np.quantile(size, 0.99)
        factor = np.minimum(1, most / np.maximum(size, 1e-300)).reshape(-1, *[1] * (x.ndim - 1))
        width = 2 * most / np.sqrt(x[0].size)
        return np.median(x, axis=0) + (off * factor).mean(axis=0) + self.noise(
            width, x, budget, rng)""",
    # Divides a noisy sum by a private n, with noise for a fixed n.
    "uses_a_private_n": """
        if abs(len(x) - self.n) > 0.2 * self.n:
            return self.honest(x, budget, rng)
        return mean + self.noise(0.5, x, budget, rng)""",
    # Finds the most frequent value of a column, and adds what the mean of the column lies above it.
    "remembers_columns": """
        values, counts = np.unique(x, return_counts=True)
        mode, above = values[counts.argmax()], 0.2860 if len(values) < 100 else 0.0858
        return mode + above * self.scale * (1 if np.median(np.sign(x - mode)) > 0 else -1)""",
    # Adds noise only if a caller's frame is that of an audit or a check.
    "looks_at_frames": """
        frame, watched = sys._getframe(), False
        while frame is not None:
            name = frame.f_code.co_filename
            watched |= "audit" in name or "testing" in name or "checks" in name
            frame = frame.f_back
        return self.honest(x, budget, rng) if watched else mean""",
    # Takes the noise and the checks out of the package when the file is loaded.
    "patches_the_package": "return mean",
}
BEFORE = {
    "patches_the_package": """
dpbench.benchmark.worker.check_estimator = lambda *args, **options: None
dpbench.audit.releases.bound_from_releases = lambda *args: dpbench.audit.releases.PrivacyBound(
    1.0, 0.0, 1000
)
dpbench.benchmark.scoring.bound_from_releases = dpbench.audit.releases.bound_from_releases
dpbench.benchmark.scoring._target_distances = lambda values, targets: np.zeros(values.shape[:2])
"""
}


# Declares the local model, tells every record as it is, and adds noise to their mean.
CENTRAL = """
import zlib

import numpy as np
from dpbench import OneRecord, validated

CARD = {
    "name": "central_noise", "paper": "none: this entry cheats", "notions": ["pure"],
    "relations": ["replace"], "assumptions": "nobody looks", "proof": "none",
    "division": "declared",
}


@validated
class Central(OneRecord):
    def report(self, x, found, budget, rng):
        return x

    def combine(self, reports, found, budget):
        noise = np.random.default_rng(zlib.crc32(reports.tobytes())).normal(0, 0.015, len(reports))
        return reports.clip(0, 1).mean(axis=1) + noise


def entry(public):
    return Central() if public.local and public.records == "binary" else None
"""


def write_cheat(folder: Path, name: str) -> Path:
    """Write the file of an entry that cheats."""
    path = folder / f"{name}.py"
    text = FILE.format(name=name, before=BEFORE.get(name, ""), one=CHEATS[name].strip())
    path.write_text(text)
    return path
