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


def _verdicts(kind: str, claim: str, theorem: str, folder: Path) -> list[str]:
    words = [
        "~sweep.figures",
        "~sweep.claims",
        "plugins=[broken_plugin]",
        "~sweep.parts.real_tails",
        "~sweep.estimators",
        "sweep.budgets.pure.epsilon=[0.001,0.01]",
        "sweep.parts.worst_case.budgets=[pure_*]",
        "sweep.parts.worst_case.estimators=[tested]",
        f"+sweep.estimators={{tested: {{kind: {kind}}}}}",
        f"+sweep.claims.{claim}={{theorem: {theorem}, families: [two_point_*], "
        "estimators: [tested], budgets: [pure_*], tolerance: 0.05, reason: test}",
        "+sweep.gate=true",
        "trials=400",
        "n_jobs=1",
        "out=out",
    ]
    code = run(words)
    verdicts = list(pd.read_csv(folder / "out" / "claims.csv")["verdict"])
    assert code == ("inconsistent" in verdicts)
    return verdicts


@pytest.mark.parametrize(
    ("kind", "theorem", "caught"),
    [
        ("heavy_tailed_mean", "near_optimal", False),
        ("halved_noise", "near_optimal", True),
        ("heavy_tailed_mean", "heavy_tail_epsilon", False),
        ("never_clips", "heavy_tail_epsilon", True),
    ],
)
def test_claims_catch_broken_estimators(
    folder: Path, kind: str, theorem: str, *, caught: bool
) -> None:
    verdicts = _verdicts(kind, "test", theorem, folder)
    assert verdicts
    assert set(verdicts) == {"inconsistent"} if caught else "inconsistent" not in verdicts
