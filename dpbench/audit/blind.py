"""Explain why an audit does not refute an estimator whose noise is halved.

A row of an audit is blind if halved noise would not be refuted in 95% of audits. The reason is
computed from two runs on a pair, recorded step by step, the second run given the releases of the
first:

1. A Gaussian step with noise of standard deviation s_j on numbers that the pair changes by m_j is
   a shift of a normal distribution by mu, mu^2 = sum (m_j/s_j)^2. A pure step loses at most an
   epsilon: sum |m_j|/b_j for Laplace noise of scale b_j; for the exponential mechanism its epsilon
   times the range of the change of the scores over twice their sensitivity; otherwise its cost.
2. All steps together show at most N(0, 1) against N(mu, 1), where mu^2 is summed over the Gaussian
   steps, and randomised response at E, the sum of the pure epsilons, because it dominates every
   pure mechanism. Halving the noise of a step doubles its mu or its epsilon.
3. By the lemma of Neyman and Pearson the best events are {likelihood ratio >= t}; their
   probabilities have a closed form. `runs_to_refute` is the smallest number of runs for which the
   best event, with expected counts, gives a bound above the claim.

If this number exceeds the runs of the audit, no test of the release can refute halved noise on this
pair. Otherwise the release shows less than its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from dpbench.arrays import Floats
from dpbench.audit.bounds import event_bound
from dpbench.audit.half_additive import HALF
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.budgets import _BadEvent
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import DenseSample

__all__ = ["Reason", "Seen", "reasons", "runs_to_refute", "steps_of", "why_blind"]

FEWEST, MOST = 100, 1e9  # smallest and largest number of runs that `runs_to_refute` tries
SMOOTH = "noise for a"  # start of the name of smooth-sensitivity noise on receipts; not on tapes
MOSTLY = 0.5  # share of failed releases from which on failure is the reason
NOISE = ("add_noise", "add_l2_noise", "add_joint_noise", "add_geometric_noise", "above_threshold")


class Seen(NamedTuple):
    """Upper bound on the evidence of one step: a shift of a normal distribution, or an epsilon.

    Parameters
    ----------
    additive : bool
        Whether the step adds noise.
    known : bool
        Whether the change of the step's input is known; otherwise it is assumed to be the largest.
        It is unknown if the tape has no values, or if the records are ends of the intervals to
        choose from.
    mu, epsilon : float
        Shift of a Gaussian step, and epsilon of a pure step; the other is 0.
    full : pair of float
        `mu` and `epsilon` if the input changes by its full sensitivity.
    share : float
        Share of the budget.
    weight : float
        One over the number of parallel steps on disjoint records; a pair changes one of them.
    draws : int
        Number of noises that are averaged.
    """

    additive: bool
    known: bool
    mu: float
    epsilon: float
    full: tuple[float, float]
    share: float
    weight: float
    draws: int


@dataclass(frozen=True)
class Reason:
    """Reason why a row is blind: a word for its kind, and a sentence with numbers."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class _Paid(NamedTuple):
    """Payment: budget, mechanism, number of repetitions, and `Seen.weight`."""

    budget: Budget
    mechanism: str
    times: int
    weight: float


class _Receipts(Tape):
    """Tape that also keeps each payment."""

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        super().__init__(earlier)
        self.paid: list[_Paid] = []


class _Watched(Ledger):
    """Ledger that writes each payment to its tape, a `_Receipts`."""

    times, weight = 1, 1.0

    def _part(self, budget: Budget) -> Any:
        part = super()._part(budget)
        part.times, part.weight = self.times, self.weight
        return part

    def parallel(self, parts: int) -> Any:
        children = super().parallel(parts)
        for child in children:
            child.weight = self.weight / parts
        return children

    def repeated(self, times: int) -> Any:
        child = super().repeated(times)
        child.times = self.times * times
        return child

    def pay(self, mechanism: str = "", sensitivity: Any = None) -> None:
        super().pay(mechanism, sensitivity)
        assert isinstance(self.tape, _Receipts)
        self.tape.paid.append(_Paid(self.budget, mechanism, self.times, self.weight))


def steps_of(
    estimator: Estimator, budget: Budget, pair: Pair, rng: np.random.Generator
) -> list[Seen]:
    """Return the evidence of each step of a run about a pair; empty if a run raises.

    Parameters
    ----------
    estimator : Estimator
        Estimator to run on both datasets.
    budget : Budget
        Claimed budget.
    pair : Pair
        Neighbouring datasets.
    rng : Generator
        Source of the noise.

    Returns
    -------
    list of Seen
    """
    tapes: list[_Receipts] = []
    for data in (pair.left, pair.right):
        tape = _Receipts(tapes[0].steps if tapes else ())
        try:
            estimator.run(DenseSample(data[None]), _Watched(budget, rng, tape=tape))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, a plug-in may raise anything
            return []
        tapes.append(tape)
    whole, found = budget.cost[0], []
    for paid, one, other in zip(
        tapes[0].paid, *(_mechanisms(tape) for tape in tapes), strict=False
    ):
        if not isinstance(paid.budget, _BadEvent):
            share = paid.weight * paid.times * budget.cost_of(paid.budget)[0] / whole
            found.append(_seen(paid, share, one, other))
    return found


