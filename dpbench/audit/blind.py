"""Explain why an audit does not refute an estimator whose noise is halved.

A row of an audit (an estimator under a budget) is blind if fewer than 95% of audits would refute
the estimator with halved noise. The reason is computed from one run on each dataset of a
neighbouring pair. A step is a call of a mechanism. Both runs record their steps. In the second run
each step returns the output that it released in the first run. The computation has three parts:

1. Each step distinguishes the datasets to some degree. Let m_j be the change of the j-th input of
   the step between the datasets. A step with Gaussian noise of standard deviations s_j
   distinguishes them like N(0, 1) and N(mu, 1), where mu^2 = sum (m_j/s_j)^2. A step under pure DP
   has a privacy loss. For Laplace noise of scales b_j the loss is sum |m_j|/b_j. For the
   exponential mechanism let r be the range of the changes of the scores, and let D be the scores'
   sensitivity. The loss is the step's epsilon times r/(2D). For any other step the loss is the
   step's epsilon times the change of its input, divided by the sensitivity. If the change is
   unknown, the loss is the step's epsilon.
2. All Gaussian steps together distinguish the datasets at most as well as N(0, 1) and N(mu, 1).
   Here mu^2 is the sum of the steps' mu^2. All pure steps together distinguish them at most as well
   as randomised response at the sum of their losses. The reason is that randomised response
   dominates every pure mechanism. Halving the noise of a step doubles its mu or its loss.
3. Part 2 gives each of the two datasets a distribution: of a normal variable and an independent
   output of randomised response. According to the lemma of Neyman and Pearson, the best events to
   tell both distributions apart are {likelihood ratio >= t} for thresholds t. Their probabilities
   have a closed form. An event's counts in the runs give a lower bound on the privacy parameter.
   `runs_to_refute` tries several numbers of runs. It returns the smallest number at which the
   expected counts of the best event give a lower bound above the claimed parameter.

If this number of runs exceeds the runs of the audit, no event of the release is expected to refute
halved noise on this pair. Otherwise the release distinguishes the datasets worse than all its steps
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from dpbench.arrays import Floats
from dpbench.audit.bounds import event_bound, parameter_of_event
from dpbench.audit.half_additive import HALF
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.budgets import _BadEvent
from dpbench.privacy.neighbours import Pair, group_budget
from dpbench.privacy.replay import NORM_ORDERS
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import DenseSample

__all__ = [
    "Reason", "StepEvidence", "explain_blind_row", "explain_half_noise", "runs_to_refute",
    "trace_steps",
]  # fmt: skip

# Smallest and largest number of runs that `runs_to_refute` tries.
MIN_REFUTING_RUNS, MAX_REFUTING_RUNS = 100, 1e9
SMOOTH_PREFIX = "noise for a"  # start of the mechanism's name in payments; not on tapes
FAILURE_SHARE = 0.5  # share of failed releases from which on failure is the reason
ADDITIVE = (
    "add_noise", "add_l2_noise", "add_joint_noise", "add_hourglass_noise", "add_geometric_noise",
    "add_canonical_noise", "above_threshold",
)  # fmt: skip


class StepEvidence(NamedTuple):
    """Upper bound on the evidence by which one step distinguishes two neighbouring datasets.

    A step is a recorded call of a mechanism. The evidence is a shift of a normal distribution, or
    an epsilon of pure DP.
    """

    additive: bool  # whether the step adds noise
    # Whether the change of the step's input between the datasets is known; otherwise it is taken as
    # the full sensitivity. It is unknown if the record of the run has no input values, or if the
    # step chooses among intervals whose ends are records.
    known: bool
    mu: float  # shift by a Gaussian step, in standard deviations; 0 for a pure step
    epsilon: float  # of a pure step; 0 for a Gaussian step
    full: tuple[float, float]  # `mu` and `epsilon` if the input changes by its full sensitivity
    share: float  # share of the budget that the step costs, from 0 to 1
    # One over the number of parallel steps on disjoint records, because only one of these steps has
    # the replaced record.
    weight: float
    draws: int  # number of independent noises that the step averages


@dataclass(frozen=True)
class Reason:
    """Reason why an audit misses halved noise: a word for its kind, and a sentence with numbers."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class _Payment(NamedTuple):
    """Payment to a ledger for one mechanism: budget, name, number of repetitions, and weight.

    The weight is one over the number of parallel mechanisms on disjoint records.
    """

    budget: Budget
    mechanism: str
    times: int
    weight: float


class _PaymentTape(Tape):
    """Tape (record of a run's mechanism calls) that also keeps each payment to the ledger."""

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        super().__init__(earlier)
        self.paid: list[_Payment] = []


