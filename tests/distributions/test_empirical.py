"""Bootstrap from a data file: moments, samples and refused files."""

from __future__ import annotations

import gzip
import hashlib
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpbench
from dpbench.distributions import Distribution, Empirical, empirical
from dpbench.distributions.empirical import MAX_COUNTED_ATOMS
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample
from dpbench.seeds import canonical
from tests.support import BIG, assert_frequencies, assert_standard, rng

WHERE = "sweep.families.x"
SKEWED = [3.5, -1.0, 3.5, 0.1, 7.0, 3.5, 0.1, 1000.25]
HEIGHTS = Path(dpbench.__file__).parent / "data" / "galton_heights.csv"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def law(values: Any, path: str = "population.csv") -> Empirical:
    """Return the distribution of a file that is written for it."""
    frame = pd.DataFrame({"other": ["a, b"] * len(values), "x": values})
    if path.endswith(".parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return Empirical(path=path, column="x")


def refusal(path: str, column: str = "x") -> str:
    """Return the line with which a configuration refuses a file."""
    with pytest.raises(ConfigError) as caught:
        Distribution.build({"kind": "empirical", "path": path, "column": column}, WHERE)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


def raw(content: str | bytes, path: str = "p.csv") -> None:
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


POPULATIONS = {
    "skewed": SKEWED,
    "far from 0": [1e15 + v for v in (0, 1, 2, 2, 5, 0.5)],
    "tiny and large": [1e-9, 1e9, -1e9, 3e-9, 1e-9],
    "many values": rng(1).standard_t(2.5, 5000).tolist(),
    "many, far from 0": (1e10 + rng(2).exponential(size=5000)).tolist(),
}


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("k", [2, 2.5, 6])
def test_mean_and_moments_about_the_exact_mean(name: str, k: float) -> None:
    values = POPULATIONS[name]
    found, exact = law(values), [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    assert found.mean == pytest.approx(float(mean), rel=3e-16, abs=1e-15 * found.variance**0.5)
    wanted = math.fsum(float(abs(v - mean)) ** k for v in exact) / len(exact)
    assert found.moment(k) == pytest.approx(wanted, rel=1e-14, abs=0)
    assert (found.variance, found.target) == (found.moment(2), found.mean)


def test_records_follow_the_population() -> None:
    sample = law([0.0, 1.0, 1.0, 1.0, 5.0, 5.0]).sample(rng(3), 40_000, 6)
    assert isinstance(sample, CountedSample)
    assert (sample.atoms.tolist(), sample.trials, sample.n) == ([0.0, 1.0, 5.0], 40_000, 6)
    tables, found = np.unique(sample.counts, axis=0, return_counts=True)
    pmf = np.asarray(stats.multinomial(6, [1 / 6, 1 / 2, 1 / 3]).pmf(tables))
    assert_frequencies([*found, 0], [*pmf, 1 - pmf.sum()])  # none of the tables not seen
    one = law([-2.7] * 49)
    assert (one.mean, one.variance, one.moment(3.5)) == (-2.7, 0.0, 0.0)
    assert one.sample(rng(), 2, BIG).mean().tolist() == [-2.7] * 2
    values, n = [*range(400), *range(100), 7, 7, 7], 20_000
    many = law(values)
    dense = many.sample(rng(4), 50, n)
    assert isinstance(dense, DenseSample)
    cells = np.bincount(dense.values.astype(int).ravel(), minlength=400)
    assert_frequencies(cells, np.bincount(values) / len(values))
    # The trials are independent, by the variance of their means.
    assert_standard((dense.mean() - many.mean) / math.sqrt(many.variance / n))


def test_columns_are_vectors() -> None:
    """Compare with numpy's covariance, enumerated moments and frequencies of whole records."""
    table = pd.DataFrame({"a": [0.0, 1, 1, 5], "b": [2.0, 2, -1, 0], "c": [1e9, 1e9 + 1, 1e9, 1e9]})
    table.to_csv("v.csv", index=False)
    table.to_parquet("v.parquet")
    found = Empirical(path="v.csv", columns=["b", "a"])
    rows = table[["b", "a"]].to_numpy()
    assert (found.d, found.counted, found.held(10)) == (2, False, 20.0)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T, ddof=0), rtol=1e-14)
    assert found.variance == pytest.approx(np.trace(found.covariance))
    angles = np.linspace(0, np.pi, 2001)
    along = (rows - rows.mean(axis=0)) @ [np.cos(angles), np.sin(angles)]
    worst = {k: (np.abs(along) ** k).mean(axis=0).max() for k in (2, 3)}
    assert found.moment(2) == pytest.approx(worst[2], rel=1e-5)
    assert worst[3] <= found.moment(3) <= 1.5 * worst[3]
    far = Empirical(path="v.csv", columns=["c", "a"])
    assert far.covariance[0, 0] == pytest.approx(3 / 16, rel=1e-15)
    sample = found.sample(rng(8), 50, 400)
    assert isinstance(sample, DenseSample)
    values = sample.values
    assert values.shape == (50, 400, 2)
    records, counts = np.unique(values.reshape(-1, 2), axis=0, return_counts=True)
    assert {tuple(one) for one in records} == {tuple(one) for one in rows}
    assert_frequencies(counts, [1 / 4] * 4)
    assert canonical(found) == canonical(Empirical(path="v.parquet", columns=["b", "a"]))
    assert canonical(found) != canonical(Empirical(path="v.csv", columns=["a", "b"]))
    # streams are named as before there were columns
    one = Empirical(path="v.csv", column="a")
    assert canonical(one) == f'Empirical{{"column": "a", "path": "{one.content}"}}'
    for given, line in (
        ({"columns": ["a", "x"]}, "columns: 'x': no such column in v.csv; choose from a, b, c"),
        ({}, f"{WHERE}: give column, or columns"),
        ({"column": "a", "columns": ["b"]}, f"{WHERE}: give column, or columns"),
        ({"columns": []}, "columns: []"),
    ):
        with pytest.raises(ConfigError) as caught:
            Distribution.build({"kind": "empirical", "path": "v.csv", **given}, WHERE)
        assert line in str(caught.value)