def _mechanisms(tape: Tape) -> list[Step]:
    """Return for each payment the step that follows it, or the payment if there is none."""
    found: list[Step] = []
    for step in tape.steps:
        if step.mechanism == "pay":
            found.append(step)
        else:
            found[-1] = step
    return found


def _seen(paid: _Paid, share: float, one: Step, other: Step) -> Seen:
    """Bound the evidence of one step: item 1 at the top of this file."""
    part, known = paid.budget, one.like(other) and one.values.size > 0
    about: Any = {"share": share, "weight": paid.weight, "draws": one.draws, "known": known}
    about["additive"] = one.mechanism in NOISE or paid.mechanism.startswith(SMOOTH)
    l1, l2 = (np.asarray(one.sensitivity.get(norm, 1.0)) for norm in ("l1", "l2"))
    if one.mechanism == "add_noise" and (sd := part._sd(l1, l2)) is not None:
        full = float(np.sqrt(paid.times / one.draws)) / sd
        mu = float(np.linalg.norm(_moves(one, other) / l2 * np.sqrt(one.draws))) / sd
        return Seen(mu=min(mu, full) if known else full, epsilon=0.0, full=(full, 0.0), **about)
    epsilon = part.exponential_epsilon if one.mechanism == "exponential" else part.pure_epsilon
    lost, most = epsilon * (_part_moved(one, other) if known else 1.0), paid.times * epsilon
    return Seen(mu=0.0, epsilon=min(lost, most), full=(0.0, most), **about)


def _moves(one: Step, other: Step) -> Floats:
    gaps = np.abs(one.values - other.values)
    return np.where(np.isnan(one.values) & np.isnan(other.values), 0.0, gaps)


def _part_moved(one: Step, other: Step) -> float:
    """Return the share of a pure step's epsilon that a change costs; 1 if it is unknown."""
    (norm, stated), *_ = one.sensitivity.items()
    if one.mechanism == "add_noise":
        stated = one.sensitivity["l1"]
        return float(np.sum(_moves(one, other) / stated) * one.draws)
    if one.mechanism == "exponential":
        moved = one.values - other.values
        return float(np.max(np.ptp(moved, axis=1) / (2 * np.asarray(stated))))
    if norm in ("box", "ball"):
        return 1.0
    moved = _moves(one, other)
    return float(np.max(moved if norm == "max" else np.linalg.norm(moved)) / np.max(stated))


def runs_to_refute(mu: float, epsilon: float, budget: Budget, error: float) -> float:
    """Return the number of runs with which the best event refutes a claim; infinite above `MOST`.

    Parameters
    ----------
    mu, epsilon : float
        Evidence of all steps: N(0, 1) against N(mu, 1), and randomised response at epsilon.
    budget : Budget
        Claimed budget.
    error : float
        Probability that the bound exceeds the true parameter.

    Returns
    -------
    float
        Runs on each dataset.
    """
    p, q = _best_events(mu, epsilon)
    sizes = np.geomspace(FEWEST, MOST, 57)

    def refutes(size: float) -> bool:
        n = int(size)
        bound = event_bound(np.floor(p * n), n, np.floor(q * n), n, budget, error)
        return bool(bound.max() > budget.amounts[0])

    if not refutes(sizes[-1]):
        return np.inf
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(sizes[middle]) else (middle + 1, high)
    return float(sizes[low])


def _best_events(mu: float, epsilon: float) -> tuple[Floats, Floats]:
    """Return the probabilities of {log-likelihood ratio >= t} on both datasets, for a grid of t.

    On one dataset this logarithm is N(mu^2/2, mu^2) + epsilon with probability 1/(1 + e^-epsilon),
    and N(mu^2/2, mu^2) - epsilon otherwise. On the other dataset mu^2/2 and epsilon change their
    sign.
    """
    more = float(expit(epsilon))
    if mu == 0:
        return np.array([more]), np.array([1 - more])
    reach = epsilon + mu**2 / 2 + 6 * mu
    t = np.linspace(-reach, reach, 801)
    p, q = (
        more * ndtr((sign * epsilon + sign * mu**2 / 2 - t) / mu)
        + (1 - more) * ndtr((-sign * epsilon + sign * mu**2 / 2 - t) / mu)
        for sign in (1, -1)
    )
    return p, q


