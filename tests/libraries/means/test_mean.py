"""Tests of `LibraryMean`, with a fake library and with installed libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbench import release
from dpbench.audit import audit_pair
from dpbench.libraries.hostile_columns import classify
from dpbench.libraries.means.mean import LIBRARY_PROPERTIES, LibraryMean, LibraryVariance
from dpbench.libraries.means.process import python
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError, from_mapping

ADD_REMOVE = PureDP(1.0, neighbours="add_remove")


def test_the_mean_by_hand_needs_no_environment(fakes: Path) -> None:
    """The mean absolute error of 4000 releases is off by 6 sd with probability 2e-9."""
    mean, x = LibraryMean(library="numpy", lower=0, upper=2), np.repeat([0, 1], 50)
    result = mean.releases(x, PureDP(0.5), 4000)
    error = np.abs(result.values - 0.5) * len(x) * 0.5 / 2
    assert abs(error.mean() - 1) < 6 / np.sqrt(4000)
    assert mean.releases(np.append(x[1:], 10.0), PureDP(1e6), 1).values[0] == pytest.approx(0.52)
    values = release(mean, x, PureDP(0.5), rng=np.random.default_rng(0), repeats=3)
    assert len(set(np.asarray(values))) == 3  # repeated calls make new releases
    assert classify(mean.releases(np.empty(0), PureDP(1.0), 2), np.nan, 1.0) == "refused"


def test_a_budget_of_other_neighbours_is_refused(fakes: Path) -> None:
    for name, relation, budget in (
        ("opendp", "replace", ADD_REMOVE),
        ("python-dp", "add_remove", PureDP(1.0)),
    ):
        mean = LibraryMean(library=name)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"neighbours: {relation}"):
            release(mean, np.zeros(10), budget, rng=np.random.default_rng(0))
    for wrong in (
        {"library": "opendp", "lower": None, "upper": None},
        {"library": "diffprivlib", "lower": None},
        {"library": "numpy", "lower": 1, "upper": 1},
        {"library": "numpy", "contributions": 1},
        {"library": "nope"},
    ):
        with pytest.raises(ConfigError):
            from_mapping(LibraryMean, wrong, "")


INSTALLED = [name for name in LIBRARY_PROPERTIES if name != "tumult" and python(name).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LibraryMean, LibraryVariance])
@pytest.mark.parametrize("lower", [0.0, 10.0, -0.25])
@pytest.mark.parametrize("name", INSTALLED)
def test_the_true_libraries(name: Any, lower: float, kind: type[LibraryMean]) -> None:
    """The mean absolute error is as expected; it is off by 6 sd with probability 1e-6 or less."""
    trials = 30 if name == "pipeline-dp" else 4000
    relation = LIBRARY_PROPERTIES[name].relation
    estimator = kind(library=name, lower=lower, upper=lower + 1)
    x = np.resize([lower + 0.1, lower + 0.7], 1000)
    values = estimator.releases(x, PureDP(1.0, neighbours=relation), trials).values
    expected = estimator.predict_error(x, 1.0, 1.0)
    assert expected is not None
    errors = np.abs(values - (x.var() if kind is LibraryVariance else x.mean())) * 1000
    assert abs(errors.mean() - expected.error) < 6 * errors.std(ddof=1) / np.sqrt(trials)


@pytest.mark.slow
@pytest.mark.skipif("opendp" not in INSTALLED, reason="bash dev.sh libraries opendp")
def test_one_contribution_is_no_privacy() -> None:
    """In OpenDP 0.16 no datasets of equal size are at distance 1, so there is no noise."""
    pair = np.zeros(20), np.append(np.zeros(19), 1.0)
    rng = np.random.default_rng(0)
    for contributions, verdict in ((1, "refuted"), (2, "not refuted")):
        mean = LibraryMean(library="opendp", contributions=contributions)  # type: ignore[arg-type]
        assert audit_pair(mean, PureDP(1.0), pair, runs=400, rng=rng).verdict == verdict
