"""Blocks: batches of trials of one cell, the unit of work and of storage."""

from __future__ import annotations

import contextlib
import resource
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
from dpbench.errors import one_line
from dpbench.estimators import Estimate, Estimator
from dpbench.estimators.regression import least_squares
from dpbench.privacy import Budget, Ledger
from dpbench.samples import Sample
from dpbench.seeds import canonical, digest, stream
from dpbench.sweep.metrics import ERRORS

__all__ = [
    "Block", "BlockTask", "Setting", "block_trials", "replay", "replay_name", "run_block",
    "single_threaded_blas",
]  # fmt: skip

T = TypeVar("T")

# Numbers held at once: 24 MB of float64. From 32 MB on the allocator asks the system for fresh
# pages for every array, which cost a third more time here; smaller blocks were no faster.
BLOCK_NUMBERS = 3 << 20
BLOCK_TRIALS = 200
# Shares above this count as the whole budget; the rest is rounding of conversions.
WHOLE = 1 - 1e-6


@dataclass(frozen=True)
class Setting:
    """Estimator with a budget, under the estimator's label."""

    label: str
    estimator: Estimator
    budget: Budget

    @cached_property
    def stream_name(self) -> tuple[str, str]:
        """Parameters of the estimator and of the budget, which name the stream of the noise."""
        return canonical(self.estimator), canonical(self.budget)

    @property
    def name(self) -> str:
        """Label and all parameters."""
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
        Digest of everything else except `index`.
    followed : str
        Budget that the members follow, if they do; it is part of the name of the data.
    """

    members: tuple[tuple[str, Distribution], ...]
    n: int
    settings: tuple[Setting, ...]
    seed: int
    index: int
    name: str
    followed: str = ""

    @cached_property
    def trials(self) -> int:
        """Number of trials in this block, the same for all blocks of its cell."""
        return min(block_trials(self.n, member) for _, member in self.members)

    @property
    def keys(self) -> list[tuple[str, Distribution, Setting]]:
        """Member label, distribution and setting of every row of the arrays, ordered by member."""
        return [(label, law, one) for label, law in self.members for one in self.settings]


@dataclass
class Block:
    """Errors of one block and their parts, in (keys, trials) arrays; see `BlockTask.keys`.

    Attributes
    ----------
    values : dict of str to ndarray of shape (keys, trials)
        The first five are norms, or absolute values, and NaN if nothing was released:

        - ``sampling``: empirical mean - target;
        - ``bias``: value before noise - empirical mean;
        - ``noise``: release - value before noise;
        - ``private``: release - empirical mean, that is bias + noise;
        - ``error``: release - target.

        The others are present if any setting has them, and NaN for settings without them. If
        nothing was released they are infinite (``missed`` is 1), except ``core``, ``spent`` and
        ``sign``:

        - ``width``: width of a released interval;
        - ``missed``: 1 if the target is outside the interval, else 0;
        - ``outside``: share of the records outside the interval;
        - ``width_ratio``: width over that of mean +- z sigma/sqrt(n) with the same miss
          probability;
        - ``tv``: total-variation distance of a learned Gaussian from the distribution;
        - ``promise``: error over the accuracy that the estimator promises;
        - ``core``: mean weight that a filter gives to the records;
        - ``spent``: share of the budget that is spent, if it is below 1;
        - ``sign``: sign of the error of a number.
    failures : dict of int to str
        Error messages of settings that raised, by index of the key.
    seconds : dict of str to float
        Processor time of the releases, in seconds, by the estimator's label.
    cpu_seconds : float
        Processor time of the whole block, in seconds.
    peak_bytes : float
        Largest memory of the process so far, in bytes.
    """

    values: dict[str, Floats]
    failures: dict[int, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    peak_bytes: float = 0.0


def block_trials(n: int, distribution: Distribution) -> int:
    """Return the number of trials in a block, which depends on n and the distribution only.

    Parameters
    ----------
    n : int
        Number of records of a dataset.
    distribution : Distribution
        Distribution of the records.

    Returns
    -------
    int
        Between 1 and 200; few if datasets are large.
    """
    return max(1, min(BLOCK_TRIALS, int(BLOCK_NUMBERS // distribution.held(n))))


def run_block(task: BlockTask) -> Block:
    """Draw the data of every member once and run every setting on them.

    A setting that raises is recorded as failed, and the others go on.
    """
    started = time.thread_time()
    shape = (len(task.keys), task.trials)
    block = Block({name: np.full(shape, np.nan) for name in ERRORS})
    with single_threaded_blas():
        for row, (_, law, setting) in enumerate(task.keys):
            if row % len(task.settings) == 0:  # the first on this law's data
                drawn, undrawn = _attempt(partial(_drawn, task, law))
            began = time.thread_time()
            found, failed = None, undrawn
            if drawn is not None:
                found, failed = _attempt(partial(_errors, setting, drawn, law, task))
            spent = block.seconds.get(setting.label, 0.0)
            block.seconds[setting.label] = spent + time.thread_time() - began
            if found is None:
                block.failures[row] = failed
                continue
            for name, values in found.items():
                if name not in block.values:
                    block.values[name] = np.full(shape, np.nan)
                block.values[name][row] = values
    block.cpu_seconds = time.thread_time() - started
    block.peak_bytes = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return block


def _attempt(work: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result of `work` and "", or None and the error that it raised, as text."""
    try:
        return work(), ""
    except MemoryError:  # a limit of this machine, not a fault of the setting
        raise
    except Exception as error:  # noqa: BLE001, whatever a plug-in raises becomes a row
        return None, one_line(f"{type(error).__name__}: {error}")