def why_blind(
    pairs: Sequence[Sequence[Seen]],
    budget: Budget,
    runs: int,
    error: float,
    failed: float,
    additive_only: bool,
) -> Reason:
    """Return why half of the noise is not refuted.

    Parameters
    ----------
    pairs : sequence of sequence of Seen
        Steps on every pair.
    budget : Budget
        Claimed budget.
    runs : int
        Runs on each dataset of a pair.
    error : float
        Probability that the bound of an event exceeds the true parameter.
    failed : float
        Share of releases with halved noise that are not finite.
    additive_only : bool
        Whether only the noise of additive mechanisms is halved.

    Returns
    -------
    Reason
    """
    if failed >= MOSTLY or not all(pairs):
        return Reason("failure", f"{failed:.0%} of the releases fail")
    shown = [_runs(steps, budget, error, additive_only, full=False) for steps in pairs]
    here, steps = min(shown), pairs[int(np.argmin(shown))]
    touched = [step for step in steps if step.additive or not additive_only]
    if not touched:
        return Reason("other noise", "no step has additive noise")
    share = sum(step.share for step in touched) / sum(step.share for step in steps)
    whole = _runs(steps, budget, error, additive_only, full=True)
    if whole > runs and len(touched) < len(steps):
        return Reason("share", f"{share:.0%} of the budget is for such noise, {_in(whole)}")
    if whole > runs:
        delta = getattr(budget, "delta", None)
        about = "a factor 2 shows" if delta is None else f"at delta {delta:g} a factor 2 shows"
        return Reason("noise" if delta is None else "delta", f"{about} {_in(whole)}")
    if here > runs:
        parts = [step.share * _moved(step) for step in touched]
        moved = sum(parts) / sum(step.share for step in touched)
        return Reason("pairs", f"they move the steps by {moved:.0%} of the claim, {_in(here)}")
    return _hidden(steps, touched, here)


def _hidden(steps: Sequence[Seen], touched: Sequence[Seen], here: float) -> Reason:
    """Return why the release is not refuted although its steps together would be."""
    if (draws := max(step.draws for step in touched)) > 1:
        return Reason("local", f"{draws} noises average")
    if len(steps) > 1:
        return Reason("other steps", f"all {len(steps)} would show it {_in(here)}, the release not")
    if not steps[0].known:
        return Reason("one way", "records cut up what it chooses from, and move scores one way")
    return Reason("attack", f"the best test would show it {_in(here)}")


def _runs(
    steps: Sequence[Seen], budget: Budget, error: float, additive_only: bool, full: bool
) -> float:
    """Return the runs that refute halved noise; `full` takes every change as the largest."""
    mu, epsilon = 0.0, 0.0
    for step in steps:
        times = 1 / HALF if step.additive or not additive_only else 1.0
        parts = (step.full[0] * step.weight**0.5, step.full[1] * step.weight)
        one, other = parts if full else (step.mu, step.epsilon)
        mu, epsilon = float(np.hypot(mu, times * one)), epsilon + times * other
    return runs_to_refute(mu, epsilon, budget, error)


def _in(runs: float) -> str:
    """Return a phrase with the number of runs."""
    return f"in {float(f'{runs:.0e}'):,.0f} runs" if np.isfinite(runs) else "in no number of runs"


def _moved(step: Seen) -> float:
    """Return the evidence of a step as a share of its largest evidence."""
    return max(x / y for x, y in zip((step.mu, step.epsilon), step.full, strict=True) if y > 0)


def reasons(
    steps: Sequence[Sequence[Seen]],
    seen_half: bool,
    sees_additive: Callable[[], bool],
    failed: Callable[[], float],
    claim: tuple[Budget, int, float],
) -> tuple[str, str]:
    """Return why halving all noise, and halving the additive noise alone, is not refuted.

    Parameters
    ----------
    steps : sequence of sequence of Seen
        Steps on every pair.
    seen_half : bool
        Whether halving all noise is refuted.
    sees_additive : callable
        Function that returns whether halving the additive noise alone is refuted; called only if
        the steps do not decide it.
    failed : callable
        Function that returns the share of releases that fail; called only if it is needed.
    claim : tuple (budget, runs, error)
        Arguments of `why_blind`.

    Returns
    -------
    tuple of two str
        Reasons; empty if halving that noise is refuted.
    """
    additive = [step.additive for seen in steps for step in seen]
    seen_additive = seen_half if all(additive) else any(additive) and sees_additive()
    if seen_half and seen_additive:
        return "", ""
    share = failed()
    half, alone = (
        "" if seen else str(why_blind(steps, *claim, share, only))
        for seen, only in ((seen_half, False), (seen_additive, True))
    )
    return half, alone
