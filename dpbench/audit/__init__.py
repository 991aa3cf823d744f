"""Audit claims of privacy by lower bounds and replays, which can falsify a claim, never prove it.

- `audit_pair` (releases.py) releases on two neighbouring datasets many times, and needs no sweep.
- `audit_replay` (replay.py) runs once on each, given the same releases, and compares the inputs of
  mechanisms with the sensitivities that they state.
- pairs.py has the datasets on which mistakes show; estimators add their own (`audit_pairs`).
- attack.py tells the releases apart; bounds.py makes its counts a bound on the parameter.
- controls.py has broken estimators: an audit that does not refute them shows nothing.
- `noise_times` multiplies the noise of all mechanisms: it shows what an audit or a claim can see.
- cases.py is the configuration of ``sweep=audit``, report.py what it prints and draws; the job is
  `dpbench.jobs.audit`.
"""

from dpbench.audit.releases import Bound, audit_pair
from dpbench.audit.replay import Replay, audit_replay
from dpbench.privacy.noise_factor import noise_times

__all__ = ["Bound", "Replay", "audit_pair", "audit_replay", "noise_times"]
