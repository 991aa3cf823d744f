"""What a run took."""

from __future__ import annotations

import time

from dpbench.runner.cost import Cost
from dpbench.sweep.block import Block


def test_a_run_counts_its_own_time() -> None:
    """Not that of the runs before it in the same process, as of a multirun."""
    before, cost = time.process_time(), Cost()
    found = cost.as_dict()["parent_cpu_seconds"]
    assert 0 <= found <= time.process_time() - before + 0.001 < before


def test_the_memory_of_a_run_is_that_of_its_largest_process() -> None:
    """Seconds and records add up, peaks do not."""
    cost = Cost()
    for peak in (2e9, 3e9, 1e9):
        cost.add(Block({}, seconds={"a": 0.5}, cpu_seconds=1.0, peak_bytes=peak), 100)
    assert (cost.worker_peak_bytes, cost.worker_cpu_seconds) == (3e9, 3.0)
    assert (cost.records_drawn, cost.blocks_done) == (300, 3)
    assert cost.estimator_seconds == {"a": 1.5}
