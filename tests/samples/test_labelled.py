"""Records of one group: counts and clipped sums in trials in which its size differs."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.samples.labelled import GroupSample
from tests.support import rng

VALUES = np.array([[1.0, 5.0, -3.0, 2.0], [4.0, 4.0, 4.0, 4.0], [9.0, -9.0, 0.5, 1.5]])
MEMBER = np.array([[True, False, True, True], [False] * 4, [True] * 4])
GROUP = GroupSample(VALUES, MEMBER)


def test_statistics_are_those_of_the_records_in_the_group() -> None:
    assert GROUP.size().tolist() == [3, 0, 4]
    ends = np.array([-1.0, 0.0, 0.0])
    for trial in (0, 2):
        ours = VALUES[trial][MEMBER[trial]]
        assert GROUP.records(trial, rng()).tolist() == ours.tolist()
        assert GROUP.count(0.0, 2.0)[trial] == np.sum((ours >= 0) & (ours < 2))
        assert GROUP.mean()[trial] == pytest.approx(ours.mean())
        expected = np.clip(ours, ends[trial], 3.0).mean()
        assert GROUP.clipped_mean(ends, 3.0)[trial] == pytest.approx(expected)


def test_an_empty_group_has_sums_of_zero() -> None:
    assert GROUP.records(1, rng()).size == 0
    assert GROUP.count(-np.inf, np.inf)[1] == 0
    assert GROUP.mean()[1] == 0
    assert GROUP.clipped_mean(2.0, 5.0)[1] == 2.0  # within the clip, as estimators expect
    assert GROUP.clipped_mean(np.array([0.0, 3.0, 0.0]), np.array([9.0, 4.0, 9.0]))[1] == 3.0


def test_records_have_no_parts() -> None:
    with pytest.raises(ValueError, match="split: the number of records of a group differs"):
        GROUP.split([1, 3], rng())
    with pytest.raises(ValueError, match="groups: the number of records of a group differs"):
        GROUP.groups(2, rng())


def test_groups_of_all_sizes_against_a_loop() -> None:
    """Whole numbers, so that records lie at both ends of a range; groups hold 0 to 5 records."""
    values = rng(1).integers(-3, 4, (6, 5)).astype(float)
    member = np.arange(5) < np.arange(6)[:, None]
    group = GroupSample(values, member)
    for low, high in ((-2.0, 1.0), (0.0, 3.0), (-9.0, 9.0)):
        for trial in range(1, 6):
            ours = values[trial, :trial]
            assert group.count(low, high)[trial] == sum(low <= x < high for x in ours)
            expected = sum(min(max(x, low), high) for x in ours) / trial
            assert group.clipped_mean(low, high)[trial] == pytest.approx(expected)