class _PaymentLedger(Ledger):
    """Ledger that records each payment for a mechanism on its tape, a `_PaymentTape`."""

    weight = 1.0

    def _part(self, budget: Budget, rows: int = 1) -> Any:
        part = super()._part(budget, rows)
        part.weight = self.weight
        return part

    def parallel(self, parts: int) -> Any:
        children = super().parallel(parts)
        for child in children:
            child.weight = self.weight / parts
        return children

    def pay(self, mechanism: str = "", sensitivity: Any = None) -> None:
        super().pay(mechanism, sensitivity)
        assert isinstance(self.tape, _PaymentTape)
        # The tape states sensitivities for all steps between neighbours: convert the budget, too.
        budget = self.budget if self.steps == 1 else group_budget(self.budget, self.steps)
        self.tape.paid.append(_Payment(budget, mechanism, self.times, self.weight))


def trace_steps(
    estimator: Estimator, budget: Budget, pair: Pair, rng: np.random.Generator
) -> list[StepEvidence]:
    """Return the evidence by which each mechanism call of a run distinguishes two datasets.

    The estimator runs on both datasets of a pair; the second run is given the releases of the
    first. The result is empty if a run raises.
    """
    tapes: list[_PaymentTape] = []
    for data in (pair.left, pair.right):
        tape = _PaymentTape(tapes[0].steps if tapes else ())
        try:
            estimator.run(DenseSample(data[None]), _PaymentLedger(budget, rng, tape=tape))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, a plug-in may raise anything
            return []
        tapes.append(tape)
    total_cost, evidence = budget.cost[0], []
    for payment, left_step, right_step in zip(
        tapes[0].paid, *(_mechanism_steps(tape) for tape in tapes), strict=False
    ):
        if not isinstance(payment.budget, _BadEvent):
            share = payment.weight * payment.times * budget.cost_of(payment.budget)[0] / total_cost
            evidence.append(_bound_evidence(payment, share, left_step, right_step))
    return evidence


def _mechanism_steps(tape: Tape) -> list[Step]:
    """Return the mechanism calls on a tape, one for each payment to the ledger.

    A tape records the payments and mechanism calls of a run. A call follows its payment. If no call
    follows a payment, the payment itself is returned.
    """
    steps: list[Step] = []
    for step in tape.steps:
        if step.mechanism == "pay":
            steps.append(step)
        else:
            steps[-1] = step
    return steps


def _bound_evidence(payment: _Payment, share: float, left: Step, right: Step) -> StepEvidence:
    """Bound the evidence by which one mechanism call distinguishes two datasets.

    The bound is computed from the inputs of the call on the two datasets, which `left` and `right`
    record. For a call with Gaussian noise the evidence is a shift mu: N(0, 1) against N(mu, 1). For
    other calls the evidence is an epsilon of pure DP. `share` is the share of the budget that the
    call costs.
    """
    part, known = payment.budget, left.is_comparable(right) and left.values.size > 0
    common: Any = {"share": share, "weight": payment.weight, "draws": left.draws, "known": known}
    common["additive"] = left.mechanism in ADDITIVE or payment.mechanism.startswith(SMOOTH_PREFIX)
    l1, l2 = (np.asarray(left.sensitivity.get(norm, 1.0)) for norm in ("l1", "l2"))
    if left.mechanism == "add_noise" and (sd := part._sd(l1, l2)) is not None:
        full = float(np.sqrt(payment.times / left.draws)) / sd
        mu = float(np.linalg.norm(_input_changes(left, right) / l2 * np.sqrt(left.draws))) / sd
        return StepEvidence(
            mu=min(mu, full) if known else full, epsilon=0.0, full=(full, 0.0), **common
        )
    epsilon = part.exponential_epsilon if left.mechanism == "exponential" else part.pure_epsilon
    lost, largest = epsilon * (_cost_share(left, right) if known else 1.0), payment.times * epsilon
    return StepEvidence(mu=0.0, epsilon=min(lost, largest), full=(0.0, largest), **common)


def _input_changes(left: Step, right: Step) -> Floats:
    gaps = np.abs(left.values - right.values)
    return np.where(np.isnan(left.values) & np.isnan(right.values), 0.0, gaps)


