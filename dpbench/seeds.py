"""Random streams named by what they are for, never by who draws them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_generator", "digest", "stream"]


def digest(*names: object) -> str:
    """SHA-256 of the names, in hexadecimal."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def stream(*names: str | int) -> np.random.Generator:
    """The random stream of that name, independent of all others.

    So adding, removing or reordering estimators, or moving work to other processes, changes no
    other number. SFC64 was the fastest of numpy's generators on this workload.
    """
    import numpy as np  # slow to load, where digests are enough

    entropy = int(digest(*names), 16)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))


def check_generator(rng: object) -> None:
    """TypeError if that is no generator: a seed, which would give every release the same noise."""
    import numpy as np  # slow to load

    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng is {rng!r}; give a generator: np.random.default_rng(0)")
