"""What a run took."""

from __future__ import annotations

import time

from dpbench.runner.cost import Cost


def test_a_run_counts_its_own_time() -> None:
    """Not that of the runs before it in the same process, as of a multirun."""
    before, cost = time.process_time(), Cost()
    found = cost.as_dict()["parent_cpu_seconds"]
    assert 0 <= found <= time.process_time() - before + 0.001 < before
