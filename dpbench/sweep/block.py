"""Blocks: batches of trials of one cell, the unit of work and of storage."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri
from threadpoolctl import ThreadpoolController

from dpbench.arrays import Floats
from dpbench.distributions import Distribution
from dpbench.errors import to_one_line
from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.samples import Sample
from dpbench.seeds import canonical, digest, stream
from dpbench.sweep.metrics import ERRORS

__all__ = [
    "Block",
    "BlockTask",
    "Setting",
    "block_trials",
    "failure_name",
    "most_trials",
    "rerun",
    "run_block",
    "single_threaded_blas",
]  # fmt: skip

T = TypeVar("T")

# Largest number of values in memory at once: 24 MB of float64. For arrays of 32 MB or more the
# allocator asks the system for fresh pages each time, which took a third more time on the author's
# machine; smaller blocks were no faster.
BLOCK_NUMBERS = 3 << 20
# Trials of a block, at most. With 2,000 in place of 200 a release on counted data (two points, the
# local model) takes a sixth of the time, and with 5,000 a tenth. Fewer trials have blocks of 200,
# so that both processes work, and few trials are drawn beyond those that are asked for.
MANY_TRIALS, FEW_TRIALS = 2000, 200
# Shares above this count as the whole budget, because conversions of budgets round.
WHOLE_BUDGET = 1 - 1e-6


@dataclass(frozen=True)
class Setting:
    """Estimator with a budget, and the label of the estimator."""

    label: str
    estimator: Estimator
    budget: Budget

    @cached_property
    def stream_name(self) -> tuple[str, str]:
        """Two texts: the estimator with its parameters, and the budget with its parameters.

        The name of the random stream from which the noise is drawn contains both texts.
        """
        return canonical(self.estimator), canonical(self.budget)

    @property
    def name(self) -> str:
        """Label, estimator and budget with all parameters, as one text."""
        return "|".join((self.label, *self.stream_name))


@dataclass(frozen=True)
class BlockTask:
    """Description of one block: the data to draw and the settings to run on them.

    Attributes
    ----------
    members : tuple of (label, distribution)
        Members of the family; each has its own data.
    n : int
        Number of records of a dataset.
    settings : tuple of Setting
        Estimators with budgets, all run on the same data.
    seed : int
        Seed of the sweep.
    index : int
        Number of the block within its cell.
    name : str
        Digest of all other fields except `index`.
    followed : str
        Text of the privacy budget on which the members' distributions depend; empty (the default)
        if they depend on none. This text is part of the name of the random stream from which the
        data are drawn.
    most_trials : int
        Largest number of trials in a block, see `most_trials`.
    """

    members: tuple[tuple[str, Distribution], ...]
    n: int
    settings: tuple[Setting, ...]
    seed: int
    index: int
    name: str
    followed: str = ""
    most_trials: int = FEW_TRIALS

    @cached_property
    def trials(self) -> int:
        """Number of trials in this block, the same for all blocks of its cell."""
        return min(block_trials(self.n, member, self.most_trials) for _, member in self.members)

    @property
    def keys(self) -> list[tuple[str, Distribution, Setting]]:
        """List of (label of a member, its distribution, setting), one for each pair of these.

        Entry i describes row i of the arrays in `Block`. Entries are ordered by member, then by
        setting.
        """
        return [(label, law, setting) for label, law in self.members for setting in self.settings]


@dataclass
class Block:
    """Errors of one block of trials, with the parts due to sampling, bias and noise.

    A key is a pair of a member (a distribution) and a setting (an estimator with a budget). Each
    array has one row for each key, ordered as in `BlockTask.keys`, and one column for each trial.

    Attributes
    ----------
    values : dict of str to ndarray of shape (keys, trials)
        Each of the first five arrays holds the size of a difference: the absolute value of a
        number, or the norm of an array. The target is the value to estimate. The release is the
        estimator's output. In a trial without a release ``noise``, ``private`` and ``error`` are
        NaN:

        - ``sampling``: empirical mean - target;
        - ``bias``: value before noise - empirical mean, NaN if the value before noise is unknown;
        - ``noise``: release - value before noise;
        - ``private``: release - empirical mean, that is bias + noise;
        - ``error``: release - target.

        Each of the other arrays is present if any setting of the block has it, and NaN in the rows
        of settings without it. In a trial without a release ``missed`` is 1, ``sign`` is NaN, and
        ``core`` and ``spent`` keep their values. All others are infinite in this trial:

        - ``width``: width of a released interval;
        - ``missed``: 1 if the target is outside the interval, else 0. A declared failure without
          an interval (NaN) is no miss, because it states nothing;
        - ``outside``: share of the records outside the interval;
        - ``width_ratio``: width divided by the width of the non-private interval mean +-
          z sigma/sqrt(n), where z is the normal quantile of the same miss probability;
        - ``tv``: total-variation distance between a learned Gaussian and the distribution;
        - ``promise``: error divided by the accuracy that the estimator promises;
        - ``core``: mean weight of the records, if the estimator weights them by a filter;
        - ``spent``: fraction of the budget that the estimator spends, if it is below 1;
        - ``sign``: sign of release - target, if both are numbers.
    failures : dict of int to str
        Error messages of settings that raised an exception, keyed by row of the arrays.
    seconds : dict of str to float
        Processor time of the releases and of measuring their errors, in seconds, keyed by the label
        of the estimator.
    cpu_seconds : float
        Processor time of the whole block, in seconds.
    peak_bytes : float
        Largest memory of the process so far, in bytes; 0 if the system does not report it.
    reads : tuple of str
        Files that plug-ins have opened and that the origin of the block does not cover.
    """

    values: dict[str, Floats]
    failures: dict[int, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    peak_bytes: float = 0.0
    reads: tuple[str, ...] = ()


def most_trials(trials: int) -> int:
    """Return the largest number of trials in a block of a cell that runs `trials` or more."""
    return MANY_TRIALS if trials >= MANY_TRIALS else FEW_TRIALS


def block_trials(n: int, distribution: Distribution, most: int) -> int:
    """Return the number of trials in a block, from 1 to `most`.

    A block of more than one trial holds at most about 3 million values.
    """
    return max(1, min(most, int(BLOCK_NUMBERS // distribution.held(n))))


def run_block(task: BlockTask) -> Block:
    """Compute one block of trials: run every setting on the data of every member.

    A member is a distribution of a family, and a setting is an estimator with a budget. The data of
    each member are drawn once. A setting that raises an exception is recorded as failed; the other
    settings still run.
    """
    block_start = time.thread_time()
    shape = (len(task.keys), task.trials)
    block = Block({name: np.full(shape, np.nan) for name in ERRORS})
    with single_threaded_blas():
        for row, (label, law, setting) in enumerate(task.keys):
            with _name_shortage(task, label, law, setting):
                if row % len(task.settings) == 0:  # the first on this law's data
                    sample, draw_error = _attempt(partial(_draw_sample, task, law))
                start = time.thread_time()
                measurements, error = None, draw_error
                if sample is not None:
                    work = partial(_measure_errors, setting, sample, law, task)
                    measurements, error = _attempt(work)
            earlier_seconds = block.seconds.get(setting.label, 0.0)
            block.seconds[setting.label] = earlier_seconds + time.thread_time() - start
            if measurements is None:
                block.failures[row] = error
                continue
            for name, values in measurements.items():
                if name not in block.values:
                    block.values[name] = np.full(shape, np.nan)
                block.values[name][row] = values
    block.cpu_seconds = time.thread_time() - block_start
    with contextlib.suppress(ImportError):  # a system without it runs blocks, but no sweeps
        import resource

        block.peak_bytes = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return block


@contextlib.contextmanager
def _name_shortage(
    task: BlockTask, label: str, law: Distribution, setting: Setting
) -> Iterator[None]:
    """Let a MemoryError inside this context name the block, the setting and the size of the data.

    The numbers of a block are its records, 8 bytes each, or the counts that stand for them.
    """
    try:
        yield
    except MemoryError as error:
        megabytes = 8e-6 * law.held(task.n) * task.trials
        raise MemoryError(
            f"{setting.label} on {label}, n = {task.n:,}, d = {law.d}: not enough memory for a "
            f"block of {task.trials} trials, whose records take about {megabytes:,.0f} MB; lower "
            "n or d, use fewer processes (n_jobs=1), or raise the memory limit (ulimit -v)"
        ) from error


def _attempt(work: Callable[[], T]) -> tuple[T | None, str]:
    """Call `work`; return its result and "", or None and the text of the error that it raised.

    A MemoryError is raised again, because it shows a limit of this machine.
    """
    try:
        return work(), ""
    except MemoryError:  # a limit of this machine, not a fault of the setting
        raise
    except Exception as error:  # noqa: BLE001, whatever a plug-in raises becomes a row
        return None, to_one_line(f"{type(error).__name__}: {error}")


def failure_name(member: str, n: int, setting: Setting, index: int) -> str:
    """Return a name by which `rerun` can repeat the run of a setting on a member's data.

    The run covers one block, a batch of trials, whose number within its cell is `index`. `member`
    is the label of the member. The name consists of "f", ten hexadecimal digits of a digest, "n"
    and the number of records.
    """
    return f"f{digest(member, n, setting.name, index)[:10]}n{n}"


def rerun(task: BlockTask, name: str) -> Estimate | None:
    """Repeat the run that `failure_name` named, without catching its exceptions.

    The run is an estimator with a budget (a setting), on one distribution's data in one block of
    trials. The estimates of all trials are returned, or None if the block `task` holds no run of
    this name.
    """
    for label, law, setting in task.keys:
        if failure_name(label, task.n, setting, task.index) == name:
            with single_threaded_blas():
                return _release_estimate(setting, _draw_sample(task, law), law, task)[0]
    return None


def _stream_name(task: BlockTask, law: Distribution) -> tuple[int, str, str, int, int, int]:
    return task.seed, canonical(law), task.followed, task.n, task.trials, task.index


def _draw_sample(task: BlockTask, law: Distribution) -> Sample:
    return law.sample(stream("data", *_stream_name(task, law)), task.trials, task.n)


def _release_estimate(
    setting: Setting, sample: Sample, law: Distribution, task: BlockTask
) -> tuple[Estimate, float]:
    """Run a setting on a sample; return its estimate and the share of its budget that it spends."""
    rng = stream("noise", *_stream_name(task, law), *setting.stream_name)
    ledger = Ledger(setting.budget, rng)
    return setting.estimator.run(sample, ledger), ledger.share


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Use one thread for linear algebra and ignore numpy's warnings, inside this context only.

    The last bits of a result could vary if several threads shared the work.
    """
    with _one_thread(), np.errstate(all="ignore"):
        yield


