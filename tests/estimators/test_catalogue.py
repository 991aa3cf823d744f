"""Every estimator of the catalogue keeps the promises of its base class."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from scipy import stats

from dpbench import release, testing
from dpbench.estimators import Estimator, KarwaVadhanMean
from dpbench.estimators.catalogue import Use, catalogue, uses
from dpbench.estimators.public import Public
from dpbench.privacy import Ledger, PureDP
from dpbench.samples import DenseSample
from dpbench.testing import check_estimator
from tests.support import spreads

Row = tuple[Estimator, str, dict[str, Any]]


def row(notions: str, kind: str, how: dict[str, Any] | None = None, **parameters: Any) -> Row:
    """Return an estimator, its notions, and options of `check_estimator`.

    Notions are the initials of pure, zcdp, gdp, approx and none.
    """
    return Estimator.build({"kind": kind, **parameters}, kind), notions, how or {}


CLIPPED = {"kind": "clipped_mean", "lower": -2.0, "upper": 3.0}
OUTPUTS: dict[str, Any] = {"buckets": 9, "lower": -4.0, "upper": 5.0}
BOUNDS: dict[str, Any] = {"lower": -2.0, "upper": 3.0}
SUMS = {"kind": "transformed_noise_mean", "lower": -2.0, "upper": 3.0}
VECTORS = {"d": 3}
FOLLOWS = {"translation": True, "scale": True}
FEW = {"records": np.random.default_rng(0).standard_normal((30, 2))}
HUNDREDS = {"records": np.random.default_rng(3).standard_normal(600)}
ENDS = {"lower": -4.0, "upper": 5.0, "beta": 0.5}
MANY = {"records": np.random.default_rng(1).standard_t(3, 1201)}
THOUSANDS = {"records": np.random.default_rng(2).standard_normal((10_000, 2)), "translation": True}
ROWS = [
    row("zga", "adassp", VECTORS, feature_bound=2.0, response_bound=1.5),
    row("a", "affine_invariant_mean", {**THOUSANDS, "scale": True}),
    row("zga", "balloon_mean", VECTORS, radius=3.0, sigma=0.5),
    row("zga", "balloon_mean", {"d": 1}, radius=1e100, sigma=1.0, inside=[0.5], growth=10.0),
    row("pzga", "berger_boos_interval", lower=-2.0, upper=3.0),
    row("pzga", "berger_boos_interval", lower=-1e150, upper=1e150, sigma=0.5),
    row("pzga", "binary_mean"),
    row("pzga", "binary_interval"),
    row("pzga", "binary_minimax"),
    row("pzga", "l2_clipped_mean", radius=2.5),
    row("p", "l2_clipped_mean", radius=2.5, mechanism="l2"),
    row("pzga", "clipped_mean", lower=-2.0, upper=3.0),
    row("pzga", "clipped_mean", lower=None, upper=3.0),
    row("zga", "coinpress_covariance", VECTORS, bound=4.0),
    row("zga", "coinpress_mean", radius=3.0, sigma=1.0),
    row("zga", "coinpress_mean", radius=1e300, rounds=3, reported_round=2, sigma=1.0),
    row("pzga", "coordinate_wise", base=CLIPPED),
    row("pzga", "coordinate_wise", base=KarwaVadhanMean(radius=2.0, sigma=1)),
    row("a", "coordinate_wise", base={"kind": "ksu20_mean", "scale": 1, "k": 2, "radius": None}),
    row("pzga", "columns_clipped_mean", lower=-2.0, upper=3.0),
    row("pzga", "columns_clipped_mean", lower=-2.0, upper=3.0, split="norm"),
    row("pzgapzga", "table_mean", VECTORS, columns={"x": SUMS, "y": SUMS}, groups=["a", "b"]),
    row("n", "empirical_mean", FOLLOWS),
    row("pzga", "median_then_clipped_mean", radius=1e300, sigma=0.5),
    row("a", "friendly_core_mean", {"translation": True}, radius=3.0),
    row("a", "friendly_core_mean", sigma=0.5, composition="zcdp", threshold=0.1),
    row("pzga", "gaussian_score_mean", radius=1e300, sigma=0.5),
    row("pzga", "gaussian_score_mean", radius=2.0, share=0.2, sigma=1.0),
    row("zga", "gradient_descent_mean", clip=1.5, steps=3),
    row("zga", "gradient_descent_regression", VECTORS, clip=1.5, rate=0.5, steps=3),
    row("pzga", "tuned_clipped_mean", k=3, policy="ksu20_order", radius=1.5, scale=40.0),
    row("pzga", "tuned_clipped_mean", k=2.5, policy="keep_all", beta=0.05, scale=0.3),
    row("pzga", "inverse_sensitivity", lower=-2.0, upper=3.0),
    row(
        "pzga", "inverse_sensitivity", lower=-1e300, upper=1e300, resolution=0.1, statistic="median"
    ),
    row("pzga", "ksu20_ball_mean", VECTORS, k=2, radius=3.0, scale=1.0),
    row("pzga", "ksu20_ball_mean", VECTORS, k=3, radius=1e300, outside="project", scale=40.0),
    row("pzga", "ksu20_ball_mean", VECTORS, k=3, radius=3.0, constants="tuned", scale=0.3),
    row("pzga", "ksu20_ball_mean", VECTORS, k=2, radius=10.0, constants="tuned", scale=1.0),
    row("pzga", "ksu20_ball_mean", VECTORS, k=2, radius=1.0, constants="tuned", scale=40.0),
    row("a", "ksu20_ball_mean", VECTORS, k=2, radius=None, scale=0.3),
    row("p", "ksu20_tournament_mean", FEW, k=2, radius=3.0, alpha=0.5, scale=0.3),
    row("pzga", "ksu20_mean", k=2, radius=1.5, scale=0.3),
    row("a", "ksu20_mean", k=3, radius=None, alpha=0.3, scale=1.0),
    row("pzga", "ksu20_mean", k=3, radius=1.5, constants="tuned", scale=40.0),
    row("pzga", "ksu20_mean", MANY, k=2.5, radius=1e300, constants="paper", beta=0.99, scale=3.0),
    row("pzga", "ksu20_range_estimate", k=2, alpha=0.05, radius=1.5, scale=40.0),
    row("a", "ksu20_range_estimate", k=3, alpha=0.3, radius=None, constants="practical", scale=0.3),
    row("pzga", "parametric_bootstrap_interval", lower=-2.0, upper=3.0, draws=39),
    row("pzga", "parametric_bootstrap_interval", lower=-1e150, upper=1e150, sigma=0.5, draws=39),
    row("zga", "huber_interval", scale=1.0),
    row("zga", "huber_interval", scale=1e100, steps=2, beta=0.5),
    row("pzga", "karwa_vadhan_interval", radius=2.0),
    row("pzga", "karwa_vadhan_interval", radius=1e300, sigma=0.5),
    row("a", "karwa_vadhan_interval", radius=None, sigma_low=0.1, sigma_high=10.0),
    row("pzga", "noisyvar_interval", lower=-2.0, upper=3.0, draws=39),
    row("pzga", "karwa_vadhan_mean", radius=2.0, sigma=1.0),
    row("a", "karwa_vadhan_mean", radius=None, sigma=0.5),
    row("pzga", "karwa_vadhan_gaussian", radius=2.0),
    row("pzga", "karwa_vadhan_gaussian", radius=1e300, sigma_low=0.5, sigma_high=2.0),
    row("a", "karwa_vadhan_gaussian", radius=None, sigma_low=0.1, sigma_high=10.0),
    row("n", "least_squares", VECTORS),
    row("pzga", "local_mean", k=3, radius=1.5, beta=0.01, scale=1.0),
    row(
        "pzga", "local_mean", k=2, policy="ksu20_order", mechanism="randomised_response", scale=40.0
    ),
    row("pzga", "local_mean", k=2, radius=1.5, mechanism="three_values", scale=0.3),
    row("pzga", "local_mean", k=2, radius=1.5, mechanism="graded_votes", scale=0.3),
    row("n", "median", FOLLOWS),
    row("n", "median_of_means", FOLLOWS, groups=7),
    row("pzga", "naive_gaussian_mean", radius=1.5, sigma=1.0),
    row("zga", "plan_mean", VECTORS, radius=3.0, sigma_low=0.01, sigma_high=9, rounds=4),
    row("zga", "plan_mean", {"d": 1}, radius=1e100, sigma_low=1e-100, sigma_high=1e100, rounds=2),
    row("zga", "instance_optimal_mean", VECTORS, radius=3.0, rounds=4),
    row("zga", "instance_optimal_mean", {"d": 1}, radius=1e100, rounds=2),
    row("pzga", "randomized_response_sign_mean", radius=3.0, sigma=1.0),
    row("pzga", "randomized_response_sign_mean", radius=1e300, sigma=0.5),
    row("pzga", "bounded_contribution_mean", lower=-2.0, upper=3.0, cap=2),
    row("pzga", "bounded_contribution_mean", {"d": 6}, lower=-2.0, upper=3.0, cap=4, clip=3.0),
    row(
        "pzga",
        "bounded_contribution_mean",
        {"d": 6},
        lower=-1e300,
        upper=1e300,
        cap=3,
        weights="capped",
    ),
    row("pzga", "user_level_mean", {"d": 6}, k=2, m=1, radius=1.5, scale=3.0, cap=4),
    row("pzga", "user_level_mean", k=3, m=4, radius=1.5, scale=40.0),
    row("pzga", "user_level_mean", k=2, m=10**6, radius=1e300, scale=0.3),
    row("pzga", "public_record_mean", sigma=0.5),
    row("zga", "public_record_mean", sigma=40.0, rounds=3, public_records=4),
    row("pzga", "privunit_mean", VECTORS, radius=2.5),
    row("pzga", "shrinking_intervals", radius=1e280, rounds=3, reported_round=2, sigma=1.0),
    row(
        "pzga",
        "smooth_sensitivity_trimmed_mean",
        lower=-2.0,
        upper=3.0,
        trimmed_records=10,
        smoothness_share=0.8,
    ),
    row("pzga", "smooth_sensitivity_trimmed_mean", lower=-1e300, upper=1e300),
    row("pzga", "smooth_sensitivity_trimmed_mean", lower=-2.0, upper=3.0, noise="polyplace"),
    row("pzga", "hourglass_mean", lower=-2.0, upper=3.0),
    row("pzgapzga", "bezier_variance", lower=-2.0, upper=3.0),
    row("pzga", "clipped_variance", lower=-2.0, upper=3.0),
    row("pzga", "three_sums_variance", lower=-2.0, upper=3.0),
    row("pzga", "three_sums_variance", lower=-2.0, upper=3.0, centred=False),
    row("pzga", "pair_variance", base={"kind": "clipped_mean", "lower": 0.0, "upper": 12.5}),
    row("pzga", "normalized_sum_mean"),
    row("pzga", "normalized_sum_mean", lower=-1e300, upper=1e300, region="ball"),
    row("pzga", "transformed_noise_mean", lower=-2.0, upper=3.0),
    row("pzga", "transformed_noise_mean", lower=-2.0, upper=3.0, region="ball"),
    row("pzga", "tukey_median", lower=-2.0, upper=3.0, resolution=0.3),
    row("pzga", "tukey_median", VECTORS, lower=-2.0, upper=3.0, resolution=0.5),
    row("pzga", "subsample_aggregate", **OUTPUTS),
    row("pzga", "subsample_aggregate", **OUTPUTS, aggregate="mean", base=spreads),
    row("pzga", "subsample_aggregate", **OUTPUTS, aggregate="mode", base="median_of_means"),
    row("a", "private_bootstrap_interval", **BOUNDS, resamples=9),
    row("a", "private_bootstrap_interval", **BOUNDS, resamples=5, method="deconvolution"),
    row("pzga", "private_bootstrap_interval", **BOUNDS, resamples=8, weights="halves"),
    row("pzga", "subsample_interval", parts=5, base=CLIPPED),
    row("pzga", "subsample_interval", HUNDREDS, parts=300, base="median_of_means", **ENDS),
    row("a", "subsample_aggregate", buckets=9, aggregate="friendly_core", friends_within=2.0),
    row("pzga", "subsample_least_squares", VECTORS, **OUTPUTS),
    row("pzga", "subsample_least_squares", VECTORS, **OUTPUTS, aggregate="mean"),
    row("pzga", "subsample_test", buckets=4, aggregate="exponential"),
    row("pzga", "subsample_test", buckets=3, aggregate="histogram"),
    row("n", "trimmed_mean", FOLLOWS, fraction=0.2),
    row("a", "unbiased_mean", clip=1.5, sigma=1.0),
    row("pzga", "universal_mean"),
    row("pzga", "approximate_bounds_mean"),
    row("zga", "whitened_coinpress_mean", VECTORS, radius=3.0, bound=4.0),
]


def build_rows(kind: type[Any], use: Use) -> Iterator[Row]:
    """Yield the row of an entry of the catalogue, built from standard public knowledge."""
    for notions in ("pzga", "zga", "a"):
        budget = next(b for b in testing.NOTIONS if b.notion[0] == notions[0])
        for d, classes in ((1, use.numbers), (3, use.vectors)):
            local = kind.bounded_in == "local"
            known: dict[str, Any] = {"scale": 1.0, "k": 2.0, "radius": 2.0, "bounds": (-2.0, 3.0)}
            for records in classes:
                estimator = use.estimator(kind, Public(None, d, budget, local, records, **known))
                if estimator is not None:
                    supported = "".join(
                        b.notion[0] for b in testing.NOTIONS if estimator.supports(b)
                    )
                    yield estimator, supported, {"d": d} if d > 1 else {}
                    return


BY_HAND = {type(estimator) for estimator, *_ in ROWS}
ROWS += [row for _, kind, use in uses() if kind not in BY_HAND for row in build_rows(kind, use)]


def test_no_estimator_is_left_out() -> None:
    """A kind without a row above is checked as its entries in the catalogue make it."""
    kinds = Estimator.kinds().items()
    known = {name: c for name, c in kinds if c.__module__.startswith("dpbench.")}
    assert set(catalogue()) == set(known)
    rows = {type(estimator) for estimator, *_ in ROWS}
    without = [name for name, kind in known.items() if kind.seeded and kind not in rows]
    assert without == [], "a kind without entries in the catalogue needs a row of ROWS"
    assert rows <= set(known.values())


def test_what_the_catalogue_makes_can_be_checked() -> None:
    for name, kind, use in uses():
        assert list(build_rows(kind, use)) or kind.relations == ("add_remove",), name


@pytest.mark.parametrize("place", [30.0, -80.0])
def test_only_what_says_so_releases_a_fixed_guess_if_in_doubt(place: float) -> None:
    """At a tiny budget an estimator without a guess releases nothing, or anything in its bounds.

    Nine in ten of 1,000 uniform releases are within a quarter of their range from the median by a
    chance of less than 1e-100.
    """
    rng, radius, budget = np.random.default_rng(0), 100.0, PureDP(1e-4)
    for name, kind, use in uses():
        records = next(iter(use.numbers), None)
        known: dict[str, Any] = {
            "scale": 1.0,
            "k": 2.0,
            "radius": radius,
            "bounds": (-radius, radius),
        }
        if records == "binary":
            known["bounds"] = (0.0, 1.0)
        local = kind.bounded_in == "local"
        public = Public(200, 1, budget, local, records or "", **known)
        estimator = use.estimator(kind, public) if records else None
        if estimator is None:
            continue
        width = 1.0 if records == "binary" else 2 * radius
        data = rng.normal(place, 1, (1000, 200)) if width > 1 else rng.random((1000, 200)) < 0.3
        value = estimator.run(DenseSample(data.astype(float)), Ledger(budget, rng)).value
        near = np.abs(value - np.median(value)) < width / 4  # never of NaN
        assert (np.mean(near) >= 0.9) == (use.guess is not None), name
        assert use.guess is None or abs(np.median(value) - use.guess) < width / 50, name


@pytest.mark.parametrize(("estimator", "notions", "how"), ROWS, ids=lambda v: type(v).__name__)
def test_every_estimator(estimator: Estimator, notions: str, how: dict[str, Any]) -> None:
    supported = [b.notion[0] for b in testing.NOTIONS if estimator.supports(b)]
    assert sorted(supported) == sorted(notions)
    check_estimator(estimator, **how)


@pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")  # for simulations only
@pytest.mark.parametrize(("estimator", "notions", "how"), ROWS, ids=lambda v: type(v).__name__)
def test_data_raise_no_warning(estimator: Estimator, notions: str, how: dict[str, Any]) -> None:
    """No data raise another warning, which an error filter would turn into a leak."""
    # GDP is left out, because its noise is the noise of zCDP, which the same estimators support.
    notions_of_data = [b for b in testing.NOTIONS if b.notion != "gdp" and estimator.supports(b)]
    budgets = [None if b.notion == "none" else b for b in notions_of_data]
    for like in testing._datasets(estimator, how.get("records"), how.get("d")):
        places, chance = np.arange(len(like)), np.random.default_rng(0).random(len(like))
        largest = np.finfo(float).max
        hostile = [
            5e-324 * places, 1e-310 * chance, largest * (-1.0) ** places, largest * chance,
            np.full(len(like), largest), largest * (places == 0),
            np.where(places % 2, 1e-320, 1e308),
        ]  # fmt: skip
        for records, budget in itertools.product(hostile, budgets):
            data = records if like.ndim == 1 else np.outer(records, [1, -1, 0.5][: like.shape[1]])
            values = release(estimator, data, budget, rng=np.random.default_rng(1), repeats=3)
            assert not np.isinf(values).any()


@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_hardly_a_gaussian_record_is_far(d: int) -> None:
    """Few Gaussian records of d coordinates exceed `Public.far`, by the chi distribution."""
    public = Public(100, d, PureDP(1.0), False, "gaussian", scale=2.0, radius=3.0)
    assert 1e-6 < stats.chi(d).sf((public.far - 3.0) / 2.0) < 0.005


def test_as_few_and_as_many_records_as_are_taken() -> None:
    ((_, kind, use),) = (entry for entry in uses() if entry[0] == "binary_minimax")
    most = kind().most_records
    for n, applies in ((1, True), (most, True), (most + 1, False)):
        estimator = use.estimator(kind, Public(n, 1, PureDP(1.0), False, "binary"))
        assert (estimator is not None) == applies


@pytest.mark.parametrize(("estimator", "notions", "how"), ROWS, ids=lambda v: type(v).__name__)
def test_the_fewest_records_are_enough_and_one_fewer_is_not(
    estimator: Estimator, notions: str, how: dict[str, Any]
) -> None:
    """With one record fewer the estimator is refused by a message, and not by another error."""
    budget = next(b for b in testing.NOTIONS if b.notion[0] == notions[0] and estimator.supports(b))
    like = testing._datasets(estimator, how.get("records"), how.get("d"))[-1]
    d = 1 if like.ndim == 1 else like.shape[1]
    least = estimator.least_records(d, budget)
    if least > 2000 or type(estimator).__name__ == "TableMean":
        return  # covered by the tests of the estimator; a table with labels has one size
    ledger = Ledger(budget, np.random.default_rng(0))
    data = np.resize(like, (least, *like.shape[1:]))[None]
    estimator.run(DenseSample(data), ledger)
    if least > 1:
        with pytest.raises(ValueError, match=r"record|pair|sizes"):
            estimator.run(DenseSample(data[:, 1:]), Ledger(budget, np.random.default_rng(0)))


def test_docstrings_list_the_values_that_a_parameter_takes() -> None:
    """A renamed value must not live on in the list of a parameter's values."""
    listed = 0
    for kind in Estimator.kinds().values():
        doc = "".join(inspect.getdoc(base) or "" for base in kind.__mro__)
        for key, hint in get_type_hints(kind).items():
            values = {value for value in get_args(hint) if isinstance(value, str)}
            found = re.search(rf"^{key} : .*?(?=^\S+ : |\Z)", doc, re.DOTALL | re.MULTILINE)
            named = set(re.findall(r"^ +- ``(\w+)``:", found[0], re.MULTILINE)) if found else set()
            assert not values or named <= values, (kind.__name__, key)
            listed += bool(named and values)
    assert listed >= 3