def test_as_many_values_as_are_counted() -> None:
    values = np.repeat(np.arange(MAX_COUNTED_ATOMS) ** 2, np.arange(MAX_COUNTED_ATOMS) % 7 + 1)
    found = law(values)
    sample = found.sample(rng(5), 2000, BIG)
    assert isinstance(sample, CountedSample)
    assert np.all(sample.counts.sum(axis=1) == BIG)
    assert_standard((sample.mean() - found.mean) / math.sqrt(found.variance / BIG))
    p = np.unique(values, return_counts=True)[1] / len(values)
    for z in ((sample.counts - BIG * p) / np.sqrt(BIG * p * (1 - p))).T:
        assert_standard(z)
    assert not law(range(MAX_COUNTED_ATOMS + 1)).counted


SAME: list[Any] = [
    *(pd.Series([1, 2, 4], dtype=kind) for kind in ("Int64", "uint8", "float32")),
    pd.Series([Decimal("1.0"), Decimal(2), Decimal(4)]),
    pd.Series([1.0, 2.0, 4.0]).astype("category"),  # Parquet stores its numbers
]


def test_the_content_is_that_of_the_values() -> None:
    """Check that the content depends on the values alone, not on name, format or type."""
    one = law([1, 2, 4])
    others = [law([1, 2, 4], path) for path in ("p.parquet", "p.csv.gz", "P.CSV")]
    others += [law(values, "p.parquet") for values in SAME]
    indexed = pd.DataFrame({"y": [0, 0, 0]}, index=pd.Index([1.0, 2.0, 4.0], name="x"))
    indexed.to_parquet("indexed.parquet")
    for other in (*others, Empirical(path="indexed.parquet", column="x")):
        assert (other.content, other.mean, other.moment(3)) == (
            one.content,
            one.mean,
            one.moment(3),
        )
        a, b = (some.sample(rng(7), 3, 50).mean() for some in (one, other))
        np.testing.assert_array_equal(a, b)
    edited = [[2, 1, 4], [1, 2], [1, 2, np.nextafter(4, 0)]]
    assert len({one.content, *(law(values).content for values in edited)}) == 4


def test_decimals_are_read_to_the_last_bit() -> None:
    texts = [repr(v) for v in rng(8).lognormal(0, 30, 2000).tolist()]
    raw("\n".join(["x", *texts, "1000000000000000000000000000000"]) + "\n")
    values = np.array([*texts, "1e30"], dtype="<f8")
    found = Empirical(path="p.csv", column="x")
    assert found.content == hashlib.sha256(values.tobytes()).hexdigest()[:16]


def test_the_file_is_read_once() -> None:
    found = law(SKEWED)
    before = found.content, found.mean, found.counted
    Path("population.csv").unlink()
    for one in (found, pickle.loads(pickle.dumps(found))):  # a worker has a copy
        assert (one.content, one.mean, one.counted) == before
    with pytest.raises(ValueError, match="read-only"):
        found._values[0] = 1.0


