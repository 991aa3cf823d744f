"""The attack: valid whatever the pilot chooses, and what each kind of event is there to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from dpbench.audit import attack
from dpbench.audit.attack import PairReleases, choose_attacks
from dpbench.audit.releases import PILOT_SHARE
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP

Floats = NDArray[np.float64]
Rng = np.random.Generator
# Releases on a dataset: from a stream, how many, on which of two datasets.
Mechanism = Callable[[Rng, int, int], Floats]

SEEDS = 100
FALSE_ALARM = 1e-6
ERROR = 1e-8  # that of one pair among a thousand
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """As in an audit."""
    with np.errstate(all="ignore"):
        yield


def _judged(
    pilot: PairReleases, rest: PairReleases, direction: Floats, budget: Budget, error: float
) -> float:
    chosen = choose_attacks(pilot, direction, budget, len(rest.left), error)
    assert sum(share for _, share in chosen) == pytest.approx(1)
    return max(attack.bound(rest, share * error) for attack, share in chosen)


def _bound(
    mechanism: Mechanism,
    budget: Budget,
    *,
    runs: int,
    seed: int = 0,
    error: float = ERROR,
    direction: Floats | None = None,
) -> float:
    """The bound of so many runs a side, which a coin deals out as in an audit."""
    rng = np.random.default_rng(seed)
    coins = rng.random(2 * runs) < 0.5
    early = np.arange(2 * runs) < PILOT_SHARE * 2 * runs
    sides = [
        (mechanism(rng, int(dealt.sum()), side), early[dealt])
        for side, dealt in enumerate((coins, ~coins))
    ]
    pilot, rest = (
        PairReleases(*[rows.reshape(len(rows), -1)[which == taken] for rows, which in sides])
        for taken in (True, False)
    )
    along = np.ones(pilot.left.shape[1]) if direction is None else direction
    return _judged(pilot, rest, along, budget, error)


def _laplace(rng: Rng, runs: int, side: int) -> Floats:
    return side + rng.laplace(size=runs)


def _randomised_response(rng: Rng, runs: int, side: int) -> Floats:
    told = rng.random(runs) < expit(1)
    return np.where(told, side, 1 - side).astype(float)


def _gaussian(rng: Rng, runs: int, side: int) -> Floats:
    return side + rng.normal(size=runs)


def _failing(rng: Rng, runs: int, side: int) -> Floats:
    """Nothing, and infinities, at odds of e."""
    return np.where(_randomised_response(rng, runs, side) == 0, np.nan, np.inf)


@pytest.mark.parametrize("mechanism", [_laplace, _randomised_response, _failing, _gaussian])
def test_what_is_exactly_as_private_as_it_claims(mechanism: Mechanism) -> None:
    budget: Budget = RHO if mechanism is _gaussian else PURE
    truth = budget.amounts[0]
    found = [_bound(mechanism, budget, runs=200, seed=s, error=0.05) for s in range(SEEDS)]
    assert sum(bound > truth for bound in found) <= binom.isf(FALSE_ALARM, SEEDS, 0.05)
    assert max(found) > truth / 4
    # At the error of an audit: one of these is a false alarm with probability 2e-4 at most.
    sharp = [_bound(mechanism, budget, runs=400, seed=s, error=1e-5) for s in range(20)]
    assert max(sharp) <= truth


@pytest.mark.parametrize("budget", [PURE, RHO, APPROX])
def test_the_error_is_divided_over_all_that_is_tried(budget: Budget) -> None:
    """Guesses or a divergence, and four events: together they may err no oftener than asked."""
    pilot = PairReleases(*np.random.default_rng(0).normal([[[0.0]], [[1.0]]], size=(2, 500, 1)))
    shares = sorted(share for _, share in choose_attacks(pilot, np.ones(1), budget, 2000, 0.1))
    assert shares == ([0.25] * 4 if budget is APPROX else [0.125] * 4 + [0.5])


def test_a_rule_that_fits_the_pilots_noise_shows_nothing() -> None:
    """Twenty coordinates of noise tell twenty pilot runs apart."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(20):
        left, right, more, again = rng.normal(size=(4, 40, 20))
        pilot, rest = PairReleases(left, right), PairReleases(more, again)
        wrong += _judged(pilot, rest, np.ones(20), APPROX, 0.05) > 0
        # Nor do they promise anything, as those that find a rule do not compare it.
        assert (
            max(one.promise for one, _ in choose_attacks(pilot, np.ones(20), APPROX, 40, 0.05)) < 2
        )
    assert wrong <= binom.isf(FALSE_ALARM, 20, 0.05)


# Each mechanism violates its claim, epsilon = 1 (delta = 1e-6), where one kind of event looks.


def _mixed(rng: Rng, runs: int, chance: float, usual: Floats, rare: Floats | float) -> Floats:
    return np.where(rng.random(runs) < chance, rare, usual)


def _atom(rng: Rng, runs: int, shown: bool) -> Floats:
    return _mixed(rng, runs, 0.1 * shown, rng.uniform(-1, 1, runs), 0.0)


