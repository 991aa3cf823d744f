"""Blocks of vectors: cores, covariances, fixed and sparse data, their sizes and their terms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, stats

from dpbench.complexity import SampleComplexity, measure
from dpbench.distributions import (
    Distribution,
    Gaussian,
    Hypercube,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    MultivariateStudentT,
    ProductTwoPoint,
    SignedTwoPoint,
    TwoPoint,
)
from dpbench.estimators import (
    BoundedMean,
    CoinPressCovariance,
    EmpiricalMean,
    Estimate,
    Estimator,
    FriendlyCoreMean,
)
from dpbench.registry import ConfigError, canonical, from_mapping, validated
from dpbench.privacy import ZCDP, ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.runner.block import (
    BLOCK_NUMBERS,
    BLOCK_TRIALS,
    METRICS,
    BlockTask,
    Setting,
    block_trials,
    run_block,
)
from dpbench.runner.collect import Collected, collect, join
from dpbench.runner.plan import MOST_COUNTED, MOST_DENSE, Cell, Sweep, largest_n, make_cells
from dpbench.samples import DenseSample, Sample, SparseSample
from dpbench.seeds import stream
from dpbench.theory.families import build_family

Floats = NDArray[np.float64]
MEAN = Setting("mean", EmpiricalMean(), NonPrivate())


def _task(law: Distribution, *settings: Setting, n: int, seed: int = 0) -> BlockTask:
    return BlockTask((("law", law),), n, settings, seed, 0, "cell")


def _drawn(law: Distribution, task: BlockTask) -> Sample:
    """The data of a block, drawn again."""
    name = (task.seed, canonical(law), task.data, task.n, task.index)
    return law.sample(stream("data", *name), task.trials, task.n)


# The core.


def _weights(rows: Floats, radius: float) -> float:
    """W/n of one dataset, record by record: (2c - n - 1)/(n - 1) between 0 and 1."""
    n = len(rows)
    total = 0.0
    for x in rows:
        friends = sum(float(np.linalg.norm(x - y)) <= radius for y in rows)
        total += min(1.0, max(0.0, (2 * friends - n - 1) / (n - 1)))
    return total / n


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.99])
def test_the_core_is_its_share_of_the_records(threshold: float) -> None:
    """Also where nothing is released, which is in some, in most and in all trials."""
    law = MultivariateContaminatedGaussian(d=3, eta=0.3, gap=1e3)
    core = FriendlyCoreMean(radius=4.0, threshold=threshold)
    task = _task(law, MEAN, Setting("core", core, ApproxDP(4.0, 1e-3)), n=30)
    result = run_block(task)
    assert not result.failures
    assert set(result.values) == {*METRICS, "core"}
    sample = _drawn(law, task)
    assert isinstance(sample, DenseSample)
    wanted = [_weights(rows, 4.0) for rows in sample.values]
    found = result.values["core"][0, 1]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert np.ptp(found) > 0.1  # they differ
    failed = np.isnan(result.values["error"][0, 1])
    assert failed.any()
    assert failed.all() == (threshold > 0.5)
    assert np.all(np.isfinite(found[failed]))
    assert np.all(np.isnan(result.values["core"][0, 0]))  # the mean has no core


def test_the_median_of_the_core_is_in_the_summary() -> None:
    law = MultivariateContaminatedGaussian(d=3, eta=0.3, gap=1e3)
    core = Setting("core", FriendlyCoreMean(radius=4.0), ApproxDP(1.0, 1e-6))
    family = build_family({"kind": "gaussian"}, "f")  # of which only the moment order is read
    cell = Cell("f", family, 30, (("law", law),), (core, MEAN), 150)
    blocks = [run_block(task) for task in cell.tasks(0)]
    collected = collect(cell, blocks, {"core_q50": {"f"}})
    table = collected.summary.set_index("estimator")
    values = np.sort(blocks[0].values["core"][0, 0, :150])
    assert table.loc["core", "core_q50"] == values[74]  # the smallest with half at or below it
    assert table["core_q50"].isna().tolist() == [label == "mean" for label in table.index]
    row = collected.summary["estimator"].tolist().index("core")
    np.testing.assert_array_equal(np.sort(collected.errors["core_q50"][row]), values)


# Covariances.


@validated
class KnownCovariance(Estimator):
    """A covariance that is known beforehand, and nothing in every fifth trial."""

    multivariate = True
    estimand = "covariance"

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rng = np.random.default_rng(5)
        value, before = rng.standard_normal((2, sample.trials, sample.d, sample.d))
        value[::5] = np.nan
        return Estimate(value, before)


def test_the_five_metrics_of_a_covariance() -> None:
    """|S^(-1/2) (A - B) S^(-1/2)|_F with the symmetric root."""
    law = MultivariateGaussian(d=4, scale=3.0, condition=50.0)
    task = _task(law, Setting("known", KnownCovariance(), PureDP(1.0)), n=20)
    values = {metric: table[0, 0] for metric, table in run_block(task).values.items()}
    sample = _drawn(law, task)
    assert isinstance(sample, DenseSample)
    rng = np.random.default_rng(5)
    value, before = rng.standard_normal((2, task.trials, 4, 4))
    value[::5] = np.nan
    root = np.linalg.inv(np.real(linalg.sqrtm(law.covariance)))
    np.testing.assert_allclose(root @ law.covariance @ root, np.eye(4), atol=1e-10)

    def size(part: Floats) -> Floats:
        return np.array([math.sqrt(((root @ one @ root) ** 2).sum()) for one in part])

    second = np.array([rows.T @ rows / 20 for rows in sample.values])
    wanted = {
        "error": value - law.covariance,
        "sampling": second - law.covariance,
        "bias": before - second,
        "noise": value - before,
        "private": value - second,
    }
    assert set(values) == set(wanted) == set(METRICS)
    for metric, part in wanted.items():
        np.testing.assert_allclose(values[metric], size(part), rtol=1e-9)
        assert np.isnan(values[metric][::5]).all() == (metric in {"error", "noise", "private"})


def test_errors_of_covariances_do_not_depend_on_the_scale() -> None:
    """CoinPress knows a bound on the variance, which a scale of data and bound leaves alone."""
    errors = []
    for scale in (1.0, 8.0):  # a power of two loses no digit
        law = MultivariateGaussian(d=3, scale=scale, condition=9.0)
        estimator = CoinPressCovariance(bound=4.0 * scale**2, rounds=2)
        values = run_block(_task(law, Setting("e", estimator, ZCDP(0.5)), n=2000)).values
        # Other parameters, other streams: the laws of the errors are compared.
        errors.append(values["error"][0, 0])
    assert stats.ks_2samp(*errors).pvalue > 1e-6  # its false-alarm probability


def test_a_law_without_a_known_covariance_fails_in_words() -> None:
    law = MultivariateStudentT(d=3, tail_index=3)
    result = run_block(_task(law, Setting("e", KnownCovariance(), PureDP(1.0)), MEAN, n=20))
    assert "covariance of MultivariateStudentT is not known" in result.failures[0, 0]
    assert np.all(np.isnan(result.values["error"][0, 0]))
    assert np.all(np.isfinite(result.values["error"][0, 1]))


# Fixed data.


def test_fixed_data_have_no_sampling_error() -> None:
    law = Hypercube(d=16, length=2.0)
    private = Setting("e", BoundedMean(radius=2.0), PureDP(1.0))
    clipped = Setting("c", BoundedMean(radius=1.0), PureDP(1.0))
    values = run_block(_task(law, MEAN, private, clipped, n=50)).values
    assert np.all(values["sampling"] == 0)
    assert np.all(values["error"][0, 0] == 0)
    np.testing.assert_array_equal(values["error"], values["private"])
    assert np.all(values["error"][0, 1] > 0)
    # All records have norm 2: a ball half as large halves the mean, in every trial alike.
    np.testing.assert_allclose(values["bias"][0, 1], 0, atol=1e-12)
    mean = np.linalg.norm(_drawn(law, _task(law, MEAN, n=50)).mean()[0])
    assert mean > 0
    np.testing.assert_allclose(values["bias"][0, 2], mean / 2, rtol=1e-9)


# Sizes.

LAWS: list[tuple[Distribution, int, int]] = [
    # Whatever is held is held once per trial, but by the hypercube.
    (Gaussian(), 10, 200),
    (TwoPoint(p=0.1, k=2), 10**12, 200),
    (MultivariateGaussian(d=50), 10, 200),
    (MultivariateGaussian(d=50), 1000, 62),
    (MultivariateGaussian(d=500), 10_000, 1),
    (Hypercube(d=4), 10, 200),
    (SignedTwoPoint(d=64, p=1e-6, k=2), 10**8, 200),  # 101 records of 64 numbers
    (SignedTwoPoint(d=64, p=1e-6, k=2), 10**9, 49),  # 1001
    (SignedTwoPoint(d=64, p=0.0, k=2), 10**12, 200),
    # One of 8 ones is there with probability 1 - 0.9^8 = 0.57: 57.95 records of 16.
    (ProductTwoPoint(d=16, p=0.1), 100, 200),
    (ProductTwoPoint(d=16, p=0.1), 10_000, 34),
]


@pytest.mark.parametrize(("law", "n", "trials"), LAWS)
def test_blocks_of_vectors(law: Distribution, n: int, trials: int) -> None:
    assert block_trials(n, law) == trials
    assert trials == 1 or trials * law.held(n) <= BLOCK_NUMBERS
    # No smaller than it has to be.
    assert trials == BLOCK_TRIALS or (trials + 1) * law.held(n) > BLOCK_NUMBERS


SPARSE = [
    (SignedTwoPoint(d=64, p=1e-6, k=2), 10**9),
    (SignedTwoPoint(d=1000, p=1e-3, k=3), 10**5),
    (ProductTwoPoint(d=16, p=0.1), 10_000),
    (ProductTwoPoint(d=300, p=1e-4), 10**5),
]


@pytest.mark.parametrize(("law", "n"), SPARSE)
def test_a_block_of_sparse_data_holds_what_it_says(law: Distribution, n: int) -> None:
    """Rows other than zero are binomial: within 6 deviations but with probability 1e-8."""
    trials = block_trials(n, law)
    sample = law.sample(np.random.default_rng(12), trials, n)
    assert isinstance(sample, SparseSample)
    expected = trials * (law.held(n) - law.d)  # less what every trial has
    numbers = sample.rows_held.size
    assert abs(numbers - expected) < 6 * math.sqrt(law.d * expected)
    assert 8 * numbers < 30e6


def test_a_block_of_fixed_data_holds_them_once() -> None:
    law = Hypercube(d=256)
    trials = block_trials(3000, law)
    assert trials == 200
    sample = law.sample(np.random.default_rng(0), trials, 3000)
    assert isinstance(sample, DenseSample)
    assert sample.values.strides[0] == 0
    assert sample.values[0].nbytes < 30e6


@pytest.mark.parametrize("d", [1, 7, 1024])
def test_the_largest_n_of_dense_vectors(d: int) -> None:
    family = build_family({"kind": "multivariate_gaussian", "d": d}, "f")
    n = largest_n(family, 10, PureDP(1.0))
    assert n * d <= MOST_DENSE < (n + 1) * d
    (law,) = family.members("f", n, PureDP(1.0)).values()
    assert law.held(n) <= MOST_DENSE


def test_the_largest_n_of_families_that_thin_out() -> None:
    """p falls with n: as many records other than zero at any n."""
    spec = {"kind": "signed_two_point_family", "d": 16, "k": 2, "c": [0, 1, 5]}
    family = build_family(spec, "f")
    assert largest_n(family, 1000, ZCDP(0.5)) == MOST_COUNTED
    members = family.members("f", MOST_COUNTED, ZCDP(0.5)).values()
    assert max(law.held(MOST_COUNTED) for law in members) < 1e5


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "signed_two_point", "d": 16, "k": 2, "p": 0.01},
        {"kind": "product_two_point", "d": 16, "p": 0.01},
    ],
)
def test_the_largest_n_of_a_sparse_law(spec: dict[str, Any]) -> None:
    family = build_family(spec, "f")
    n = largest_n(family, 1000, ZCDP(0.5))
    (law,) = family.members("f", n, ZCDP(0.5)).values()
    assert law.held(n) <= MOST_DENSE


def _spec(family: dict[str, Any], n: int) -> dict[str, Any]:
    return {
        "families": {"f": family},
        "estimators": {"mean": {"kind": "empirical_mean"}},
        "budgets": {"zcdp": {"kind": "zcdp", "rho": 0.5}},
        "parts": {"p": {"n": [n], "trials": 1}},
    }


@pytest.mark.parametrize(
    ("family", "fits", "large"),
    [
        ({"kind": "multivariate_gaussian", "d": 1000}, 10**5, 10**6),
        ({"kind": "signed_two_point", "d": 1000, "p": 1e-6, "k": 2}, 10**10, 10**12),
        ({"kind": "product_two_point", "d": 1000, "p": 1e-9}, 10**10, 10**12),
        ({"kind": "hypercube", "d": 1000}, 10**4, 10**6),
    ],
)
def test_data_beyond_memory_are_refused(family: dict[str, Any], fits: int, large: int) -> None:
    (cell,) = make_cells(Sweep.build(_spec(family, fits)))
    assert cell.n == fits
    with pytest.raises(ConfigError) as caught:
        make_cells(Sweep.build(_spec(family, large)))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"sweep.parts.p.n: {large}: f ")
    assert str(MOST_DENSE) in line


# The terms of sample complexities.


@pytest.mark.parametrize(
    ("family", "d", "variance"),
    [
        ({"kind": "gaussian", "scale": 2.0}, 1, 4.0),
        ({"kind": "multivariate_gaussian", "d": 1, "scale": 2.0}, 1, 4.0),
        ({"kind": "multivariate_gaussian", "d": 2, "scale": 3.0}, 2, 18.0),
        ({"kind": "multivariate_gaussian", "d": 40}, 40, 40.0),
        ({"kind": "multivariate_student_t", "d": 5, "tail_index": 4}, 5, 10.0),
    ],
)
@pytest.mark.parametrize("beta", [0.1, 0.01])
def test_the_sampling_term_is_of_a_gaussian_vector(
    family: dict[str, Any], d: int, variance: float, beta: float
) -> None:
    """From n on the 1 - beta quantile of |N(0, variance/(d n) I)| is at most alpha."""
    spec = _spec(family, 100)
    spec["parts"]["p"].update(n=[100, 1000], trials=20)
    spec["estimators"]["private"] = (
        {"kind": "clipped_mean", "lower": -1, "upper": 1}
        if family["kind"] == "gaussian"
        else {"kind": "coin_press_mean", "radius": 10, "rounds": 1}
    )
    sweep = Sweep.build(spec)
    cells = make_cells(sweep)
    request = from_mapping(
        SampleComplexity,
        {"families": ["f"], "low": 0.2, "high": 0.6, "points": 2, "beta": beta},
        "at",
    )

    def run(cells: list[Cell]) -> Collected:
        blocks = [[run_block(task) for task in cell.tasks(0)] for cell in cells]
        metrics = {"q90": {"f"}}
        return join([collect(c, b, metrics) for c, b in zip(cells, blocks, strict=True)])

    found = []
    for budgets in (None, ["zcdp"]):
        asked = from_mapping(SampleComplexity, {**vars_of(request), "budgets": budgets}, "at")
        table = measure("r", asked, sweep, cells, run(cells), run, lambda _: None)
        found.append(table)
        for row in table.to_dict("records"):
            sd = math.sqrt(variance / d / row["sampling_term"])
            assert stats.chi.sf(row["alpha"] / sd, d) == pytest.approx(beta, rel=1e-9)
            if d == 2:  # exp(-x^2/2)
                wanted = -2 * math.log(beta) * variance / 2 / row["alpha"] ** 2
                assert row["sampling_term"] == pytest.approx(wanted, rel=1e-12)
    none, private = found
    assert none[["privacy_term", "range_term"]].isna().all(axis=None)
    # CoinPress has private terms, which are stated for numbers.
    terms = private.loc[private["estimator"] == "private", ["privacy_term", "range_term"]]
    assert terms.notna().any(axis=None) == (d == 1)


def vars_of(request: SampleComplexity) -> dict[str, Any]:
    """The parameters of a request that are given."""
    return {name: value for name, value in vars(request).items() if value is not None}
