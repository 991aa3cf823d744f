"""The built pages: what Sphinx says, links, and what a browser makes of them from disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from dpbench.benchmark.problems import MEAN_BENCHMARK, read_benchmark
from dpbench.benchmark.table import Scores, archive_path
from dpbench.cli.main import run

ROOT = Path(__file__).parents[2]
# Of texts that are seen, those that stand out from what is behind them by less than 4.5 to 1, the
# ratio that WCAG 2 asks for; 3 to 1 of large ones.
FAINT = """
    const parsed = (text) => {
      const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
      const scale = text.startsWith('color(') ? 1 : 255;
      return [r / scale, g / scale, b / scale, a];
    };
    const light = ([r, g, b]) => [r, g, b]
      .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
      .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
    const behind = (one) => {
      if (one === null) return [1, 1, 1];
      const own = parsed(getComputedStyle(one).backgroundColor);
      return own[3] === 1 ? own : over(own, behind(one.parentElement));
    };
    const found = [];
    let seen = 0;
    for (const one of document.body.querySelectorAll('*')) {
      const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!own || one.closest('svg, script, style, .visually-hidden') || !one.checkVisibility({
        opacityProperty: true, visibilityProperty: true })) continue;
      seen += 1;
      const style = getComputedStyle(one), back = behind(one);
      const [a, b] = [light(over(parsed(style.color), back)), light(back)].sort((x, y) => y - x);
      const large = parseFloat(style.fontSize) >= 24 || (
        parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
      if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5))
        found.push(`${one.textContent.trim().slice(0, 40)}: ${style.color} on ${back}`);
    }
    return [seen, [...new Set(found)]];
"""


class Page(HTMLParser):
    """The links of a page, and the places in it that links may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors = set[str](), {""}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


def broken(site: Path) -> list[str]:
    """Links of all pages to what is not there; those to other hosts are not followed."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.is_file() or (known and unquote(parts.fragment) not in known.anchors):
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id=x><a href="b.html#y"><a href="#x"><a href="http://c">')
    (tmp_path / "b.html").write_text('<img src="none.png"><a href="a.html#z"><a href="a.html">')
    assert sorted(broken(tmp_path)) == [
        "a.html: b.html#y",
        "b.html: a.html#z",
        "b.html: none.png",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["archive=none.parquet"], "archive: 'none.parquet': no such file"),
        (["mine.parquet"], "site: 'mine.parquet': one word too many; expected: site"),
        (["folder=x"], "folder: no such key of site; choose from archive, out"),
        ([f"archive={__file__}"], f"'{__file__}': no scores of a benchmark, or damaged"),
    ],
)
def test_what_cannot_be_used(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbench.site.command.find_spec", lambda _: "")
    assert run(["site", *words]) == 2
    assert capsys.readouterr().err.startswith(f"dpbench: {told}")


def test_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbench.site.command.find_spec", lambda _: None)
    assert run(["site"]) == 2
    assert capsys.readouterr().err == (
        "dpbench: site: the extra docs is not installed: pip install -e '.[docs]'\n"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages; a warning of Sphinx is an error."""
    for name in ("sphinx", "numpydoc", "myst_parser", "furo"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    assert run(["site", f"out={folder}"]) == 0
    return folder


@pytest.mark.slow
def test_no_link_is_broken_and_nothing_is_fetched(site: Path) -> None:
    assert broken(site) == []
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert 'src="http' not in text
        assert '<link rel="stylesheet" type="text/css" href="http' not in text


@pytest.mark.slow
def test_the_front_page_says_what_the_archive_does(site: Path) -> None:
    """Shares and the best of each problem, recomputed from the file and today's bounds."""
    benchmark = read_benchmark()
    bounds = {one.id: one.bound.value for one in benchmark.problems}
    rows = Scores.read(archive_path(MEAN_BENCHMARK), benchmark).rows.copy()
    rows["score"] *= rows["bound"] / rows["problem"].map(bounds)
    text = (site / "benchmark" / "index.html").read_text("utf-8")
    assert "yours" not in text
    _, _, text = text.partition('<section id="entries">')
    entries, _, listed = text.partition('<section id="problems">')

    def cells(table: str, page: str) -> list[str]:
        row = table.partition(f'href="{page}.html"')[2].partition("</tr>")[0]
        return [
            re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)
        ]

    for name, own in rows.groupby("entry"):
        shown = cells(entries, f"entries/{name}")
        shares = [f"{(own['score'] <= x).sum() / len(bounds):.0%}" for x in (1.5, 2, 5, 10)]
        assert shown[1:6] == [str(len(own)), *shares]
    for name, bound in bounds.items():
        best = rows[rows["problem"] == name].sort_values("score", kind="stable").iloc[0]
        shown = cells(listed, f"problems/{name}")
        assert shown[3] == f"{bound:.3g}"
        assert shown[5:] == [f"{best['score']:.3g}", best["entry"]]