def _cost_share(left: Step, right: Step) -> float:
    """Return the privacy loss of a pure-DP mechanism call, divided by the call's epsilon.

    The loss is caused by the change of the call's input between two datasets. The result depends on
    the kind of mechanism.

    For additive noise the result is the l1 norm of the change divided by the stated l1 sensitivity,
    times the number of averaged noises. For the exponential mechanism it is the range of the
    changes of the scores, divided by twice the scores' sensitivity. For other mechanisms it is the
    change divided by the stated sensitivity. If the sensitivity is stated as a box, a ball or an
    hourglass, the result is 1.
    """
    (norm, sensitivity), *_ = left.sensitivity.items()
    if left.mechanism == "add_noise":
        sensitivity = left.sensitivity["l1"]
        return float(np.sum(_input_changes(left, right) / sensitivity) * left.draws)
    if left.mechanism == "exponential":
        change = left.values - right.values
        return float(np.max(np.ptp(change, axis=1) / (2 * np.asarray(sensitivity))))
    if norm in ("box", "ball", "hourglass"):
        return 1.0
    change = _input_changes(left, right)
    return float(np.linalg.norm(np.ravel(change), NORM_ORDERS[norm]) / np.max(sensitivity))


@lru_cache(maxsize=1000)  # the reasons of a row ask for the same numbers again
def runs_to_refute(mu: float, epsilon: float, budget: Budget, error: float) -> float:
    """Return the smallest number of runs at which a privacy claim is expected to be refuted.

    The claim is refuted if the counts of an event on two datasets give a lower bound above the
    claimed parameter. The best event is used. The bound exceeds the true parameter with probability
    `error`.

    All mechanism calls of a release together distinguish the datasets by the evidence `mu` and
    `epsilon`, both at least 0. The calls with Gaussian noise distinguish them like N(0, 1) and
    N(mu, 1). The other calls distinguish them like randomised response at epsilon.

    The result counts runs on each dataset, and is the smallest of some numbers from 100 to 10^9. It
    is infinite if even 10^9 runs do not refute the claim.
    """
    p, q = _event_probabilities(mu, epsilon)
    # The limits from counts are below p and above q, so the other events refute nothing.
    suited = parameter_of_event(p, q, budget) > budget.amounts[0]
    if not suited.any():
        return np.inf
    p, q = p[suited], q[suited]
    sizes = np.geomspace(MIN_REFUTING_RUNS, MAX_REFUTING_RUNS, 57)

    def refutes(size: float) -> bool:
        n = int(size)
        bound = event_bound(np.floor(p * n), n, np.floor(q * n), n, budget, error)
        return bool(bound.max() > budget.amounts[0])

    if not refutes(sizes[-1]):
        return np.inf
    first, last = 0, len(sizes) - 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if refutes(sizes[middle]) else (middle + 1, last)
    return float(sizes[first])


def _event_probabilities(mu: float, epsilon: float) -> tuple[Floats, Floats]:
    """Return the probabilities of {log-likelihood ratio >= t} on both datasets, for many t.

    An observation has two independent parts: a normal variable, and an output of randomised
    response at `epsilon`. The normal variable is N(mu, 1) on the first dataset and N(0, 1) on the
    second. On the first dataset the log-likelihood ratio is N(mu^2/2, mu^2) + epsilon with
    probability 1/(1+e^-epsilon), and N(mu^2/2, mu^2) - epsilon otherwise. On the second dataset
    the ratio is N(-mu^2/2, mu^2) - epsilon with probability 1/(1+e^-epsilon), and
    N(-mu^2/2, mu^2) + epsilon otherwise.
    """
    likelier = float(expit(epsilon))
    if mu == 0:
        return np.array([likelier]), np.array([1 - likelier])
    reach = epsilon + mu**2 / 2 + 6 * mu
    t = np.linspace(-reach, reach, 801)
    p, q = (
        likelier * ndtr((sign * epsilon + sign * mu**2 / 2 - t) / mu)
        + (1 - likelier) * ndtr((-sign * epsilon + sign * mu**2 / 2 - t) / mu)
        for sign in (1, -1)
    )
    return p, q