def replay_name(member: str, n: int, setting: Setting, index: int) -> str:
    """Return a word that identifies one setting on one member's block, and ends in n.

    Parameters
    ----------
    member : str
        Label of the member.
    n : int
        Number of records.
    setting : Setting
        Estimator with a budget.
    index : int
        Number of the block within its cell.

    Returns
    -------
    str
    """
    return f"f{digest(member, n, setting.name, index)[:10]}n{n}"


def replay(task: BlockTask, name: str) -> Estimate | None:
    """Run the setting of that name on its data again; an error that it raises is not caught.

    Parameters
    ----------
    task : BlockTask
        Block that may hold the setting.
    name : str
        Word that `replay_name` returned.

    Returns
    -------
    Estimate or None
        None if the block holds no setting of that name.
    """
    for label, law, setting in task.keys:
        if replay_name(label, task.n, setting, task.index) == name:
            with single_threaded_blas():
                return _released(setting, _drawn(task, law), law, task)[0]
    return None


def _stream_name(task: BlockTask, law: Distribution) -> tuple[int, str, str, int, int]:
    return task.seed, canonical(law), task.followed, task.n, task.index


def _drawn(task: BlockTask, law: Distribution) -> Sample:
    return law.sample(stream("data", *_stream_name(task, law)), task.trials, task.n)


def _released(
    setting: Setting, sample: Sample, law: Distribution, task: BlockTask
) -> tuple[Estimate, float]:
    """Return the estimate of a setting, and the share of its budget that it spends."""
    rng = stream("noise", *_stream_name(task, law), *setting.stream_name)
    ledger = Ledger(setting.budget, rng)
    return setting.estimator.run(sample, ledger), ledger.share


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Use one thread for linear algebra, so that results do not vary, and silence warnings."""
    with _one_thread(), np.errstate(all="ignore"):
        yield


class _OneThread:
    """Context in which linear algebra has one thread; several threads may be inside at once.

    The limit is lifted when the last thread leaves, because a dask worker may run many blocks at
    once.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._pools = ThreadpoolController()  # finding them takes milliseconds
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


def _errors(
    setting: Setting, sample: Sample, law: Distribution, task: BlockTask
) -> dict[str, Floats]:
    estimate, share = _released(setting, sample, law, task)
    empirical, target = sample.mean(), law.target_of(sample)
    estimand = setting.estimator.estimand
    if estimand != "mean":
        empirical, target = sample.second_moment(), law.covariance
    if estimand == "regression":
        empirical, target = least_squares(empirical), least_squares(law.covariance)
    parts = {
        "error": estimate.value - target,
        "sampling": empirical - target,
        "bias": estimate.before_noise - empirical,
        "noise": estimate.value - estimate.before_noise,
        "private": estimate.value - empirical,
    }
    if estimand == "covariance":
        # |S^(-1/2) M S^(-1/2)|_F is the same for every root of S
        root = np.linalg.inv(np.linalg.cholesky(law.covariance))
        parts = {name: root @ part @ root.T for name, part in parts.items()}
    # |S^(1/2) theta|, S the second moment of the features, is the root of the excess risk.
    if estimand == "regression":
        root = np.linalg.cholesky(law.covariance[:-1, :-1])
        parts = {name: part @ root for name, part in parts.items()}
    if estimand == "mean" and (whiten := law.whitening) is not None:
        parts = {name: part @ whiten for name, part in parts.items()}
    axes = tuple(range(1, empirical.ndim))
    sizes = {
        name: np.linalg.norm(part, axis=axes) if axes else np.abs(part)
        for name, part in parts.items()
    }
    found = sizes | _extras(estimate, sample, law, sizes["error"])
    if share < WHOLE and np.isfinite(estimate.value).any():
        found["spent"] = np.full(sample.trials, share)
    if empirical.ndim == 1:
        found["sign"] = np.sign(parts["error"])
    return found


def _extras(
    estimate: Estimate, sample: Sample, law: Distribution, error: Floats
) -> dict[str, Floats]:
    """Measure the optional outputs of an estimator, each (trials,); see `Block`."""
    found: dict[str, Floats] = {}
    if estimate.interval is not None:
        low, high = estimate.interval
        inside = (low <= law.target) & (law.target <= high)
        share = 1 - sample.count(low, np.nextafter(high, np.inf)) / sample.n
        found["width"] = high - low
        found["missed"] = 1.0 - np.asarray(inside, dtype=float)
        found["outside"] = np.where(np.isnan(low), np.nan, share)
    if estimate.interval is not None and estimate.miss is not None:
        usual = -2 * ndtri(estimate.miss / 2) * np.sqrt(law.variance / sample.n)
        found["width_ratio"] = found["width"] / usual
    if estimate.scale is not None:
        distance = law.distance_to_gaussian(estimate.value, estimate.scale)
        if distance is not None:
            found["tv"] = distance
    if estimate.accuracy is not None:
        found["promise"] = error / estimate.accuracy
    if estimate.core is not None:
        found["core"] = estimate.core
    return {name: np.where(np.isnan(values), np.inf, values) for name, values in found.items()}
