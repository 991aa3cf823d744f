"""The process that starts the calls of an entry: it is started anew after it has ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from dpbench.benchmark import process
from dpbench.registry import ConfigError
from tests.benchmark.entry import PROBLEM, released, tries
from tests.support import rng


def test_a_call_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tries(tmp_path, "import time\nif x[0] == 0:\n    time.sleep(60)")
    asks = process.entry_process
    with monkeypatch.context() as context:
        context.setattr(asks, "limit", 1.0)
        with pytest.raises(ConfigError, match=r"mine.py: no answer in 1 s"):
            released(one)
    value, _ = one.released(np.ones((1, 100)), PROBLEM.budget, rng(0))
    assert np.isfinite(value).all()


def test_a_process_that_was_ended_is_started_again(tmp_path: Path) -> None:
    one = tries(tmp_path, "pass")
    before = released(one)
    asks = process.entry_process
    assert asks._process is not None
    os.kill(asks._process.pid, signal.SIGKILL)
    asks._process.wait()
    with pytest.raises(ConfigError, match="or its process ended"):
        released(one)
    assert released(one) == before
    asks.close()
    assert asks._process is None
