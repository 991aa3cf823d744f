"""What a browser makes of the page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbench.report.page import write_page

from .page_folders import HOSTILE, MANIFEST, summary_rows, write_run

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

ROWS = 250
SUMMARY = "#run1-errors .grid"
# Takes steps in the summary's table (presses buttons, filters), and tells what it shows then.
ACT = """
    const grid = document.querySelector('#run1-errors .grid');
    const set = (element, value, event) => {
      element.value = value;
      element.dispatchEvent(new Event(event));
    };
    const named = (selector, text) =>
      [...grid.querySelectorAll(selector)].find((found) => found.textContent === text);
    const steps = {
      more: () => grid.querySelector('.more').click(),
      sort: (name) => named('thead button', name).click(),
      all: () => grid.querySelector('input[type=checkbox]').click(),
      search: (text) => set(grid.querySelector('input[type=search]'), text, 'input'),
      choose: (text) => set(
        named('option', text).parentNode, named('option', text).value, 'change'),
    };
    arguments[0].forEach(([name, text]) => steps[name](text));
    const heads = [...grid.querySelectorAll('thead th')];
    const rows = [...grid.querySelectorAll('tbody tr')];
    const column = (i) => rows.map((row) => row.cells[i].textContent);
    return {
      names: heads.map((head) => head.textContent),
      columns: Object.fromEntries(heads.map((head, i) => [head.textContent, column(i)])),
      sorted: heads.filter((th) => th.ariaSort).map((th) => [th.textContent, th.ariaSort]),
      count: grid.querySelector('output').textContent,
      more: grid.querySelector('.more').hidden ? '' : grid.querySelector('.more').textContent,
      titles: [...grid.querySelectorAll('td[title]')].map((td) => [td.textContent, td.title]),
    };
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not both installed")
    options = ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SE_OFFLINE", "true")
        patch.setenv("SE_AVOID_STATS", "true")
        patch.setenv("NO_PROXY", ",".join(filter(None, ["localhost", os.environ.get("NO_PROXY")])))
        opened = Chrome(options=options, service=Service(executable_path=driver))
        yield opened
        opened.quit()


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
    return list(browser.get_log("browser"))  # type: ignore[no-untyped-call]


def find(page: Chrome, selector: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, selector)


def act(page: Chrome, *steps: tuple[str, ...]) -> dict[str, Any]:
    """What the summary's table shows after some steps."""
    found: dict[str, Any] = page.execute_script(ACT, steps)
    return found


def test_rows_are_drawn_on_demand_and_sort_as_numbers_with_blanks_last(page: Chrome) -> None:
    for steps, shown, more in (
        ([], 100, "show 100 more of 150"),
        ([("more",)], 200, "show 50 more of 50"),
        ([("more",)], ROWS, ""),
    ):
        found = act(page, *steps)
        assert (len(found["columns"]["n"]), found["more"]) == (shown, more)
    for sign, name in ((1, "ascending"), (-1, "descending")):
        found = act(page, ("sort", "q90"), ("more",), ("more",))
        assert found["sorted"] == [["q90", name]]
        *texts, last = found["columns"]["q90"]
        values = [float(text) for text in texts]
        assert values == sorted(set(values), reverse=sign < 0)
        assert (len(values), last) == (ROWS - 1, "")
    found = act(page, ("sort", "estimator"))
    assert found["sorted"] == [["estimator", "ascending"]]
    assert set(found["columns"]["estimator"][:80]) == {"all"}


def test_numbers_have_four_digits_and_infinity_its_sign(page: Chrome) -> None:
    columns = act(page)["columns"]
    assert columns["q90"][:6] == ["0.3333", "0.6667", "1", "1.333", "1.667", ""]
    assert columns["n"][5:8] == ["100000", "1e6", "1e7"]
    assert "rmse" not in columns  # until the box shows all columns
    found = act(page, ("sort", "n"), ("sort", "n"), ("all",), ("search", "∞"))
    assert found["names"] == [name for name in summary_rows(1)[0] if name != "rho"]
    assert found["sorted"] == [["n", "descending"]]
    assert found["columns"]["rmse"] == ["∞"]
    assert found["titles"] == [["1e6", "1000000"], ["2.333", "2.333333"]]


