"""Entries of files, as this process sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.remote import read_entry
from dpbench.estimators import Estimator
from dpbench.privacy import ZCDP, Ledger, PureDP
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample
from tests.conftest import entry_text
from tests.support import rng

PROBLEMS = (
    read_benchmark().select("binary-n300-pure0.1,gauss-n100-pure1,gauss16-n1000-gdp1").problems
)


def test_an_entry_answers_what_its_file_says(tmp_path: Path) -> None:
    """It is no kind that a configuration may name, and its code is not loaded here."""
    (tmp_path / "mine.py").write_text(entry_text())
    entry = read_entry(tmp_path / "mine.py", PROBLEMS)
    assert [one.id for one in PROBLEMS if entry.estimator(one)] == [
        "binary-n300-pure0.1", "gauss-n100-pure1",
    ]  # fmt: skip
    one = entry.answers["binary-n300-pure0.1"]
    assert one.name == "WideClip"
    assert one.supports(PureDP(3.0))
    assert not one.supports(ZCDP(1.0))
    assert not {"wide_clip", "_remote_mean", "remote_mean"} & set(Estimator.kinds())


def test_a_batch_is_one_call_with_noise_of_its_own_for_each(tmp_path: Path) -> None:
    """Laplace of scale 1/(300 epsilon): of 2000 the mean absolute value is known to 11% (5 sd)."""
    (tmp_path / "mine.py").write_text(entry_text())
    one = read_entry(tmp_path / "mine.py", PROBLEMS).answers["binary-n300-pure0.1"]
    ledger = Ledger(PureDP(0.5), rng())
    found = one.run(DenseSample(np.full((2000, 300), 0.5)), ledger).value
    assert ledger.spent == (0.5,)
    assert np.abs(found - 0.5).mean() == pytest.approx(1 / 150, rel=0.11)
    assert len(set(found)) == 2000


def test_a_process_that_answers_something_else_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strange:
        def ask(self, *_: object, **__: object) -> tuple[bytes, float]:
            return b'{"card": 3}', 0.0

    (tmp_path / "mine.py").write_text(entry_text())
    monkeypatch.setattr("dpbench.benchmark.remote.entry_process", Strange())
    with pytest.raises(ConfigError, match=r"mine.py: its process sent an unreadable answer"):
        read_entry(tmp_path / "mine.py", PROBLEMS)
