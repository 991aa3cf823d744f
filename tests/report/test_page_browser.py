from __future__ import annotations

import os
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
from selenium.webdriver.support.select import Select

ROWS = 250
SUMMARY = "#run1-errors .grid"


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


def header(page: Chrome, name: str) -> WebElement:
    return find(page, SUMMARY).find_element(By.XPATH, f".//thead//button[text()='{name}']")


def column(page: Chrome, name: str, selector: str = SUMMARY) -> list[str]:
    script = """
        const table = document.querySelector(arguments[0]);
        const names = [...table.querySelectorAll('thead button')].map((b) => b.textContent);
        const place = names.indexOf(arguments[1]);
        return [...table.querySelectorAll('tbody tr')].map((row) => row.cells[place].textContent);
    """
    found: list[str] = page.execute_script(script, selector, name)
    return found


def names(page: Chrome) -> list[str]:
    found = find(page, SUMMARY).find_elements(By.CSS_SELECTOR, "thead button")
    return [button.text for button in found]


def sort_of(page: Chrome, name: str) -> str | None:
    return header(page, name).find_element(By.XPATH, "..").get_attribute("aria-sort")


def count(page: Chrome) -> str:
    return find(page, f"{SUMMARY} output").text


def test_the_first_rows_are_drawn_and_more_on_demand(page: Chrome) -> None:
    more = find(page, f"{SUMMARY} .more")
    for shown, text in ((100, "show 100 more of 150"), (200, "show 50 more of 50")):
        assert len(column(page, "n")) == shown
        assert more.text == text
        more.click()
    assert len(column(page, "n")) == ROWS
    assert not more.is_displayed()


def test_numbers_sort_as_numbers_both_ways_and_blanks_come_last(page: Chrome) -> None:
    while (more := find(page, f"{SUMMARY} .more")).is_displayed():
        more.click()
    header(page, "q90").click()
    for sign, name in ((1, "ascending"), (-1, "descending")):
        assert sort_of(page, "q90") == name
        while (more := find(page, f"{SUMMARY} .more")).is_displayed():
            more.click()
        texts = column(page, "q90")
        values = [float(text) for text in texts[:-1]]
        assert values == sorted(values, reverse=sign < 0)
        assert len(set(values)) == ROWS - 1
        assert texts[-1] == ""
        header(page, "q90").click()
    header(page, "estimator").click()
    assert sort_of(page, "q90") is None
    assert set(column(page, "estimator")[:80]) == {"all"}


def test_numbers_have_four_digits_and_infinity_its_sign(page: Chrome) -> None:
    assert column(page, "q90")[:6] == ["0.3333", "0.6667", "1", "1.333", "1.667", ""]
    assert column(page, "n")[5:8] == ["100000", "1e6", "1e7"]
    assert "rmse" not in names(page)  # until the box shows all columns
    header(page, "n").click()
    header(page, "n").click()
    find(page, f"{SUMMARY} input[type=checkbox]").click()
    assert names(page) == [name for name in summary_rows(1)[0] if name != "rho"]
    assert sort_of(page, "n") == "descending"
    find(page, f"{SUMMARY} input[type=search]").send_keys("∞")
    assert column(page, "rmse") == ["∞"]
    cells = find(page, SUMMARY).find_elements(By.CSS_SELECTOR, "td[title]")
    titles = {cell.text: cell.get_attribute("title") for cell in cells}
    assert titles == {"1e6": "1000000", "2.333": "2.333333"}


def test_filters_count_what_they_leave(page: Chrome) -> None:
    assert count(page) == f"{ROWS} of {ROWS} rows"
    box = find(page, f"{SUMMARY} input[type=search]")
    box.send_keys("MINIMAX c2")
    kept = [i for i in range(ROWS) if i % 3 == 0 and i % 4 == 2]
    assert count(page) == f"{len(kept)} of {ROWS} rows"
    assert set(column(page, "distribution")) == {"two_point_c2"}
    box.clear()
    box.send_keys("nothing like that")
    assert count(page) == f"0 of {ROWS} rows"
    assert column(page, "n") == []
    box.clear()
    box.send_keys(" ", Keys.BACKSPACE)
    label = find(page, SUMMARY).find_element(By.XPATH, ".//label[starts-with(., 'estimator')]")
    Select(label.find_element(By.TAG_NAME, "select")).select_by_visible_text("rate")
    assert count(page) == f"{len(range(1, ROWS, 3))} of {ROWS} rows"
    assert set(column(page, "estimator")) == {"rate"}


