"""Tests of the process of a library: its replies, and the ways in which it may end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbench.libraries.means.process import LibraryError, Releases, library
from tests.fake_library import CRASH, HANG, REFUSE, WARN

ASK = {"epsilon": 1.0, "lower": 0.0, "upper": 1.0, "size": 4, "contributions": 2}


def _release(first: float, **options: Any) -> Releases:
    return library("opendp").release(np.array([first, 1.0, 0.0, 1.0]), ASK, 3, **options)


def test_replies_are_read_whatever_is_printed(fakes: Path) -> None:
    result = _release(0.0)
    assert np.isfinite(result.values).all()
    assert len(set(result.values)) == len(result.seconds) == 3
    assert not result.raised.any()
    assert not result.message
    assert _release(WARN).message == "UserWarning: beware"
    refused = _release(REFUSE)
    assert np.isnan(refused.values).all()
    assert refused.raised.all()
    assert refused.message == "ValueError: not this one really"


def test_a_process_that_ends_or_hangs_is_named_and_started_anew(fakes: Path) -> None:
    first = library("opendp").version
    with pytest.raises(LibraryError, match="opendp: its process ended: out of ideas"):
        _release(CRASH)
    assert np.isfinite(_release(0.0).values).all()
    with pytest.raises(LibraryError, match=r"no answer in 0\.3 s"):
        _release(HANG, limit=0.3)
    assert np.isfinite(_release(0.0).values).all()
    assert library("opendp").version == first
    # the process reads nothing of a request that is too large for the buffer of a pipe
    library("opendp")._process.kill()  # type: ignore[union-attr]
    with pytest.raises(LibraryError, match="process ended"):
        library("opendp").release(np.zeros(100_000), ASK, 1)
