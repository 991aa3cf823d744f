"""Claims and distances to bounds, as a page tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpbench.report import page_tables
from tests.report.conftest import page_of
from tests.report.page_folders import CLAIM, write_table


def test_claims_are_grouped_by_what_they_say_and_the_worst_is_open(example: Path) -> None:
    """Also those under parts; upper limits have a sign and a region that begins below."""
    page = page_of(example)
    rows = [row for row in page.texts("tr") if "two_pointpure" in row]
    assert rows[0].startswith("consistent rate minimax two_pointpure, ε = 0.01 2.000 ± 0.02 1.990")
    assert rows[1].startswith("consistent near minimax two_pointpure, ε = 0.01 ≤ 1.250 ± 0.02")
    words = [str(attrs["aria-label"]) for attrs, _ in page.all("svg")]
    assert words[0] == "1 of 1 measurements within what was predicted, with tolerances: KSU20"
    assert words[1] == (
        "measured 1.99, 95% interval 1.98 to 2.01, predicted 2 plus or minus 0.02: consistent"
    )
    assert "predicted at most 1.25 plus" in words[3]
    # of a group, then of its claim: from 1.98 to 2.02, and from 0.98 to 1.27
    dots = [float(str(attrs["cx"])) for attrs, _ in page.all("circle")]
    across = page_tables.WIDTH - 2 * page_tables.MARGIN
    assert dots[0] == pytest.approx(page_tables.MARGIN + across * 1.5 / 4, abs=0.06)
    assert dots[2] == pytest.approx(page_tables.MARGIN + across * (1 + 0.04 / 0.29) / 4, abs=0.06)
    notes = [text for text in page.texts("p") if text.startswith("Reason for")]
    why = "Reason for the tolerance of {}, as declared in the sweep: {}."
    assert notes == [why.format("rate", "n is finite"), why.format("near", "few members")]
    write_table(example / "claims.csv", [CLAIM | dict.fromkeys(("measured", "low", "high"), "")])
    page = page_of(example)
    (row,) = (row for row in page.texts("tr") if "two_pointpure" in row)
    assert row.startswith("consistent rate minimax two_pointpure, ε = 0.01 2.000 ± 0.02 -")
    assert any("Not measured (-): too few trials" in text for text in page.texts("p"))
    several = [CLAIM, CLAIM | WRONG, CLAIM | {"epsilon": 1}]
    write_table(example / "claims.csv", [CLAIM | {"claim": "near", "variable": "odd"}, *several])
    page = page_of(example)
    groups = [at for at, _ in page.all("details") if at.get("class") == "group"]
    assert ["open" in at for at in groups] == [True, False]
    assert [text for text in page.texts("summary") if "consistent" in text] == [
        "2 of 3 consistent KSU20 s in n ~ (1/α)ˢ error (0.9 quantile): "  # noqa: RUF001
        "1.990 … 2.500, off by at most 0.5",
        "1 of 1 consistent KSU20 odd error (0.9 quantile): 1.990",
    ]
    rows = [row for row in page.texts("tr") if " rate " in row]
    assert [row.split()[0] for row in rows] == ["inconsistent", "consistent", "consistent"]


def test_groups_that_differ_in_the_tolerance_alone_name_their_claims(example: Path) -> None:
    ways: list[dict[str, Any]] = [
        {"claim": "close"}, {"claim": "far", "tolerance": 0.5}, {"claim": "odd", "variable": "odd"}
    ]  # fmt: skip
    write_table(example / "claims.csv", [CLAIM | way for way in ways])
    heads = [text for text in page_of(example).texts("summary") if "consistent" in text]
    assert [text.partition("; claim ")[2] for text in heads] == ["close", "far", ""]


WRONG = {"verdict": "inconsistent", "theorem_verdict": "inconsistent", "measured": 2.5}
EARLY = CLAIM | {
    "verdict": "consistent", "checks": "theorem", "theorem": 2.0, "exact_at_run_n": 1.6,
    "predicted": 1.6, "theorem_verdict": "pre-asymptotic", "asymptotic_from": 4e9,
    "measured": 1.61, "low": 1.6, "high": 1.62,
}  # fmt: skip


def test_theorems_numbers_at_these_n_and_checks_of_the_code_are_apart(example: Path) -> None:
    code = EARLY | {
        "checks": "code", "theorem": 1.6, "exact_at_run_n": "", "theorem_verdict": "",
        "asymptotic_from": "",
    }  # fmt: skip
    never, both = EARLY | {"asymptotic_from": ""}, {"theorem_verdict": "consistent"}
    write_table(example / "claims.csv", [EARLY, never, EARLY | both | {"theorem": 1.61}, code])
    page = page_of(example)
    assert any(
        "AGREE. 1 of 3 numbers of theorems agree with the measurement; 2 of 3 numbers of theorems "
        "agree with the exact number at these n, and not yet with the theorem's limit; 1 of 1 "
        "checks of the code against exact values pass" in text for text in page.texts("p")
    )  # fmt: skip
    assert [text for text in page.texts("summary") if "consistent" in text] == [
        "1 of 3 consistent KSU20 s in n ~ (1/α)ˢ error (0.9 quantile): 1.610, off by at most 0.01",  # noqa: RUF001
        "1 of 1 consistent Check of the code: KSU20 s in n ~ (1/α)ˢ error (0.9 quantile): "  # noqa: RUF001
        "1.610, off by at most 0.01",
    ]
    heads = [text for text in page.texts("th") if text in {"theorem", "formula", "at these n"}]
    assert heads == ["theorem", "at these n", "formula", "at these n"]
    rows = [row for row in page.texts("tr") if "rate " in row]
    assert rows[0].startswith("pre-asymptoticfrom n = 4\u00d710⁹ onat these n: consistent")
    assert rows[1].startswith("pre-asymptoticat no known n up to 10¹⁵at these n")
    assert rows[2].startswith("consistent rate")
    assert "2.000 ± 0.02 1.600 ± 0.02 1.610" in rows[0]
    spans = {(at["class"], text) for at, text in page.all("span") if text == "pre-asymptotic"}
    assert spans == {("verdict ahead", "pre-asymptotic")}


def test_factors_have_a_column_per_moment_order(example: Path) -> None:
    page = page_of(example)
    rows = [row for row in page.texts("tr") if row.endswith("two-point")]
    assert rows[:2] == [
        "rare pure, ε = 10⁻⁶ 1.01 … 1.04 1.05 … 1.3 (95%) minimax two-point",
        "coin pure, ε = 10⁻⁶ 0.9 minimax two-point",
    ]
    heads = "distributionbudget factor k = 2 k = 3 best estimatorbound by"
    assert heads in page.texts("tr")
    tones = [
        (at["class"], text) for at, text in page.all("span") if text in rows[0] and "…" in text
    ]
    assert tones == [("verdict good", "1.01 … 1.04"), ("verdict unsure", "1.05 … 1.3 (95%)")]
