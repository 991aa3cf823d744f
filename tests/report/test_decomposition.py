"""The parts of an error against the threshold."""

from __future__ import annotations

import dataclasses

import numpy as np

from dpbench.report.decomposition import UNCLIPPED
from dpbench.report.drawing.style import THEORY
from dpbench.report.run_result import Result
from tests.report.conftest import curves, drawn, rows
from tests.report.specs import CLIP

# The parts of the error, and exponents.


def test_parts_of_the_error_against_the_threshold(numbers: Result) -> None:
    axes = drawn(numbers, CLIP)
    for ax, k in zip(axes, (2, 3), strict=True):
        assert ax.get_title() == f"pair, $k = {k}$"
        about = {"family": f"pair_k{k}", "n": 10**6, "privacy": "pure", "epsilon": 1}
        at = rows(numbers, **about)
        worst = at[at["threshold"].notna()].groupby("threshold").max(numeric_only=True)
        parts = {"error": "q90", "clipping bias": "clipping_q90", "noise": "noise_q90",
                 "sampling": "sampling_q90"}  # fmt: skip
        wanted = {label: ([3, 30, 300], worst[column].tolist()) for label, column in parts.items()}
        label, (sizes, bias_curve) = "clipping bias", wanted["clipping bias"]
        wanted[label] = (sizes, [b if b > 0 else np.nan for b in bias_curve])
        np.testing.assert_equal(curves(ax), wanted)
        # Of a law with E|X|^k <= 1 at most (k-1)^(k-1)/k^k T^(1-k) is clipped away, and
        # Laplace noise exceeds (2 T/(epsilon n)) ln(10) with probability 0.1.
        t = np.array([3, 30, 300])
        dotted = [one for one in ax.get_lines() if one.get_zorder() == THEORY["zorder"]]
        bias, noise = (np.asarray(one.get_ydata(), float) for one in dotted)
        np.testing.assert_allclose(bias, (k - 1) ** (k - 1) / k**k * t ** (1.0 - k), rtol=1e-9)
        np.testing.assert_allclose(noise, 2 * t / 1e6 * np.log(10), rtol=1e-9)
        assert {text.get_text() for text in ax.texts} - {UNCLIPPED} == {"minimax"}
        threshold = numbers.study.estimator("minimax", f"pair_k{k}").clipping_threshold(  # type: ignore[attr-defined]
            10**6, numbers.study.budgets["pure_epsilon1"].value
        )
        assert list(ax.get_lines()[-1].get_xdata()) == [threshold, threshold]  # type: ignore[arg-type]


def test_the_bias_ends_where_no_record_is_clipped(numbers: Result) -> None:
    summary = numbers.summary.copy()
    summary.loc[summary["threshold"] == 300, "clipping_q90"] = 1e-20  # a rounding error
    for ax in drawn(dataclasses.replace(numbers, summary=summary), CLIP):
        assert np.isnan(curves(ax)["clipping bias"][1]).tolist() == [False, False, True]
        (mark,) = (text for text in ax.texts if text.get_text() == UNCLIPPED)
        assert mark.get_position()[0] == 300
        assert mark.get_zorder() > max(line.get_zorder() for line in ax.get_lines())
        assert mark.get_bbox_patch() is not None  # lines do not cross the letters
