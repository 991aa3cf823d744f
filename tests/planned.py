"""Fifty random problems, and their errors simulated: ``python -m tests.planned`` writes the table.

tests/data/planned.csv holds quantiles of 40,000 releases each, good to 0.7% (one standard error).
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.distributions import (
    Bernoulli,
    Distribution,
    Gaussian,
    LogNormal,
    Pareto,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import ClippedMean, TransformedNoiseMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP

TABLE = Path(__file__).parent / "data" / "planned.csv"
PROBLEMS, TRIALS, AT_ONCE = 50, 40_000, 1_000_000


class Planned(NamedTuple):
    """A law, how many records, a budget and a clip."""

    law: Distribution
    n: int
    budget: Budget
    lower: float
    upper: float


def problem(number: int) -> Planned:
    """One of the fifty: skewed, heavy-tailed and discrete laws, clips from tight to loose."""
    rng = np.random.default_rng([6, number])
    n = int(np.exp(rng.uniform(np.log(50), np.log(1000))))
    laws = [
        Gaussian(location=3, scale=2),
        LogNormal(sigma=rng.uniform(0.3, 2)),
        Pareto(tail_index=rng.uniform(1.3, 4)),
        StudentT(tail_index=rng.uniform(1.3, 5)),
        Bernoulli(p=rng.uniform(0.02, 0.5)),
        TwoPoint(p=rng.uniform(0.01, 0.1), k=2),
    ]
    law: Distribution = laws[number % len(laws)]
    amount = float(np.exp(rng.uniform(np.log(0.2), np.log(4))))
    budgets: list[Budget] = [
        PureDP(amount),
        ZCDP(amount**2 / 8),
        GDP(amount),
        ApproxDP(amount, 1e-5),
    ]
    if n * amount > 200:  # else a count of the records would be nothing but noise
        budgets += [PureDP(amount, neighbours="add_remove"), ZCDP(1.0, neighbours="add_remove")]
    budget = budgets[rng.integers(len(budgets))]
    seen = law.sample(np.random.default_rng(number), 1, 10_000)
    ends = rng.uniform(0, 0.3), 1 - 10 ** rng.uniform(-4, -0.5)
    lower, upper = (float(seen.quantile(max(q, 1e-4))[0]) for q in ends)
    if isinstance(law, Bernoulli | TwoPoint):
        upper = rng.uniform(0.3, 1.2) * (law.tau if isinstance(law, TwoPoint) else 1.0)
    return Planned(law, n, budget, lower, upper)


def errors(one: Planned, trials: int, seed: int = 0) -> Floats:
    """Of releases by the package's own estimators."""
    sizes = one.budget.neighbours == "add_remove"
    kind = TransformedNoiseMean if sizes else ClippedMean
    estimator = kind(lower=one.lower, upper=one.upper)
    rng, found = np.random.default_rng(seed), []
    many = max(1, AT_ONCE // one.n)
    for start in range(0, trials, many):
        sample = one.law.sample(rng, min(many, trials - start), one.n)
        found.append(estimator.run(sample, Ledger(one.budget, rng)).value - one.law.mean)
    return np.abs(np.concatenate(found))


def stored() -> list[tuple[float, float]]:
    """The quantiles 0.5 and 0.9 of the table."""
    with TABLE.open() as file:
        return [(float(row["q50"]), float(row["q90"])) for row in csv.DictReader(file)]


if __name__ == "__main__":
    with TABLE.open("w", newline="") as table:
        rows = csv.writer(table)
        rows.writerow(["problem", "q50", "q90"])
        for number in range(PROBLEMS):
            quantiles = np.quantile(errors(problem(number), TRIALS), [0.5, 0.9])
            rows.writerow([number, *(f"{one:.5g}" for one in quantiles)])
