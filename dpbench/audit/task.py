"""Audit of one estimator under one budget."""

from __future__ import annotations

import bisect
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.audit.attack import EVENTS, choose_attacks
from dpbench.audit.blind import explain_blind_row, trace_steps
from dpbench.audit.half_additive import HALF, HalfAdditive
from dpbench.audit.releases import (
    MIN_AUDIT_RUNS,
    PILOT_SHARE,
    PrivacyBound,
    Streams,
    bound_privacy,
    release_both_sides,
)
from dpbench.audit.replay import Replay, describe_compared, first_reason, largest_ratio, replay
from dpbench.estimators import Estimator
from dpbench.estimators.external import OneDataset
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.seeds import canonical, digest, stream
from dpbench.sweep.block import single_threaded_blas

__all__ = ["COLUMNS", "AuditTask", "Way", "audit"]

# Methods of refuting a claim: lower bounds from runs, or a replay.
Way = Literal["runs", "replay"]

COLUMNS = (
    *("estimator", "notion", "delta", "claimed", "pair", "pairs", "runs", "lower_bound"),
    *("detectable_noise", "blind", "blind_additive", "move_over_sensitivity", "compared"),
    *("verdict", "refuted_by_replay", "seconds"),
)
# Number of audited pairs; a short pilot chooses the most promising pairs.
AUDITED_PAIRS = 2
# Factors of the noise that `visible_factor` tries, in decreasing order.
FACTORS = (0.8, 0.65, 0.5, 0.35, 0.25)
OWN_NOISE = "own noise: the library draws it"  # reason for an estimator of a library


