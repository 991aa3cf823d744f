"""What mechanisms cost, and what they release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from support import Floats, assert_follows, assert_frequencies, noise_law, row_norms

from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, OverdraftError, PureDP

BUDGETS: list[Budget] = [PureDP(0.8), ZCDP(0.1), ApproxDP(0.8, 1e-5)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)


def ledger(budget: Budget, seed: int = 0) -> Ledger:
    return Ledger(budget, np.random.default_rng(seed))


def spend(account: Ledger) -> None:
    account.add_noise(np.zeros(2), 1.0)


MECHANISMS: list[Callable[[Ledger, float], object]] = [
    lambda account, sensitivity: account.add_noise(np.zeros(2), sensitivity),
    lambda account, sensitivity: account.add_noise(np.zeros((2, 3)), 1.0, l1=sensitivity),
    lambda account, sensitivity: account.add_l2_noise(np.zeros((2, 3)), sensitivity),
    lambda account, sensitivity: account.exponential(np.zeros((2, 3)), sensitivity),
    lambda account, sensitivity: account.add_noise(np.zeros(2), np.array([1.0, sensitivity])),
]
NAMES = ["add_noise", "add_noise_l1", "add_l2_noise", "exponential", "add_noise_per_trial"]
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)


@each
@each_mechanism
def test_a_mechanism_spends_the_budget_once(
    budget: Budget, mechanism: Callable[[Ledger, float], object]
) -> None:
    account = ledger(budget)
    assert account.spent == (0.0,) * len(budget.amounts)
    mechanism(account, 1.0)
    assert account.spent == budget.amounts
    with pytest.raises(OverdraftError, match="exceeds what is left"):
        mechanism(account, 1.0)
    assert account.spent == budget.amounts


@each
@pytest.mark.parametrize("shares", [(1.0,), (0.1,) * 10, (1 / 3,) * 3])
def test_a_sequential_split_adds_up(budget: Budget, shares: tuple[float, ...]) -> None:
    account = ledger(budget)
    children = account.split(*shares)
    assert account.spent == (0.0,) * len(budget.amounts)
    for done, child in enumerate(children, start=1):
        spend(child)
        wanted = [amount * sum(shares[:done]) for amount in budget.amounts]
        assert account.spent == pytest.approx(wanted)
    assert account.spent == pytest.approx(budget.amounts)


@each
def test_parallel_parts_cost_their_maximum(budget: Budget) -> None:
    account = ledger(budget)
    one, two, three = account.parallel(3)
    spend(one.split(0.25)[0])
    assert account.spent == pytest.approx([a / 4 for a in budget.amounts])
    spend(two.split(0.75)[0])
    assert account.spent == pytest.approx([0.75 * a for a in budget.amounts])
    spend(three)
    assert account.spent == budget.amounts


@each
@pytest.mark.parametrize("shares", [(1.001,), (0.5, 0.5, 1e-6)])
def test_a_split_of_more_than_there_is(budget: Budget, shares: tuple[float, ...]) -> None:
    with pytest.raises(OverdraftError):
        ledger(budget).split(*shares)


@each
def test_overdrafts_of_every_order(budget: Budget) -> None:
    acts: list[Callable[[Ledger], object]] = [
        spend,
        lambda account: account.split(0.5),
        lambda account: account.parallel(2),
    ]
    for one, two in itertools.product(acts, acts):
        if one is two is acts[1]:
            continue  # two halves fit
        account = ledger(budget)
        one(account)
        with pytest.raises(OverdraftError):
            two(account)


@pytest.mark.parametrize("share", [0.0, -0.5, math.nan, math.inf])
@each
def test_shares_that_are_none_are_refused(budget: Budget, share: float) -> None:
    with pytest.raises((ValueError, OverdraftError)):
        ledger(budget).split(share)


def test_a_pure_step_under_zcdp_and_approx() -> None:
    account = ledger(ZCDP(0.1))
    pure, rest = account.split(PureDP(0.2), ZCDP(0.08))
    spend(pure)
    assert account.spent == pytest.approx((0.02,))
    spend(rest)
    assert account.spent == pytest.approx((0.1,))
    account = ledger(ApproxDP(1.0, 1e-5))
    pure, rest = account.split(PureDP(0.4), ApproxDP(0.6, 1e-5))
    spend(pure)
    assert account.spent == pytest.approx((0.4, 0.0))
    spend(rest)
    assert account.spent == pytest.approx((1.0, 1e-5))


def test_steps_of_a_notion_that_implies_nothing_are_refused() -> None:
    for budget, other in ((PureDP(1.0), ZCDP(0.01)), (ZCDP(1.0), NonPrivate())):
        with pytest.raises(ValueError, match="implies no"):
            ledger(budget).split(other)


@each_mechanism
@pytest.mark.parametrize("sensitivity", [math.inf, math.nan, -1.0])
def test_sensitivities_that_are_none_are_refused(
    mechanism: Callable[[Ledger, float], object], sensitivity: float
) -> None:
    account = ledger(PureDP(1.0))
    with pytest.raises(ValueError, match="sensitivity"):
        mechanism(account, sensitivity)
    assert account.spent == (0.0,)


def test_the_l1_sensitivity_is_bounded_by_default() -> None:
    given = ledger(PureDP(1.0), 5).add_noise(np.zeros((4, 9)), 2.0, l1=6.0)
    default = ledger(PureDP(1.0), 5).add_noise(np.zeros((4, 9)), 2.0)
    np.testing.assert_allclose(default, given)


def softmax(exponents: Floats) -> Floats:
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


@each
@pytest.mark.parametrize("weighted", [False, True])
def test_the_exponential_mechanism_is_a_softmax(budget: Budget, weighted: bool) -> None:
    scores, sensitivity, times = np.array([0.0, -1.0, 3.0, 2.5, -8.0]), 1.7, 100_000
    log_weights = np.log([1.0, 5.0, 0.2, 0.1, 9.0]) if weighted else np.zeros(5)
    epsilon = math.sqrt(8 * budget.rho) if isinstance(budget, ZCDP) else 0.8
    wanted = softmax(epsilon * scores / (2 * sensitivity) + log_weights)
    rows = np.tile(scores, (times, 1))
    chosen = ledger(budget, 7).exponential(rows, sensitivity, log_weights if weighted else 0.0)
    assert_frequencies(np.bincount(chosen, minlength=5), wanted)


def l2_draws(dimension: int, sensitivity: float, budget: Budget, times: int) -> Floats:
    return ledger(budget, 8).add_l2_noise(np.zeros((times, dimension)), sensitivity)


@pytest.mark.parametrize("dimension", [1, 3, 20])
@each
def test_the_radius_of_l2_noise(dimension: int, budget: Budget) -> None:
    times, sensitivity = 20_000, 2.5
    epsilon = math.sqrt(2 * budget.rho) if isinstance(budget, ZCDP) else 0.8
    values = np.tile(1e3 * np.arange(dimension), (times, 1))
    noise = ledger(budget, 8).add_l2_noise(values, sensitivity) - values
    assert_follows(row_norms(noise), stats.gamma(dimension, scale=sensitivity / epsilon))


def test_the_direction_of_l2_noise() -> None:
    z = l2_draws(2, 1.0, PureDP(1.0), 20_000)
    angle = np.arctan2(z[:, 1], z[:, 0])
    assert_follows(angle, stats.uniform(-math.pi, 2 * math.pi))
    z = l2_draws(3, 1.0, PureDP(1.0), 20_000)
    radius = np.linalg.norm(z, axis=1)
    for j in range(3):  # Archimedes: each coordinate is uniform on the sphere
        assert_follows(z[:, j] / radius, stats.uniform(-1, 2))
    assert abs(stats.spearmanr(radius, z[:, 0] / radius).statistic) <= 5 / math.sqrt(20_000)


@each
def test_a_ledger_that_is_cut_cannot_pay(budget: Budget) -> None:
    cuts: list[Callable[[Ledger], object]] = [lambda a: a.split(1e-3), lambda a: a.parallel(2)]
    for cut in cuts:
        account = ledger(budget)
        cut(account)
        with pytest.raises(OverdraftError):
            account.pay()
        assert account.spent == (0.0,) * len(budget.amounts)


def test_no_privacy_costs_nothing_as_often_as_one_likes() -> None:
    account = ledger(NonPrivate())
    account.pay()
    account.pay()
    for part in account.split(1.0, 1.0):
        part.pay()
    assert account.spent == ()


@each
@pytest.mark.parametrize("draws", [1, 5])
def test_a_sensitivity_per_trial_scales_the_noise_of_that_trial(budget: Budget, draws: int) -> None:
    values, sensitivity = np.array([5.0, -1.0, 0.0, 7.0]), np.array([0.0, 1e-3, 2.0, 1e9])
    unit = ledger(budget, 4).add_noise(np.zeros(4), 1.0, draws=draws)
    found = ledger(budget, 4).add_noise(values, sensitivity, draws=draws)
    np.testing.assert_allclose(found, values + sensitivity * unit, rtol=1e-12)
    assert np.all(unit != 0)


@each
@pytest.mark.parametrize("given", [None, 1.5])
def test_a_sensitivity_per_trial_of_vectors(budget: Budget, given: float | None) -> None:
    l2 = np.tile([[0.1], [1.0], [30.0], [7.0]], (4000, 1))
    l1 = None if given is None else given * l2
    noise = ledger(budget, 6).add_noise(np.zeros((16_000, 3)), l2, l1=l1) / l2
    law = noise_law(budget, given or math.sqrt(3), 1.0)  # l1 is at most sqrt(d) l2
    for trial in range(4):
        assert_follows(noise[trial::4], law)


INSIDE = [(1.0, 1e-6), (0.3, 0.1), (30.0, 1e-12)]


@pytest.mark.parametrize(("epsilon", "delta"), INSIDE)
@pytest.mark.parametrize("shares", [(1.0,), (1 / 12,) * 3 + (3 / 4,)])
def test_steps_under_zcdp_compose_there_and_convert_once(
    epsilon: float, delta: float, shares: tuple[float, ...]
) -> None:
    budget = ApproxDP(epsilon, delta)
    account = ledger(budget)
    (inner,) = account.split(ZCDP.within(budget))
    assert account.spent == (0.0, 0.0)
    total = inner.budget.amounts[0]
    done = 0.0
    for share, part in zip(shares, inner.split(*shares), strict=True):
        part.pay()
        done += share
        if done < 0.999:
            wanted = ZCDP(done * total).to_approx(delta).amounts
            assert account.spent == pytest.approx(wanted, rel=1e-9, abs=0)
    assert account.spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    assert inner.spent == pytest.approx((total,), rel=1e-12, abs=0)
    with pytest.raises(OverdraftError):
        account.split(1e-3)


def test_pure_steps_under_zcdp_add_up_before_they_convert() -> None:
    account = ledger(ZCDP(0.1))
    (inner,) = account.split(PureDP(0.4))
    for done, part in enumerate(inner.split(*[0.25] * 4), start=1):
        part.pay()
        # done/4 of epsilon = 0.4 is (done/10)^2/2-zCDP.
        assert account.spent == pytest.approx(((done / 10) ** 2 / 2,), rel=1e-12)


def test_a_refused_split_reserves_nothing() -> None:
    ledger = Ledger(PureDP(1.0), np.random.default_rng(0))
    with pytest.raises(OverdraftError):
        ledger.split(0.5, 0.6)
    assert len(ledger.split(0.5, 0.5)) == 2


# One ledger for the coordinates of vectors.


@each
@pytest.mark.parametrize("times", [1, 3, 1000])
def test_repeated_releases_add_up(budget: Budget, times: int) -> None:
    account = ledger(budget)
    child = account.repeated(times)
    assert child.budget.amounts == pytest.approx([a / times for a in budget.amounts], rel=1e-12)
    assert account.spent == (0.0,) * len(budget.amounts)
    child.add_noise(np.zeros(times), 1.0)  # the rows of one batch
    assert account.spent == pytest.approx(budget.amounts, rel=1e-12, abs=0)
    assert child.spent == child.budget.amounts
    for act in (child.pay, account.pay, lambda: account.repeated(times), lambda: spend(child)):
        with pytest.raises(OverdraftError, match="exceeds what is left"):
            act()
    with pytest.raises(OverdraftError):
        account.split(1e-3)


@each
def test_what_repeated_releases_spend_so_far(budget: Budget) -> None:
    account = ledger(budget)
    first, second = account.split(0.25, 0.75)
    child = first.repeated(6)
    half, rest = child.split(0.5, 0.5)
    spend(half)
    assert account.spent == pytest.approx([a / 8 for a in budget.amounts])
    spend(rest)
    assert account.spent == pytest.approx([a / 4 for a in budget.amounts])
    for part in second.repeated(3).parallel(5):
        spend(part)
    assert account.spent == pytest.approx(budget.amounts)


@each
def test_repeated_releases_need_what_is_left(budget: Budget) -> None:
    account = ledger(budget)
    account.split(1e-3)
    with pytest.raises(OverdraftError):
        account.repeated(2)
    account = ledger(budget)
    spend(account)
    with pytest.raises(OverdraftError):
        account.repeated(1)


@each
@pytest.mark.parametrize("times", [0, -3])
def test_no_releases_are_refused(budget: Budget, times: int) -> None:
    account = ledger(budget)
    with pytest.raises(ValueError, match="at least one is needed"):
        account.repeated(times)
    account.pay()  # nothing was reserved


# An event of small probability under which nothing is promised.


def test_a_failure_that_is_allowed_costs_delta() -> None:
    account = ledger(ApproxDP(1.0, 1e-5))
    account.allow_failure(2e-6)
    assert account.spent == (0.0, 2e-6)
    account.allow_failure(3e-6)
    assert account.spent == pytest.approx((0.0, 5e-6), rel=1e-12)
    (rest,) = account.split(ApproxDP(1.0, 5e-6))
    assert account.spent == pytest.approx((0.0, 5e-6), rel=1e-12)
    spend(rest)
    assert account.spent == pytest.approx((1.0, 1e-5), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-5, 9e-6])
def test_no_more_failure_than_there_is(delta: float) -> None:
    account = ledger(ApproxDP(1.0, 1e-5))
    account.allow_failure(delta)
    for act in (
        account.pay,
        lambda: spend(account),
        lambda: account.allow_failure(2e-6),
        lambda: account.split(0.5),
        lambda: account.parallel(2),
        lambda: account.repeated(2),
    ):
        with pytest.raises(OverdraftError, match="exceeds what is left"):
            act()
    assert account.spent == (0.0, delta)
    pure, *_ = account.split(PureDP(0.25), PureDP(0.75))  # costs no delta
    spend(pure)
    assert account.spent == pytest.approx((0.25, delta), rel=1e-12)


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
def test_notions_without_delta_allow_no_failure(budget: Budget) -> None:
    account = ledger(budget)
    with pytest.raises(ValueError, match=f"bad_event implies no {budget.notion} guarantee"):
        account.allow_failure(1e-9)
    assert account.spent == (0.0,)
    account.pay()


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_probabilities_that_are_none_are_refused(delta: float) -> None:
    account = ledger(ApproxDP(1.0, 1e-5))
    with pytest.raises(ValueError, match="Input should be"):
        account.allow_failure(delta)
    assert account.spent == (0.0, 0.0)
    account.pay()


def test_events_of_parts_and_of_repeated_releases() -> None:
    """Parts pay their maximum of each amount, repeated releases as often as they are."""
    account = ledger(ApproxDP(1.0, 1e-5))
    one, two = account.parallel(2)
    one.allow_failure(4e-6)
    two.allow_failure(1e-6)
    assert account.spent == pytest.approx((0.0, 4e-6), rel=1e-12)
    account = ledger(ApproxDP(1.0, 1e-5))
    child = account.repeated(5)
    child.allow_failure(1e-6)
    assert account.spent == pytest.approx((0.0, 5e-6), rel=1e-12)
    (rest,) = child.split(ApproxDP(0.2, 1e-6))
    spend(rest)
    assert account.spent == pytest.approx((1.0, 1e-5), rel=1e-12)
