"""Measure the speed of the harness: ``python -m experiments.throughput``.

It prints a table and writes ``results/throughput.csv``. Timings are noisy and depend on the
machine. Therefore each value is a ratio of two times that are measured alternately, the median over
repetitions. Only the last three values are not ratios: two waiting times of a user in seconds, and
the memory of a release in gigabytes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from dpbench import release
from dpbench.distributions import (
    Distribution,
    Gaussian,
    MultivariateGaussian,
    Pareto,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import (
    BoundedContributionMean,
    ClippedMean,
    CoinPressMean,
    Estimator,
    FriendlyCoreMean,
    KarwaVadhanGaussian,
    KarwaVadhanMean,
    KSU20Mean,
    MedianThenClippedMean,
    ShrinkingIntervals,
    SubsampleAggregate,
    TunedClippedMean,
)
from dpbench.output.files import atomic
from dpbench.output.terminal import say
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.runner.execute import Runner, compute
from dpbench.samples import DenseSample, person_rows
from dpbench.sweep.block import MANY_TRIALS, BlockTask, Setting, block_trials, run_block

REPEATS = 5
RECORDS = 8_000_000

ESTIMATORS: dict[str, Estimator] = {
    "minimax": TunedClippedMean(k=2, scale=1, policy="minimax"),
    "rate": TunedClippedMean(k=2, scale=1, policy="ksu20_order"),
    "all": TunedClippedMean(k=2, scale=1, policy="keep_all"),
    "clipped": ClippedMean(lower=-20, upper=20),
}
BUDGETS: tuple[Budget, ...] = (PureDP(0.1), PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6))
# Estimators that are measured one at a time, relative to drawing Gaussian data.
SINGLE: dict[str, tuple[Estimator, Budget]] = {
    "histogram, R = 1e300": (KarwaVadhanMean(radius=1e300, sigma=1), PureDP(1.0)),
    "exponential, R = 1e6": (MedianThenClippedMean(radius=1e6, sigma=1), PureDP(1.0)),
    "learned Gaussian": (KarwaVadhanGaussian(radius=1e6), PureDP(1.0)),
    "shrinking, 4 rounds": (ShrinkingIntervals(radius=100, sigma=1, rounds=4), PureDP(1.0)),
    "CoinPress, 4 rounds": (CoinPressMean(radius=100, sigma=1, rounds=4), ZCDP(0.5)),
    "KSU20 practical": (KSU20Mean(k=2, scale=1, radius=10), PureDP(1.0)),
    "median of 100 means": (SubsampleAggregate(buckets=100, lower=-10, upper=10), PureDP(1.0)),
}
SETTINGS = tuple(Setting(label, e, b) for label, e in ESTIMATORS.items() for b in BUDGETS)

# In 50 dimensions: CoinPress with one to four rounds under two budgets, on shared data.
VECTORS = MultivariateGaussian(d=50)
BALLS = tuple(
    Setting(f"{rounds} rounds", CoinPressMean(radius=70.71, sigma=1, rounds=rounds), budget)
    for rounds in (1, 2, 3, 4)
    for budget in (ZCDP(0.5), ApproxDP(1.0, 1e-6))
)

LAWS: dict[str, tuple[Distribution, Callable[[np.random.Generator, tuple[int, int]], object]]] = {
    "student_t": (
        StudentT(tail_index=2.5, standardised_moment=2),
        lambda g, size: g.standard_t(2.5, size),
    ),
    "pareto": (Pareto(tail_index=2.5, standardised_moment=2), lambda g, size: g.pareto(2.5, size)),
    "gaussian": (Gaussian(), lambda g, size: g.standard_normal(size)),
    "vectors": (VECTORS, lambda g, size: g.standard_normal((*size, VECTORS.d))),
}


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall(work: Callable[[], object]) -> float:
    """Return the wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(
    numerator: Callable[[], object],
    denominator: Callable[[], object],
    clock: Callable[[Callable[[], object]], float] = cpu,
    repeats: int = REPEATS,
) -> float:
    """Return the median of time(numerator)/time(denominator) over alternating repetitions.

    Parameters
    ----------
    numerator, denominator : callable
        Functions without arguments.
    clock : callable
        `cpu` (default) or `wall`.
    repeats : int
        Number of repetitions.

    Returns
    -------
    float
    """
    return statistics.median(clock(numerator) / clock(denominator) for _ in range(repeats))


