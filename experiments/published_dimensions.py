"""Reproduce the settings of HLY21 and PLAN at their published sizes, as a table.

``python -m experiments.published_dimensions [trials] [largest d]`` (by default 100 and 2048) takes
hours, because a release takes 5 to 10 times as long as drawing its data. Errors are 10% trimmed
means. In PLAN's second figure the 20 steps of our binary search are coarse for the range; the
exponential mechanism of the authors is finer.

The last lines compare the errors of estimators, as the publications do: minimum, geometric mean and
maximum of the ratio of two errors over the settings of a figure. There ``plan`` is PLAN and
``shifted`` is HLY21. The arguments ``10 128`` (some minutes) show:

- One round of CoinPress has 5 to 64 times the error of ten rounds; the ratio grows with d and R.
- HLY21 has 1.02 to 1.06 times the error of CoinPress with the best number of rounds, at most 1.17.
- PLAN has the error of HLY21 if the variances are equal and rho is not small (a much larger error
  for d >= 128 and rho below 0.1), and 0.78 times this error if the variances differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

import dpbench
from dpbench.distributions import Distribution, MultivariateGaussian, PowerLawGaussian
from dpbench.estimators import (
    CoinPressMean,
    EmpiricalMean,
    Estimator,
    InstanceOptimalMean,
    PlanMean,
)

ROUNDS = (1, 2, 3, 4, 10)
RHOS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
Setting = tuple[str, Distribution, int, tuple[float, ...], dict[str, Estimator]]


def make_estimators(radius: float) -> dict[str, Estimator]:
    """Return the compared estimators for records whose norm is at most `radius`."""
    coinpress = {f"coinpress_{t}": CoinPressMean(radius=radius, sigma=1, rounds=t) for t in ROUNDS}
    estimators = {
        "shifted": InstanceOptimalMean(radius=radius),
        "plan": PlanMean(radius=radius / 2, sigma_low=1e-3, sigma_high=1e3),
    }
    return {**estimators, **coinpress}


def settings(largest: int) -> Iterator[Setting]:
    """Yield the settings up to dimension `largest`: figure, distribution, n, rho, estimators."""
    powers = [d for d in (16, 32, 64, 128, 256, 512, 1024, 2048) if d <= largest]
    for d in powers[:7]:
        for m in (0, 5, 10):
            law = MultivariateGaussian(d=d, norm=m * d**0.5)
            yield "huang_dimension", law, 4000, (0.5,), make_estimators(50 * d**0.5)
    d = min(128, largest)
    law = MultivariateGaussian(d=d)
    rhos = tuple(epsilon**2 / 2 for epsilon in (0.1, 0.3, 0.5, 0.7, 1.0))
    yield "huang_rho", law, 4000, rhos, make_estimators(50 * d**0.5)
    for factor in (20, 65, 110, 155, 200):
        yield "huang_radius", law, 4000, (0.5,), make_estimators(factor * d**0.5)
    for d in powers:
        yield "plan_a", MultivariateGaussian(d=d), 4000, RHOS, make_estimators(50 * d**0.5)
    d = powers[-1]
    for power in (0, 0.5, 1, 1.5, 2):
        # The mean is (10, ..., 10). CoinPress is left out, because it needs a covariance below I.
        stretched = PowerLawGaussian(d=d, power=power, norm=10 * d**0.5)
        radius = 50 * d ** (1 + power / 4)
        estimators: dict[str, Estimator] = {
            "shifted": InstanceOptimalMean(radius=radius),
            "plan": PlanMean(radius=radius, sigma_low=1e-3, sigma_high=1e3),
        }
        yield "plan_b", stretched, 10_000, RHOS, estimators


def orderings(table: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each figure and ratio of two errors, from the table that `main` prints."""
    for name, figure in table[table["estimator"] != "mean"].groupby("figure"):
        row = figure.groupby(
            "estimator"
        ).cumcount()  # the settings are in one order for all estimators
        errors = figure.pivot_table(index=row, columns="estimator", values="trimmed_mean_error")
        best = errors.filter(like="coinpress").min(axis=1)
        ratios = {"plan / shifted": errors["plan"] / errors["shifted"]}
        if "coinpress_1" in errors:
            ratios["shifted / best coinpress"] = errors["shifted"] / best
            ratios["coinpress_1 / coinpress_10"] = errors["coinpress_1"] / errors["coinpress_10"]
        for pair, ratio in ratios.items():
            low, mean, high = ratio.min(), np.exp(np.log(ratio).mean()), ratio.max()
            yield f"# {name}: {pair}: {low:.2f}, {mean:.2f}, {high:.2f}"


def main(trials: int = 100, largest: int = 2048) -> None:
    """Run all settings, and print their table and the ratios of errors.

    Parameters
    ----------
    trials : int
        Trials of each setting; 100 by default.
    largest : int
        Largest dimension; 2048 by default.
    """
    columns = ["figure", "law", "n", "rho", "estimator", "trimmed_mean_error", "noise_q90"]
    print(",".join(columns))
    tables = []
    for figure, law, n, rhos, estimators in settings(largest):
        study = {
            "families": {"law": law},
            "estimators": {**estimators, "mean": EmpiricalMean()},
            "budgets": {"zcdp": {"kind": "zcdp", "rho": list(rhos)}},
            "parts": {"all": {"n": [n], "trials": trials}},
        }
        summary = dpbench.run(study).summary.assign(figure=figure, law=str(law))
        print(summary[columns].to_csv(index=False, header=False), end="", flush=True)
        tables.append(summary[columns])
    print(*orderings(pd.concat(tables)), sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
