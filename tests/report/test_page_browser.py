"""What a browser makes of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.image as mpimg
import numpy as np
import pytest

from dpbench.report.page import write_page
from tests.report.page_folders import HOSTILE, MANIFEST, write_run

if TYPE_CHECKING:  # the fixture `browser` loads them, in the process that has these tests
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

ROWS = 250
SUMMARY = "#run1-summary"
# Opens all that can be opened, sorts the summary's table or looks for words in it, and tells what
# it shows then.
ACT = """
    document.querySelectorAll('details').forEach((details) => { details.open = true; });
    const table = document.querySelector('#run1-summary');
    const tools = table.closest('details').querySelector('.tools');
    const heads = [...table.querySelectorAll('thead th')];
    const steps = {
      sort: (name) => heads.find((head) => head.textContent === name).firstChild.click(),
      search: (text) => {
        tools.querySelector('input').value = text;
        tools.querySelector('input').dispatchEvent(new Event('input'));
      },
    };
    arguments[0].forEach(([name, text]) => steps[name](text));
    const rows = [...table.tBodies[0].rows].filter((row) => row.checkVisibility());
    const column = (i) => rows.map((row) => row.cells[i].textContent);
    return {
      columns: Object.fromEntries(heads.map((head, i) => [head.textContent, column(i)])),
      sorted: heads.filter((th) => th.ariaSort).map((th) => [th.textContent, th.ariaSort]),
      count: tools.querySelector('output').textContent,
    };
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_run(tmp_path_factory.mktemp("plain") / "example", rows=ROWS)
    return write_page([folder], folder / "report.html").as_uri()


@pytest.fixture
def page(browser: Chrome, plain: str) -> Iterator[Chrome]:
    """The page, loaded anew; nothing may be logged to the console."""
    browser.get(plain)
    yield browser
    assert logged(browser) == []


def logged(browser: Chrome) -> list[Any]:
    """What the console has shown since it was asked last."""
    return list(browser.get_log("browser"))


def find(page: Chrome, selector: str) -> WebElement:
    return page.find_element("css selector", selector)


def act(page: Chrome, *steps: tuple[str, ...]) -> dict[str, Any]:
    """What the summary's table shows after some steps."""
    found: dict[str, Any] = page.execute_script(ACT, steps)
    return found


def test_columns_sort_as_numbers_with_blanks_last(page: Chrome) -> None:
    for sign, name in ((1, "ascending"), (-1, "descending")):
        found = act(page, ("sort", "q90"))
        assert found["sorted"] == [["q90", name]]
        *texts, last = found["columns"]["q90"]
        values = [float(text) for text in texts]
        assert values == sorted(values, reverse=sign < 0)
        assert (len(values), last) == (ROWS - 1, "")
    found = act(page, ("sort", "estimator"))
    assert found["sorted"] == [["estimator", "ascending"]]
    assert found["columns"]["estimator"] == sorted(found["columns"]["estimator"])
    sizes = act(page, ("sort", "n"), ("sort", "n"))["columns"]["n"]
    assert (sizes[0], sizes[-1]) == ("10¹²", "1")


def test_words_count_what_they_leave(page: Chrome) -> None:
    assert act(page)["count"] == ""
    find(page, f"details:has({SUMMARY}) input").send_keys("MINIMAX c2")
    found = act(page)
    kept = [i for i in range(ROWS) if i % 3 == 0 and i % 4 == 2]
    assert found["count"] == f"{len(kept)} of {ROWS} rows"
    assert found["columns"]["distribution"] == ["two_point_c2"] * len(kept)
    assert act(page, ("search", "nothing like that"))["count"] == f"0 of {ROWS} rows"
    assert len(act(page, ("search", ""))["columns"]["n"]) == ROWS


def test_the_keyboard_opens_and_sorts_and_all_have_names(page: Chrome) -> None:
    from selenium.webdriver import Keys

    find(page, "body").send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert (skip.text, skip.rect["x"] >= 0) == ("Skip to the results", True)
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"
    summary = find(page, f"details:has({SUMMARY}) > summary")
    assert not find(page, SUMMARY).is_displayed()
    summary.send_keys(Keys.ENTER)
    assert find(page, SUMMARY).is_displayed()
    for _ in range(4):  # the search, the box that scrolls, the first head, the second
        page.switch_to.active_element.send_keys(Keys.TAB)
    active = page.switch_to.active_element
    assert active.value_of_css_property("outline-style") == "solid"
    for key, way in ((Keys.ENTER, "ascending"), (Keys.SPACE, "descending")):
        active.send_keys(key)
        assert act(page)["sorted"] == [["q90", way]]
    assert page.switch_to.active_element == active
    for selector in ("input", "summary", "thead button", "[role=region]", "svg", "img"):
        assert find(page, selector).accessible_name, selector