def _outcome(rare: float, usual: float) -> Callable[[Rng, int, bool], Floats]:
    """Minus infinity lies in the lowest tail beside numbers; alone it is an outcome."""
    return lambda rng, runs, shown: _mixed(
        rng, runs, 0.01 + 0.2 * shown, np.full(runs, usual), rare
    )


def _beyond(rng: Rng, runs: int, shown: bool) -> Floats:
    return _mixed(rng, runs, 0.03 * shown, rng.uniform(-1, 1, runs), rng.uniform(2, 3, runs))


def _two_bumps(rng: Rng, runs: int, shown: bool) -> Floats:
    # Mass 0.4 in place of 0.1 on two intervals inside; the ends tell a factor 1.5.
    bump = rng.choice([-0.5, 0.5], runs) + rng.uniform(-0.05, 0.05, runs)
    outside = rng.uniform(-1, 1, runs)
    outside = np.where(np.abs(np.abs(outside) - 0.5) < 0.05, 0.0, outside)
    return _mixed(rng, runs, 0.4 if shown else 0.08, outside, bump)


def _outcomes_but(left_out: int) -> Callable[[], Iterator[attack.Event]]:
    kept = [event for i, event in enumerate(attack._non_finite_events()) if i != left_out]
    return lambda: iter(kept)


KINDS: dict[str, tuple[Callable[[Rng, int, bool], Floats], str, object]] = {
    "atoms": (_atom, "MAX_ATOM_EVENTS", 0),
    "nan": (_outcome(np.nan, np.inf), "_non_finite_events", _outcomes_but(0)),
    "infinity": (_outcome(np.inf, np.nan), "_non_finite_events", _outcomes_but(1)),
    "minus_infinity": (_outcome(-np.inf, np.inf), "_non_finite_events", _outcomes_but(2)),
    "upper_tail": (_beyond, "LEVELS", []),
    "lower_tail": (lambda *about: -_beyond(*about), "LEVELS", []),
    "likelihood_ratio": (_two_bumps, "LIKELIHOOD_BINS", 1),
}


