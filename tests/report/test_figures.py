from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpbench.cli import run
from dpbench.config import composed
from dpbench.parameters import ConfigError
from dpbench.report.figures import Asked, Figure
from dpbench.report.style import looks
from dpbench.runner.plan import Sweep


def test_looks_do_not_depend_on_the_order() -> None:
    assert looks(["b", "a", "c"]) == looks(["c", "b", "a", "a"])
    assert len({str(look) for look in looks("abcdef").values()}) == 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    assert run([f"out={out}", "trials=40", "n_jobs=1"]) == 0
    return out


def test_figures_are_byte_identical_when_drawn_again(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    assert set(before) == {
        f"{name}.{kind}"
        for name in ("worst_case", "exponents", "thresholds")
        for kind in ("pdf", "png")
    }
    (folder / "manifest.json").unlink()
    assert run([f"out={folder}", "trials=40", "n_jobs=1"]) == 0
    after = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    assert before == after


def test_pdf_embeds_its_fonts_and_no_date(folder: Path) -> None:
    pdf = (folder / "figures" / "worst_case.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"CreationDate" not in pdf


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "error_against_n", "families": ["x"], "budget": "pure"}, r"at\.families: 'x'"),
        (
            {"kind": "error_against_n", "families": ["pareto_k2"], "budget": "x"},
            r"at\.budget: 'x'",
        ),
        ({"kind": "exponents", "claims": ["x"]}, r"at\.claims: 'x'"),
        (
            {
                "kind": "decomposition",
                "families": ["pareto_k2"],
                "estimators": ["mean"],
                "chosen": ["minimax"],
                "budget": "tails",
                "n": 100,
            },
            r"at\.estimators: 'mean': it has no clip_at",
        ),
    ],
)
def test_unknown_labels_are_refused(spec: dict[str, Any], message: str) -> None:
    config = composed([])
    sweep = Sweep.build(config["sweep"])
    with pytest.raises(ConfigError, match=message):
        Figure.build(spec, "at").check(sweep, Asked(claims=list(config["sweep"]["claims"])), "at")