# Presses the heading of a column of the leaderboard's first table; tells what the table then has.
PRESS = """
    const table = document.querySelector('table.sortable');
    const heads = [...table.tHead.rows[0].cells];
    const place = heads.findIndex((head) => head.textContent.trim() === arguments[0]);
    const button = heads[place].querySelector('button');
    button.focus();
    return [button === document.activeElement, place];
"""
COLUMN = """
    const table = document.querySelector('table.sortable');
    return [[...table.tBodies[0].rows].map((row) => row.cells[arguments[0]].textContent.trim()),
            table.tHead.rows[0].cells[arguments[0]].ariaSort];
"""


@pytest.mark.slow
def test_the_leaderboard_is_sorted_by_keys(pages: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = pages("benchmark/index.html")
    for name, numbers in (("problems", True), ("class", False)):
        for word, sign in (("ascending", 1), ("descending", -1)):
            focused, place = browser.execute_script(PRESS, name)
            assert focused
            browser.switch_to.active_element.send_keys(Keys.ENTER)
            cells, aria = browser.execute_script(COLUMN, place)
            assert aria == word
            assert cells == sorted(cells, key=float if numbers else str.lower, reverse=sign < 0)


@pytest.fixture
def pages(site: Path, browser: Any) -> Iterator[Any]:
    """A function that opens a page, at a width, in light or dark; nothing may be logged."""

    def opened(page: str, width: int = 1400, scheme: str = "light") -> Any:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme_is = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme_is)
        browser.get(f"{site.as_uri()}/{page}")
        return browser

    browser.get_log("browser")  # what other pages have left
    yield opened
    assert browser.get_log("browser") == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("karwa_vadhan_mean", "benchmark/entries/karwa_vadhan_mean.html"),
        ("ClippedMean", "api/dpbench.estimators.html#dpbench.estimators.ClippedMean"),
        ("gauss-n100-pure1", "benchmark/problems/gauss-n100-pure1.html"),
        ("fingerprinting", "derivations/theory.bounds.fingerprinting.html"),
    ],
)
def test_search_finds_from_disk(site: Path, pages: Any, words: str, page: str) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    browser = pages("index.html")
    field = browser.find_element("css selector", "input[name=q]")
    field.send_keys(words)
    field.submit()
    links = "return [...document.querySelectorAll('#search-results li a')].map((a) => a.href)"
    found = WebDriverWait(browser, 10).until(lambda one: one.execute_script(links))
    # what is to be highlighted stands between a page and the place in it
    assert f"{site.as_uri()}/{page}" in {re.sub(r"\?[^#]*", "", link) for link in found}


@pytest.mark.slow
def test_pages_fit_a_telephone(site: Path, pages: Any) -> None:
    """Tables, figures and formulas scroll by themselves; the page does not."""
    some = [*site.glob("*.html"), *site.glob("reference/*.html"), *site.glob("derivations/*s.html")]
    some += [*site.glob("benchmark/*.html"), *site.glob("benchmark/*/*mean.html")]
    for path in [*some, *site.glob("benchmark/*/moments2*1.html"), *site.glob("api/*s.html")]:
        page = str(path.relative_to(site))
        room = "return [document.documentElement.scrollWidth, innerWidth]"
        needed, given = pages(page, 400).execute_script(room)
        assert needed <= given, page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind(site: Path, pages: Any, scheme: str) -> None:
    for page in (
        "index.html", "tutorial.html", "benchmark/index.html", "benchmark/leaderboard.html",
        "reference/estimators.html",
        "api/dpbench.html", "derivations/theory.bounds.numbers.html", "limits.html", "search.html",
    ):  # fmt: skip
        seen, faint = pages(page, 1400, scheme).execute_script(FAINT)
        assert seen > 10
        assert faint == [], page


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "gallery.html", "benchmark/index.html"])
def test_figures_tell_their_numbers(pages: Any, page: str) -> None:
    """The library is a file of the site, which pages with figures alone load."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser = pages(page)
    browser.execute_script("document.querySelector('.interactive').scrollIntoView()")
    drawn = "return document.querySelectorAll('.live .panel svg .mark-line path').length"
    WebDriverWait(browser, 20).until(lambda one: one.execute_script(drawn))
    assert not browser.find_element("css selector", ".interactive > :first-child").is_displayed()
    assert "vega.js" not in pages("tutorial.html").page_source