def test_the_keyboard_reaches_a_header_and_sorts(page: Chrome) -> None:
    body = find(page, "body")
    body.send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert skip.text == "Skip to the results"
    assert skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"
    find(page, f"{SUMMARY} input[type=search]").click()
    for _ in range(30):
        page.switch_to.active_element.send_keys(Keys.TAB)
        active = page.switch_to.active_element
        if active.text == "n" and active.tag_name == "button":
            break
    assert active == header(page, "n")
    outline = active.value_of_css_property("outline-style")
    assert outline == "solid"
    active.send_keys(Keys.ENTER)
    assert sort_of(page, "n") == "ascending"
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert sort_of(page, "n") == "descending"
    assert page.switch_to.active_element == header(page, "n")


def test_all_that_can_be_operated_has_a_name(page: Chrome) -> None:
    for element in page.find_elements(By.CSS_SELECTOR, "input, select, button, [role=region], svg"):
        if element.is_displayed():
            assert element.accessible_name, element.get_attribute("outerHTML")


def test_hostile_labels_are_shown_and_do_nothing(browser: Chrome, tmp_path: Path) -> None:
    manifest: dict[str, Any] = MANIFEST | {"sweep": HOSTILE, "command": HOSTILE}
    folder = write_run(tmp_path / "run", rows=12, manifest=manifest, label=HOSTILE)
    browser.get(write_page([folder], tmp_path / "page.html").as_uri())
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    shown = column(browser, "estimator")
    assert shown[0] == f"minimax{HOSTILE}"
    options = find(browser, SUMMARY).find_elements(By.TAG_NAME, "option")
    # the browser folds the white space of an option's text
    assert any("window.hacked = 1" in option.text for option in options)
    assert browser.execute_script("return document.querySelector('h1').textContent") == HOSTILE
    assert browser.find_elements(By.CSS_SELECTOR, "img:not([src^='data:'])") == []
    find(browser, f"{SUMMARY} input[type=search]").send_keys("<script>")
    assert count(browser) == "12 of 12 rows"
    assert logged(browser) == []


def test_the_policy_stops_scripts_that_are_not_ours(browser: Chrome, plain: str) -> None:
    browser.get(plain)
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
        "document.body.append(s)"
    )
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert "Content Security Policy" in str(logged(browser))


def emulate(page: Chrome, scheme: str, media: str = "screen") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def paper(page: Chrome) -> int:
    colour = find(page, "body").value_of_css_property("background-color")
    return sum(int(share) for share in colour.partition("(")[2].rstrip(")").split(",")[:3])


def test_dark_where_it_is_asked_for_but_never_on_paper(page: Chrome) -> None:
    emulate(page, "dark")
    assert paper(page) < 3 * 60
    assert page.execute_script("return document.querySelector('figure img').naturalWidth") > 0
    image = find(page, "figure img").value_of_css_property("background-color")
    assert "255, 255, 255" in image
    emulate(page, "light")
    assert paper(page) > 3 * 240
    emulate(page, "dark", media="print")
    assert paper(page) > 3 * 240
    assert not find(page, f"{SUMMARY} .tools").is_displayed()
    emulate(page, "light")


@pytest.mark.parametrize("width", [390, 1300])
def test_wide_tables_scroll_in_their_own_box(page: Chrome, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        find(page, f"{SUMMARY} input[type=checkbox]").click()
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        box = f"document.querySelector('{SUMMARY} .scroll')"
        wider = page.execute_script(f"return {box}.scrollWidth > {box}.clientWidth")
        assert wider or width > 390
        page.execute_script(f"{box}.scrollTop = 500")
        top = page.execute_script(
            f"return {box}.querySelector('th').getBoundingClientRect().top"
            f" - {box}.getBoundingClientRect().top"
        )
        assert abs(top) <= 2  # the header stays
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_without_scripts_the_file_is_named(browser: Chrome, plain: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(plain)
        text = find(browser, f"{SUMMARY} noscript").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert text == "This table needs JavaScript. Its numbers are in summary.csv."
