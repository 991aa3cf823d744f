"""The settings of Huang, Liang, Yi (2021) and of PLAN (2024) at their sizes, as a table.

``python -m experiments.published_dimensions [trials] [largest d]``, by default 100 and 2048. Errors
are 10% trimmed means. Estimates take 5 to 10 times as long as drawing data: hours in all. PLAN's
second figure has a range that 20 steps cut coarsely; its authors' exponential mechanism would not.

Last come the orderings that were published, as ratios of errors: their least, geometric mean and
largest over a figure's settings. ``10 128``, some minutes, shows them. One round of CoinPress errs
the more the larger d and R are, 5 to 64 times ten rounds. Huang et al. err as CoinPress with the
rounds chosen best, 1.02 to 1.06 of it, 1.17 at most. PLAN errs as they do where variances are equal
and rho is not small (far more at d >= 128 and rho below 0.1), by 0.78 of it where variances differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

import dpbench
from dpbench.distributions import Distribution, MultivariateGaussian, StretchedGaussian
from dpbench.estimators import (
    CoinPressMean,
    EmpiricalMean,
    Estimator,
    PlanMean,
    ShiftedClippedMean,
)

ROUNDS = (1, 2, 3, 4, 10)
RHOS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
Setting = tuple[str, Distribution, int, tuple[float, ...], dict[str, Estimator]]


def compared(radius: float) -> dict[str, Estimator]:
    """All that are compared, where norms are within the radius."""
    coinpress = {f"coinpress_{t}": CoinPressMean(radius=radius, rounds=t) for t in ROUNDS}
    both = {"shifted": ShiftedClippedMean(radius=radius), "plan": PlanMean(radius=radius / 2)}
    return {**both, **coinpress}


def settings(largest: int) -> Iterator[Setting]:
    """A figure's name, a law, n, the rho and the estimators."""
    powers = [d for d in (16, 32, 64, 128, 256, 512, 1024, 2048) if d <= largest]
    for d in powers[:7]:
        for m in (0, 5, 10):
            law = MultivariateGaussian(d=d, norm=m * d**0.5)
            yield "huang_dimension", law, 4000, (0.5,), compared(50 * d**0.5)
    d = min(128, largest)
    law = MultivariateGaussian(d=d)
    rhos = tuple(epsilon**2 / 2 for epsilon in (0.1, 0.3, 0.5, 0.7, 1.0))
    yield "huang_rho", law, 4000, rhos, compared(50 * d**0.5)
    for factor in (20, 65, 110, 155, 200):
        yield "huang_radius", law, 4000, (0.5,), compared(factor * d**0.5)
    for d in powers:
        yield "plan_a", MultivariateGaussian(d=d), 4000, RHOS, compared(50 * d**0.5)
    d = powers[-1]
    for power in (0, 0.5, 1, 1.5, 2):
        # (10, ..., 10); CoinPress, whose covariance is at most I, is not among them
        stretched = StretchedGaussian(d=d, power=power, norm=10 * d**0.5)
        radius = 50 * d ** (1 + power / 4)
        both: dict[str, Estimator] = {
            "shifted": ShiftedClippedMean(radius=radius),
            "plan": PlanMean(radius=radius),
        }
        yield "plan_b", stretched, 10_000, RHOS, both


def orderings(table: pd.DataFrame) -> Iterator[str]:
    """A line for each figure and ratio of errors, from the columns that `main` prints."""
    for name, figure in table[table["estimator"] != "mean"].groupby("figure"):
        row = figure.groupby("estimator").cumcount()  # settings come in one order for all
        errors = figure.pivot_table(index=row, columns="estimator", values="trimmed_mean")
        best = errors.filter(like="coinpress").min(axis=1)
        ratios = {"plan / shifted": errors["plan"] / errors["shifted"]}
        if "coinpress_1" in errors:
            ratios["shifted / best coinpress"] = errors["shifted"] / best
            ratios["coinpress_1 / coinpress_10"] = errors["coinpress_1"] / errors["coinpress_10"]
        for which, ratio in ratios.items():
            low, mean, high = ratio.min(), np.exp(np.log(ratio).mean()), ratio.max()
            yield f"# {name}: {which}: {low:.2f}, {mean:.2f}, {high:.2f}"


def main(trials: int = 100, largest: int = 2048) -> None:
    """Run all settings, one after another, and print their table."""
    columns = ["figure", "law", "n", "rho", "estimator", "trimmed_mean", "noise_q90"]
    print(",".join(columns))
    tables = []
    for figure, law, n, rhos, estimators in settings(largest):
        study = {
            "families": {"law": law},
            "estimators": {**estimators, "mean": EmpiricalMean()},
            "budgets": {"zcdp": {"kind": "zcdp", "rho": list(rhos)}},
            "parts": {"all": {"n": [n], "trials": trials}},
        }
        found = dpbench.run(study).summary.assign(figure=figure, law=str(law))
        print(found[columns].to_csv(index=False, header=False), end="", flush=True)
        tables.append(found[columns])
    print(*orderings(pd.concat(tables)), sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