@dataclass(frozen=True)
class AuditTask:
    """Audit of one estimator under one budget, on the most promising pairs of datasets.

    Attributes
    ----------
    label : str
        Label of the estimator.
    estimator, budget, runs
        Estimator, claimed budget and average number of releases on each dataset, see `audit_pair`.
    pairs : tuple of Pair
        Candidate pairs of neighbouring datasets.
    error : float
        Probability that any bound of the task exceeds the true parameter.
    seed : int
        Seed of the audit.
    seen_by : tuple of str
        Methods that must refute a control (an estimator broken on purpose): ``runs``, ``replay`` or
        both. Empty for other estimators.
    """

    label: str
    estimator: Estimator
    budget: Budget
    pairs: tuple[Pair, ...]
    runs: int
    error: float
    seed: int
    seen_by: tuple[Way, ...] = ()

    @cached_property
    def name(self) -> str:
        """Digest of all attributes of the task."""
        data = [
            hashlib.sha256(p.left.tobytes() + p.right.tobytes()).hexdigest() for p in self.pairs
        ]
        canonical_names = [self.label, canonical(self.estimator), canonical(self.budget)]
        settings = self.runs, self.error, self.seed, self.seen_by
        return digest(*canonical_names, [p.name for p in self.pairs], data, *settings)

    def streams(self, pair: Pair, stage: object) -> Streams:
        """Return a function that gives each purpose its random generator, for one pair of datasets.

        Each stage of the audit, such as ``"pilot"``, has its own generators. The generators do not
        depend on other estimators or pairs of the audit. They depend on `runs`. A larger audit is
        therefore an independent repetition.
        """
        kinds = canonical(self.estimator), canonical(self.budget)
        name = (self.seed, self.runs, *kinds, pair.name, *pair.left.shape, stage)
        return lambda *purpose: stream(*purpose, *name)

    def bound(
        self, pair: Pair, noise_factor: float | None = None, error: float | None = None
    ) -> PrivacyBound:
        """Return the lower bound on the privacy parameter from releases on a pair of datasets.

        All noise is multiplied by `noise_factor`, by default by the factor of the enclosing
        `dpbench.audit.noise_times`, or 1. The bound exceeds the true parameter with probability
        `error`, by default the task's error divided by `AUDITED_PAIRS`, the largest number of
        audited pairs.
        """
        error = error or self.error / AUDITED_PAIRS
        streams = self.streams(pair, noise_factor or "audit")
        arguments = self.estimator, self.budget, pair, self.runs, error
        return bound_privacy(*arguments, streams, noise_factor)

    def replays(self) -> list[Replay]:
        """Return the replay on every pair of datasets.

        A replay repeats a run on the neighbouring dataset with the releases of the first run. The
        list is empty for a `OneDataset`, an estimator that draws its own noise instead of the
        ledger.
        """
        if isinstance(self.estimator, OneDataset):
            return []
        claim = self.estimator, self.budget
        return [replay(*claim, pair, self.streams(pair, "replay")()) for pair in self.pairs]

    def judge(self, bound: PrivacyBound, replays: Sequence[Replay], *, blind: bool) -> str:
        """Return the verdict on the claimed budget, from the lower bound and the replays together.

        The verdict is ``refuted``, ``not refuted`` or ``failed``. An estimator is refuted if the
        bound or a replay on any pair refutes it. A control is refuted only if all methods of
        `seen_by` refute it. `blind` says that the estimator raised in every run of the pilot.
        """
        by_replay = any(replay.verdict == "refuted" for replay in replays)
        refuted = {"runs": bound.verdict == "refuted", "replay": by_replay}
        is_refuted = (
            all(refuted[way] for way in self.seen_by) if self.seen_by else any(refuted.values())
        )
        if is_refuted:
            return "refuted"
        return "failed" if blind or bound.verdict == "failed" else "not refuted"

    def expected_bound(self, pair: Pair) -> float:
        """Return the lower bound that an audit of a pair would give if the noise were halved.

        The bound is on the privacy parameter. It is estimated from a few runs. It serves to choose
        the pairs of datasets to audit. The result is -1 if every run raised.
        """
        runs = max(MIN_AUDIT_RUNS, self.runs // 20)
        streams = self.streams(pair, "pilot")
        pilot = release_both_sides(self.estimator, self.budget, pair, (runs, runs), streams, 0.5)
        if pilot is None:
            return -1.0
        shift, error = self.estimator.estimand.direction(pair), self.error / AUDITED_PAIRS
        candidates = choose_attacks(pilot, shift, self.budget, self.runs, error)
        return max(attack.promise for attack, _ in candidates)

    def visible_factor(self, *pairs: Pair) -> float:
        """Return the largest factor of the noise at which 95% of audits would refute the estimator.

        The candidates are `FACTORS`, all below 1. For each tried factor, one audit with scaled
        noise gives a lower bound on the privacy parameter. The estimator is refuted at this factor
        if the bound exceeds the claimed parameter.

        The error probability of the bound is smaller than in a usual audit, because bounds vary
        between audits. It lowers the bound by 1.64 standard deviations. If the lowered bound still
        exceeds the claim, the usual bounds of about 95% of audits exceed the claim.

        One refuting pair of datasets suffices, because the best pair depends on the noise. The
        result is NaN if no factor is refuted, or if the ledger does not draw the noise.
        """
        if isinstance(self.estimator, OneDataset):
            return np.nan

        def refuted(factor: float) -> bool:
            bounds = (self.bound(pair, factor, self._strict_error) for pair in pairs)
            return any(bound.verdict == "refuted" for bound in bounds)

        index = bisect.bisect_left(FACTORS, True, key=refuted)
        return FACTORS[index] if index < len(FACTORS) else np.nan

    @property
    def _strict_error(self) -> float:
        """Error probability of a lower bound that is 1.64 standard deviations below a usual bound.

        If this bound still refutes an estimator, about 95% of audits refute it, see
        `visible_factor`.
        """
        return float(ndtr(ndtri(self.error / AUDITED_PAIRS) + ndtri(0.05)))

    def explain_blindness(self, pairs: Sequence[Pair], visible: float) -> tuple[str, str]:
        """Return the reasons why an audit of these pairs misses halved noise.

        `visible` is the result of `visible_factor` for these pairs: the largest factor of the noise
        that is refuted. The two reasons, for all noise and for additive noise alone, are those of
        `dpbench.audit.blind.explain_blind_row`; each is empty if halving this noise is refuted.
        """
        if isinstance(self.estimator, OneDataset):
            return (OWN_NOISE,) * 2
        rng, budget = self.streams(pairs[0], "blind"), self.budget
        steps = [trace_steps(self.estimator, budget, pair, rng("steps")) for pair in pairs]
        error = (
            self._strict_error / 2 / EVENTS
        )  # halved, because `release_both_sides` may try twice
        claim = budget, int((1 - PILOT_SHARE) * self.runs), error
        additive, failed = (
            partial(self._refutes_additive, pairs),
            partial(self._failed_share, pairs),
        )
        return explain_blind_row(steps, visible >= HALF, additive, failed, claim)

    def _refutes_additive(self, pairs: Sequence[Pair]) -> bool:
        """Return True if runs on a pair refute the estimator with halved additive noise."""
        half_additive: Any = HalfAdditive(self.estimator)
        settings = self.runs, self._strict_error
        bounds = (
            bound_privacy(
                half_additive, self.budget, pair, *settings, self.streams(pair, "additive")
            )
            for pair in pairs
        )
        return any(bound.verdict == "refuted" for bound in bounds)

    def _failed_share(self, pairs: Sequence[Pair]) -> float:
        """Return the share of releases that fail with halved noise, on one pair of datasets.

        The pair with the smallest share is used. A release fails if it is not finite.
        """
        counts, shares = (MIN_AUDIT_RUNS,) * 2, []
        for pair in pairs:
            streams = self.streams(pair, "failed")
            releases = release_both_sides(self.estimator, self.budget, pair, counts, streams, HALF)
            failures = (
                [True] if releases is None else ~np.isfinite(np.concatenate(releases)).all(axis=1)
            )
            shares.append(float(np.mean(failures)))
        return min(shares)


def audit(task: AuditTask) -> list[dict[str, Any]]:
    """Audit the most promising pairs of datasets and return one row of a table for each pair.

    Every row has the columns `COLUMNS`. An estimator that raised in every pilot run, on every pair,
    has the verdict ``failed`` unless it is refuted. All candidate pairs are replayed. Every row
    shows the largest ratio, over all replays, of an input's change to its stated sensitivity.
    """
    started = time.thread_time()
    with single_threaded_blas():
        promises = [task.expected_bound(pair) for pair in task.pairs]
        order = np.argsort([-promise for promise in promises], kind="stable")
        pairs = [task.pairs[index] for index in order[:AUDITED_PAIRS]]
        bounds = [task.bound(pair) for pair in pairs]
        visible = task.visible_factor(*pairs)
        blind_reason, additive_reason = task.explain_blindness(pairs, visible)
        replayed = task.replays()
    seconds = round(time.thread_time() - started, 3)
    blind = max(promises) < 0
    return [
        {
            "estimator": task.label,
            "notion": task.budget.label,
            "delta": getattr(task.budget, "delta", np.nan),
            "claimed": bound.claimed,
            "pair": pair.name,
            "pairs": len(task.pairs),
            "runs": bound.runs,
            "lower_bound": bound.lower_bound,
            "detectable_noise": visible,
            "blind": blind_reason,
            "blind_additive": additive_reason,
            "move_over_sensitivity": largest_ratio(replayed),
            "compared": describe_compared(replayed),
            "verdict": task.judge(bound, replayed, blind=blind),
            "refuted_by_replay": first_reason(replayed),
            "seconds": seconds,
        }
        for pair, bound in zip(pairs, bounds, strict=True)
    ]
