"""A data file as the population: its moments, its samples, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import math
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import BIG, FALSE_ALARM, assert_frequencies

import dpbench
from dpbench.distributions import Distribution, Empirical
from dpbench.distributions.empirical import MOST_ATOMS
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample

WHERE = "sweep.families.x"
SKEWED = [3.5, -1.0, 3.5, 0.1, 7.0, 3.5, 0.1, 1000.25]
DATA = Path(dpbench.__file__).parent / "data"
HEIGHTS = DATA / "galton_heights.csv"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def law(values: Any, path: str = "population.csv") -> Empirical:
    """The law of a file written for it."""
    frame = pd.DataFrame({"other": ["a, b"] * len(values), "x": values})
    if path.endswith(".parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return Empirical(path=path, column="x")


def refusal(path: str, column: str = "x") -> str:
    """The one line with which a file is refused in a configuration."""
    with pytest.raises(ConfigError) as caught:
        Distribution.build({"kind": "empirical", "path": path, "column": column}, WHERE)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


def naive_moments(values: list[float], k: float) -> tuple[float, float]:
    """Mean and E|X - mean|^k, about the mean in exact arithmetic."""
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    powers = [float(abs(v - mean)) ** k for v in exact]
    return float(mean), math.fsum(powers) / len(powers)


POPULATIONS = {
    "skewed": SKEWED,
    "far from 0": [1e15 + v for v in (0, 1, 2, 2, 5, 0.5)],
    "tiny and large": [1e-9, 1e9, -1e9, 3e-9, 1e-9],
    "many values": np.random.default_rng(1).standard_t(2.5, 5000).tolist(),
    "many, far from 0": (1e10 + np.random.default_rng(2).exponential(size=5000)).tolist(),
}


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("k", [2, 2.5, 6])
def test_mean_and_moments_against_a_naive_loop(name: str, k: float) -> None:
    values = POPULATIONS[name]
    found = law(values)
    mean, moment = naive_moments(values, k)
    spread = math.sqrt(naive_moments(values, 2)[1])
    assert found.mean == pytest.approx(mean, rel=3e-16, abs=1e-15 * spread)
    assert found.target == found.mean
    assert found.moment(k) == pytest.approx(moment, rel=1e-14, abs=0)
    assert found.variance == found.moment(2)


def test_records_are_counted_up_to_a_number_of_values() -> None:
    rng = np.random.default_rng(0)
    few, many = (law([*range(m), 0, 0]) for m in (MOST_ATOMS, MOST_ATOMS + 1))
    assert few.counted
    assert not many.counted
    assert isinstance(few.sample(rng, 2, 10), CountedSample)
    assert isinstance(many.sample(rng, 2, 10), DenseSample)
    assert not Distribution.counted


def test_counted_records_follow_the_population() -> None:
    values, trials, n = [0.0, 1.0, 1.0, 1.0, 5.0, 5.0], 40_000, 6
    sample = law(values).sample(np.random.default_rng(3), trials, n)
    assert isinstance(sample, CountedSample)
    assert sample.atoms.tolist() == [0.0, 1.0, 5.0]
    assert (sample.trials, sample.n) == (trials, n)
    tables, found = np.unique(sample.counts, axis=0, return_counts=True)
    pmf = np.asarray(stats.multinomial(n, [1 / 6, 1 / 2, 1 / 3]).pmf(tables))
    assert_frequencies([*found, 0], [*pmf, 1 - pmf.sum()])  # none of the tables not seen


def test_dense_records_follow_the_population() -> None:
    values = [*range(400), *range(100), 7, 7, 7]
    trials, n = 50, 20_000
    found = law(values)
    sample = found.sample(np.random.default_rng(4), trials, n)
    assert isinstance(sample, DenseSample)
    assert (sample.trials, sample.n) == (trials, n)
    cells = np.bincount(sample.values.astype(int).ravel(), minlength=400)
    assert_frequencies(cells, np.bincount(values) / len(values))
    # Test of the trials' independence, by the variance of their means, likewise.
    z = (sample.mean() - found.mean) / math.sqrt(found.variance / n)
    assert stats.chi2.sf((z**2).sum(), trials) > FALSE_ALARM
    assert stats.chi2.cdf((z**2).sum(), trials) > FALSE_ALARM


def test_counts_at_large_n() -> None:
    values = np.repeat(np.arange(MOST_ATOMS) ** 2, np.arange(MOST_ATOMS) % 7 + 1)
    found, trials = law(values), 2000
    sample = found.sample(np.random.default_rng(5), trials, BIG)
    assert isinstance(sample, CountedSample)
    assert sample.counts.dtype == np.int64
    assert np.all(sample.counts.sum(axis=1) == BIG)
    p = np.unique(values, return_counts=True)[1] / len(values)
    z = (sample.counts - BIG * p) / np.sqrt(BIG * p * (1 - p))
    means = (sample.mean() - found.mean) / math.sqrt(found.variance / BIG)
    # z-tests of the mean and mean square of every count, 256 each, and of the sample mean;
    # false-alarm probability 1e-6 in all.
    limit = stats.norm.isf(FALSE_ALARM / (2 * 2 * (MOST_ATOMS + 1)))
    for each in (*z.T, means):
        assert abs(each.mean()) <= limit / math.sqrt(trials)
        assert stats.chi2.sf((each**2).sum(), trials) > FALSE_ALARM / (4 * (MOST_ATOMS + 1))
        assert stats.chi2.cdf((each**2).sum(), trials) > FALSE_ALARM / (4 * (MOST_ATOMS + 1))


@pytest.mark.parametrize("values", [[0.1], [-2.7] * 49])
def test_a_population_of_one_value(values: list[float]) -> None:
    found = law(values)
    assert (found.mean, found.variance, found.moment(3.5)) == (values[0], 0.0, 0.0)
    sample = found.sample(np.random.default_rng(0), 4, BIG)
    assert isinstance(sample, CountedSample)
    assert sample.counts.tolist() == [[BIG]] * 4
    assert sample.mean().tolist() == [values[0]] * 4


@pytest.mark.parametrize("values", [SKEWED, np.random.default_rng(6).normal(size=300).tolist()])
@pytest.mark.parametrize("path", ["p.parquet", "p.csv.gz", "P.CSV", "p.PARQUET"])
def test_every_format_gives_the_same_law(values: list[float], path: str) -> None:
    if path.endswith(".PARQUET"):
        law(values, "p.parquet")
        Path("p.parquet").rename(path)
        other = Empirical(path=path, column="x")
    else:
        other = law(values, path)
    one = law(values, "other_name.csv")
    assert other.content == one.content
    assert [other.mean, other.moment(3)] == [one.mean, one.moment(3)]
    drawn = [d.sample(np.random.default_rng(7), 3, 50).mean() for d in (one, other)]
    np.testing.assert_array_equal(drawn[0], drawn[1])


def test_integers_become_floats() -> None:
    for path in ("p.csv", "p.parquet"):
        found = law([1, 2, 4], path)
        assert found.mean == pytest.approx(7 / 3, rel=1e-15, abs=0)
        assert found.sample(np.random.default_rng(0), 1, 5).atoms.dtype == np.float64  # type: ignore[union-attr]
    Path("huge.csv").write_text("x\n1\n1000000000000000000000000000000\n")
    assert Empirical(path="huge.csv", column="x").mean == 5e29


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2, 4], dtype="Int64"),
        pd.Series([1, 2, 4], dtype="uint8"),
        pd.Series([1, 2, 4], dtype="float32"),
        pd.Series([Decimal("1.0"), Decimal(2), Decimal(4)]),
        pd.Series([1.0, 2.0, 4.0]).astype("category"),
    ],
    ids=lambda v: str(v.dtype),
)
def test_numbers_of_every_kind_in_parquet(values: pd.Series[Any]) -> None:
    assert law(values, "p.parquet").content == law([1, 2, 4]).content


def test_an_index_of_a_parquet_file_is_a_column() -> None:
    pd.DataFrame({"y": [0, 0]}, index=pd.Index([1.0, 2.0], name="x")).to_parquet("p.parquet")
    assert Empirical(path="p.parquet", column="x").mean == 1.5


def test_decimals_are_read_to_the_last_bit() -> None:
    texts = [repr(v) for v in np.random.default_rng(8).lognormal(0, 30, 2000).tolist()]
    Path("p.csv").write_text("\n".join(["x", *texts]) + "\n")
    found = Empirical(path="p.csv", column="x")
    assert found.content == hashlib.sha256(np.array(texts, dtype="<f8").tobytes()).hexdigest()[:16]


def test_content_tells_populations_apart() -> None:
    known = {law(values).content for values in (SKEWED, SKEWED[:-1], SKEWED[::-1], [0.0])}
    assert len(known) == 4
    moved = [*SKEWED[:-1], np.nextafter(SKEWED[-1], 0)]
    assert law(moved).content not in known
    assert re.fullmatch("[0-9a-f]{16}", law(moved).content)


def test_the_file_is_read_once() -> None:
    found = law(SKEWED)
    before = found.content, found.mean
    edited = law([1.0, 2.0])
    Path("population.csv").unlink()
    assert (found.content, found.mean) == before  # as a worker's copy, made from the pickle, is
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.content, copy.mean, copy.counted) == (*before, True)
    assert edited.content != found.content
    with pytest.raises(ValueError, match="read-only"):
        found._values[0] = 1.0


def test_the_working_folder_comes_before_the_data_of_the_package(tmp_path: Path) -> None:
    shipped = Empirical(path="galton_heights.csv", column="height_cm")
    assert shipped.content == Empirical(path=str(HEIGHTS), column="height_cm").content
    Path("galton_heights.csv").write_text("height_cm\n1\n2\n")
    assert Empirical(path="galton_heights.csv", column="height_cm").mean == 1.5
    Path("deeper").mkdir()
    law([1.0, 4.0], "deeper/p.csv")
    for path in ("deeper/p.csv", "deeper/../deeper/p.csv", str(tmp_path / "deeper" / "p.csv")):
        assert Empirical(path=path, column="x").mean == 2.5


def test_the_heights_that_come_with_the_package() -> None:
    frame = pd.read_csv(HEIGHTS, dtype=str, keep_default_na=False)
    assert list(frame.columns) == ["family", "gender", "height_in", "height_cm"]
    assert len(frame) == 934
    assert frame["family"].nunique() == 205
    assert frame["gender"].value_counts().to_dict() == {"male": 481, "female": 453}
    inches = [Decimal(text) for text in frame["height_in"]]
    assert [Decimal("2.54") * h for h in inches] == [Decimal(text) for text in frame["height_cm"]]
    assert (min(inches), max(inches)) == (Decimal(56), Decimal(79))
    # as R's HistData gives them
    assert float(sum(inches)) / 934 == pytest.approx(66.74593, abs=5e-6)
    digest = hashlib.sha256(HEIGHTS.read_bytes()).hexdigest()
    assert f"`{digest}`" in (DATA / "README.md").read_text(encoding="utf-8")


def _raw(text: str | bytes, path: str = "p.csv") -> None:
    Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())


FORMATS = "expected a file that ends in one of .csv, .csv.gz, .parquet"
BAD_FILES: dict[str, tuple[str, Callable[[], object], str]] = {
    "absent": ("p.csv", lambda: None, "no such file in the working folder, nor in dpbench/data"),
    "absent, absolute": ("/no/such/p.csv", lambda: None, "no such file"),
    "folder": ("p.csv", lambda: Path("p.csv").mkdir(), "not a file"),
    "folder, no suffix": (".", lambda: None, FORMATS),
    "empty name": ("", lambda: None, FORMATS),
    "other suffix": ("p.xlsx", lambda: _raw("x\n1\n", "p.xlsx"), FORMATS),
    "pickle": ("p.pkl", lambda: _raw(pickle.dumps([1]), "p.pkl"), FORMATS),
    "no suffix": ("p", lambda: _raw("x\n1\n", "p"), FORMATS),
    "zero bytes": ("p.csv", lambda: _raw(""), "cannot be read: No columns to parse from file"),
    "not text": ("p.csv", lambda: _raw(b"\x89PNG\r\n\x1a\n\xff\xfe"), "cannot be read: 'utf-8' "),
    "open quote": ("p.csv", lambda: _raw('x\n"1\n2\n'), "cannot be read: Error tokenizing data."),
    "long rows": ("p.csv", lambda: _raw("x,y\n1,2,3\n4,5,6\n"), "cannot be read: Length of header"),
    "no gzip": ("p.csv.gz", lambda: _raw("x\n1\n", "p.csv.gz"), "cannot be read: Not a gzipped"),
    "cut gzip": (
        "p.csv.gz",
        lambda: _raw(gzip.compress(b"x\n" + b"1\n" * 999)[:-12], "p.csv.gz"),
        "cannot be read: Compressed file ended",
    ),
    "no parquet": ("p.parquet", lambda: _raw("x\n1\n", "p.parquet"), "cannot be read: "),
    "null byte": ("p\0.csv", lambda: None, "no such file in the working folder"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_is_refused(case: str) -> None:
    path, make, reason = BAD_FILES[case]
    make()
    assert refusal(path).startswith(f"{WHERE}.path: {path!r}: {reason}")


def test_rows_longer_than_the_header_are_refused_where_warnings_are_not_errors() -> None:
    _raw("x,y\n1,2,3\n4,5,6\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "cannot be read: Length of header" in refusal("p.csv")
    _raw("x,y\n1,2,\n4,5,\n")
    assert Empirical(path="p.csv", column="x").mean == 2.5


def _parquet(values: Any) -> None:
    pd.DataFrame({"x": values}).to_parquet("p.parquet")


BAD_COLUMNS: dict[str, tuple[Callable[[], object], str]] = {
    "text": (
        lambda: _raw("x\n1.5\ntall\n2\nshort\n"),
        "2 of 4 values are no numbers, such as 'tall',",
    ),
    "long text": (
        lambda: _raw(f"x\n{'ab' * 400}\n"),
        f"1 of 1 values are no numbers, such as '{'ab' * 19}a...,",
    ),
    "text of two lines": (
        lambda: _raw('x\n"a\nb"\n'),
        r"1 of 1 values are no numbers, such as 'a\nb',",
    ),
    "missing": (lambda: _raw("x,y\n1,1\n,1\nNA,1\nnan,1\n"), "3 of 4 values are missing"),
    "blank line": (lambda: _raw("x\n1\n\n2\n"), "1 of 3 values are missing"),
    "infinite": (lambda: _raw("x\n1\ninf\n-inf\n1e999\n"), "3 of 4 values are infinite"),
    "no rows": (lambda: _raw("x,y\n"), "no records"),
    "truth": (lambda: _raw("x\nTrue\nFalse\n"), "2 of 2 values are no numbers, such as 'True',"),
    "overflow": (lambda: _raw("x\n1e200\n-1e200\n"), "the variance of its values overflows"),
    "parquet truth": (
        lambda: _parquet([True, False, False]),
        "3 of 3 values are no numbers, such as True,",
    ),
    "parquet dates": (
        lambda: _parquet(pd.to_datetime(["2020-01-01"])),
        "1 of 1 values are no numbers, such as Timestamp(",
    ),
    "parquet missing": (
        lambda: _parquet(pd.array([1, None, 3], dtype="Int64")),
        "1 of 3 values are missing",
    ),
    "parquet missing decimal": (
        lambda: _parquet([Decimal(1), None, None]),
        "2 of 3 values are missing",
    ),
    "parquet infinite": (lambda: _parquet([1.0, math.inf]), "1 of 2 values are infinite"),
    "parquet no rows": (lambda: _parquet(np.zeros(0)), "no records"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_a_column_that_is_refused(case: str) -> None:
    make, reason = BAD_COLUMNS[case]
    make()
    path = "p.parquet" if case.startswith("parquet") else "p.csv"
    text = refusal(path)
    assert text.startswith(f"{WHERE}.column: 'x': {reason}")
    assert "overflow" in text or text.endswith(f" in {path}")


@pytest.mark.parametrize("path", ["p.csv", "p.parquet"])
def test_an_absent_column_is_told_with_those_there_are(path: str) -> None:
    law(SKEWED, path)
    wanted = f"{WHERE}.column: 'height': no such column in {path}; choose from other, x"
    assert refusal(path, "height") == wanted


def test_of_many_columns_a_few_are_told() -> None:
    Path("p.csv").write_text(",".join(f"c{i}" for i in range(30)) + "\n")
    assert refusal("p.csv").endswith("choose from c0, c1, c2, c3, c4, c5, c6, c7, ... (30 in all)")
    Path("p.csv").write_text('"two\nlines",y\n1,2\n')
    assert refusal("p.csv").endswith("choose from two lines, y")


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(ValueError, match="no such file"):
        Empirical(path="p.csv", column="x")
    with pytest.raises(ConfigError, match=rf"^{WHERE}\.column: this key is required$"):
        Distribution.build({"kind": "empirical", "path": "p.csv"}, WHERE)
    with pytest.raises(ConfigError, match=rf"^{WHERE}\.path: 3: input should be a valid string$"):
        Distribution.build({"kind": "empirical", "path": 3, "column": "x"}, WHERE)


def test_pandas_waits_until_a_file_is_read() -> None:
    program = (
        "import sys, dpbench.distributions.empirical; "
        "print('pandas' in sys.modules, 'pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "False"]
