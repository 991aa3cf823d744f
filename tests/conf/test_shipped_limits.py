"""Numbers that theorems leave to the shipped claims, computed anew."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, optimize, special

from dpbench.report.study import gather_entries
from tests.bench import shipped


def _laplace_over_l2(d: int) -> float:
    """Mean norms of d Laplace numbers of scale sqrt(d), and of density exp(-||z||), which is d.

    E sqrt(S) = integral of (1 - E exp(-t S)) t^(-3/2)/(2 sqrt(pi)), and S is a sum of squares.
    """

    def missing(t: float) -> float:  # 1 - E exp(-t X^2), |X| exponential: of moments 2 and 24
        if t < 1e-6:
            return 2 * t - 12 * t**2
        return float(1 - math.sqrt(math.pi / t) / 2 * special.erfcx(1 / (2 * math.sqrt(t))))

    def integrand(log_t: float) -> float:
        t = math.exp(log_t)
        return -math.expm1(d * math.log1p(-missing(t))) / math.sqrt(t)

    found = integrate.quad(integrand, -60, 60, limit=500)[0] / (2 * math.sqrt(math.pi))
    return float(math.sqrt(d) * found / d)


def test_the_ratio_in_one_dimension_is_1_and_tends_to_the_root_of_2() -> None:
    assert _laplace_over_l2(1) == pytest.approx(1, abs=1e-6)
    assert _laplace_over_l2(100_000) == pytest.approx(math.sqrt(2), abs=1e-4)


def _delta_exponent(deltas: list[float]) -> float:
    """The slope of the smallest Gaussian noise at epsilon = 1 in ln(1/delta), by bisection."""

    def delta_of(sd: float) -> float:  # Balle and Wang, Theorem 8, at sensitivity 1
        a, b = 1 / (2 * sd) - sd, -1 / (2 * sd) - sd
        return float(special.ndtr(a) - math.exp(1 + special.log_ndtr(b)))

    def noise(delta: float) -> float:
        return float(optimize.brentq(lambda sd: math.log(delta_of(sd) / delta), 0.5, 20))

    sizes = [noise(delta) for delta in deltas]
    assert sizes[1] == pytest.approx(4.224679, abs=1e-6)  # at delta = 1e-6
    return float(np.polyfit(np.log(-np.log(deltas)), np.log(sizes), 1)[0])


def _discard_over_project() -> float:
    """k = 2, at the best T each: bias b/T and noise s T give 2 sqrt(b s).

    A record further out than T is a loss of its whole length, at most 1/T in the mean, or of
    what is beyond T, max (x - T)/x^2 = 1/(4T). Sensitivities 8/3 T and 2T.
    """
    x = np.linspace(1, 10, 90_001)
    beyond = float(((x - 1) / x**2).max())
    return math.sqrt(1 * 8 / 3) / math.sqrt(beyond * 2)


def _core(eta: float) -> float:
    """Records of c = (1-eta) n friends weigh (2c - n)/n each."""
    return (1 - eta) * (2 * (1 - eta) - 1)


def _shrinking_exponent() -> float:
    """In ln R, of the n from which nine of ten errors of 2 + floor(ln(1 + R)) rounds are below 3.

    A round knows the mean to +-w, clips to w + t and ends with a new w, each of its two tails,
    of N(0, 1/n) and of Laplace noise, missed with probability 0.01/(2 rounds). The last has three
    quarters of epsilon = 1, the others share the rest.
    """

    def error(n: int, radius: float) -> float:
        rounds = 2 + int(math.log1p(radius))
        t, miss, w = math.sqrt(2 * math.log(200 * n)), 0.01 / (2 * rounds), radius
        for _ in range(rounds - 1):
            noise = 2 * (w + t) / n * 4 * (rounds - 1) * math.log(1 / miss)
            w = min(w, special.ndtri(1 - miss / 2) / math.sqrt(n) + noise)
        return 2 * (w + t) / n / 0.75 * math.log(10)

    radii = [1e30, 1e45, 1e60, 1e80, 1e100]
    sizes = [next(n for n in range(10_000, 60_000, 50) if error(n, r) <= 3) for r in radii]
    return float(np.polyfit(np.log(np.log(radii)), np.log(sizes), 1)[0])


def _two_sums(of_sum: float, of_count: float, of_each: float) -> float:
    """The ratio of errors, of noises of these scales, or deviations, at the same budget."""
    m = 0.3
    return math.hypot(of_sum, (m - 0.5) * of_count) / (of_each * math.hypot(1 - m, m))


def _hourglass_gain(epsilon: float) -> float:
    """Deviation of Laplace noise over the smallest deviation of staircase noise, over all widths.

    A staircase is constant up to the width g, and lower by e^-epsilon each unit.
    """
    k = np.arange(60)
    g = np.linspace(0, 1, 20_001)[:, None]
    ends, height = np.stack([np.where(k == 0, 0, g + k - 1), g + k]), np.exp(-epsilon * k)
    variance = np.diff(ends**3, axis=0)[0] @ height / 3 / (np.diff(ends, axis=0)[0] @ height)
    return float(math.sqrt(2 / variance.min()) / epsilon)


def _polyplace_ratio() -> float:
    """0.9 quantile of Student's t over that of PolyPlace noise, for epsilon = 1 and t = 1/5."""
    x = np.linspace(0, 100, 2_000_001)
    density = np.where(x <= 0.2, (1 - np.minimum(x, 0.2)) ** 4, 0.8**4 * (1.2 / (1 + x)) ** 6)
    mass = integrate.cumulative_simpson(density, x=x, initial=0)
    student = special.stdtrit(3, 0.95) / (1 - 3 / 5) * 2 / math.sqrt(3)
    return float(student / (np.interp(0.9 * mass[-1], mass, x) / 0.2))