def explain_half_noise(
    pairs: Sequence[Sequence[StepEvidence]],
    budget: Budget,
    runs: int,
    error: float,
    failed: float,
    additive_only: bool,
) -> Reason:
    """Return the reason why an audit does not refute an estimator with halved noise.

    The audit has the evidence of the steps (calls of mechanisms) on every audited pair of datasets,
    and `runs` on each dataset. Its lower bound from counts of an event exceeds the true parameter
    with probability `error`. `failed` is the share of releases with halved noise that are not
    finite. If `additive_only` is True, only the noise of additive mechanisms is halved.
    """
    if failed >= FAILURE_SHARE or not all(pairs):
        return Reason("failure", f"{failed:.0%} of the releases fail")
    pair_runs = [_half_runs(steps, budget, error, additive_only, full=False) for steps in pairs]
    least_runs, steps = min(pair_runs), pairs[int(np.argmin(pair_runs))]
    halved = [step for step in steps if step.additive or not additive_only]
    if not halved:
        return Reason("other noise", "no step has additive noise")
    share = sum(step.share for step in halved) / sum(step.share for step in steps)
    largest = _half_runs(steps, budget, error, additive_only, full=True)
    if largest > runs and len(halved) < len(steps):
        return Reason("share", f"{share:.0%} of the budget is for such noise, {_say_runs(largest)}")
    if largest > runs:
        delta = getattr(budget, "delta", None)
        condition = "a factor 2 shows" if delta is None else f"at delta {delta:g} a factor 2 shows"
        return Reason("noise" if delta is None else "delta", f"{condition} {_say_runs(largest)}")
    if least_runs > runs:
        parts = [step.share * _evidence_share(step) for step in halved]
        change = sum(parts) / sum(step.share for step in halved)
        return Reason(
            "pairs",
            f"they move the steps by {change:.0%} of the claim, {_say_runs(least_runs)}",
        )
    return _explain_hidden_evidence(steps, halved, least_runs)


def _explain_hidden_evidence(
    steps: Sequence[StepEvidence], halved: Sequence[StepEvidence], least_runs: float
) -> Reason:
    """Return the reason why a release distinguishes two datasets worse than its mechanism calls.

    `steps` holds the evidence of all calls, and `halved` of those whose noise is halved. With
    `least_runs` runs, the calls together would show the halved noise.
    """
    if (draws := max(step.draws for step in halved)) > 1:
        return Reason("local", f"{draws} noises average")
    if len(steps) > 1:
        return Reason(
            "other steps",
            f"all {len(steps)} would show it {_say_runs(least_runs)}, the release not",
        )
    if not steps[0].known:
        return Reason("one way", "records cut up what it chooses from, and move scores one way")
    return Reason("attack", f"the best test would show it {_say_runs(least_runs)}")


def _half_runs(
    steps: Sequence[StepEvidence], budget: Budget, error: float, additive_only: bool, full: bool
) -> float:
    """Return the smallest number of runs at which a claim with halved noise should be refuted.

    `steps` holds the evidence of the mechanism calls. If `full`, the input of each call is assumed
    to change by its full sensitivity. Otherwise it changes as on the audited pair of datasets.
    """
    mu, epsilon = 0.0, 0.0
    for step in steps:
        factor = 1 / HALF if step.additive or not additive_only else 1.0
        parts = (step.full[0] * step.weight**0.5, step.full[1] * step.weight)
        step_mu, step_epsilon = parts if full else (step.mu, step.epsilon)
        mu, epsilon = float(np.hypot(mu, factor * step_mu)), epsilon + factor * step_epsilon
    return runs_to_refute(mu, epsilon, budget, error)


def _say_runs(runs: float) -> str:
    """Return the phrase ``in N runs``, with N rounded to one digit, or a phrase for infinity."""
    return f"in {float(f'{runs:.0e}'):,.0f} runs" if np.isfinite(runs) else "in no number of runs"


def _evidence_share(step: StepEvidence) -> float:
    """Return the evidence of a mechanism call, divided by its value at the full sensitivity.

    The evidence is a shift of a normal distribution, or an epsilon of pure DP.
    """
    return max(x / y for x, y in zip((step.mu, step.epsilon), step.full, strict=True) if y > 0)


def explain_blind_row(
    steps: Sequence[Sequence[StepEvidence]],
    seen_half: bool,
    sees_additive: Callable[[], bool],
    failed: Callable[[], float],
    claim: tuple[Budget, int, float],
) -> tuple[str, str]:
    """Return two reasons why an audit does not refute an estimator with halved noise.

    The first reason is for halving all noise, the second for halving additive noise alone. A reason
    is empty if the audit refutes the estimator with this noise halved.

    `steps` is the evidence of the calls of mechanisms on every audited pair, and `claim` the
    arguments of `explain_half_noise`. `seen_half` says whether halving all noise is refuted. Two
    functions are called only if they are needed, because they are slow: `sees_additive` returns
    whether halving the additive noise alone is refuted, and `failed` returns the share of releases
    with halved noise that fail.
    """
    additive = [step.additive for pair_steps in steps for step in pair_steps]
    seen_additive = seen_half if all(additive) else any(additive) and sees_additive()
    if seen_half and seen_additive:
        return "", ""
    failed_share = failed()
    all_noise, additive_noise = (
        "" if refuted else str(explain_half_noise(steps, *claim, failed_share, additive_only))
        for refuted, additive_only in ((seen_half, False), (seen_additive, True))
    )
    return all_noise, additive_noise
