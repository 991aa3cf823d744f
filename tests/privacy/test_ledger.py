"""What mechanisms cost, what they release, and what the receipt says of it."""

from __future__ import annotations

import doctest
import itertools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, OverdraftError, PureDP
from dpbench.privacy import ledger as module
from tests.support import (
    assert_follows,
    assert_frequencies,
    exponential_epsilon,
    noise_law,
    pure_epsilon,
    rng,
    row_norms,
)  # fmt: skip

BUDGETS: list[Budget] = [PureDP(0.8), ZCDP(0.1), GDP(0.7), ApproxDP(0.8, 1e-5)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)
Act = Callable[[Ledger], object]


def ledger(budget: Budget, seed: int = 0) -> Ledger:
    return Ledger(budget, rng(seed))


MECHANISMS: dict[str, Callable[[Ledger, float], object]] = {
    "add_noise": lambda account, s: account.add_noise(np.zeros(2), s),
    "l1": lambda account, s: account.add_noise(np.zeros((2, 3)), 1.0, l1=s),
    "per trial": lambda account, s: account.add_noise(np.zeros(2), np.array([1.0, s])),
    "add_l2_noise": lambda account, s: account.add_l2_noise(np.zeros((2, 3)), s),
    "box": lambda account, s: account.add_joint_noise(np.zeros((2, 3)), s, base="box"),
    "ball": lambda account, s: account.add_joint_noise(np.zeros((2, 3)), s, base="ball"),
    "add_geometric_noise": lambda account, s: account.add_geometric_noise(np.zeros(2), s),
    "exponential": lambda account, s: account.exponential(np.zeros((2, 3)), s),
}


@each
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_mechanism_spends_the_budget_once(
    budget: Budget, mechanism: Callable[[Ledger, float], object]
) -> None:
    account = ledger(budget)
    for sensitivity in (math.inf, math.nan, -1.0):
        with pytest.raises(ValueError, match="sensitivity"):
            mechanism(account, sensitivity)
    assert account.spent == (0.0,) * len(budget.amounts)
    mechanism(account, 1.0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-15)
    with pytest.raises(OverdraftError, match="exceeds what is left"):
        mechanism(account, 1.0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-15)


ACTS: dict[str, Act] = {
    "pay": lambda account: account.pay(),
    "half": lambda account: account.split(0.5),
    "parallel": lambda account: account.parallel(2),
    "repeated": lambda account: account.repeated(2),
}


def test_overdrafts_of_every_order() -> None:
    budget = ApproxDP(0.8, 1e-5)
    for one, two in itertools.product(ACTS, ACTS):
        if one == two == "half":
            continue  # two halves fit
        account = ledger(budget)
        ACTS[one](account)
        before = account.receipt()
        with pytest.raises(OverdraftError, match="exceeds what is left"):
            ACTS[two](account)
        assert account.receipt() == before
    for shares in ((1.001,), (0.5, 0.5, 1e-6), (math.inf,), (0.0,), (-0.5,), (math.nan,)):
        account = ledger(budget)
        with pytest.raises((OverdraftError, ValueError)):
            account.split(*shares)
        account.pay()  # nothing was reserved
    account = ledger(budget)
    for none in (account.repeated, account.parallel):
        with pytest.raises(ValueError, match="at least one is needed"):
            none(0)
    account.pay()


@each
def test_how_costs_add_up(budget: Budget) -> None:
    """Steps by their sum, disjoint parts by their maximum, releases as often as they are."""

    def spent(account: Ledger, share: float) -> None:
        root = math.sqrt(share) if budget.notion == "gdp" else share  # squares add up
        assert account.spent == pytest.approx([root * a for a in budget.amounts])
        assert account.share == pytest.approx(share)

    for shares in ((1.0,), (0.1,) * 10, (1 / 3,) * 3):
        account = ledger(budget)
        for done, child in enumerate(account.split(*shares), start=1):
            child.pay()
            spent(account, sum(shares[:done]))
    account = ledger(budget)
    one, two, three = account.parallel(3)
    for part, share in ((one.split(0.25)[0], 0.25), (two.split(0.75)[0], 0.75), (three, 1.0)):
        part.pay()
        spent(account, share)
    for times in (1, 3, 1000):
        account = ledger(budget)
        first, second = account.split(0.25, 0.75)
        child = first.repeated(times)
        share = 0.25 / times
        root = math.sqrt(share) if budget.notion == "gdp" else share
        wanted = [root * a for a in budget.amounts]
        assert child.budget.amounts == pytest.approx(wanted, rel=1e-12)
        half, rest = child.split(0.5, 0.5)
        half.add_noise(np.zeros(times), 1.0)
        spent(account, 1 / 8)
        rest.pay()
        spent(account, 1 / 4)
        for part in second.repeated(times).parallel(5):
            part.pay()
        spent(account, 1.0)