def _depth_ratio() -> float:
    """0.9 quantile of |(X, Y)| for Laplace X, Y of scale 2, over that of a Gamma(2) radius."""
    x = np.linspace(0, 60, 200_001)

    def within(r: float) -> float:
        other = -np.expm1(-np.sqrt(np.maximum(r**2 - x**2, 0)) / 2)
        return float(np.trapezoid(np.exp(-x / 2) / 2 * other, x))

    radius = optimize.brentq(lambda r: within(r) - 0.9, 1, 50)
    return float(radius / special.gammaincinv(2, 0.9))


def _of_vectors(region: str) -> float:
    """Of Laplace noises at half of epsilon = 1 over joint noise, for d = 16 and |m| = 0.8.

    In units of n: noise of the density exp(-|z|) has E|z|^2 from the volumes of {|z| <= r}.
    """
    d, m2 = 16, 0.8**2
    l1 = d if region == "cube" else math.sqrt(d)
    halves = 2 * ((2 * l1) ** 2 * d + 2**2 * m2)
    r = np.linspace(0, 200, 400_001)
    density = r ** (d + 1) * np.exp(-r)  # of the radius of a uniform point's shell
    square = float((r**2 * density).sum() / density.sum())
    of_sum = d / 3 if region == "cube" else d / (d + 2)
    return math.sqrt(halves / (square * (of_sum + m2 / 3)))


LIMITS: dict[tuple[str, str], Callable[[], float]] = {
    ("pure_vs_approx", "laplace_over_l2"): lambda: _laplace_over_l2(512),
    ("pure_vs_approx", "laplace_over_l2_at_4"): lambda: _laplace_over_l2(4),
    ("pure_vs_approx", "analytic_delta"): lambda: _delta_exponent([1e-4, 1e-6, 1e-9, 1e-12]),
    # to first order (Z_C - (m - 1/2) Z_count)/n against ((1-m) Z_S - m Z_T)/n, here at m = 0.3
    ("add_remove", "twice_the_mse"): lambda: _two_sums(1.0, 2.0, 1.0),
    ("add_remove", "same_with_gaussians"): lambda: _two_sums(0.5 * 2**0.5, 2**0.5, 1.0),
    ("add_remove", "gain_at_3"): lambda: _hourglass_gain(3.0),
    ("add_remove", "middle_gain_at_3"): lambda: _hourglass_gain(3.0),
    ("add_remove", "gain_at_10"): lambda: _hourglass_gain(10.0),
    ("add_remove", "halves_in_the_ball"): lambda: _of_vectors("ball"),
    ("add_remove", "halves_in_the_cube"): lambda: _of_vectors("cube"),
    ("add_remove", "halves_with_gaussians"): lambda: math.sqrt(2 * (16 + 0.64) / (5 * (4 + 0.64))),
    ("heavy_tail_multivariate", "discard_over_project"): _discard_over_project,
    # steps of half the width, or of all of it, at half of epsilon; beside Gaussian noise at rho
    ("smooth_sensitivity", "polyplace_ratio"): _polyplace_ratio,
    ("smooth_sensitivity", "depth_ratio"): _depth_ratio,
    ("smooth_sensitivity", "middle"): lambda: 0.5 / 0.5,
    ("smooth_sensitivity", "ends"): lambda: 1 / 0.5,
    ("smooth_sensitivity", "middle_zcdp"): lambda: math.log(10) / 2 / special.ndtri(0.95),
    ("smooth_sensitivity", "ends_zcdp"): lambda: math.log(10) / special.ndtri(0.95),
    ("shrinking_intervals", "log_radius"): _shrinking_exponent,
    ("friendly_core", "weight_10"): lambda: _core(0.1),
    ("friendly_core", "weight_20"): lambda: _core(0.2),
    ("friendly_core", "weight_30"): lambda: _core(0.3),
    ("friendly_core", "weight_40"): lambda: _core(0.4),
}


@pytest.mark.parametrize("sweep", sorted({sweep for sweep, _ in LIMITS}))
def test_limits_are_what_their_formulas_give(sweep: str) -> None:
    claims = gather_entries(shipped(sweep)["sweep"], "claims")
    given = {
        label: claim.get("predicted", claim.get("exact_at_run_n"))
        for label, claim in claims.items()
        if "predicted" in claim or isinstance(claim.get("exact_at_run_n"), float)
    }
    assert set(given) == {label for name, label in LIMITS if name == sweep}
    for label, number in given.items():
        wanted = LIMITS[sweep, label]()
        assert number == pytest.approx(wanted, abs=0.25 * claims[label]["tolerance"])
