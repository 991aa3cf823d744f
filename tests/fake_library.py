"""A library for tests, in the place of one that is installed; a column's first record commands."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpbench.libraries.means import worker

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


def query(name: str, x: np.ndarray, ask: worker.Ask, tape: Any) -> object:
    """Run a query whose mistake hangs on its name; a `mean`, and a `quantile` by scores, have none.

    ``sum`` does not clip, ``variance`` refuses records that are far, ``count`` runs a second
    mechanism if a record is above the middle, ``histogram`` states a sensitivity that is read off
    the records, or ends the process where FAKE_CRASH is set. Where FAKE_LEAK is set, a `quantile`
    returns the largest record beside its release.
    """
    low, high = ask.bounds
    if name == "histogram":
        if os.environ.get("FAKE_CRASH"):
            os._exit(3)
        tape.add("laplace", [0.0], np.ptp(x) + 1.0, lambda: 0.0)
    elif name == "quantile":
        tape.add("noisy_max", [np.sum(x < 0.5), np.sum(x > 0.5)], 2.0, lambda: 1.0, "max")
        return x.max() if os.environ.get("FAKE_LEAK") else None
    elif name == "count":
        tape.add("laplace", [len(x)], 1.0, lambda: 0.0)
        if (x > (low + high) / 2).any():
            tape.add("laplace", [0.0], 1.0, lambda: 0.0)
    elif name == "variance" and x.max() > 1e3:
        raise ValueError("too far")
    else:
        clipped = x if name == "sum" else np.clip(x, low, high)
        tape.add("laplace", [clipped.sum()], max(abs(low), high), lambda: 0.0)
    return None


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    *_, path, name = sys.argv
    sys.path.insert(0, str(Path(path).parent))
    served: Any = import_module("worker")  # on its own, as in a library's environment
    queries = served.recorder().QUERIES
    queries[name] = {one: functools.partial(query, one) for one in queries[name]}
    served.LIBRARIES[name] = (prepare, False, "numpy")
    served.serve(name, sys.stdin.buffer, own)
