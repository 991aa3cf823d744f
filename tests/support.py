"""What tests of the kernel share: streams, laws and judges of them, runs, hand-made formulas."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import DenseSample, Sample
from dpbench.theory.exact.noise import Laplace, additive

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-6
BIG = 10**12
LARGEST = float(np.finfo(float).max)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def page_columns(file: str) -> list[str]:
    """The columns of a table, in the order of the page of columns."""
    text = (Path(__file__).parents[1] / "docs" / "howto" / "columns.md").read_text("utf-8")
    section = text.partition(f"\n## {file}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def name(value: object) -> str:
    """The id of a case."""
    return value.label if isinstance(value, Budget) else type(value).__name__


def run(
    estimator: Estimator, data: NDArray[Any] | Sample, budget: Budget, seed: int = 0
) -> Estimate:
    sample = data if isinstance(data, Sample) else DenseSample(data)
    return estimator.run(sample, Ledger(budget, rng(seed)))


def buckets_of(rows: Floats, k: int) -> list[Floats]:
    """k runs of records, the first n mod k of them with one more."""
    sizes = [len(rows) // k + (i < len(rows) % k) for i in range(k)]
    ends = np.cumsum(sizes)
    return [rows[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def middle(values: Floats) -> float:
    """The middle value, or the mean of the middle two."""
    ordered, n = sorted(values.tolist()), len(values)
    return float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)


def spreads(rows: Floats) -> Floats:
    """The range of the records of each bucket, as a base estimator."""
    return np.asarray(rows.max(axis=1) - rows.min(axis=1))


@contextmanager
def unchanged(*arrays: NDArray[Any]) -> Iterator[None]:
    """What happens inside writes to none of the arrays."""
    before = [array.copy() for array in arrays]
    yield
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


# Judges, each of false-alarm probability 1e-6 unless it is given another.


def assert_follows(found: Floats, law: Any, false_alarm: float = FALSE_ALARM) -> None:
    """Kolmogorov-Smirnov test against a continuous law."""
    assert stats.kstest(np.ravel(found), law.cdf).pvalue > false_alarm


def same_law(one: Floats, two: Floats) -> bool:
    """Two-sample Kolmogorov-Smirnov test; failures and far values are outcomes, too."""
    found = np.nan_to_num(np.concatenate([one, two]), nan=1e9)
    near = np.abs(found) < 1e6
    found[near] = np.round(found[near], 9)  # ties outputs that differ in their last digits
    test = stats.ks_2samp(found[: len(one)], found[len(one) :], method="asymp")
    return bool(test.pvalue > FALSE_ALARM)


def assert_law(seen: Sequence[Hashable], law: dict[Hashable, Fraction]) -> None:
    """Chi-square test of outcomes, rare ones together; none of probability 0."""
    found = Counter(seen)
    assert set(found) <= {outcome for outcome, p in law.items() if p}
    assert sum(law.values()) == 1
    assert_frequencies([found[outcome] for outcome in law], [float(p) for p in law.values()])


def assert_frequencies(
    found: Sequence[float] | NDArray[Any], law: Sequence[float] | Floats
) -> None:
    """Chi-square test of counts against probabilities; rare ones, in order, together."""
    total, cells, at = sum(found), [[0.0, 0.0]], 0
    for count, p in zip(found, law, strict=True):
        assert p > 0 or not count
        cells[at][0] += count
        cells[at][1] += total * p
        if cells[at][1] >= 25:
            cells.append([0.0, 0.0])
            at += 1
    rest = cells.pop()
    assert cells, "too few draws for the chi-square approximation"
    cells[-1] = [cells[-1][0] + rest[0], cells[-1][1] + rest[1]]
    statistic = sum((f - w) ** 2 / w for f, w in cells)
    assert statistic <= stats.chi2.isf(FALSE_ALARM, max(1, len(cells) - 1))


def assert_standard(z: NDArray[Any], slack: float = 0.0) -> None:
    """z-test and two-sided chi-square test of standard normal numbers."""
    assert abs(z.sum()) <= stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(z.size)
    low, high = stats.chi2(z.size).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    assert (1 - slack) * low <= (z**2).sum() <= (1 + slack) * high


# Formulas of budgets and noise, written again from their definitions.


def hockey_stick(sd: float, epsilon: float) -> float:
    """The delta of N(0, sd^2) at sensitivity 1, by the two tails."""
    one = stats.norm.sf(epsilon * sd - 0.5 / sd)
    return float(one - math.exp(epsilon) * stats.norm.sf(epsilon * sd + 0.5 / sd))


def noise_law(budget: Budget, l1: float, l2: float) -> Any:
    """The distribution of the noise that a budget calls for at the given sensitivities."""
    if isinstance(budget, ZCDP):
        return stats.norm(scale=l2 / math.sqrt(2 * budget.rho))
    if isinstance(budget, GDP):
        return stats.norm(scale=l2 / budget.mu)
    assert isinstance(budget, PureDP | ApproxDP)
    laplace = stats.laplace(scale=l1 / budget.epsilon)
    if isinstance(budget, PureDP) or budget.noise_by == "laplace":
        return laplace
    if budget.noise_by == "best":
        gaussian = noise_law(replace(budget, noise_by="analytic"), l1, l2)
        return min(laplace, gaussian, key=lambda law: law.var())
    if budget.noise_by == "analytic":
        from scipy.optimize import brentq

        def excess(sd: float) -> float:
            return hockey_stick(sd, budget.epsilon) - budget.delta

        root = float(brentq(excess, 1e-2, 1e4, xtol=1e-14, rtol=1e-14))
        return stats.norm(scale=l2 * root)
    factor = 1.25 if budget.noise_by == "classical" else 2.0
    return stats.norm(scale=l2 * math.sqrt(2 * math.log(factor / budget.delta)) / budget.epsilon)


def pure_epsilon(budget: Budget) -> float:
    """For a pure step: rho is epsilon tanh(epsilon/2), Phi(mu/2) has odds e^epsilon."""
    if isinstance(budget, ZCDP):
        e = np.linspace(0, math.sqrt(2 * budget.rho) + 2 * budget.rho, 1_000_001)
        return float(np.interp(budget.rho, e * np.tanh(e / 2), e))
    if isinstance(budget, GDP):
        return float(stats.norm.logcdf(budget.mu / 2) - stats.norm.logsf(budget.mu / 2))
    assert isinstance(budget, PureDP | ApproxDP)
    return budget.epsilon


def exponential_epsilon(budget: Budget) -> float:
    """What it has for the exponential mechanism: epsilon^2/8 is rho; mu for half of epsilon."""
    if isinstance(budget, ZCDP):
        return math.sqrt(8 * budget.rho)
    return pure_epsilon(budget) * (2 if isinstance(budget, GDP) else 1)


def round_shares(rounds: int) -> list[float]:
    """The shares of CoinPress: 1/(4 (t - 1)) for all but the last round, 3/4 for that."""
    return [1.0] if rounds == 1 else [0.25 / (rounds - 1)] * (rounds - 1) + [0.75]


def row_norms(rows: Floats) -> Floats:
    """Euclidean norms of rows, for coordinates whose squares overflow, too."""
    largest = np.maximum(np.abs(rows).max(axis=-1, keepdims=True), 1e-300)
    return np.asarray(
        (largest * np.sqrt(((rows / largest) ** 2).sum(axis=-1, keepdims=True)))[..., 0]
    )


def off_by(bias: float, width: float, n: int, beta: float, budget: Budget) -> float:
    """The 1 - beta quantile of |bias + noise| of sensitivity 2 width/n; of Laplace closed."""
    if isinstance(additive(budget, 1.0, 1.0), Laplace):
        b = 2 * width / n / budget.pure_epsilon
        x = float(b * (np.logaddexp(bias / b, -bias / b) - math.log(2 * beta)))
        # Below the bias, too: e^(-bias/b) sinh(x/b) = 1 - beta.
        return x if x >= bias else b * math.asinh((1 - beta) * math.exp(bias / b))
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1))) * 2 * width / n
    return float(np.sqrt(stats.ncx2.isf(beta, 1, (bias / sd) ** 2))) * sd
