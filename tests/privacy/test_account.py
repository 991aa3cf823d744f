"""Spending of an account: sums, parts, conversions, failures, receipts."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, OverdraftError, PureDP
from dpbench.privacy.neighbours import row_budget
from tests.privacy.ledgers import ledger

BUDGETS: list[Budget] = [PureDP(0.8), ZCDP(0.1), GDP(0.7), ApproxDP(0.8, 1e-5)]
each = pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.notion)
Act = Callable[[Ledger], object]


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
    """Check sums of steps, maxima of disjoint parts, and multiples of repeated releases."""

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
    account = ledger(GDP(1.0))  # Phi(0.3) = 0.61791
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


def test_the_share_that_is_spent_is_that_of_the_least() -> None:
    """Check that the share is the smaller of nine tenths of epsilon and half of delta."""
    account = ledger(ApproxDP(1.0, 1e-6))
    for part in account.split(PureDP(0.4), ApproxDP(0.5, 5e-7)):
        part.pay()
    assert account.spent == pytest.approx((0.9, 5e-7))
    assert account.share == pytest.approx(0.5)


def for_rows(account: Ledger, rows: int) -> Ledger:
    return account.split(row_budget(account.budget, rows), rows=rows)[0]


SPLITS: dict[str, Callable[[Ledger, int], list[Ledger]]] = {
    "equal": lambda account, k: account.split(*[1 / k] * k),
    "unequal": lambda account, k: account.split(*np.arange(1, k + 1) / (k * (k + 1) / 2)),
    "repeated": lambda account, k: [account.repeated(k)],
    "groups": lambda account, k: [
        cell for part in account.split(*[1 / k] * k) for cell in part.parallel(2)
    ],
    "nested": lambda account, k: [
        cell for part in account.split(0.3, 0.7) for cell in part.split(*[1 / k] * k)
    ],
    "rows": lambda account, k: for_rows(account, k).split(*[1 / k] * k),
}
MORE: list[Budget] = [PureDP(1.0), PureDP(0.3), ZCDP(0.5), GDP(1.1), ApproxDP(0.7, 1e-6)]


@pytest.mark.parametrize("kind", SPLITS)
def test_rounding_never_spends_more_than_the_budget(kind: str) -> None:
    numbers = range(3, 201) if kind == "equal" else (3, 7, 9, 11, 22, 49, 98, 107, 161, 200)
    for budget in MORE[:2] if kind == "equal" else MORE:
        for k in numbers:
            account = ledger(budget)
            for part in SPLITS[kind](account, k):
                part.pay()
            for found, limit in zip(account.spent, budget.amounts, strict=True):
                assert limit * (1 - 1e-9) <= found <= limit
            assert 1 - 1e-9 <= account.share <= 1


def test_spent_shows_what_exceeds_the_budget_by_more_than_rounding() -> None:
    account = ledger(PureDP(1.0))
    account.pay()
    account._mechanism, part = None, ledger(PureDP(1.0 + 1e-6))
    part.pay()
    account._groups = [[part]]
    assert account.spent == (1.0 + 1e-6,)


@each
def test_parts_for_rows_cost_as_much_as_all_rows_of_a_record(budget: Budget) -> None:
    """Gaussian or Laplace noise that hides one row is moved by all rows of a record at once."""
    for neighbours, rows in (("replace", 5), ("add_remove", 5), ("add_remove", 1)):
        account = ledger(replace(budget, neighbours=neighbours))  # type: ignore[type-var]
        part, steps = for_rows(account, rows), rows * (2 if neighbours == "replace" else 1)
        assert (part.budget.neighbours, part.steps) == ("add_remove", steps)
        power = 2 if budget.notion == "zcdp" else 1
        assert part.budget.amounts[0] == pytest.approx(budget.amounts[0] / steps**power)
        if isinstance(budget, ApproxDP):  # k inequalities P <= e^epsilon Q + delta
            epsilon, step = part.budget.amounts
            start = 0.0
            for _ in range(steps):
                start = math.exp(epsilon) * start + step
            assert start == pytest.approx(budget.delta)
        half = part.split(0.5)[0]
        half.pay()
        assert all(
            0 < found < all_ for found, all_ in zip(account.spent, budget.amounts, strict=True)
        )
        part.split(0.5)[0].pay()
        assert account.spent == pytest.approx(budget.amounts, rel=1e-9)
        with pytest.raises(OverdraftError):
            account.split(1e-6)
    with pytest.raises(ValueError, match="rows is 0; at least one is needed"):
        ledger(budget).split(budget, rows=0)
    with pytest.raises(OverdraftError):  # rows of a person cost more than one
        ledger(budget).split(row_budget(budget, 2), rows=3)


@each
def test_a_copy_of_the_costs_has_no_generator(budget: Budget) -> None:
    account = ledger(budget)
    account.name = "all"
    first, second = account.split(0.25, 0.75)
    first.repeated(3).add_noise(np.zeros(3), 1.0)
    for part in second.parallel(2):
        for_rows(part, 2).pay()
    bare = pickle.loads(pickle.dumps(account.copy_costs()))
    assert (bare.receipt(), bare.spent, bare.share) == (
        account.receipt(), account.spent, account.share,
    )  # fmt: skip
    assert not {"rng", "tape"} & set(vars(bare))
    with pytest.raises(OverdraftError):
        bare.split(0.1)
