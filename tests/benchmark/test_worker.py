"""What a call of an entry can do, and what not: each test is an entry that tries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpbench.benchmark import worker
from dpbench.benchmark.process import entry_process
from dpbench.registry import ConfigError
from tests.benchmark.entry import PROBLEM, released, tries
from tests.support import rng


def test_a_call_remembers_no_other(tmp_path: Path) -> None:
    """The count of calls is 1 in each, by a global name and by an attribute of a library."""
    code = "SEEN.append(1)\nnp.seen = getattr(np, 'seen', 0) + 1\nreturn float(len(SEEN) + np.seen)"
    one = tries(tmp_path, code, "import numpy as np\nSEEN = []\n")
    assert [released(one) for _ in range(3)] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos._exit(3)", "mine.py: a call ended early, with exit code 3"),
        ("return 'no number'", "ValueError: could not convert string to float"),
        ("return x[:3]", "ValueError: "),
        ("held = bytearray(1 << 34)", "MemoryError"),
    ],
)
def test_what_a_call_may_not(tmp_path: Path, code: str, said: str) -> None:
    """The next call is answered as before."""
    one = tries(tmp_path, f"if x[0] == 0:\n    {code.replace(chr(10), chr(10) + '    ')}")
    with pytest.raises(ConfigError, match=said):
        released(one)
    value, _ = one.released(np.ones((1, 100)), PROBLEM.budget, rng(0))
    assert np.isfinite(value).all()


def test_a_module_that_is_not_installed_is_not_loaded_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that forks would remember what it does: it may be the entry by another name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper_of_mine.py").write_text("")
    (tmp_path / "folder").mkdir()
    before = "import sys\nKNOWN = 'helper_of_mine' in sys.modules\nimport helper_of_mine\n"
    entry_process.close()  # the next one has this path
    one = tries(tmp_path / "folder", "return float(KNOWN)", before)
    assert released(one) == 0.0
    entry_process.close()
    installed = ["json", "sys", "numpy", "dpbench", "helper_of_mine", "no_such_module"]
    assert [worker._is_installed(one) for one in installed] == [True] * 4 + [False] * 2


def test_the_stream_is_the_callers(tmp_path: Path) -> None:
    one = tries(tmp_path, "pass")
    assert released(one) == released(one)
    several = one.released(np.zeros((2, 100)), PROBLEM.budget, rng(0))[0]
    assert several[0] != several[1]


def test_frames_know_nothing_of_the_scores(tmp_path: Path) -> None:
    """No frame of a call, and no object of its process, is the problem with its places."""
    code = (
        "names, frame = [], sys._getframe()\nwhile frame:\n"
        "    names += frame.f_locals\n    frame = frame.f_back\n"
        "kinds = {type(one).__name__ for one in gc.get_objects()}\n"
        "return float('seed' in names and 'rng' not in names or 'Gaussian' in kinds)"
    )
    one = tries(tmp_path, code, "import gc\nimport sys\n")
    assert released(one) == 0.0
