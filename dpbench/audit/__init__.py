"""Audits of privacy claims by lower bounds and replays; they can refute a claim, never prove it.

- `audit_pair` (releases.py) releases many times on two neighbouring datasets.
- `audit_replay` (replay.py) runs an estimator on two neighbouring datasets. The second run gets the
  releases of the first. The inputs of mechanisms may differ by at most their stated sensitivities.
- pairs.py: neighbouring datasets that expose mistakes; estimators add their own (`audit_pairs`).
- attack.py: tests that infer the dataset from a release; bounds.py: lower bounds on the privacy
  parameter from the counts of a test.
- controls.py: estimators broken on purpose; an audit that does not refute them shows nothing.
- `climb` searches pairs on which a replay shows more, from a given pair.
- `noise_times` scales the noise of all mechanisms. With less noise than an estimator claims, it
  measures whether an audit detects this mistake.
- cases.py: configuration of ``sweep=audit``; report.py: tables and figures. An audit is run by
  `dpbench.audit.job`.
"""

from typing import TYPE_CHECKING

from dpbench.package import lazy_names

if TYPE_CHECKING:
    from dpbench.audit.hill_climb import climb
    from dpbench.audit.releases import PrivacyBound, audit_pair
    from dpbench.audit.replay import Replay, audit_replay
    from dpbench.privacy.noise_factor import noise_times

__all__ = ["PrivacyBound", "Replay", "audit_pair", "audit_replay", "climb", "noise_times"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
__getattr__ = lazy_names(
    __name__,
    {
        "dpbench.audit.hill_climb": ["climb"],
        "dpbench.audit.releases": ["PrivacyBound", "audit_pair"],
        "dpbench.audit.replay": ["Replay", "audit_replay"],
        "dpbench.privacy.noise_factor": ["noise_times"],
    },
)
