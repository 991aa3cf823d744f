"""Confinement of the code of an entry by the kernel, for the rest of its process.

Python code can replace any Python code of its process, so no check written in Python can stop an
entry. Two irrevocable mechanisms of Linux can:

- Landlock [1]_ forbids writing, creating and removing files, starting programs, connecting, and
  reading the memory of other processes. That memory holds the seeds and the locations of
  distributions;
- seccomp [2]_ forbids starting processes, creating sockets and shared memory, sending signals, and
  changing another process or a file.

Since nothing can be written, a call leaves no trace for later calls. Files may be read, because
modules may be imported late. If the kernel lacks one mechanism, the other mechanism still holds
(seccomp is set up for x86-64 only). On systems other than Linux there is no confinement.

References
----------
.. [1] "Landlock: unprivileged access control", https://docs.kernel.org/userspace-api/landlock.html
.. [2] "Seccomp BPF", https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["WRITING", "confine", "end_with_parent"]

# Flags of `os.open` that open a file for writing.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Options of prctl, from linux/prctl.h.
NO_NEW_PRIVILEGES, SECCOMP, FILTER, DEATH_SIGNAL = 38, 22, 2, 1
# System calls of Landlock, and the flag that asks for its version. FILES: file rights added by each
# version (starting programs, writing, removing and creating files; reading stays allowed, because
# its right is left out).
CREATE, RESTRICT, VERSION = 444, 446, 1
FILES = {1: 0b1111111110011, 2: 1 << 13, 3: 1 << 14}
NETWORK, SCOPES = 0b11, 0b11  # rights to bind and connect; scopes of abstract sockets and signals
# Refused system calls of x86-64, by purpose.
REFUSED = {
    "make and remove files": (83, 84, 85, 86, 87, 88, 133, 258, 259, 263, 265, 266),
    "rename files": (82, 264, 316),
    "change files": (76, 77, 285, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280),
    "attributes of files": (188, 189, 190, 197, 198, 199, 463, 466),
    "sockets": (41, 42, 44, 46, 49, 50, 53, 307),
    "shared memory and queues": (29, 30, 31, 64, 65, 66, 68, 69, 71, 220, 240, 241, 242, 319, 447),
    "start processes": (57, 58, 59, 322),
    "signals": (62, 129, 200, 234, 297, 424),
    "other processes": (101, 310, 311, 312, 434, 438, 440, 109, 112, 141, 142, 144, 203, 251, 314),
    "keys, rings and other doors": (248, 249, 250, 253, 294, 298, 321, 323, 425, 426, 427),
    "mounts": (155, 161, 165, 166, 272, 304, 308, 428, 429, 430, 431, 432, 442),
}
OPEN, OPENAT, CLONE, LIMITS = 2, 257, 56, 302
CLONE3, OPENAT2 = 435, 437  # their arguments are in memory, which a filter cannot read
THREAD = 0x10000  # flag of clone that makes a thread instead of a process
X86_64, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NOT_PERMITTED, NO_SUCH_CALL = 1, 38
# Instructions of a filter: load a word, compare it, compare bits of it, return.
LOAD, EQUAL, AT_LEAST, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def end_with_parent() -> None:
    """Make the kernel kill this process when its parent process ends."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def confine() -> None:
    """Forbid this process to write, connect and start processes, if the kernel supports it.

    The kernel's mechanisms are Landlock and, on x86-64, seccomp. They cannot be undone.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library
        libc: Any = ctypes.CDLL(None, use_errno=True)
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _apply_landlock(libc)
        if platform.machine() == "x86_64":
            _apply_seccomp(libc)


def _apply_landlock(libc: Any) -> None:
    call, null = libc.syscall, ctypes.c_void_p()
    version = call(ctypes.c_long(CREATE), null, ctypes.c_size_t(0), ctypes.c_uint(VERSION))
    if version < 1:
        return
    files = sum(right for added_in, right in FILES.items() if added_in <= version)
    rules = struct.pack(
        "=QQQ", files, NETWORK if version >= 4 else 0, SCOPES if version >= 6 else 0
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = call(ctypes.c_long(CREATE), rules, ctypes.c_size_t(size), ctypes.c_uint(0))
    if ruleset >= 0:
        call(ctypes.c_long(RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint(0))
        os.close(ruleset)


def _apply_seccomp(libc: Any) -> None:
    buffer = ctypes.create_string_buffer(FILTER_PROGRAM)
    header = _Program(len(FILTER_PROGRAM) // 8, ctypes.addressof(buffer))
    libc.prctl(SECCOMP, FILTER, ctypes.byref(header), 0, 0)


def _filter_instructions() -> Iterator[Instruction]:
    """Yield the instructions of the seccomp filter, by which the kernel refuses system calls.

    The filter's input has the number of the system call at byte 0, the architecture at byte 4, and
    the arguments from byte 16 on.
    """
    refuse = RETURN, 0, 0, FAIL | NOT_PERMITTED
    yield LOAD, 0, 0, 4
    yield EQUAL, 1, 0, X86_64
    yield RETURN, 0, 0, KILL
    yield LOAD, 0, 0, 0
    yield AT_LEAST, 0, 1, X32
    yield refuse
    for number in sorted({number for calls in REFUSED.values() for number in calls}):
        yield EQUAL, 0, 1, number
        yield refuse
    for number in (CLONE3, OPENAT2):
        yield EQUAL, 0, 1, number
        yield RETURN, 0, 0, FAIL | NO_SUCH_CALL
    # Refuse opening for writing, clone that makes a process, and limits of another process.
    for number, argument, passes in (
        (OPEN, 1, (BITS, 0, 1, WRITING)),
        (OPENAT, 2, (BITS, 0, 1, WRITING)),
        (CLONE, 0, (BITS, 1, 0, THREAD)),
        (LIMITS, 0, (EQUAL, 1, 0, 0)),
    ):
        yield EQUAL, 0, 4, number
        yield LOAD, 0, 0, 16 + 8 * argument
        yield passes
        yield refuse
        yield RETURN, 0, 0, ALLOW
    yield RETURN, 0, 0, ALLOW


# Built once here, because each call of an entry is a new process that installs the filter.
FILTER_PROGRAM = b"".join(
    struct.pack("=HBBI", *instruction) for instruction in _filter_instructions()
)