def test_the_working_folder_comes_before_the_data_of_the_package(tmp_path: Path) -> None:
    shipped = Empirical(path="galton_heights.csv", column="height_cm")
    assert shipped.content == Empirical(path=str(HEIGHTS), column="height_cm").content
    Path("galton_heights.csv").write_text("height_cm\n1\n2\n")
    assert Empirical(path="galton_heights.csv", column="height_cm").mean == 1.5
    Path("deeper").mkdir()
    law([1.0, 4.0], "deeper/p.csv")
    for path in ("deeper/../deeper/p.csv", str(tmp_path / "deeper" / "p.csv")):
        assert Empirical(path=path, column="x").mean == 2.5


def test_the_heights_that_come_with_the_package() -> None:
    frame = pd.read_csv(HEIGHTS, dtype=str, keep_default_na=False)
    assert list(frame.columns) == ["family", "gender", "height_in", "height_cm"]
    assert frame["gender"].value_counts().to_dict() == {"male": 481, "female": 453}
    inches = [Decimal(text) for text in frame["height_in"]]
    assert [Decimal("2.54") * h for h in inches] == [Decimal(text) for text in frame["height_cm"]]
    # values of R's HistData
    assert float(sum(inches)) / 934 == pytest.approx(66.74593, abs=5e-6)
    digest = hashlib.sha256(HEIGHTS.read_bytes()).hexdigest()
    assert f"`{digest}`" in (HEIGHTS.parent / "README.md").read_text(encoding="utf-8")


FORMATS = "expected a file that ends in one of .csv, .csv.gz, .parquet"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
CUT = gzip.compress(b"x\n" + b"1\n" * 999, mtime=0)[:-12]


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("p.csv", None, "no such file in the working folder, nor in dpbench/data"),
        ("/no/such/p.csv", None, "no such file"),
        ("p\0.csv", None, "no such file in the working folder"),
        ("folder.csv", None, "not a file"),
        ("p.pkl", pickle.dumps([1]), FORMATS),
        ("p.csv", "", "cannot be read: the file is empty; it needs a header"),
        ("p.csv", b"\x89PNG\r\n\x1a\n\xff\xfe", "cannot be read: it is not UTF-8 text; save it"),
        ("p.csv", 'x\n"1\n2\n', "cannot be read: a quotation mark is not closed"),
        ("p.csv", "x,y\n1,2,3\n4,5,6\n", "cannot be read: rows have more fields than the header"),
        ("p.csv", "x,y\n1,2\n4,5,6\n", "cannot be read: line 3 has 3 fields, and the header 2"),
        ("p.csv", "y;x\n1;2,5\n", "cannot be read: its fields are separated by semicolons; save"),
        ("p.csv", "y\tx\n1\t2\n", "cannot be read: its fields are separated by tabs; save"),
        ("p.csv", LFS, "cannot be read: it is a pointer of Git LFS, not the data; run git lfs"),
        ("p.csv.gz", LFS, "cannot be read: it is a pointer of Git LFS"),
        ("p.parquet", LFS, "cannot be read: it is a pointer of Git LFS"),
        ("p.csv.gz", "x\n1\n", "cannot be read: Not a gzipped"),
        ("p.csv.gz", CUT, "cannot be read: Compressed file ended"),
        ("p.parquet", "x\n1\n", "cannot be read: "),
    ],
)
def test_a_file_that_is_refused(path: str, content: str | bytes | None, reason: str) -> None:
    if content is not None:
        raw(content, path)
    Path("folder.csv").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # none of the reasons is a warning made an error
        assert refusal(path).startswith(f"{WHERE}.path: {path!r}: {reason}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x\n1.5\ntall\n2\nshort\n", "2 of 4 values are of type str; give numbers such as 1.5"),
        ("x\n1_0\n\u0663\n2\n\uff11\n", "3 of 4 values are of type str"),  # digits for `float`
        ("x,y\n1,1\n,1\nNA,1\nnan,1\n", "3 of 4 values are missing; fill them with a public"),
        ("x\n1\ninf\n-inf\n1e999\n", "3 of 4 values are infinite"),
        ("x,y\n", "no records"),
        ("x\nTrue\nFalse\n", "2 of 2 values are of type str"),
        ("x\n1e200\n-1e200\n", "the variance of its values overflows"),
        (["1", "2"], "its values are of type "),
        (pd.to_datetime(["2020-01-01"]), "its values are of type timestamp"),
        (pd.Categorical(["1", "2"]), "its values are of type dictionary"),
        (pd.array([1, None, 3], dtype="Int64"), "1 of 3 values are missing"),
        ([Decimal(1), None, None], "2 of 3 values are missing"),
    ],
)
def test_a_column_that_is_refused(content: Any, reason: str) -> None:
    if isinstance(content, str):
        path = "p.csv"
        raw(content)
    else:
        path = "p.parquet"
        pd.DataFrame({"x": content}).to_parquet(path)
    named = "" if "overflow" in reason else f"{path}: "
    assert refusal(path).startswith(f"{WHERE}.column: 'x': {named}{reason}")


