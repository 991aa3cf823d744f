"""Interactive figures of the page: what is on it, and what a browser makes of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dpbench.report.drawing.style import SCREEN, save
from dpbench.report.page import write_page
from dpbench.report.page_tables import format_digits, format_short
from tests.bench import Bench
from tests.report.conftest import Page
from tests.report.page_folders import summary_rows, write_interactive_run, write_table

FOLDER = files("dpbench.report") / "interactive"
# The places of the markers of a curve, by the number of its panel and its name in the legend.
MARKERS = """
    const panel = document.querySelectorAll('.panel')[arguments[0]];
    const keys = [...panel.closest('.live').querySelectorAll('.keys button')];
    const key = keys.find((one) => one.textContent === arguments[1]);
    const colour = key.querySelector('path').getAttribute('stroke');
    const paths = [...panel.querySelectorAll('.mark-symbol path')];
    return paths.filter((path) => path.getAttribute('stroke') === colour).map((path) => {
      const { x, y, width, height } = path.getBoundingClientRect();
      return [x + width / 2, y + height / 2];
    });
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_interactive_run(tmp_path_factory.mktemp("interactive") / "example")


@pytest.fixture(scope="module")
def written(folder: Path) -> Path:
    return write_page([folder], folder / "report.html")


def test_numbers_stand_beside_the_still_figure(folder: Path, written: Path) -> None:
    page = Page(written)
    assert len(page.all("img")) == 3
    numbers = [text for at, text in page.all("script") if at.get("type") == "application/json"]
    stored = [(folder / "figures" / f"{name}.json") for name in ("errors", "side")]
    assert [json.loads(text) for text in numbers] == [
        json.loads(path.read_text("utf-8")) for path in stored
    ]
    assert "wide <b>" not in written.read_text("utf-8")
    assert [at.get("class") for at, _ in page.all("div")].count("interactive") == 2


def test_a_file_of_an_earlier_run_is_not_shown(tmp_path: Path) -> None:
    folder = write_interactive_run(tmp_path / "run")
    for name in ("errors", "side"):
        (folder / "figures" / f"{name}.json").rename(folder / "figures" / "another.json")
    text = write_page([folder], tmp_path / "page.html").read_text("utf-8")
    assert 'class="interactive"' not in text
    assert "library" not in text


