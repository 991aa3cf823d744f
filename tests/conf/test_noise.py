"""The sweep ``noise``: its equal budgets, and the numbers that the guide derives from it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.optimize import brentq
from scipy.special import gammaincc

from dpbench.distributions import Hypercube
from dpbench.estimators import ClippedMean, Estimator, L2ClippedMean
from dpbench.package import conf_folder
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.noise import additive
from dpbench.theory.exact.value import exact
from tests.support import rng

ROOT = Path(__file__).parents[2]
PURE, APPROX = PureDP(1.0), ApproxDP(1.0, 1e-6, "analytic")
BOX = ClippedMean(lower=-1, upper=1, mechanism="additive")
CUBE = ClippedMean(lower=-1, upper=1)
BALL, L2 = L2ClippedMean(radius=1), L2ClippedMean(radius=1, mechanism="l2")


def test_all_budgets_imply_one_guarantee_and_no_larger_budget_does() -> None:
    budgets = yaml.safe_load((conf_folder() / "sweep" / "noise.yaml").read_text("utf-8"))["budgets"]
    rho, mu = budgets["zcdp"]["rho"], budgets["gdp"]["mu"]
    for exact_budget in (ZCDP(rho), GDP(mu)):
        assert exact_budget.to_approx(1e-6).epsilon == pytest.approx(1, rel=1e-9)
        assert exact_budget.to_approx(1e-6).epsilon <= 1


@pytest.mark.parametrize(
    ("pure", "gaussian", "last"), [(BOX, BOX, 8), (CUBE, BOX, 50), (BALL, BALL, 8), (L2, BALL, 16)]
)
def test_gaussian_noise_is_better_from_some_dimension_on(
    pure: Estimator, gaussian: Estimator, last: int
) -> None:
    def error(estimator: Estimator, budget: Budget, d: int) -> float:
        return exact("rmse", estimator, Hypercube(d=d), 2, budget)

    for d in (1, last, last + 1, 256):
        assert (error(pure, PURE, d) < error(gaussian, APPROX, d)) == (d <= last)


def test_one_coordinate_of_the_noise_of_a_cube() -> None:
    """Check P(|z| > x) = Q(d+1, x) - x/d Q(d, x), with the upper incomplete gamma function Q.

    The radius is r ~ Gamma(d + 1), and z is uniform in [-r, r]. False alarm: 6 standard errors.
    """
    d, trials = 4, 40_000
    quantile = brentq(lambda x: gammaincc(d + 1, x) - x / d * gammaincc(d, x) - 0.1, 0.1, 50)
    assert quantile == pytest.approx(5.14, abs=0.01)  # docs/howto/noise.md
    noise = Ledger(PURE, rng()).add_joint_noise(np.zeros((trials, d)), 1.0, base="box")
    beyond = np.mean(np.abs(noise[:, 0]) > quantile)
    assert abs(beyond - 0.1) < 6 * np.sqrt(0.09 / trials)


def test_the_table_of_the_page_has_the_exact_errors() -> None:
    page = (ROOT / "docs" / "howto" / "noise.md").read_text("utf-8").partition("| records |")[2]
    head, _, *lines = page.partition("\n\n")[0].splitlines()
    dimensions = [int(number) for number in re.findall(r"\d+", head)]
    shown = [[float(one.replace(",", "")) for one in line.split("|")[3:-1]] for line in lines]
    zcdp = ZCDP(0.0243559703595)
    rows: list[tuple[Estimator, Budget]]
    rows = [(BOX, PURE), (CUBE, PURE), (BOX, APPROX), (BOX, zcdp)]
    rows += [(BALL, PURE), (L2, PURE), (BALL, APPROX), (BALL, zcdp)]
    for numbers, (estimator, budget) in zip(shown, rows, strict=True):
        found = [exact("rmse", estimator, Hypercube(d=d), 2, budget) for d in dimensions]
        assert numbers == pytest.approx(found, rel=5e-3)


def test_the_advice_of_the_page_has_the_exact_ratios() -> None:
    """Root mean squares over those of Laplace noise, in the order of the page."""

    def tulap(epsilon: float, delta: float) -> Budget:
        return ApproxDP(epsilon, delta, "tulap")

    def ratio(budget: Budget) -> float:
        laplace = PureDP(budget.amounts[0])
        sds = [additive(one, 1.0, 1.0).variance ** 0.5 for one in (budget, laplace)]
        return float(sds[0] / sds[1])

    def of_shape(vectors: Estimator, numbers: Estimator) -> float:
        errors = [exact("rmse", one, Hypercube(d=256), 2, PURE) for one in (vectors, numbers)]
        return errors[0] / errors[1]

    page = " ".join((ROOT / "docs" / "howto" / "noise.md").read_text("utf-8").split())
    laplace = "times the root mean square error of Laplace noise at"
    one, four = PureDP(1.0, "staircase"), PureDP(4.0, "staircase")
    for words, *numbers in (
        ("cube has {:.2f} times the error of Laplace noise", of_shape(CUBE, BOX)),
        ("the noise of the ball {:.2f} times.", of_shape(L2, BALL)),
        (f"{{:.2f}} {laplace} ε = 1, and {{:.2f}} times at ε = 4", ratio(one), ratio(four)),
        (f"{{:.2f}} {laplace} ε = 0.25 and δ = 0.01", ratio(tulap(0.25, 0.01))),
        ("δ = 0.01, and {:.2f} times at ε = 1", ratio(tulap(1, 0.01))),
        ("At δ = 10⁻⁶ and ε = 1 it gains {:.0%}", 1 - ratio(tulap(1, 1e-6))),
    ):
        assert words.format(*numbers) in page
    for delta in (0.01, 1e-6):
        assert ratio(four) < min(ratio(tulap(4, delta)), ratio(ApproxDP(4.0, delta, "analytic")))