def blocks(
    law: Distribution, n: int, records: int = RECORDS, settings: tuple[Setting, ...] = SETTINGS
) -> list[BlockTask]:
    """Return tasks of whole blocks that draw about `records` numbers in total.

    Parameters
    ----------
    law : Distribution
        Distribution of the records.
    n : int
        Records of a dataset.
    records : int
        Approximate total of numbers to draw.
    settings : tuple of Setting
        Estimators and budgets.

    Returns
    -------
    list of BlockTask
    """
    count = max(1, round(records / (n * law.d * block_trials(n, law, MANY_TRIALS))))
    members = (("law", law),)
    return [
        BlockTask(members, n, settings, 0, i, "throughput", most_trials=MANY_TRIALS)
        for i in range(count)
    ]


def run(tasks: Sequence[BlockTask]) -> None:
    """Run blocks in this process."""
    for task in tasks:
        run_block(task)


def time_over_drawing(name: str, n: int, settings: tuple[Setting, ...] = SETTINGS) -> float:
    """Return the time of all settings, divided by the time of drawing the data with numpy.

    Parameters
    ----------
    name : str
        Key of `LAWS`.
    n : int
        Records of a dataset.
    settings : tuple of Setting
        Estimators and budgets, on shared data.

    Returns
    -------
    float
    """
    law, draw = LAWS[name]
    tasks = blocks(law, n, settings=settings)
    generator = np.random.default_rng(0)

    def only_draw() -> None:
        for task in tasks:
            draw(generator, (task.trials, n))

    run(tasks[:1])
    return ratio(lambda: run(tasks), only_draw)


def friendly_over_product(n: int, trials: int) -> float:
    """Return the time of FriendlyCore, divided by the time of the products of all pairs of rows.

    Both run on one thread, in 50 dimensions.

    Parameters
    ----------
    n : int
        Records of a dataset.
    trials : int
        Number of datasets.

    Returns
    -------
    float
    """
    rows = np.random.default_rng(0).standard_normal((trials, n, VECTORS.d))
    estimator, budget = FriendlyCoreMean(sigma=1), ApproxDP(1.0, 1e-6)

    def release() -> None:
        estimator.run(DenseSample(rows), Ledger(budget, np.random.default_rng(0)))

    with threadpool_limits(1):
        release()
        return ratio(release, lambda: rows @ rows.transpose(0, 2, 1))


def plain_loop(n: int, trials: int) -> None:
    """Draw, clip, average and add noise for each setting and trial, in a plain loop.

    Parameters
    ----------
    n : int
        Records of a dataset.
    trials : int
        Number of datasets.
    """
    generator = np.random.default_rng(0)
    for setting in SETTINGS:
        for _ in range(trials):
            x = generator.standard_t(2.5, n)
            bound = 20.0
            if isinstance(setting.estimator, TunedClippedMean):
                bound = setting.estimator.clipping_threshold(n, setting.budget)
            mean = np.mean(np.clip(x, -bound, bound))
            mean + setting.budget.noise(generator, (1,), 2 * bound / n, 2 * bound / n)[0]


def loop_over_blocks(n: int) -> float:
    """Return the time of `plain_loop`, divided by the time of blocks with as many trials."""
    tasks = blocks(LAWS["student_t"][0], n)
    trials = sum(task.trials for task in tasks)
    run(tasks[:1])
    return ratio(lambda: plain_loop(n, trials), lambda: run(tasks), repeats=3)


def two_jobs() -> float:
    """Return the time of dense blocks on one process, divided by their time on two processes."""
    tasks = blocks(LAWS["student_t"][0], 100_000, records=100_000_000)

    def with_jobs(n_jobs: int) -> Callable[[], object]:
        return lambda: list(compute(run_block, tasks, Runner(), n_jobs))

    with_jobs(2)()
    return ratio(with_jobs(1), with_jobs(2), clock=wall, repeats=3)


def counted_growth() -> float:
    """Return the time of counted samples with n = 1e12, divided by the time with n = 1e4."""

    def cell(n: int) -> list[BlockTask]:
        members = tuple((str(c), TwoPoint(p=c / n, k=2)) for c in (10, 100, 1000))
        return [BlockTask(members, n, SETTINGS, 0, i, "throughput") for i in range(20)]

    large, small = cell(10**12), cell(10**4)
    run(small)
    return ratio(lambda: run(large), lambda: run(small))


def binned_growth(n: int) -> float:
    """Return the time of datasets of n records, divided by the time of datasets of 1e4 records."""
    law = LAWS["student_t"][0]
    tasks = [blocks(law, size, records=2000 * size) for size in (n, 10**4)]
    run(tasks[0][:1])
    return ratio(lambda: run(tasks[0]), lambda: run(tasks[1]))


def binned_over_drawing(n: int) -> float:
    """Return the time to draw a dataset of n records, divided by that of drawing 1e6 numbers."""
    law, draw = LAWS["student_t"]
    generator = np.random.default_rng(0)
    law.sample(generator, 100, n)
    return (
        ratio(lambda: law.sample(generator, 100, n), lambda: draw(generator, (10, 1_000_000))) / 10
    )