def test_only_the_scripts_of_the_package_pass_and_none_may_evaluate_text(written: Path) -> None:
    page = Page(written)
    policy = next(str(at["content"]) for at, _ in page.all("meta") if "http-equiv" in at)
    (packed,) = (text for at, text in page.all("script") if at.get("id") == "library")
    scripts = [text for at, text in page.all("script") if "type" not in at]
    assert len(scripts) == 2
    scripts.append(gzip.decompress(base64.b64decode(packed)).decode())
    assert scripts[-1] == (FOLDER / "vega.js").read_text("utf-8")
    for text in (*scripts, page.all("style")[0][1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "innerHTML" not in scripts[0]


def test_the_library_is_on_a_page_once_and_the_page_is_small(folder: Path, tmp_path: Path) -> None:
    page = write_page([folder] * 3, tmp_path / "page.html")
    text = page.read_text("utf-8")
    assert text.count('id="library"') == 1
    assert text.count('<div class="interactive">') == 6
    assert page.stat().st_size < 900_000
    assert write_page([folder] * 3, tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_a_large_page_has_fewer_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are cut until the page is small enough, and say so."""
    monkeypatch.setattr("dpbench.report.page.MAX_BYTES", 1_000_000)
    large = shutil.copytree(folder, tmp_path / "large")
    write_table(large / "summary.csv", summary_rows(6000))
    page = write_page([large], tmp_path / "page.html")
    assert page.stat().st_size < 1_000_000
    (rows,) = re.findall(r"The first (\d+) rows; all rows are in", page.read_text("utf-8"))
    assert 2000 <= int(rows) < 6000


def test_the_library_states_its_versions_and_licences() -> None:
    text, licences = (
        (FOLDER / name).read_text("utf-8") for name in ("vega.js", "vega-LICENSE.txt")
    )
    match = re.match(r"/\* vega (\S+) and vega-interpreter (\S+), see vega-LICENSE.txt;", text)
    assert match
    assert f'version="{match[1]}"' in text
    assert licences.startswith(f"vega {match[1]}\n")
    assert f"vega-interpreter {match[2]}\n" in licences
    assert not re.search("</script|<!--", text)  # an inline script would end there
    assert f"bash dev.sh vega {match[1]} {match[2]}" in text


@pytest.fixture
def page(browser: Any, written: Path) -> Iterator[Any]:
    """The page in a window of 1,400 pixels; nothing may be logged, and nothing fetched."""
    from selenium.webdriver.support.wait import WebDriverWait

    show(browser, 1400)
    browser.get(written.as_uri())
    browser.execute_script(
        "document.querySelectorAll('.interactive').forEach((one) => one.scrollIntoView())"
    )
    WebDriverWait(browser, 20).until(lambda one: count(one, ".panel .mark-symbol path") == 24)
    yield browser
    assert browser.get_log("browser") == []
    fetched = "return performance.getEntriesByType('resource').map((one) => one.name)"
    assert [name for name in browser.execute_script(fetched) if not name.startswith("data:")] == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def show(browser: Any, width: int) -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def count(browser: Any, selector: str) -> int:
    return len(browser.find_elements("css selector", selector))


def point_at(browser: Any, panel: int, curve: str, point: int) -> list[str]:
    """The lines of the box with numbers, with the pointer beside a point of a curve."""
    script = "document.querySelectorAll('.panel')[arguments[0]].scrollIntoView({block: 'center'})"
    browser.execute_script(script, panel)
    x, y = browser.execute_script(MARKERS, panel, curve)[point]
    event = {"type": "mouseMoved", "x": x + 3, "y": y - 3}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    told = browser.execute_script(
        "return [...document.querySelectorAll('.told:not([hidden]) :is(b, span)')]"
        ".map((one) => one.textContent)"
    )
    return list(told)


def test_a_point_tells_its_numbers_and_its_interval(page: Any) -> None:
    for panel, error, low, high in ((0, "0.0123", "0.0111", "0.0136"),
                                    (1, "0.123", "0.111", "0.136")):  # fmt: skip
        told = point_at(page, panel, "narrow", 1)
        assert told == ["n: 1000", "narrow", f"error: {error}", f"interval: {low} to {high}"]


def test_points_tell_the_numbers_of_the_table(
    browser: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arrow keys read every point of a curve: n, error and interval of the worst law."""
    from selenium.webdriver import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    monkeypatch.setattr(save, "__defaults__", (SCREEN, None))
    figure = {"kind": "error_against_n", "families": "two_point", "estimators": "minimax"}
    bench.write(lambda spec: spec.update(figures={"errors": figure | {"caption": "n"}}))
    bench.done()
    show(browser, 1400)
    browser.get((bench.folder / "out" / "report.html").as_uri())
    WebDriverWait(browser, 20).until(lambda one: count(one, ".panel .mark-symbol path"))
    summary = bench.table().query("estimator == 'minimax'")
    families = ["two_point_k2", "two_point_k3"]
    panels = browser.find_elements("css selector", ".panel")
    for panel, family in zip(panels, families, strict=True):
        at = summary[summary["family"] == family]
        for row in at.loc[at.groupby("n")["q90"].idxmax()].to_dict("records"):
            panel.send_keys(Keys.ARROW_RIGHT)
            error, low, high = (format_digits(row[f"q90{end}"]) for end in ("", "_low", "_high"))
            assert browser.find_element("css selector", ".told").text.split("\n") == [
                f"n: {format_short(float(row['n']))}", "minimax",
                f"error (0.9 quantile): {error}", f"interval: {low} to {high}",
            ]  # fmt: skip


def test_what_the_frame_cuts_off_is_not_told_as_a_number(page: Any) -> None:
    told = point_at(page, 0, "wide <b>", 0)
    assert told[:3] == ["n: 100", "wide <b>", "error: 0.500"]
    assert told[3] == "interval: 0.250 to outside of the figure"
    below = page.execute_script(MARKERS, 0, "wide <b>")[-1]
    frame = page.find_elements("css selector", ".panel")[0].rect
    event = {"type": "mouseMoved", "x": below[0], "y": frame["y"] + frame["height"] - 45}
    page.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    assert "wide" not in page.find_element("css selector", ".told").text


def test_the_legend_hides_a_curve_in_all_panels(page: Any) -> None:
    from selenium.webdriver import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    buttons = page.find_elements("css selector", ".live .keys button")
    narrow = next(one for one in buttons if one.text == "narrow")
    before = count(page, ".panel .mark-symbol path")
    narrow.click()
    assert narrow.get_attribute("aria-pressed") == "false"
    wait = WebDriverWait(page, 5)
    wait.until(lambda one: count(one, ".panel .mark-symbol path") == before - 8)  # 2 panels
    narrow.send_keys(Keys.ENTER)
    assert narrow.get_attribute("aria-pressed") == "true"
    wait.until(lambda one: count(one, ".panel .mark-symbol path") == before)


def test_the_frame_fits_the_curves_that_are_left(page: Any) -> None:
    """Two marks of one curve stand further apart if a curve far from it is hidden."""
    from selenium.webdriver.support.wait import WebDriverWait

    def height() -> float:
        places = [y for _, y in page.execute_script(MARKERS, 0, "narrow")]
        return float(max(places) - min(places))

    buttons = page.find_elements("css selector", ".live .keys button")
    wide = next(one for one in buttons if one.text == "wide <b>")
    before = height()
    wide.click()
    WebDriverWait(page, 5).until(lambda _: height() > 1.2 * before)
    assert len(page.find_elements("css selector", ".panel .role-axis-label text")) > 2
    wide.click()
    WebDriverWait(page, 5).until(lambda _: abs(height() - before) < 2)


def test_arrow_keys_read_the_points(page: Any) -> None:
    from selenium.webdriver import Keys

    panel = page.find_elements("css selector", ".panel")[0]
    panel.send_keys(Keys.ARROW_RIGHT)
    told = page.find_element("css selector", ".told")
    assert told.get_attribute("role") == "status"
    assert told.text.split("\n") == [
        "n: 100",
        "wide <b>",
        "error: 0.500",
        told.text.split("\n")[-1],
    ]
    panel.send_keys(Keys.ARROW_DOWN)
    assert "narrow" in told.text
    assert "0.0200" in told.text
    panel.send_keys(Keys.ESCAPE)
    assert not told.is_displayed()
    for selector in (".live", ".panel", ".keys", ".keys button"):
        name = page.find_element("css selector", selector).accessible_name
        assert name, selector


@pytest.mark.parametrize("width", [1400, 400])
def test_panels_fit_the_window(page: Any, width: int) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    show(page, width)
    script = """
        const boxes = [...document.querySelectorAll('.live')][0].querySelectorAll('.panel svg');
        const rects = [...boxes].map((one) => one.getBoundingClientRect());
        const inside = rects.every(({ left, right }) => left >= 0 && right <= innerWidth);
        return [rects[0].top === rects[1].top, inside && rects[0].width > 250,
                document.documentElement.scrollWidth <= innerWidth];
    """
    expected = [width == 1400, True, True]
    WebDriverWait(page, 5).until(lambda one: one.execute_script(script) == expected)


@pytest.mark.parametrize(("width", "across"), [(1400, 4), (1000, 2), (400, 1)])
def test_the_legend_stands_above_panels_in_even_rows(
    browser: Any, tmp_path: Path, width: int, across: int
) -> None:
    """Four panels in one row leave the first screen room for all of them and the legend."""
    from selenium.webdriver.support.wait import WebDriverWait

    show(browser, width)
    folder = write_interactive_run(tmp_path / "example", errors=4)
    browser.get(write_page([folder], tmp_path / "page.html").as_uri())
    script = """
        document.querySelector('.interactive').scrollIntoView();
        const tops = [...document.querySelectorAll('.panel svg')]
          .slice(0, 4).map((one) => one.getBoundingClientRect().top);
        const keys = document.querySelector('.keys')?.getBoundingClientRect();
        const across = tops.filter((top) => top === tops[0]).length;
        return [across, Boolean(keys && keys.bottom <= tops[0])];
    """
    expected = [across, True]
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(script) == expected)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_note_stands_above_the_lines_and_in_its_panel(page: Any) -> None:
    script = """
        const panel = document.querySelector('.panel');
        const marks = [...panel.querySelectorAll('svg *')];
        const note = marks.findLast((one) => one.textContent === 'a note at the edge');
        const lines = panel.querySelectorAll('.mark-line path');
        const frame = panel.querySelector('.mark-rect path').getBoundingClientRect();
        return [note.getBoundingClientRect().right <= frame.right,
                marks.indexOf(note) > marks.indexOf([...lines].at(-1))];
    """
    assert page.execute_script(script) == [True, True]


def test_the_still_figure_stands_in_print_and_without_scripts(page: Any, written: Path) -> None:
    still, live = (
        page.find_element("css selector", f".interactive {of}") for of in ("img", ".live")
    )
    assert (still.is_displayed(), live.is_displayed()) == (False, True)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert (still.is_displayed(), live.is_displayed()) == (True, False)
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(written.as_uri())
        assert page.find_element("css selector", ".interactive img").is_displayed()
        assert count(page, ".live") == 0
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_dark_figures_have_light_lines(page: Any) -> None:
    for scheme, inverted in (("dark", True), ("light", False)):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        look = page.find_element("css selector", ".panel svg").value_of_css_property("filter")
        assert ("invert" in look) == inverted
