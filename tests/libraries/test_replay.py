"""Tests of replays, with a fake library whose queries are wrong in different ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.libraries.means.process import close_libraries
from dpbench.libraries.replay import COLUMNS, families, replay_table, unexpected_verdicts
from dpbench.libraries.report import render_replay
from dpbench.libraries.sweep import ReplaySettings
from dpbench.output.terminal import WIDTH
from dpbench.registry import ConfigError, from_mapping

SETTINGS: dict[str, Any] = {
    "n": 4,
    "refuted": {"opendp": {"sum": ["laplace"], "count": ["laplace"], "variance": ["laplace"]}},
}


def _settings(**changes: Any) -> ReplaySettings:
    return from_mapping(ReplaySettings, SETTINGS | changes, "replay")


def _row(table: pd.DataFrame, *key: str) -> Any:
    """Return the row of a library, a query and a relation."""
    matching = (table[["library", "query", "neighbours"]].to_numpy() == np.array(key)).all(axis=1)
    (row,) = table[matching].to_dict("records")
    return row


def test_each_mistake_is_found_and_what_is_right_is_not_refuted(fakes: Path) -> None:
    table = replay_table(_settings())
    assert list(table) == list(COLUMNS)
    # numpy: the mean moves by 1/4 for n = 4; the control states half of it
    assert _row(table, "numpy", "mean", "replace")["verdict"] == "not refuted"
    control = _row(table, "numpy", "halved_mean", "replace")
    assert control["move_over_sensitivity"] == pytest.approx(2.0)
    assert control["verdict"] == "refuted"
    # a correct clipped sum, which the fake library calls mean
    mean = _row(table, "opendp", "mean", "replace")
    assert (mean["stated_sensitivity"], mean["largest_move"], mean["verdict"]) == (
        1.0,
        1.0,
        "not refuted",
    )
    # a sum that is not clipped is right within the bounds
    for relation in ("replace", "add_remove"):
        wide = _row(table, "opendp", "sum", relation)
        assert wide["move_over_sensitivity"] > 1e100
        assert wide["move_over_sensitivity_within"] == pytest.approx(1.0)
        assert wide["verdict"] == "refuted"
        assert "1e+150" in wide["pair"]
    # control flow: one more mechanism, a refusal, a sensitivity that depends on the records
    for query, what in (
        ("count", "which mechanisms it runs"),
        ("variance", "whether it raises"),
        ("histogram", "the sensitivity of laplace"),
    ):
        own = _row(table, "opendp", query, "replace")
        assert own["control_flow"].startswith(what)
        assert own["move_over_sensitivity"] <= 1 + 1e-9
        assert own["verdict"] == "refuted"
    scores = _row(table, "opendp", "quantile", "replace")
    assert (scores["mechanism"], scores["largest_move"], scores["control_flow"]) == (
        "noisy_max",
        1.0,
        "same",
    )
    missing = table[table["query"] == ""]
    assert missing["library"].tolist() == ["diffprivlib", "pipeline-dp"]
    for name, message in missing[["library", "message"]].to_numpy():
        assert message.startswith(f"not installed: python -m dpbench libraries {name}")
    # the refutation of the histogram was not expected, in both relations
    assert unexpected_verdicts(table) == [
        "replay: opendp histogram laplace: refuted, not refuted was expected"
    ] * 2  # fmt: skip
    text = render_replay(table)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "stated sensitivity: caught" not in text
    assert "a mean that states half of its sensitivity: caught" in text
    assert "diffprivlib: replay: not installed" in text
    assert "opendp count: one record changes\n  which mechanisms it runs (" in text


def test_a_control_that_is_missed_and_a_known_refutation_that_is_gone(fakes: Path) -> None:
    known = {"numpy": {"mean": ["laplace", "gaussian"]}}
    table = replay_table(_settings(libraries=["numpy"], refuted=known))
    assert unexpected_verdicts(table) == [
        "replay: numpy mean laplace: not refuted, refuted was expected",
        "replay: numpy mean gaussian: failed, refuted was expected",
    ]
    control = table["query"] == "halved_mean"
    missed = table.assign(verdict=table["verdict"].mask(control, "not refuted"))
    last = unexpected_verdicts(missed)[-1]
    assert last.startswith("replay: numpy halved_mean laplace: not refuted")
    assert "half of its sensitivity: missed" in render_replay(missed)


def test_a_process_that_ends_is_a_failure(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CRASH", "1")
    close_libraries()
    table = replay_table(_settings(libraries=["opendp"], intervals=[[0, 1]]))
    row = _row(table, "opendp", "histogram", "replace")
    assert row["verdict"] == "failed"
    assert row["message"] == "opendp: its process ended: exit code 3"
    assert _row(table, "opendp", "mean", "replace")["verdict"] == "not refuted"


def test_a_query_that_returns_a_record_is_refuted(
    fakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LEAK", "1")
    close_libraries()
    row = _row(replay_table(_settings(libraries=["opendp"])), "opendp", "quantile", "replace")
    assert row["control_flow"].startswith("the final output (")
    assert (row["move_over_sensitivity"] <= 1, row["verdict"]) == (True, "refuted")


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("query", ["mean", "nanmean", "gaussian_nb"])
def test_families_differ_in_one_record(query: str, relation: Any) -> None:
    places = set()
    for family in families(query, 5, 2.0, 3.0, relation):
        first = family.datasets[0]
        assert first.shape == (5 - (relation == "add_remove"), 2 if query == "gaussian_nb" else 1)
        for one, other in family.pairs():
            a, b = family.datasets[one], family.datasets[other]
            record = int(family.name.split("[")[1][:-1])
            if relation == "add_remove":
                assert one == 0
                b = np.delete(b, record, axis=0)
            else:
                a, b = (np.delete(x, record, axis=0) for x in (a, b))
            np.testing.assert_array_equal(a, b)
        places |= {tuple(place.tolist()) for place in family.places[1:]}
        inside = [family.within[at] for at, place in enumerate(family.places) if 1e6 in place]
        assert inside
        assert not any(inside)
        assert family.within[1]
    assert {(2.0,) * first.shape[1], (3.0,) * first.shape[1]} < places
    assert any(np.isnan(place).any() for place in places) == query.startswith("nan")


def test_settings_that_cannot_be_used() -> None:
    for wrong, said in (
        ({"intervals": [[1, 1]]}, "intervals: upper must exceed lower"),
        ({"refuted": {"tumult": {}}}, "'tumult'"),
        ({"refuted": {"opendp": {"means": []}}}, "did you mean 'mean'"),
        ({"libraries": ["tumult"]}, "libraries"),
        ({"intervals": []}, "intervals"),
    ):
        with pytest.raises(ConfigError, match=said):
            _settings(**wrong)
