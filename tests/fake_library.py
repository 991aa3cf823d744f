"""A library for tests, in the place of one that is installed; a column's first record commands."""

from __future__ import annotations

import os
import sys
import time
import warnings

import numpy as np

from dpbench.estimators.libraries import worker

CRASH, HANG, REFUSE, WARN = 101.0, 102.0, 103.0, 104.0


WRONG = float(os.environ.get("FAKE_WRONG", "0"))  # of the noise's scale


def prepare(ask: worker.Ask) -> worker.Release:
    rng = np.random.default_rng(0)

    def release(x: np.ndarray) -> float:
        print("a line that is no reply")
        if len(x) and x[0] == CRASH:
            print("out of ideas", file=sys.stderr)
            os._exit(3)
        if len(x) and x[0] == HANG:
            time.sleep(60)
        if len(x) and x[0] == REFUSE:
            raise ValueError("not this one\nreally")
        if len(x) and x[0] == WARN:
            warnings.warn("beware", stacklevel=1)
        low, high = ask.bounds
        unit = (high - low) / (ask.size * ask.epsilon)
        return float(np.clip(x, low, high).sum() / ask.size + rng.laplace(WRONG * unit, unit))

    return release


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    name = sys.argv[-1]
    worker.LIBRARIES[name] = (prepare, False, "numpy")
    worker.serve(name, sys.stdin.buffer, own)
