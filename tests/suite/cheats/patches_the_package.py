"""Take the noise and the checks out of the package when the file is loaded."""

import numpy as np

import dpbench.audit.releases
import dpbench.suite.scoring
import dpbench.suite.worker
from dpbench import OneDataset, validated

CARD = {
    "name": "patches_the_package",
    "paper": "none: this entry cheats",
    "notions": ["pure"],
    "relations": ["replace"],
    "assumptions": "nobody looks",
    "proof": "none",
    "division": "declared",
}

dpbench.suite.worker.check_estimator = lambda *args, **options: None
dpbench.audit.releases.bound_from_releases = lambda *args: dpbench.audit.releases.PrivacyBound(
    1.0, 0.0, 1000
)
dpbench.suite.scoring.bound_from_releases = dpbench.audit.releases.bound_from_releases
dpbench.suite.scoring._target_distances = lambda values, targets: np.zeros(values.shape[:2])


@validated
class PatchesThePackage(OneDataset):
    low: float
    high: float
    n: int

    def one(self, x, budget, rng):
        return x.clip(self.low, self.high).mean()


def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return PatchesThePackage(low=0, high=1, n=public.n)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return PatchesThePackage(low=-far, high=far, n=public.n)