def test_a_link_opens_what_it_leads_into(browser: Chrome, tmp_path: Path) -> None:
    """Of several runs all are closed at first; on paper the claims of one are open."""
    from selenium.webdriver.support.wait import WebDriverWait

    runs = [write_run(tmp_path / name, rows=3) for name in ("one", "two")]
    browser.get(write_page(runs, tmp_path / "page.html").as_uri())
    assert not find(browser, "#run2-claims").is_displayed()
    browser.execute_script("location.hash = '#run2-errors'")
    WebDriverWait(browser, 5).until(lambda page: find(page, "#run2-claims").is_displayed())
    assert not find(browser, "#run1-claims").is_displayed()
    groups = "return document.querySelectorAll('#run2 .group[open]').length"
    counts = []
    for event in ("beforeprint", "afterprint"):
        browser.execute_script(f"dispatchEvent(new Event('{event}'))")
        counts.append(browser.execute_script(groups))
    assert counts == [2, 0]


def test_hostile_labels_and_other_scripts_do_nothing(browser: Chrome, tmp_path: Path) -> None:
    asked = {"sweep": {"question": HOSTILE}}
    manifest: dict[str, Any] = MANIFEST | {
        "sweep": HOSTILE, "command": HOSTILE, "configuration": asked
    }  # fmt: skip
    folder = write_run(tmp_path / "run", rows=12, manifest=manifest, label=HOSTILE)
    browser.get(write_page([folder], tmp_path / "page.html").as_uri())
    found = act(browser, ("search", "<script>"))
    assert found["columns"]["estimator"][0] == f"minimax{HOSTILE}"
    assert found["count"] == "12 of 12 rows"
    assert browser.execute_script("return document.querySelector('h1').textContent") == HOSTILE
    assert browser.find_elements("css selector", "img:not([src^='data:'])") == []
    assert logged(browser) == []
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
        "document.body.append(s)"
    )
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert "Content Security Policy" in str(logged(browser))


def test_dark_where_it_is_asked_for_but_never_on_paper(page: Chrome) -> None:
    """Also figures, which are black on white: their corner has the colour of the paper."""
    act(page)
    for scheme, media, dark in (
        ("dark", "screen", True), ("dark", "print", False), ("light", "screen", False),
    ):  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        wanted = {"media": media, "features": features}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        colour = find(page, "body").value_of_css_property("background-color")
        paper = [float(share) for share in re.findall(r"\d+", colour)[:3]]
        assert max(paper) < 60 if dark else min(paper) > 240
        assert find(page, ".tools").is_displayed() == (media == "screen")
        if media == "screen":
            image = find(page, "figure img")
            assert image.get_attribute("naturalWidth") != "0"
            shown = mpimg.imread(io.BytesIO(image.screenshot_as_png))[5, 5, :3] * 255
            assert np.abs(shown - paper).max() <= 3


def test_what_is_wide_scrolls_in_its_own_box(page: Chrome) -> None:
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        act(page)
        across, wider, top, image = page.execute_script(f"""
            const box = document.querySelector('{SUMMARY}').parentNode;
            box.scrollTop = 500;
            const top = (element) => element.getBoundingClientRect().top;
            return [
              document.documentElement.scrollWidth, box.scrollWidth > box.clientWidth,
              top(box.querySelector('th')) - top(box), document.querySelector('img').width,
            ];
        """)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wider
    assert across <= 400
    assert abs(top) <= 2  # the header stays
    # 8 points of a figure that is 504 points wide are 10 pixels or more
    assert image * 8 / 504 >= 10


def test_without_scripts_tables_are_there(browser: Chrome, plain: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(plain)
        find(browser, f"details:has({SUMMARY}) > summary").click()
        text = find(browser, f"{SUMMARY} tbody tr").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert text == "minimax 0.333 two_point_c0 2 1 pure 0.01"