def test_filters_count_what_they_leave(page: Chrome) -> None:
    assert act(page)["count"] == f"{ROWS} of {ROWS} rows"
    find(page, f"{SUMMARY} input[type=search]").send_keys("MINIMAX c2")
    found = act(page)
    kept = [i for i in range(ROWS) if i % 3 == 0 and i % 4 == 2]
    assert found["count"] == f"{len(kept)} of {ROWS} rows"
    assert set(found["columns"]["distribution"]) == {"two_point_c2"}
    assert act(page, ("search", "nothing like that"))["count"] == f"0 of {ROWS} rows"
    found = act(page, ("search", ""), ("choose", "rate"))
    assert found["count"] == f"{len(range(1, ROWS, 3))} of {ROWS} rows"
    assert set(found["columns"]["estimator"]) == {"rate"}


def test_the_keyboard_reaches_a_header_and_sorts_and_all_have_names(page: Chrome) -> None:
    find(page, "body").send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert (skip.text, skip.rect["x"] >= 0) == ("Skip to the results", True)
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"
    page.execute_script(f"document.querySelector('{SUMMARY} thead button').focus()")
    for _ in range(act(page)["names"].index("n")):
        page.switch_to.active_element.send_keys(Keys.TAB)
    active = page.switch_to.active_element
    assert (active.text, active.value_of_css_property("outline-style")) == ("n", "solid")
    for key, way in ((Keys.ENTER, "ascending"), (Keys.SPACE, "descending")):
        active.send_keys(key)
        assert act(page)["sorted"] == [["n", way]]
    assert page.switch_to.active_element == active
    for selector in ("input", "select", f"{SUMMARY} .more", "thead button", "[role=region]", "svg"):
        assert find(page, selector).accessible_name, selector


def test_hostile_labels_and_other_scripts_do_nothing(browser: Chrome, tmp_path: Path) -> None:
    manifest: dict[str, Any] = MANIFEST | {"sweep": HOSTILE, "command": HOSTILE}
    folder = write_run(tmp_path / "run", rows=12, manifest=manifest, label=HOSTILE)
    browser.get(write_page([folder], tmp_path / "page.html").as_uri())
    found = act(browser, ("search", "<script>"))
    assert found["columns"]["estimator"][0] == f"minimax{HOSTILE}"
    assert found["count"] == "12 of 12 rows"
    assert browser.execute_script("return document.querySelector('h1').textContent") == HOSTILE
    assert browser.find_elements(By.CSS_SELECTOR, "img:not([src^='data:'])") == []
    assert logged(browser) == []
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
        "document.body.append(s)"
    )
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert "Content Security Policy" in str(logged(browser))


def test_dark_where_it_is_asked_for_but_never_on_paper(page: Chrome) -> None:
    assert page.execute_script("return document.querySelector('figure img').naturalWidth") > 0
    for scheme, media, dark in (
        ("dark", "screen", True), ("dark", "print", False), ("light", "screen", False),
    ):  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        wanted = {"media": media, "features": features}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
        paper, behind = (
            find(page, selector).value_of_css_property("background-color")
            for selector in ("body", "figure img")
        )
        light = sum(int(share) for share in re.findall(r"\d+", paper)[:3]) / 3
        assert light < 60 if dark else light > 240
        assert "255, 255, 255" in behind or not dark
        assert find(page, f"{SUMMARY} .tools").is_displayed() == (media == "screen")


def test_wide_tables_scroll_in_their_own_box(page: Chrome) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        act(page, ("all",))
        across, wider, top = page.execute_script(f"""
            const box = document.querySelector('{SUMMARY} .scroll');
            box.scrollTop = 500;
            const top = (element) => element.getBoundingClientRect().top;
            return [
              document.documentElement.scrollWidth, box.scrollWidth > box.clientWidth,
              top(box.querySelector('th')) - top(box),
            ];
        """)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wider
    assert across <= 390
    assert abs(top) <= 2  # the header stays


def test_without_scripts_the_file_is_named(browser: Chrome, plain: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(plain)
        text = find(browser, f"{SUMMARY} noscript").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert text == "This table needs JavaScript. Its numbers are in summary.csv."