@pytest.mark.parametrize("place", range(len(KINDS)), ids=KINDS)
def test_what_only_one_kind_of_event_sees(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, name, absent = list(KINDS.values())[place]
    # On which dataset it shows, and what is claimed.
    which, budget = place % 2, (PURE, APPROX)[place // 2 % 2]

    def shown(rng: Rng, runs: int, side: int) -> Floats:
        return mechanism(rng, runs, side == which)

    assert _bound(shown, budget, runs=10_000) > 1
    monkeypatch.setattr(attack, name, absent)
    assert _bound(shown, budget, runs=10_000) <= 1


NOTHING = attack.Attack(0.0, lambda *_: 0.0)


def test_guessing_alone_shows_a_factor_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(rng: Rng, runs: int, side: int) -> Floats:
        return 2 * side + rng.laplace(size=runs)

    monkeypatch.setattr(attack, "_choose_events", lambda *_: [NOTHING] * attack.EVENTS)
    assert 1 < _bound(halved, PURE, runs=1000) <= 2
    monkeypatch.setattr(attack, "_choose_guess", lambda *_: NOTHING)
    assert _bound(halved, PURE, runs=1000) == 0


def test_a_divergence_shows_more_than_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    for mechanism in (_gaussian, lambda *about: -_gaussian(*about)):
        assert _bound(mechanism, RHO, runs=10_000, seed=1) > 0.55 * RHO.rho
        with monkeypatch.context() as patched:
            patched.setattr(attack, "_choose_divergence_test", lambda *_: NOTHING)
            assert _bound(mechanism, RHO, runs=10_000, seed=1) < 0.5 * RHO.rho


def test_the_last_digits_of_a_score_tell_nothing() -> None:
    """A number that is 0 but for its rounding, which differs between the datasets."""

    def rounded(rng: Rng, runs: int, side: int) -> Floats:
        noise = rng.laplace(size=runs)
        return np.where(rng.random(runs) < 0.5, noise, side * 1e-16)

    for budget in (PURE, RHO, APPROX):
        assert _bound(rounded, budget, runs=5000) < 0.1 * budget.amounts[0]


# Which number is read off a vector: of the scores, in their order.
DIRECTION, FIRST, TWO_LAPLACE, TWO_GAUSSIAN = range(4)


def _small_in_many(rng: Rng, runs: int, side: int) -> Floats:
    return 0.15 * side + rng.normal(size=(runs, 400))


def _first_only(rng: Rng, runs: int, side: int) -> Floats:
    """The first coordinate has an atom in its middle; the second has all of the mean."""
    first = _atom(rng, runs, side == 0)
    return np.stack([first, 0.1 * side + rng.laplace(size=runs)], axis=1)


def _moved_record(rng: Rng, runs: int, side: int) -> Floats:
    """Counts of ten bins with the noise of an added record, where one moves from bin 4 to 7."""
    counts = np.zeros(10)
    counts[7 if side else 4] = 1
    return counts + rng.laplace(size=(runs, 10))


def _shared_noise(rng: Rng, runs: int, side: int) -> Floats:
    """Two means with one noise and half of the budget each; their difference has none."""
    return np.array([0.0, 0.5]) * side + rng.laplace(scale=2, size=(runs, 1))


# Releases, runs, the pair's direction, the view that sees, and those that do not.
VECTORS: dict[str, tuple[Mechanism, int, Floats, int, set[int]]] = {
    "direction": (_small_in_many, 200, np.ones(400), DIRECTION, set(range(1, 6))),
    "first_coordinate": (_first_only, 10_000, np.array([0.0, 1.0]), FIRST, {0, 2, 3}),
    "two_coordinates": (_moved_record, 1000, np.eye(10)[0], TWO_LAPLACE, {DIRECTION, FIRST}),
    "shared_noise": (_shared_noise, 1000, np.ones(2), TWO_GAUSSIAN, {0, 1, TWO_LAPLACE}),
}


@pytest.mark.parametrize("name", VECTORS)
def test_what_only_one_view_of_a_vector_sees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, runs, direction, seeing, blind = VECTORS[name]
    scores = attack._scores

    def shown_by(views: set[int]) -> float:
        def some(pilot: PairReleases, direction: Floats) -> Iterator[attack.Score]:
            return (s for i, s in enumerate(scores(pilot, direction)) if i in views)

        monkeypatch.setattr(attack, "_scores", some)
        return _bound(mechanism, PURE, runs=runs, direction=direction)

    assert shown_by({seeing}) > 1
    assert shown_by(blind) <= 1
    assert shown_by({seeing} | blind) > 1


@pytest.mark.parametrize(("value", "d"), [(np.nan, 3), (-np.inf, 1), (1e308, 3), (5e-324, 1)])
def test_releases_that_are_all_the_same(value: float, d: int) -> None:
    """On both datasets they show nothing; on one of them, all."""
    constant, numbers, along = np.full((1000, d), value), np.ones((1000, d)), np.ones(d)
    for budget in (PURE, RHO, APPROX):
        same = PairReleases(constant[:50], constant[:50])
        assert _judged(same, same, along, budget, 0.5) <= 0.2
    for released in (PairReleases(numbers, constant), PairReleases(constant, numbers)):
        assert _judged(released, released, along, PURE, ERROR) > 3


def test_a_direction_of_zeros_leaves_the_first_coordinate() -> None:
    left, right = np.random.default_rng(0).laplace(size=(2, 1000, 4))
    released = PairReleases(left, right + 3)
    assert _judged(released, released, np.zeros(4), PURE, ERROR) > 1


@pytest.mark.parametrize("medians", [(1.0, 3.0), (3.0, 1.0)])
def test_guesses_by_hand(medians: tuple[float, float]) -> None:
    """The nearer median is guessed, unless a score is between both."""
    left, right = np.array([[0.0], [1], [2], [5], [np.nan]]), np.array([[3.0], [2], [0]])
    wanted = [0, 0]
    for side, scores in enumerate((left, right)):
        for (x,) in scores:
            near = [abs(x - m) for m in medians]
            if x <= 1 or x >= 3:
                wanted[0] += near[side] < near[1 - side]
                wanted[1] += 1
    found = attack._count_guesses(lambda y: y[:, 0], *medians, PairReleases(left, right))
    assert found == tuple(wanted)


def test_both_estimates_of_a_likelihood_ratio_are_near_it() -> None:
    """Of N(0, 1) to N(1, 1) it is 1/2 - x; a bin holds a sixteenth, so that ends are blurred."""
    rng, x = np.random.default_rng(0), np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    pilot = PairReleases(rng.normal(0, 1, (40_000, 1)), rng.normal(1, 1, (40_000, 1)))
    normal, binned = attack._log_likelihood_ratios(pilot, lambda y: y[:, 0])
    for ratio, near in ((normal, 0.05), (binned, 0.3)):
        found = ratio(np.append(x, np.nan)[:, None])
        np.testing.assert_allclose(found[:-1], 0.5 - x, atol=near)
        assert found[-1] == 0


def test_likelihood_ratios_by_hand() -> None:
    """Of coordinates with other spreads: Laplace noise of their own, and a joint covariance."""
    rng, m0, m1 = np.random.default_rng(0), np.array([0.0, 2, 7]), np.array([1.0, 6, 7])
    residuals = rng.normal(size=(500, 3)) @ np.array([[1.0, 5, 0], [0, 10, 0], [0, 0, 0.1]])
    spread = np.abs(residuals).mean(axis=0)
    chosen, x = np.array([1, 0]), np.array([[0.5, 1.0, 9.0], [2.0, 9.0, 1.0]])
    laplace, normal = attack._likelihood_ratios(m0, m1, residuals, spread, chosen)
    wanted = [sum((abs(row[i] - m0[i]) - abs(row[i] - m1[i])) / spread[i] for i in (0, 1))
              for row in x]  # fmt: skip
    np.testing.assert_allclose(laplace(x), wanted)
    weights = np.linalg.inv(np.cov(residuals[:, :2], rowvar=False)) @ (m1 - m0)[:2]
    one, other = normal(x)
    assert one / other == pytest.approx((x[0, :2] @ weights) / (x[1, :2] @ weights), rel=1e-6)