def help_seconds() -> float:
    """Return the seconds of ``python -m dpbench --help``."""
    command = [sys.executable, "-m", "dpbench", "--help"]

    def ask() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603

    return statistics.median(wall(ask) for _ in range(REPEATS))


def first_block_seconds() -> float:
    """Return the seconds from starting the command until the first block is on disk."""

    def once() -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "dpbench", f"out={folder}"]
            start = time.perf_counter()
            process = subprocess.Popen(  # noqa: S603
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            while not list(Path(folder).glob("blocks/*.parquet")):
                time.sleep(0.005)
            seconds = time.perf_counter() - start
            process.wait()
            return seconds

    return statistics.median(once() for _ in range(3))


def gigabytes_of_people() -> float:
    """Return the peak memory of 2,000 releases of 331,095 records of 4,037 people.

    A person has up to 546 records and most have few, so that 85% of a padded table is padding.
    """
    rng = np.random.default_rng(0)
    sizes = np.rint(1 + 545 * np.linspace(0, 1, 4037) ** 5.73).astype(int)
    persons = np.repeat(np.arange(sizes.size), sizes)
    tracemalloc.start()
    rows = person_rows(rng.random(persons.size), persons.tolist(), rng)
    mean = BoundedContributionMean(lower=0, upper=1, cap=20)
    release(mean, rows, PureDP(1.0), rng=rng, repeats=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e9


def vectors() -> list[tuple[str, Callable[[], float], str]]:
    """Return the measurements in 50 dimensions; see `measurements`."""
    return [
        (
            "CoinPress, d=50, 2 rounds, over drawing, n=2000",
            lambda: time_over_drawing("vectors", 2_000, BALLS[2:3]),
            "<= 1.6",
        ),
        (
            "8 settings over drawing, d=50, n=2000",
            lambda: time_over_drawing("vectors", 2_000, BALLS),
            "<= 4",
        ),
        *(
            (
                f"FriendlyCore over its product of rows, d=50, n={n}",
                lambda n=n: friendly_over_product(n, 8_000 // n),
                "<= 3",
            )
            for n in (500, 1_000, 2_000)
        ),
    ]


def cells() -> list[tuple[str, Callable[[], float], str]]:
    """Return the measurements of datasets that are counts on cells; see `measurements`."""
    return [
        *(
            (f"dataset of {n:g} records over one of 1e4", lambda n=n: binned_growth(n), "<= 2")
            for n in (10**6, 10**12)
        ),
        *(
            (
                f"drawing a dataset of {n:g} over 1e6 numbers",
                lambda n=n: binned_over_drawing(n),
                "<= 0.01",
            )
            for n in (10**6, 10**12)
        ),
    ]


def measurements() -> list[tuple[str, Callable[[], float], str]]:
    """Return the label, function and target of each measurement."""
    dense = [
        (f"16 settings over drawing, {name}, n={n:g}", name, n)
        for name in ("student_t", "pareto", "gaussian")
        for n in (10_000, 100_000, 300_000)
    ]
    return [
        *(
            (
                label,
                lambda name=name, n=n: time_over_drawing(name, n),
                "<= 1.3" if name == "student_t" else "",
            )
            for label, name, n in dense
        ),
        *(
            (f"plain loop over ours, n={n:g}", lambda n=n: loop_over_blocks(n), ">= 12")
            for n in (1_000, 10_000, 100_000)
        ),
        *(
            (
                f"{setting.label} over drawing, n=10000",
                lambda setting=setting: time_over_drawing("gaussian", 10_000, (setting,)),
                "",
            )
            for setting in (Setting(label, *pair) for label, pair in SINGLE.items())
        ),
        *vectors(),
        ("one process over two, dense", two_jobs, ">= 1.7"),
        ("counted n=1e12 over n=1e4", counted_growth, "<= 1.5"),
        *cells(),
        ("seconds for --help", help_seconds, "< 1.5"),
        ("seconds to the first block on disk", first_block_seconds, "< 1.5"),
        ("gigabytes for 2000 releases of people", gigabytes_of_people, "< 1"),
    ]


def main() -> None:
    """Run all measurements, print the table and write it."""
    rows = []
    for label, measure, target in measurements():
        value = measure()
        rows.append({"measurement": label, "value": round(value, 3), "target": target})
        say(f"{label:<48} {value:8.2f}   {target}")
    path = Path("results/throughput.csv")
    with atomic(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    say(f"written: {path}")


if __name__ == "__main__":
    main()
