"""What is not installed, and how to install it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpbench import release
from dpbench.libraries.command import main
from dpbench.libraries.means import process
from dpbench.libraries.means.mean import LIBRARY_PROPERTIES, LibraryMean
from dpbench.libraries.means.process import LibraryError, folder
from dpbench.libraries.means.worker import LIBRARIES
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError

ADD_REMOVE = PureDP(1.0, neighbours="add_remove")


def test_what_is_missing_says_how_to_install_it(fakes: Path) -> None:
    mean = LibraryMean(library="python-dp")
    with pytest.raises(LibraryError, match=r"not installed: .* libraries python-dp"):
        release(mean, np.zeros(10), ADD_REMOVE, rng=np.random.default_rng(0))
    assert folder("tumult") == fakes / "tumult"
    with pytest.raises(
        ConfigError, match=r"'nope': no such library; did you mean 'opendp'\? choose"
    ):
        main(["python-dp", "nope"])
    with pytest.raises(ConfigError, match="did you mean 'python-dp'"):
        main(["python_dp"])
    assert set(process.REQUIREMENTS) | {"numpy"} == set(LIBRARIES) == set(LIBRARY_PROPERTIES)