def test_steps_of_a_stronger_notion() -> None:
    account = ledger(ZCDP(0.1))
    first = 0.2 * math.tanh(0.1)
    parts = account.split(PureDP(0.2), ZCDP(0.1 - first))
    for part, cost in zip(parts, (first, 0.1), strict=True):
        part.pay()
        assert account.spent == pytest.approx((cost,))
    account = ledger(ApproxDP(1.0, 1e-5))
    pure, rest = account.split(PureDP(0.4), ApproxDP(0.6, 1e-5))
    pure.pay()
    assert account.spent == pytest.approx((0.4, 0.0))
    with pytest.raises(ValueError, match="implies no"):
        rest.split(NonPrivate())
    account = ledger(GDP(1.0))  # as Phi(0.3) = 0.61791
    for part, cost in zip(account.split(PureDP(0.4805), GDP(0.8)), (0.6, 1.0), strict=True):
        part.pay()
        assert account.spent == pytest.approx((cost,), rel=1e-3)
    # Pure steps of one part add up before they convert.
    account = ledger(ZCDP(0.1))
    (inner,) = account.split(PureDP(0.4))
    for done, part in enumerate(inner.split(*[0.25] * 4), start=1):
        part.pay()
        assert account.spent == pytest.approx((0.1 * done * math.tanh(0.05 * done),), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shares"),
    [(1.0, 1e-6, (1.0,)), (0.3, 0.1, (1 / 12,) * 3 + (3 / 4,)), (30.0, 1e-12, (1 / 2, 1 / 2))],
)
def test_steps_under_zcdp_compose_there_and_convert_once(
    epsilon: float, delta: float, shares: tuple[float, ...]
) -> None:
    budget = ApproxDP(epsilon, delta)
    account = ledger(budget)
    (inner,) = account.split(ZCDP.within(budget))
    parts = inner.split(*shares)
    for done, part in enumerate(parts, start=1):
        part.pay()
        wanted = ZCDP(sum(shares[:done]) * inner.budget.amounts[0]).to_approx(delta).amounts
        assert account.spent == pytest.approx(wanted, rel=1e-9, abs=0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    with pytest.raises(OverdraftError):
        account.split(1e-3)


def test_no_privacy_costs_nothing_as_often_as_one_likes() -> None:
    account = ledger(NonPrivate())
    for part in (account, account, *account.split(1.0, 1.0)):
        part.pay()
    assert account.spent == ()
    assert ledger(NonPrivate()).receipt() == "none: not spent\nleft: nothing"


def test_a_failure_that_is_allowed_costs_delta() -> None:
    account = ledger(ApproxDP(1.0, 1e-5))
    account.allow_failure(9e-6)
    assert account.spent == (0.0, 9e-6)
    acts: list[Act] = [*ACTS.values(), lambda a: a.allow_failure(2e-6)]
    for act in acts:
        with pytest.raises(OverdraftError, match="exceeds what is left"):
            act(account)
    pure, rest = account.split(PureDP(0.25), ApproxDP(0.75, 1e-6))
    pure.pay()  # costs no delta
    assert account.spent == pytest.approx((0.25, 9e-6), rel=1e-12)
    rest.pay()
    assert account.spent == pytest.approx((1.0, 1e-5), rel=1e-12)
    # Parts pay their maximum, repeated releases as often as they are.
    one, two = ledger(ApproxDP(1.0, 1e-5)), ledger(ApproxDP(1.0, 1e-5))
    for part, delta in zip(one.parallel(2), (4e-6, 1e-6), strict=True):
        part.allow_failure(delta)
    assert one.spent == pytest.approx((0.0, 4e-6), rel=1e-12)
    two.repeated(5).allow_failure(1e-6)
    assert two.spent == pytest.approx((0.0, 5e-6), rel=1e-12)


def test_failures_that_cannot_be_allowed() -> None:
    for budget in (PureDP(1.0), ZCDP(0.5)):
        with pytest.raises(ValueError, match=f"bad_event implies no {budget.notion} guarantee"):
            ledger(budget).allow_failure(1e-9)
    account = ledger(ApproxDP(1.0, 1e-5))
    for delta in (0.0, math.nan):
        with pytest.raises(ValueError, match="input should be"):
            account.allow_failure(delta)
    account.pay()  # nothing was reserved


# What is released.


@each
def test_the_exponential_mechanism_is_a_softmax(budget: Budget) -> None:
    scores, sensitivity = np.array([0.0, -1.0, 3.0, 2.5, -8.0]), 1.7
    epsilon = exponential_epsilon(budget)
    for weights in (np.ones(5), np.array([1.0, 5.0, 0.2, 0.1, 9.0])):
        wanted = np.exp(epsilon * scores / (2 * sensitivity)) * weights
        rows = np.tile(scores, (50_000, 1))
        chosen = ledger(budget, 7).exponential(rows, sensitivity, np.log(weights))
        assert_frequencies(np.bincount(chosen, minlength=5), wanted / wanted.sum())


@pytest.mark.parametrize("dimension", [1, 3, 20])
@each
def test_noise_in_l2(dimension: int, budget: Budget) -> None:
    times, sensitivity = 20_000, 2.5
    epsilon = pure_epsilon(budget)
    values = np.tile(1e3 * np.arange(dimension), (times, 1))
    noise = ledger(budget, 8).add_l2_noise(values, sensitivity) - values
    radius = row_norms(noise)
    assert_follows(radius, stats.gamma(dimension, scale=sensitivity / epsilon))
    if dimension == 3:
        for j in range(3):  # Archimedes: each coordinate is uniform on the sphere
            assert_follows(noise[:, j] / radius, stats.uniform(-1, 2))
        # Five standard deviations: false-alarm probability below 1e-6.
        together = float(stats.spearmanr(radius, noise[:, 0] / radius).statistic)
        assert abs(together) <= 5 / math.sqrt(times)


@pytest.mark.parametrize("base", ["box", "ball"])
@pytest.mark.parametrize("d", [1, 3])
def test_joint_noise(d: int, base: Literal["box", "ball"]) -> None:
    """Its norm is of Gamma(d + 1), as of any norm; and where it is on the surface."""
    times, epsilon = 20_000, 0.8
    values = np.tile(1e3 * np.arange(d + 1), (times, 1))
    noise = ledger(PureDP(epsilon), 8).add_joint_noise(values, 2.5, base=base) - values
    sides = abs(noise[:, :d]).max(axis=1) if base == "box" else row_norms(noise[:, :d])
    norm = np.maximum(sides, abs(noise[:, d]))
    assert_follows(norm, stats.gamma(d + 1, scale=2.5 / epsilon))
    # Of a cylinder's points one in d + 1 is nearest to an end: five standard deviations, 1e-6.
    ends = np.mean(abs(noise[:, d]) == norm)
    assert abs(ends - 1 / (d + 1)) <= 5 * math.sqrt(d / times) / (d + 1)
    rest = abs(noise[:, d]) < norm
    assert_follows((noise[:, d] / norm)[rest], stats.uniform(-1, 2))
    if base == "ball":
        assert_follows((sides / norm)[~rest] ** d, stats.uniform(0, 1))
        if d == 3:
            assert_follows(noise[:, 0] / sides, stats.uniform(-1, 2))


@each
def test_geometric_noise(budget: Budget) -> None:
    epsilon = budget.pure_epsilon
    noise = ledger(budget, 9).add_geometric_noise(np.full(50_000, 7.0), 2) - 7
    decay, inner = math.exp(-epsilon / 2), np.arange(-9, 10)
    inside = (1 - decay) / (1 + decay) * decay ** abs(inner)
    wanted = np.concatenate([[(1 - inside.sum()) / 2], inside, [(1 - inside.sum()) / 2]])
    assert_frequencies(np.bincount(np.clip(noise + 10, 0, 20).astype(int), minlength=21), wanted)


def test_geometric_noise_is_for_whole_numbers() -> None:
    """A fraction would be released as it is."""
    for counts, sensitivity in ((np.array([0.5]), 1.0), (np.array([1.0]), 0.0)):
        with pytest.raises(ValueError, match="whole numbers of a sensitivity above 0"):
            ledger(PureDP(1.0), 0).add_geometric_noise(counts, sensitivity)


@each
def test_a_sensitivity_per_trial_scales_the_noise_of_that_trial(budget: Budget) -> None:
    values, sensitivity = np.array([5.0, -1.0, 0.0, 7.0]), np.array([0.0, 1e-3, 2.0, 1e9])
    for draws in (1, 5):
        unit = ledger(budget, 4).add_noise(np.zeros(4), 1.0, draws=draws)
        found = ledger(budget, 4).add_noise(values, sensitivity, draws=draws)
        np.testing.assert_allclose(found, values + sensitivity * unit, rtol=1e-12)
        assert np.all(unit != 0)
    l2 = np.tile([[0.1], [1.0], [30.0], [7.0]], (4000, 1))
    for l1, factor in ((None, math.sqrt(3)), (1.5 * l2, 1.5)):  # l1 is at most sqrt(d) l2
        noise = ledger(budget, 6).add_noise(np.zeros((16_000, 3)), l2, l1=l1) / l2
        for trial in range(4):
            assert_follows(noise[trial::4], noise_law(budget, factor, 1.0))


# The receipt.


@pytest.mark.parametrize("sensitivity", [0.0, 5e-324])
def test_a_sensitivity_that_underflows_has_noise(sensitivity: float) -> None:
    """Of all digits: without, or with few, what is released shows on which side it is."""
    values, rng = np.zeros((1000, 2)), np.random.default_rng(0)
    one = values[:, 0]

    def pure() -> Ledger:
        return Ledger(PureDP(1.0), rng)

    for released in (
        pure().add_noise(one, sensitivity),
        pure().add_noise(values, sensitivity, l1=sensitivity),
        Ledger(ZCDP(0.5), rng).add_noise(one, sensitivity),
        pure().add_l2_noise(values, sensitivity),
        pure().add_joint_noise(values, sensitivity, base="box"),
        pure().add_smooth_noise(one, sensitivity, 0.1),
    ):
        assert np.unique(released).size == released.size


def test_the_example_runs() -> None:
    assert doctest.testmod(module) == (0, 8)


def test_receipts() -> None:
    account = ledger(PureDP(1.0))
    assert str(account) == "pure epsilon 1: not spent\nleft: epsilon 1"
    a, b, c, d, e = account.split(0.2, 0.2, 0.2, 0.1, 0.3)
    a.add_noise(np.zeros(2), np.array([0.5, 0.25]))
    b.add_l2_noise(np.zeros((2, 3)), 2.0)
    c.exponential(np.zeros((2, 3)), 1.0)
    d.pay("a mechanism by name", 4.0)
    assert account.receipt().splitlines() == [
        "pure epsilon 1",
        "  pure epsilon 0.2: additive noise, sensitivity 0.25 to 0.5",
        "  pure epsilon 0.2: noise in l2, sensitivity 2",
        "  pure epsilon 0.2: exponential mechanism, sensitivity 1",
        "  pure epsilon 0.1: a mechanism by name, sensitivity 4",
        "  pure epsilon 0.3: not spent",
        "left: epsilon 0.3",
    ]
    e.pay()
    assert account.receipt().endswith("\nleft: epsilon 0")  # and not what rounding left
    account = ledger(GDP(1.0))
    account.split(0.64)[0].pay()
    assert account.receipt().splitlines()[1:] == [
        "  gdp mu 0.8: a mechanism of its own",
        "left: mu 0.6",
    ]
    account = ledger(ApproxDP(1.0, 1e-6, noise_by="laplace"))
    account.allow_failure(2.5e-7)
    half, pure = account.split(0.5, PureDP(0.5))
    one, _ = half.parallel(2)
    one.repeated(5).add_noise(np.zeros(10), 1.0)
    pure.repeated(1).pay()
    assert account.receipt().splitlines() == [
        "approx_laplace epsilon 1, delta 1e-06",
        "  bad_event delta 2.5e-07: an event under which a later bound is wrong",
        "  approx_laplace epsilon 0.5, delta 5e-07",
        "    in parallel: approx_laplace epsilon 0.5, delta 5e-07",
        "      5 times: approx_laplace epsilon 0.1, delta 1e-07: additive noise, sensitivity 1",
        "    in parallel: approx_laplace epsilon 0.5, delta 5e-07: not spent",
        "  pure epsilon 0.5",
        "    pure epsilon 0.5: a mechanism of its own",
        "left: epsilon 0, delta 2.5e-07",
    ]
