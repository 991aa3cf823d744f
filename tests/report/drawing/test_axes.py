"""Scales and ticks that panels share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbench.output.names import number_text
from dpbench.report.drawing.axes import set_horizontal_ticks, share_axes
from dpbench.report.drawing.style import legend, panels, save, style


def test_axes_on_which_nothing_was_measured_can_be_drawn() -> None:
    """Every estimator failed: all is NaN, which has no place on a logarithmic axis."""
    with style():
        canvas, (ax,) = panels(1)
        ax.plot([10, 100], [np.nan, np.nan], label="failed")
        ax.set(xscale="log", yscale="log")
        set_horizontal_ticks(ax, [10, 100])
        legend(canvas)
        canvas.canvas.draw()


def test_panels_of_one_quantity_share_a_scale() -> None:
    with style():
        canvas, axes = panels(4)
        for i, ax in enumerate(axes):
            ax.plot([1, 10], [10.0 ** -(i + 1), 1e-2], label="one")
            ax.set(xscale="log", yscale="log", ylabel="other" if i == 3 else "error")
        share_axes(axes)
        legend(canvas)
    limits = [ax.get_ylim() for ax in axes]
    assert limits[0] == limits[1] == limits[2] != limits[3]
    assert limits[0][0] < 1e-3
    assert limits[0][1] > 1e-1
    assert [ax.yaxis.get_tick_params()["labelleft"] for ax in axes] == [True, False, True, True]
    with style():
        for ax in axes:
            set_horizontal_ticks(ax, [])
            for axis in (ax.xaxis, ax.yaxis):
                assert len(axis.get_minorticklocs()) >= 7
                assert set(axis.get_minor_formatter().format_ticks([2, 3])) == {""}


@pytest.mark.parametrize(
    ("sizes", "labels"),
    [
        ([2000, 8000, 32000], ["$2000$", "$8000$", r"$32\,000$"]),
        ([40000, 160000], [r"$4 \times 10^{4}$", r"$1.6 \times 10^{5}$"]),
        ([0.5, 2], ["$0.5$", "$2$"]),
    ],
)
def test_labels_of_a_short_axis_are_alike(sizes: list[float], labels: list[str]) -> None:
    """All are written in full, or each that is large with a power of ten."""
    with style():
        _, (ax,) = panels(1)
        ax.plot(sizes, sizes)
        ax.set_xscale("log")
        set_horizontal_ticks(ax, sizes)
    assert [text.get_text() for text in ax.get_xticklabels()] == labels


@pytest.mark.parametrize("font", ["sans", "serif"])
def test_numbers_of_all_sizes_are_written_alike(font: Any, tmp_path: Path) -> None:
    """True minus signs, thin spaces, no 1e+05; in both fonts, of which a file holds a copy."""
    written = [number_text(x) for x in (8.5e-4, 0.001, 0.25, 1, 1234, 12345, 1e5, -3e-7)]
    assert written[:5] == [r"8.5 \times 10^{-4}", "0.001", "0.25", "1", "1234"]
    assert written[5:] == [r"1.23 \times 10^{4}", "10^{5}", r"-3 \times 10^{-7}"]
    with style("column", font):
        canvas, (ax, other) = panels(2)
        ax.plot([0, 1], [-60000, 20000], label="a \N{MINUS SIGN}\N{THIN SPACE}b")
        other.plot([0, 1], [-6e9, 2e9])
        share_axes([ax, other])
        (path,) = save(canvas, tmp_path, font, ["pdf"])
        labels = ax.yaxis.get_major_formatter().format_ticks([-60000.0, 2000.0, 20000.0])
        offset = other.yaxis.get_offset_text().get_text()
    numbers = ["\N{MINUS SIGN}60\\,000", "2000", "20\\,000"]
    assert labels == [rf"$\mathdefault{{{one}}}$" for one in numbers]
    assert "e" not in offset.replace("times", "").replace("mathdefault", "")
    text = path.read_bytes()
    assert (b"/FontFile2" in text, b"/Type3" in text) == (True, False)
    assert (b"STIX" in text) == (font == "serif")
