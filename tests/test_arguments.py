"""Arguments of a wrong type: one line that names the argument, what was given, what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench import ZCDP, ConfigError, Ledger, PureDP, release, release_table
from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.audit import audit_pair, audit_replay
from dpbench.distributions import Gaussian
from dpbench.estimators import ClippedMean, KSU20Mean, TransformedNoiseMean
from dpbench.planner import best_cap
from dpbench.testing import check_estimator
from dpbench.tracking import compare as compare_tables

MEAN, PRIVATE_N = ClippedMean(lower=0, upper=9), TransformedNoiseMean(lower=0, upper=9)
BUDGET, ADD_REMOVE = PureDP(1.0), PureDP(1.0, neighbours="add_remove")
SECRET = 31415926.5  # a record, which no message may print
RECORDS = [1.0] * 8 + [SECRET]
FRAME = pd.DataFrame({"x": [1.0] * 9, "y": [1.0] * 9, "g": ["a"] * 9})
SWEEP = {
    "families": {"g": Gaussian()}, "estimators": {"c": MEAN}, "budgets": {"p": BUDGET},
    "parts": {"a": {"n": [50], "trials": 5}},
}  # fmt: skip

PEOPLE = est.BoundedContributionMean(lower=0, upper=1, cap=1)
LAW = dist.UserLevelData(
    of=Gaussian(location=0.4, scale=0.1), m=dist.BoundedZipf(exponent=1.5, largest=9)
)
PLAN = dpbench.plan(n=100, epsilon=1, lower=0, upper=9, law=Gaussian(location=5))

# Values of every kind, of which an argument accepts those that its row below names.
WRONG: dict[str, Any] = {
    "none": None, "flag": True, "text": "abc", "number": 1.5, "list": [1.5], "mapping": {1: 2},
    "class": ClippedMean, "type": int, "function": np.mean, "object": object(),
    "path": Path("nowhere"), "array": np.array(RECORDS),
}  # fmt: skip
RNG = np.random.default_rng(0)
PAIR = (np.zeros(20), np.append(np.zeros(19), 5.0))

# A call by its function, right arguments, and what each argument accepts of the values above.
CALLS: list[tuple[Callable[..., Any], dict[str, Any], dict[str, str]]] = [
    (release, {"estimator": MEAN, "data": RECORDS, "budget": BUDGET, "rng": RNG, "repeats": 2},
     {"estimator": "", "budget": "none", "rng": "", "repeats": "none"}),
    (release_table,
     {"frame": FRAME, "columns": {"x": PRIVATE_N}, "budget": ADD_REMOVE, "by": "g", "groups": ["a"],
      "split": "equal", "units": {"x": 1.0}, "group_sizes": None, "rng": RNG},
     {"columns": "", "budget": "", "by": "none", "groups": "list array",
      "split": "", "units": "none", "group_sizes": "none", "rng": ""}),
    (check_estimator,
     {"estimator": MEAN, "d": None, "budgets": [BUDGET], "translation": False, "scale": False},
     {"estimator": "", "d": "none", "budgets": "none", "translation": "flag", "scale": "flag"}),
    (partial(dpbench.run, n_jobs=1, trials=2),
     {"sweep": SWEEP},
     {"sweep": "", "out": "none text path", "seed": "", "trials": "none", "n_jobs": "",
      "resume": "flag", "plugins": "", "config_dir": "none", "overrides": ""}),
    (dpbench.load, {"folder": "nowhere"}, {"folder": "text path", "config_dir": "none"}),
    (dpbench.compare, {"a": "nowhere", "b": "nowhere"},
     {"a": "text path", "b": "text path", "config_dir": "none"}),
    (dpbench.plan, {"n": 100, "epsilon": 1.0, "lower": 0, "upper": 9, "law": Gaussian(location=5)},
     {"n": "", "epsilon": "number", "delta": "none", "rho": "none", "mu": "none",
      "neighbours": "", "lower": "none number", "upper": "none", "law": "none",
      "data": "none text", "column": "none", "k": "none", "scale": "none", "alpha": "none number"}),
    (audit_pair, {"estimator": MEAN, "budget": BUDGET, "pair": PAIR, "rng": RNG},
     {"estimator": "", "budget": "", "pair": "", "rng": "", "runs": "", "failure_probability": ""}),
    (audit_replay, {"estimator": MEAN, "budget": BUDGET, "pair": PAIR, "rng": RNG},
     {"estimator": "", "budget": "", "pair": "", "rng": ""}),
    (Ledger, {"budget": BUDGET, "rng": RNG}, {"budget": "", "rng": ""}),
    (best_cap, {"estimator": PEOPLE, "law": LAW, "n": 100, "budget": BUDGET},
     {"estimator": "", "law": "", "n": "", "budget": ""}),
    (PLAN.records, {}, {"alpha": "number"}),
    (PLAN.privacy, {}, {"alpha": "number"}),
    (compare_tables, {"old": FRAME, "new": FRAME}, {"old": ""}),
]  # fmt: skip


def name_of(function: Any) -> str:
    """Return the name of a function, or of the function inside a partial."""
    return str(getattr(function, "func", function).__name__)


CASES = [
    pytest.param(function, good, argument, value, id=f"{name_of(function)}-{argument}-{kind}")
    for function, good, arguments in CALLS
    for argument, accepted in arguments.items()
    for kind, value in WRONG.items()
    if kind not in accepted.split()
]


@pytest.mark.parametrize(("function", "good", "argument", "value"), CASES)
def test_a_wrong_type_is_named(
    function: Any, good: dict[str, Any], argument: str, value: Any,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Check the class and the text of the error, and that nothing is written or printed."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        function(**{**good, argument: value})
    line = str(caught.value)
    assert re.match(rf"{argument}\b", line), line
    assert "\n" not in line
    assert str(SECRET) not in line
    assert " at 0x" not in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: release(ClippedMean, RECORDS, BUDGET, rng=RNG),  # type: ignore[call-overload]
         "estimator: ClippedMean: a class; write an instance, ClippedMean(...)"),
        (lambda: release(MEAN, RECORDS, BUDGET, rng=RNG, repeats=1e3),  # type: ignore[call-overload]
         "repeats: 1000.0: not a whole number; write repeats=1000"),
        (lambda: release(MEAN, RECORDS, BUDGET, rng=RNG, repeats=0),
         "repeats: 0: too small; write at least 1"),
        (lambda: release_table(FRAME, {"x": PRIVATE_N, "y": PRIVATE_N}, ADD_REMOVE,
                               split={"x": 1, "y": 0}, rng=RNG),
         "split.y: 0: input should be greater than 0"),
        (lambda: dpbench.run("quick", plugins="mine"),
         "plugins: 'mine': not a list; write ['mine']"),
        (lambda: dpbench.run({**SWEEP, "budgets": {"p": PureDP}}),
         "sweep.budgets.p: PureDP: a class; write an instance, PureDP(...)"),
        (lambda: dpbench.run({**SWEEP, "families": {"g": Gaussian}}),
         "sweep.families.g: Gaussian: a class; write an instance, Gaussian(...)"),
        (lambda: est.CoordinateWise(base=ClippedMean),
         "base: the class ClippedMean: write an instance, ClippedMean(...)"),
        (lambda: dpbench.run("quick", config_dir="nowhere"),
         "config_dir: 'nowhere': no such folder; give the path of an existing one"),
    ],
)  # fmt: skip
def test_the_message_says_what_to_write(call: Callable[[], Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("estimator", "budget", "reason"),
    [
        (KSU20Mean(k=2, scale=1, radius=None), BUDGET, "radius=None: not available under pure"),
        (
            est.L2ClippedMean(radius=1, mechanism="l2"),
            ZCDP(1.0),
            "mechanism='l2': not available",
        ),
    ],
)
def test_a_refusal_names_the_parameter_that_excludes_the_notion(
    estimator: est.Estimator, budget: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        release(estimator, RECORDS, budget, rng=RNG)
