"""Estimators that are wrong on purpose, and the claims that catch them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpbench.cli import run

PLUGIN = '''
from dpbench import Estimate, Ledger, validated
from dpbench.estimators import HeavyTailedMean
from dpbench.samples import Sample


@validated
class HalvedNoise(HeavyTailedMean):
    """Half the noise that its privacy needs."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found = super().estimate(sample, ledger)
        return Estimate((found.value + found.before_noise) / 2, found.before_noise)


@validated
class NeverClips(HeavyTailedMean):
    """A threshold that no record reaches, with noise for one that does."""

    def clipping_threshold(self, n, budget) -> float:
        return 10.0 * n ** (1 / self.k)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broken_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


HEALTHY = {"near": "heavy_tailed_mean", "slope": "heavy_tailed_mean"}
BROKEN = {"near": "halved_noise", "slope": "never_clips"}


@pytest.mark.parametrize(("kinds", "caught"), [(HEALTHY, False), (BROKEN, True)])
def test_claims_catch_broken_estimators(
    folder: Path, kinds: dict[str, str], *, caught: bool
) -> None:
    """One by a claim about the error, the other by one about its exponent in epsilon."""
    claims = [
        f"+sweep.claims.{label}={{theorem: {theorem}, families: [two_point_*], "
        f"estimators: [{label}], budgets: [pure_*], tolerance: 0.05, reason: test}}"
        for label, theorem in (("near", "near_optimal"), ("slope", "heavy_tail_epsilon"))
    ]
    estimators = ", ".join(f"{label}: {{kind: {kind}}}" for label, kind in kinds.items())
    words = [
        "~sweep.figures",
        "~sweep.claims",
        "plugins=[broken_plugin]",
        "~sweep.parts.real_tails",
        "~sweep.estimators",
        "sweep.budgets.pure.epsilon=[0.001,0.01]",
        "sweep.parts.worst_case.budgets=[pure_*]",
        "sweep.parts.worst_case.estimators=[near,slope]",
        f"+sweep.estimators={{{estimators}}}",
        *claims,
        "+sweep.gate=true",
        "trials=400",
        "n_jobs=1",
        "out=out",
    ]
    assert run(words) == caught
    found = pd.read_csv(folder / "out" / "claims.csv").groupby("estimator")["verdict"].unique()
    assert set(found.index) == {"near", "slope"}
    for verdicts in found:
        assert set(verdicts) == {"inconsistent"} if caught else "inconsistent" not in verdicts
