"""The page of a plan in a browser, against the planner."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpbench.distributions import Distribution
from dpbench.planner import slider_page
from dpbench.planner.page import ReleasePlan
from dpbench.planner.question import plan
from tests.report.conftest import Page

if TYPE_CHECKING:  # the fixture `browser` loads them, in the process that has these tests
    from selenium.webdriver import Chrome

LOG_NORMAL = {"kind": "log_normal", "scale": 50, "sigma": 0.7}
STUDENT = {"kind": "student_t", "tail_index": 3}
BOUNDS = {"lower": 0, "upper": 300}
QUESTIONS: dict[str, dict[str, Any]] = {
    "skewed": {"n": 1000, "epsilon": 1, **BOUNDS, "law": LOG_NORMAL},
    "normal": {"n": 500, "rho": 0.1, "law": {"kind": "gaussian", "location": 3}},
    "heavy": {"n": 2000, "mu": 0.5, "law": {"kind": "pareto", "tail_index": 2.5}},
    "binary": {
        "n": 300,
        "epsilon": 0.5,
        "lower": 0,
        "upper": 1,
        "law": {"kind": "bernoulli", "p": 0.2},
    },
    "two noises": {"n": 4000, "epsilon": 0.5, "delta": 1e-6, "law": STUDENT},
    "late gaussian": {"n": 900, "epsilon": 0.4, "delta": 0.1, "law": "gaussian"},
    "two points": {
        "n": 600,
        "epsilon": 1,
        "law": {"kind": "two_point", "p": 0.02, "k": 2, "sign": -1},
    },
    "uniform": {"n": 200, "epsilon": 0.5, "law": {"kind": "beta", "a": 1, "b": 2}},
    "any law": {"n": 1000, "epsilon": 1, "lower": 0, "upper": 100},
    "moment": {"n": 1000, "epsilon": 1, "lower": 0, "upper": 20, "k": 2, "scale": 20},
    "third moment": {"n": 5000, "rho": 0.05, "lower": -5, "upper": 5, "k": 3, "scale": 2},
}
MOVES: dict[str, list[tuple[str, float, float]]] = {  # parameters of distributions and their ranges
    "log_normal": [("location", -3, 3), ("scale", 45, 55), ("sigma", 0.6, 0.8)],
    "gaussian": [("location", 2, 4), ("scale", 0.8, 1.2)],
    "pareto": [("location", 0, 1), ("scale", 0.5, 2), ("tail_index", 2.2, 4)],
    "student_t": [("location", -0.1, 0.1), ("scale", 0.9, 1.1), ("tail_index", 2.5, 6)],
    "bernoulli": [("p", 0.05, 0.5)],
    "two_point": [("p", 0.005, 0.1), ("k", 2, 4), ("location", -1, 1)],
    "beta": [("location", -0.1, 0.1), ("scale", 0.8, 1.2)],
}
SET = """
    for (const [key, value] of Object.entries(arguments[0])) {
      const box = document.querySelector(`#${key}`);
      box.value = value;
      box.dispatchEvent(new Event('input'));
    }
    const row = (name) => Object.fromEntries([...document.querySelectorAll(`#${name} td`)].map(
      (cell) => [cell.className.split(' ').at(-1), cell.dataset.value]));
    return {yours: row('yours'), best: row('best'), wrong: document.querySelector('#wrong').value};
