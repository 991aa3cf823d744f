"""Real columns: the numbers of their page, drawn and fixed datasets, moved records."""

from __future__ import annotations

import hashlib
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpbench.distributions import Distribution, RealColumn
from dpbench.distributions.real_column import FOLDER, MIN_RECORDS_PER_VALUE, column_names
from dpbench.package import PACKAGE
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample
from dpbench.seeds import canonical
from tests.support import assert_frequencies, assert_standard, rng

PAGE = (PACKAGE / "data" / "README.md").read_text("utf-8")
NAMES = column_names()


def rows(name: str) -> tuple[np.ndarray, list[tuple[Fraction, int]]]:
    """Return all records of a column, and its exact values with counts, read by another route."""
    lines = (FOLDER / f"{name}.csv").read_text("utf-8").splitlines()
    assert lines[0] == "value,count"
    table = [(Fraction(float(a)), int(b)) for a, b in (line.split(",") for line in lines[1:])]
    return np.repeat([float(a) for a, _ in table], [b for _, b in table]), table


def shown(name: str) -> list[float]:
    """Return the numbers that the page of the columns shows in its first table."""
    cells = re.search(rf"^\| `{name}` \| ([\d,]+ .*) \|$", PAGE, re.MULTILINE)
    assert cells
    return [float(x.replace(",", "").replace("∞", "inf")) for x in cells[1].split(" | ")]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_states_the_numbers_of_the_files(name: str) -> None:
    x, table = rows(name)
    values = [a for a, _ in table]
    assert values == sorted(set(values))
    size = len(x)
    mean, sd = x.mean(), x.std()
    largest = np.sort(x)[::-1][: size // 100 + 1]
    logs = np.log(largest[:-1] / largest[-1]).mean()
    powers = [np.mean((x - mean) ** k) / sd**k for k in (3, 4)]
    unit = next(u for e in range(-3, 9) for u in (10.0**e, 2 * 10.0**e, 5 * 10.0**e) if u >= sd)
    found = [size, len(table), mean, sd, *powers, 1 / logs if logs else math.inf, unit]
    assert shown(name) == pytest.approx(found, rel=5e-3)
    digest = hashlib.sha256((FOLDER / f"{name}.csv").read_bytes()).hexdigest()
    assert digest[:16] in PAGE
    exact = sum((a * b for a, b in table), Fraction(0)) / size
    law = RealColumn(column=name)
    assert law.mean == pytest.approx(float(exact), rel=1e-14)
    assert law.moment(2) == pytest.approx(sd**2, rel=1e-11)


def test_the_files_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 400_000
    assert 8 <= len(NAMES) <= 12


def test_records_follow_the_column() -> None:
    """Draw samples of records and samples of counts, of the moved column."""
    law = RealColumn(column="flight_distance", location=5.0, scale=-0.001)
    x, _ = rows("flight_distance")
    values, counts = np.unique(5.0 + -0.001 * x, return_counts=True)
    few, many = law.sample(rng(1), 40, 500), law.sample(rng(2), 6, 214 * MIN_RECORDS_PER_VALUE)
    assert isinstance(few, DenseSample)
    assert isinstance(many, CountedSample)
    found = np.searchsorted(values, few.values).ravel()
    assert_frequencies(np.bincount(found, minlength=values.size), counts / counts.sum())
    assert many.atoms.tolist() == values.tolist()
    assert_frequencies(many.counts.sum(axis=0), counts / counts.sum())
    assert_standard((few.mean() - law.mean) / math.sqrt(law.variance / 500))
    assert law.mean == pytest.approx(5 - 0.001 * RealColumn(column="flight_distance").mean)


@pytest.mark.parametrize(
    ("name", "n"), [("wind_speed", 300), ("charging_time", 1000), ("flight_distance", 14_000)]
)
def test_a_fixed_dataset_repeats_its_records(name: str, n: int) -> None:
    law = RealColumn(column=name, fixed=True)
    one, two = law.sample(rng(1), 3, n), law.sample(rng(2), 2, n)
    records = np.stack(
        [np.sort(s.records(i, rng(i))) for s, t in ((one, 3), (two, 2)) for i in range(t)]
    )
    assert (records == records[0]).all()
    assert law.target_of(one) == pytest.approx(records[0].mean(), rel=1e-14)
    assert law.target_of(one) != law.mean
    x, _ = rows(name)
    values, counts = np.unique(x, return_counts=True)
    held = np.bincount(np.searchsorted(values, records[0]), minlength=values.size)
    assert (held <= counts).all()  # without replacement
    if isinstance(one, DenseSample):  # the order is drawn, as buckets of records need it
        assert not np.array_equal(one.values[0], one.values[1])


def test_a_fixed_dataset_of_all_rows_is_the_column_and_a_larger_one_repeats_it() -> None:
    law = RealColumn(column="charging_time", fixed=True)
    x, _ = rows("charging_time")
    whole, twice = (law.sample(rng(), 1, n) for n in (x.size, 2 * x.size + 5))
    assert np.array_equal(np.sort(whole.records(0, rng())), x)
    assert law.target_of(whole) == pytest.approx(law.mean, rel=1e-15)
    counts = np.unique(twice.records(0, rng()), return_counts=True)[1]
    assert (counts >= 2 * np.unique(x, return_counts=True)[1]).all()


def test_moving_by_powers_of_two_keeps_the_fixed_records() -> None:
    still, moved = (RealColumn(column="earnings", fixed=True, scale=s) for s in (1.0, -0.25))
    one, two = (np.sort(law.sample(rng(), 1, 50).records(0, rng())) for law in (still, moved))
    assert np.array_equal(two, np.sort(-0.25 * one))


def test_the_name_of_a_stream_holds_the_values() -> None:
    text = canonical(RealColumn(column="wind_speed"))
    assert RealColumn(column="wind_speed").content in text


@pytest.mark.parametrize("theta", [-2.0, -1.0, 1.5])
@pytest.mark.parametrize("name", NAMES)
def test_a_tilt_weighs_values_by_their_rank(name: str, theta: float) -> None:
    """The mean by a list of all rows; the variance grows by e^(|theta|/2) at most, see there."""
    x, _ = rows(name)
    rank = (np.searchsorted(x, x, "left") + np.searchsorted(x, x, "right")) / (2 * x.size)
    weight = np.exp(theta * rank) / np.exp(theta * rank).sum()
    still, law = (RealColumn(column=name, tilt=tilt) for tilt in (0.0, theta))
    assert law.mean == pytest.approx((weight * x).sum(), rel=1e-9)
    assert law.variance == pytest.approx((weight * (x - law.mean) ** 2).sum(), rel=1e-9)
    assert law.variance <= np.exp(abs(theta) / 2) * still.variance
    assert np.sign(law.mean - still.mean) == np.sign(theta)


@pytest.mark.parametrize(("name", "n"), [("wind_speed", 200), ("earnings", 200)])
def test_records_of_a_tilted_column(name: str, n: int) -> None:
    """5 standard errors, as counts and as a list: a false alarm has probability 6e-7."""
    law = RealColumn(column=name, tilt=1.5, scale=-2.0, location=1.0)
    means = law.sample(rng(), 500, n).mean()
    assert abs(means.mean() - law.mean) < 5 * np.sqrt(law.variance / (500 * n))


def test_memory_of_a_trial() -> None:
    wind, spending = RealColumn(column="wind_speed"), RealColumn(column="medical_spending")
    assert (wind.counted, wind.held(10**9)) == (True, 1.0)
    assert (spending.counted, spending.held(1000)) == (False, 1000.0)
    assert spending.held(10**6) < 10**6
    assert isinstance(spending.sample(rng(), 2, 10**6), CountedSample)


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"column": "wind"}, "x.column: 'wind': no such column; did you mean 'wind_speed'? choose"),
        (
            {"path": "a.csv"},
            "x.path: 'a.csv': no such key; take kind: empirical, with path and col",
        ),
        ({"column": "pay", "path": "a.csv"}, "x.path: 'a.csv': no such key; take kind: empirical"),
        ({"column": "pay"}, "x.column: 'pay': no such column; choose from arrival_delay"),
        (
            {"column": "wind_speed", "tilt": 1, "fixed": True},
            "x: a fixed dataset has no tilt; give fixed: false, or no tilt",
        ),
        ({"column": "wind_speed", "scale": 0}, "x.scale: 0: a factor of 0 makes all records equal"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Distribution.build({"kind": "real_column", **parameters}, "x")
    assert str(caught.value).startswith(line)
    if parameters.get("column") == "wind":
        assert "take kind: empirical" in str(caught.value)
        assert all(name in str(caught.value) for name in NAMES)