class _OneThread:
    """Context in which linear algebra uses one thread; several Python threads may enter at once.

    The limit is lifted when the last thread leaves, because a dask worker may run many blocks at
    once.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._pools = ThreadpoolController()  # made once, because the search takes milliseconds
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = self._pools.limit(limits=1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_one_thread = cache(_OneThread)


def _measure_errors(
    setting: Setting, sample: Sample, law: Distribution, task: BlockTask
) -> dict[str, Floats]:
    """Run a setting and return its measurements by name, each of shape (trials,).

    See `Block` for the names, and `dpbench.estimators.estimands` for the sizes of errors.
    """
    estimate, share = _release_estimate(setting, sample, law, task)
    estimand = setting.estimator.estimand
    empirical, target = estimand.empirical(sample), estimand.truth(law, sample)
    scale = estimand.scale(law)
    parts = {
        "error": estimate.value - target,
        "sampling": empirical - target,
        "bias": estimate.before_noise - empirical,
        "noise": estimate.value - estimate.before_noise,
        "private": estimate.value - empirical,
    }
    axes = tuple(range(1, empirical.ndim))
    sizes = {
        name: np.linalg.norm(scale(part), axis=axes) if axes else np.abs(part)
        for name, part in parts.items()
    }
    measurements = sizes | _measure_outputs(estimate, sample, law, sizes["error"])
    if share < WHOLE_BUDGET and np.isfinite(estimate.value).any():
        measurements["spent"] = np.full(sample.trials, share)
    if empirical.ndim == 1:
        measurements["sign"] = np.sign(parts["error"])
    return measurements


def _measure_outputs(
    estimate: Estimate, sample: Sample, law: Distribution, error: Floats
) -> dict[str, Floats]:
    """Return measurements of the optional outputs of an estimator, such as an interval, by name.

    Each has the shape (trials,); see `Block` for the names.
    """
    measurements: dict[str, Floats] = {}
    if estimate.interval is not None:
        low, high = estimate.interval
        outside = (law.target < low) | (high < law.target)
        share = 1 - sample.count(low, np.nextafter(high, np.inf)) / sample.n
        measurements["width"] = high - low
        measurements["missed"] = np.asarray(outside, dtype=float)
        measurements["outside"] = np.where(np.isnan(low), np.nan, share)
    if estimate.interval is not None and estimate.miss is not None:
        usual_width = -2 * ndtri(estimate.miss / 2) * np.sqrt(law.variance / sample.n)
        measurements["width_ratio"] = measurements["width"] / usual_width
    if estimate.scale is not None:
        distance = law.distance_to_gaussian(estimate.value, estimate.scale)
        if distance is not None:
            measurements["tv"] = distance
    if estimate.accuracy is not None:
        measurements["promise"] = error / estimate.accuracy
    if estimate.core is not None:
        measurements["core"] = estimate.core
    return {
        name: np.where(np.isnan(values), np.inf, values) for name, values in measurements.items()
    }
