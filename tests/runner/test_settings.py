"""Settings that cannot be used: one line that names the key."""

from __future__ import annotations

from typing import Any

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.settings import Settings

SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"trials": "abc"}, "trials: 'abc': "),
    ({"trials": 0}, "trials: 0: "),
    ({"n_jobs": 0}, "n_jobs: 0: give a number of processes, or -1"),
    ({"n_jobs": -2}, "n_jobs: -2: input should be greater than or equal to -1"),
    ({"n_jobs": 10**24}, "n_jobs: 1000000000000000000000000: input should be"),
    ({"trials": 10**8}, "trials: 100000000: input should be less than or equal to 10000000"),
    ({"out": "~nosuch/x"}, "out: '~nosuch/x': no file can have this name"),
    ({"baseline": "a\0"}, "baseline: 'a\\x00': no file can have this name"),
    ({"seed": 10**20}, "seed: 100000000000000000000: "),
    ({"resume": "maybe"}, "resume: 'maybe': "),
    ({"plugins": ["../evil"]}, "plugins: ['../evil']: "),
    ({"report": "some"}, "report: 'some': input should be 'all'"),
    ({"runner": {"address": "nope"}}, "runner.address: 'nope': "),
    ({"runner": {"address": "tcp://x"}}, "runner.address: 'tcp://x': "),  # without a port
    ({"runner": {"address": "inproc://x:1"}}, "runner.address: 'inproc://x:1': "),
    ({"runner": {"nope": 1}}, "runner.nope: no such key; choose from backend, address"),
    ({"nope": 1}, "nope: no such key; choose from sweep, seed, trials, n_jobs, out, resume, "),
]


@pytest.mark.parametrize(("given", "line"), SETTINGS, ids=[str(given) for given, _ in SETTINGS])
def test_settings(given: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(Settings, {"sweep": {}, **given}, "")
    assert str(error.value).startswith(line)
