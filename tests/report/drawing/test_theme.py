"""The theme of figures, compared with seaborn's own."""

from __future__ import annotations

import matplotlib as mpl
import pytest
import seaborn as sns
from matplotlib.colors import to_rgb

from dpbench.report.drawing.style import line_styles, style


def test_the_theme_is_seaborns(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for its colour map, which is registered where seaborn is loaded, and no figure uses."""
    monkeypatch.setattr("dpbench.report.drawing.style.SETTINGS", {})
    with mpl.rc_context():
        mpl.rcdefaults()
        sns.set_theme(context="paper", style="ticks", palette="colorblind", color_codes=False)
        wanted = dict(mpl.rcParams)
    with style():
        found = dict(mpl.rcParams)
    for settings in (wanted, found):
        settings["axes.prop_cycle"] = [*map(to_rgb, settings["axes.prop_cycle"].by_key()["color"])]
    assert {name for name in wanted if found[name] != wanted[name]} == {"image.cmap"}
    colours = [look["color"] for look in line_styles(map(str, range(12))).values()]
    assert colours == list(sns.color_palette("colorblind", 12))
