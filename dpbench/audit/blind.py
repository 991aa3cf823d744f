"""Explain why an audit does not refute an estimator whose noise is halved.

A row of an audit is blind if half of the noise would not be refuted in 95% of audits. The reason is
computed from what a pair of runs puts on a tape, step by step, each run given the same releases:

1. Gaussian noise of deviation s_j on numbers that the pair moves by m_j shifts a normal
   distribution by mu, mu^2 = sum (m_j/s_j)^2. A pure mechanism loses at most some epsilon: of
   Laplace noise sum |m_j|/b_j, of the exponential mechanism its epsilon times the range of what the
   scores move by over twice the sensitivity, of others what they pay.
2. Whoever sees all steps sees at most N(0, 1) against N(mu, 1), mu^2 the sum over Gaussian steps,
   beside randomised response at the sum E of the pure ones: it dominates every pure mechanism. Half
   of the noise doubles mu and E of the steps that it is put into.
3. By Neyman and Pearson the best events are those of a large likelihood ratio, here of closed form.
   `runs_to_refute` is the least number of runs with which the best of them, of expected counts,
   gives a bound above the claim.

If that needs more runs than there are, nothing that sees the release can refute it on this pair.
If not, the release shows less than its steps do.
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

FEWEST, MOST = 100, 1e9  # runs that are tried
SMOOTH = "noise for a"  # names noise for a smooth sensitivity on receipts; tapes lack it
MOSTLY = 0.5  # from this share of failed releases on, failures are the reason
NOISE = ("add_noise", "add_l2_noise", "add_joint_noise", "add_geometric_noise", "above_threshold")


class Seen(NamedTuple):
    """Hold the most that one step shows: a shift of a normal distribution, or an epsilon.

    `full` has both where the pair moves the step by all of its sensitivity; `share` is the step's
    part of the budget, `weight` one over the number of steps that run on disjoint records like this
    one, of which a pair moves one; `draws` are the noises that are averaged. Where a move is not
    `known`, because the tape has no values or the records cut up what is chosen from, it is taken
    for the largest.
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
    """Explain why a row is blind, by a word for the kind and a sentence with its numbers."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class _Paid(NamedTuple):
    """Record a payment: budget, mechanism, number of repetitions, and `Seen.weight`."""

    budget: Budget
    mechanism: str
    times: int
    weight: float


class _Receipts(Tape):
    """Keep each payment beside the steps of a tape."""

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        super().__init__(earlier)
        self.paid: list[_Paid] = []


class _Watched(Ledger):
    """Write each payment of a ledger to the receipts of its tape."""

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
    """Return what each step of a run shows of a pair; no step if a side raises."""
    tapes: list[_Receipts] = []
    for data in (pair.left, pair.right):
        tape = _Receipts(tapes[0].steps if tapes else ())
        try:
            estimator.run(DenseSample(data[None]), _Watched(budget, rng, tape=tape))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, whatever a plug-in raises
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
    """Return for each payment the step that follows it, or the payment if none does."""
    found: list[Step] = []
    for step in tape.steps:
        if step.mechanism == "pay":
            found.append(step)
        else:
            found[-1] = step
    return found


def _seen(paid: _Paid, share: float, one: Step, other: Step) -> Seen:
    """Bound what a step shows, as in 1 of the module."""
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
    """Return the part of a pure mechanism's epsilon that a move costs; 1 where it is not known."""
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
    """Return how many runs refute a claim by the best event; infinite above `MOST`.

    Parameters
    ----------
    mu, epsilon : float
        The release is N(0, 1) or N(mu, 1) beside randomised response at epsilon.
    budget : Budget
        The claim.
    error : float
        Probability that the bound exceeds the truth.
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
    """Return the probabilities of events of a large likelihood ratio, and those on the other side.

    The logarithm of the ratio is N(mu^2/2, mu^2) + epsilon with probability 1/(1 + e^-epsilon), and
    - epsilon otherwise; on the other side both have the other sign.
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
        The steps of every pair.
    budget : Budget
        The claim.
    runs : int
        Runs on each dataset of a pair.
    error : float
        Probability that an event's bound exceeds the truth.
    failed : float
        Share of releases that are not finite, with half of the noise.
    additive_only : bool
        Whether half of the noise is that of additive mechanisms alone.
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
    """Return why a release shows less than its steps, which would show enough."""
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
    """Return the runs that refute half of the noise, at a pair's moves or at full ones."""
    mu, epsilon = 0.0, 0.0
    for step in steps:
        times = 1 / HALF if step.additive or not additive_only else 1.0
        parts = (step.full[0] * step.weight**0.5, step.full[1] * step.weight)
        one, other = parts if full else (step.mu, step.epsilon)
        mu, epsilon = float(np.hypot(mu, times * one)), epsilon + times * other
    return runs_to_refute(mu, epsilon, budget, error)


def _in(runs: float) -> str:
    """Say how many runs show the halved noise."""
    return f"in {float(f'{runs:.0e}'):,.0f} runs" if np.isfinite(runs) else "in no number of runs"


def _moved(step: Seen) -> float:
    """Return the part of its largest loss that a step shows."""
    return max(x / y for x, y in zip((step.mu, step.epsilon), step.full, strict=True) if y > 0)


def reasons(
    steps: Sequence[Sequence[Seen]],
    seen_half: bool,
    sees_additive: Callable[[], bool],
    failed: Callable[[], float],
    claim: tuple[Budget, int, float],
) -> tuple[str, str]:
    """Return why half of the noise is not refuted, and half of the additive noise alone.

    Parameters
    ----------
    steps : sequence of sequence of Seen
        See `why_blind`, whose `budget`, `runs` and `error` are `claim`.
    seen_half : bool
        Whether half of all noise is refuted.
    sees_additive, failed : callable
        Whether half of the additive noise alone is, and the share of releases that fail; called
        where the steps do not decide it.

    Returns
    -------
    tuple of two str
        Each empty where that noise is refuted.
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
