"""Audits of privacy claims by lower bounds and replays; they can refute a claim, never prove it.

- `audit_pair` (releases.py) releases many times on two neighbouring datasets.
- `audit_replay` (replay.py) runs once on each dataset, given equal releases, and compares the
  inputs of mechanisms with their stated sensitivities.
- pairs.py: neighbouring datasets that expose mistakes; estimators add their own (`audit_pairs`).
- attack.py: tests that distinguish the releases; bounds.py: lower bounds on the parameter from
  the counts of a test.
- controls.py: estimators broken on purpose; an audit that does not refute them shows nothing.
- `noise_times` scales the noise of all mechanisms, to measure the power of an audit or a claim.
- cases.py: configuration of ``sweep=audit``; report.py: tables and figures; the job is
  `dpbench.jobs.audit`.
"""

from dpbench.audit.releases import PrivacyBound, audit_pair
from dpbench.audit.replay import Replay, audit_replay
from dpbench.privacy.noise_factor import noise_times

__all__ = ["PrivacyBound", "Replay", "audit_pair", "audit_replay", "noise_times"]
