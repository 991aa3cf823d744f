"""What the kernel refuses an entry's file, and its calls: each test is an entry that tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.registry import ConfigError
from tests.suite.entry import HAS_LANDLOCK, HAS_SECCOMP, released, tries

pytestmark = pytest.mark.skipif(not HAS_SECCOMP, reason="needs seccomp of x86-64")
# Python's own refusal, which an entry can replace.
UNREFUSED = "sys.modules['dpbench.suite.worker']._refuse = lambda *_: None\n"
BEFORE = """import ctypes, os, resource, socket, subprocess, sys
MKDIR = ctypes.CDLL(None).mkdir
"""
TRIES = [
    "open(__file__, 'r+b')",
    "os.open(__file__, os.O_RDONLY | os.O_TRUNC)",
    "os.mkdir(__file__ + '.seen')",
    "os.utime(__file__)",
    "os.chmod(__file__, 0o600)",
    "os.memfd_create('seen')",
    "os.fork()",
    "os.setsid()",
    "subprocess.run(['true'])",
    "socket.socket()",
    "socket.socketpair()",
    "os.kill(os.getppid(), 0)",
    "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (99, 99))",
    "open(f'/proc/{os.getppid()}/mem', 'r+b')",
]


def test_a_call_is_refused_by_the_kernel(tmp_path: Path) -> None:
    """Each way fails, in a call that has replaced what Python refuses."""
    lines = [f"try:\n    {one}\n    DONE.append({i})\nexcept OSError:\n    pass"
             for i, one in enumerate(TRIES)]  # fmt: skip
    code = "DONE = []\n" + "\n".join(lines) + "\nreturn float(sum(2**i for i in DONE))"
    one = tries(tmp_path, code, BEFORE + UNREFUSED)
    assert [text for i, text in enumerate(TRIES) if int(released(one)) >> i & 1] == []


@pytest.mark.parametrize("code", ["open(__file__ + '.seen', 'w')", "os.fork()", "socket.socket()"])
def test_a_file_is_refused_by_the_kernel_while_it_is_loaded(tmp_path: Path, code: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be imported: PermissionError: \[Errno 1\]"):
        tries(tmp_path, "pass", f"{BEFORE}{code}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_functions_of_the_c_library_are_refused(tmp_path: Path) -> None:
    """They are found before Python refuses, and called where nothing of Python sees it."""
    code = f"return float(MKDIR({bytes(tmp_path / 'seen')!r}, 0o777))"
    assert released(tries(tmp_path, code, BEFORE)) == -1.0


@pytest.mark.skipif(not HAS_LANDLOCK, reason="needs Landlock")
def test_memory_of_the_process_that_asks_is_not_read(tmp_path: Path) -> None:
    """It has the places of the laws. Landlock refuses where there is no other guard."""
    code = "open(f'/proc/{os.getppid()}/mem', 'rb')"
    with pytest.raises(ConfigError, match="PermissionError"):
        released(tries(tmp_path, code, BEFORE))


def test_what_an_estimator_needs_is_allowed(tmp_path: Path) -> None:
    """Threads, reading files, limits of its own, and late imports."""
    code = (
        "import threading, decimal\nfound = []\n"
        "thread = threading.Thread(target=lambda: found.append(len(open(__file__).read())))\n"
        "thread.start(); thread.join()\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nreturn float(found[0] > 0)"
    )
    assert released(tries(tmp_path, code, BEFORE)) == 1.0