"""


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Iterator[Chrome]:
    """The page of the first question; nothing may be logged to the console."""
    browser.get_log("browser")
    open_page(browser, plan(**QUESTIONS["skewed"]), tmp_path)
    yield browser
    assert browser.get_log("browser") == []


def open_page(browser: Chrome, planned: ReleasePlan, folder: Path) -> None:
    browser.get(slider_page.write(planned, "the printed plan", folder).as_uri())


def found(browser: Chrome, selector: str) -> str:
    """The value that the page computes a little later than the others."""
    from selenium.webdriver.support.wait import WebDriverWait

    read = f"return document.querySelector('{selector}').dataset.value"
    return str(WebDriverWait(browser, 60).until(lambda _: browser.execute_script(read)))


def enter(browser: Chrome, values: Mapping[str, float]) -> dict[str, Any]:
    """What the page says once it has the best clip for some values."""
    if (wrong := browser.execute_script(SET, values)["wrong"]) == "":
        found(browser, "#best .clip")
    return {**browser.execute_script(SET, {}), "wrong": wrong}


def change_parameters(question: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
    """Change delta and the parameters of the distribution, and return the new values."""
    changed = dict[str, float]()
    if "delta" in question:
        question["delta"] = changed["delta"] = float(
            f"{question['delta'] * 10 ** rng.uniform(0, 0.5):.3g}"
        )
    law = question.get("law")
    if law is None:
        return changed
    made = Distribution.build({"kind": law} if isinstance(law, str) else law, "law")
    for key, low, high in MOVES[made.kind_name()]:
        changed[key] = float(f"{rng.uniform(low, high):.3g}")
    kept = {"kind": made.kind_name(), **(law if isinstance(law, dict) else {})}
    question["law"] = kept | {key: x for key, x in changed.items() if key != "delta"}
    return changed


@pytest.mark.parametrize("settings", [1, pytest.param(23, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(q, marks=pytest.mark.slow) if q == "heavy" else q for q in QUESTIONS],
)
def test_the_browser_computes_what_the_planner_does(
    name: str, settings: int, browser: Chrome, tmp_path: Path
) -> None:
    """To three digits, at random n, budgets and clips: 10 settings, or 264 with --slow.

    A sampling error is one of 2,048 points on 18 standard deviations or more: where its level is
    reached, a rounding error takes the next point, which is up to a hundredth away.
    """
    next_points = 0
    rng = np.random.default_rng(list(QUESTIONS).index(name))
    planned = plan(**QUESTIONS[name])
    open_page(browser, planned, tmp_path)
    key, amount = next(iter(planned.budget.named_amounts.items()))
    for i in range(settings):
        n = round(planned.n * 30 ** rng.uniform(-1, 1))
        value = float(f"{amount * 5 ** rng.uniform(-1, 1):.4g}")
        question = QUESTIONS[name] | {"n": n, key: value}
        others = change_parameters(question, rng)
        low, high = planned.clip
        low, high = (round(end + side * rng.uniform(-0.2, 0.05) * (high - low), 4)
                     for end, side in ((low, 1), (high, -1)))  # fmt: skip
        if name == "any law":
            question |= {"lower": low, "upper": high}
        other = plan(**question)
        alpha = float(f"{other.expected.q90 * 3 ** rng.uniform(-0.7, 0.7):.3g}")
        values = {"n": n, "amount": value, "lower": low, "upper": high}
        shown = enter(browser, values | others | {"alpha": alpha})
        assert shown["wrong"] == ""
        best = json.loads(shown["best"]["clip"])
        width = other.clip[1] - other.clip[0]
        # the error is flat at the best clip of a known law, so that two searches end apart
        slack = 1e-6 if "law" not in question else 0.015
        assert best == pytest.approx(other.clip, abs=slack * width)
        clips = {"yours": other.error(low, high), "best": other.error(*best)}
        for row, error in clips.items():
            for part in ("q90", "sampling", "bias", "noise"):
                number, want = float(shown[row][part]), getattr(error, part)
                small = 1e-6 * error.q90 if np.isfinite(error.q90) else None
                is_close = number == pytest.approx(want, rel=5e-4, abs=small)
                if part == "sampling" and not is_close:
                    next_points += 1
                    is_close = number == pytest.approx(want, rel=0.01)
                assert is_close, (row, part, number, want, values)
        # Ends are rounded outwards, so that one of the two may be a third digit wider.
        least = other.expected.q90_without_cancellation
        assert clips["best"].q90_without_cancellation == pytest.approx(least, rel=2e-3)
        assert clips["best"].q90 == pytest.approx(other.expected.q90, rel=4e-3)
        if i == 0:
            assert float(found(browser, "#records")) == pytest.approx(
                other.records(alpha), rel=2e-3, abs=1
            )
    assert next_points <= settings // 20
    assert browser.get_log("browser") == []


def test_keyboard_sliders_and_wrong_values(page: Chrome) -> None:
    from selenium.webdriver import Keys

    slider = page.find_element("id", "n-slider")
    assert slider.accessible_name == "records n, slider"
    slider.send_keys(Keys.ARROW_RIGHT)
    assert page.find_element("id", "n").get_attribute("value") == "1010"
    for key in ("n", "amount", "lower", "upper", "alpha"):
        assert page.find_element("id", key).accessible_name
    enter(page, {})
    page.find_element("id", "use-best").send_keys(Keys.ENTER)
    shown = enter(page, {})
    assert shown["yours"] == shown["best"]
    for key, value in (("n", 1.5), ("amount", 0), ("upper", -1), ("alpha", 0)):
        before = page.find_element("id", key).get_attribute("value")
        assert enter(page, {key: value})["wrong"] != ""
        assert enter(page, {key: before})["wrong"] == ""


def test_a_narrow_window_and_no_scripts(page: Chrome) -> None:
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.refresh()
        text = page.find_element("tag name", "body").text
        assert "the printed plan" in text
        assert not page.find_element("id", "sliders").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    try:
        page.refresh()
        assert page.find_element("id", "sliders").is_displayed()
        assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_private_number_of_records_has_no_sliders(tmp_path: Path) -> None:
    planned = plan(**QUESTIONS["skewed"], neighbours="add_remove")
    path = slider_page.write(planned, "a < b & c", tmp_path)
    page = Page(path)
    assert page.texts("script") == []
    assert page.texts("code") == ["a < b & c"]
    assert "for a public number of records" in " ".join(page.texts("p"))
    for name in ("heavy", "moment"):
        path = slider_page.write(plan(**QUESTIONS[name]), "", tmp_path)
        assert path.stat().st_size < 500_000
        assert not {"href", "src"} & {key for _, at, _ in Page(path).elements for key in at} - {
            "href"
        }