@pytest.mark.parametrize("path", ["p.csv", "p.parquet"])
def test_an_absent_column_is_told_with_those_there_are(path: str) -> None:
    law(SKEWED, path)
    wanted = f"{WHERE}.column: 'height': no such column in {path}; choose from other, x"
    assert refusal(path, "height") == wanted
    raw(",".join(f"c{i}" for i in range(30)) + "\n")
    assert refusal("p.csv").endswith("choose from c0, c1, c2, c3, c4, c5, c6, c7, ... (30 in all)")
    raw("x,y\n1,2,\n4,5,\n")  # a last comma is no field
    assert Empirical(path="p.csv", column="x").mean == 2.5


@pytest.mark.parametrize("path", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("keys", [{"column": "x"}, {"columns": ["y", "x"]}])
def test_two_columns_of_one_name_are_refused(path: str, keys: dict[str, Any]) -> None:
    """Others of the file can be read; pandas' name for the second is not its name."""
    raw("x,y,x\n1,2,3\n4,5,6\n")
    table = pa.table([pa.array([1, 4]), pa.array([2, 5]), pa.array([3, 6])], names=["x", "y", "x"])
    pq.write_table(table, "p.parquet")
    with pytest.raises(ConfigError, match=rf"'x': {path}; 2 columns have this name; rename them"):
        Empirical(path=path, **keys)
    assert Empirical(path=path, column="y").mean == 3.5
    with pytest.raises(ConfigError, match="no such column"):
        Empirical(path=path, column="x.1")


def test_the_header_of_a_csv_file() -> None:
    """A space is part of a name, and shown; a mark of byte order and a blank name are not."""
    raw("id, x\n1, 2\n1, 3\n")
    assert refusal("p.csv").endswith("no such column in p.csv; choose from id, ' x'")
    assert Empirical(path="p.csv", column=" x").mean == 2.5
    raw(b"\xef\xbb\xbfx\n1\n2\n")
    assert Empirical(path="p.csv", column="x").mean == 1.5
    raw(",x\n7,1\n8,2\n")
    assert Empirical(path="p.csv", column="Unnamed: 0").mean == 7.5


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    law([1.0, 4.0], str(home / "p.csv"))
    assert Empirical(path="~/p.csv", column="x").mean == 2.5
    assert refusal("~/q.csv").endswith("'~/q.csv': no such file")


def test_booleans_of_a_parquet_file_are_numbers() -> None:
    assert law([True, False, False], "p.parquet").mean == pytest.approx(1 / 3)


def test_a_file_that_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a small file with many records is refused before it is unpacked into memory."""
    rows = 10_000_001
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([1.0]))
    nested = pa.ListArray.from_arrays(pa.array([0, rows]), pa.array(np.zeros(rows, bool)))
    for values in (column, nested):
        pq.write_table(pa.table({"x.y": values}), "p.parquet")
        assert Path("p.parquet").stat().st_size < 100_000
        assert refusal("p.parquet", "x.y").endswith(": cannot be read: more than 10000000 records")
    raw("x," * 10_000 + "y\n")
    assert refusal("p.csv").endswith(": cannot be read: 10001 columns, more than 10000")
    monkeypatch.setattr(empirical, "MAX_FILE_BYTES", 1 << 12)
    raw(gzip.compress(b"x\n" + b"1\n" * 3000), "p.csv.gz")
    assert refusal("p.csv.gz").endswith(": cannot be read: more than 4096 bytes of text")
    monkeypatch.setattr(empirical, "MAX_FILE_RECORDS", 10)
    raw("x\n" + "1\n2\n" * 5)
    assert Empirical(path="p.csv", column="x").mean == 1.5
    raw("x\n" + "1\n" * 11)
    assert refusal("p.csv").endswith(": cannot be read: more than 10 records")
