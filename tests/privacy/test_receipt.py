"""What a ledger says of what it was spent on, and a budget of itself."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

from dpbench.privacy import (
    AMOUNTS,
    ZCDP,
    ApproxDP,
    Budget,
    Ledger,
    NonPrivate,
    OverdraftError,
    PureDP,
    ledger,
)


def made(budget: Budget) -> Ledger:
    return Ledger(budget, np.random.default_rng(0))


def test_the_example_runs() -> None:
    result = doctest.testmod(ledger)
    assert result.attempted >= 8
    assert result.failed == 0


def test_mechanisms_and_their_sensitivities() -> None:
    account = made(PureDP(1.0))
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
    assert account.receipt().splitlines()[-2:] == [
        "  pure epsilon 0.3: a mechanism of its own",
        "left: epsilon 0",  # and not what rounding left
    ]
    assert str(account) == account.receipt()


def test_parts_in_parallel_and_a_part_of_a_part() -> None:
    account = made(ZCDP(0.5))
    one, _ = account.parallel(2)
    first, _ = one.split(0.5, 0.5)
    first.add_noise(np.zeros(2), 1.0)
    assert account.receipt().splitlines() == [
        "zcdp rho 0.5",
        "  in parallel: zcdp rho 0.5",
        "    zcdp rho 0.25: additive noise, sensitivity 1",
        "    zcdp rho 0.25: not spent",
        "  in parallel: zcdp rho 0.5: not spent",
        "left: rho 0.25",
    ]


def test_repeated_releases_are_one_line() -> None:
    account = made(ApproxDP(1.0, 1e-6, noise_by="laplace"))
    half, rest = account.split(0.5, 0.5)
    half.repeated(5).add_noise(np.zeros(10), 1.0)
    rest.repeated(1).add_noise(np.zeros(10), 1.0)
    assert account.receipt().splitlines() == [
        "approx_laplace epsilon 1, delta 1e-06",
        "  approx_laplace epsilon 0.5, delta 5e-07",
        "    5 times: approx_laplace epsilon 0.1, delta 1e-07: additive noise, sensitivity 1",
        "  approx_laplace epsilon 0.5, delta 5e-07",
        "    approx_laplace epsilon 0.5, delta 5e-07: additive noise, sensitivity 1",
        "left: epsilon 0, delta 0",
    ]


def test_an_allowed_failure_and_a_stronger_notion() -> None:
    account = made(ApproxDP(1.0, 1e-6))
    account.allow_failure(2.5e-7)
    (pure,) = account.split(PureDP(0.75))
    pure.pay()
    assert account.receipt().splitlines() == [
        "approx epsilon 1, delta 1e-06",
        "  bad_event delta 2.5e-07: an event under which a later bound is wrong",
        "  pure epsilon 0.75: a mechanism of its own",
        "left: epsilon 0.25, delta 7.5e-07",
    ]


def test_a_refused_overdraft_is_not_on_the_receipt() -> None:
    account = made(PureDP(1.0))
    account.split(0.5)
    before = account.receipt()
    with pytest.raises(OverdraftError):
        account.pay()
    assert account.receipt() == before


def test_no_privacy_leaves_nothing() -> None:
    assert made(NonPrivate()).receipt() == "none: not spent\nleft: nothing"


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [
        (PureDP(0.5), ("pure", 0.5, math.nan, math.nan)),
        (ZCDP(0.25), ("zcdp", math.nan, math.nan, 0.25)),
        (ApproxDP(2, 1e-5), ("approx", 2.0, 1e-5, math.nan)),
        (ApproxDP(1, 1e-5, noise_by="ksu20"), ("approx_ksu20", 1.0, 1e-5, math.nan)),
        (NonPrivate(), ("none", math.nan, math.nan, math.nan)),
    ],
    ids=lambda x: getattr(x, "label", None),
)
def test_a_budget_in_columns(budget: Budget, wanted: tuple[str | float, ...]) -> None:
    assert list(budget.columns) == ["privacy", *AMOUNTS] == ["privacy", "epsilon", "delta", "rho"]
    label, *amounts = budget.columns.values()
    assert label == wanted[0]
    assert all(type(amount) is float for amount in amounts)  # of integers, too
    np.testing.assert_array_equal(amounts, wanted[1:])
    found = [a for a in amounts if isinstance(a, float) and not math.isnan(a)]
    assert tuple(found) == budget.amounts
