"""Blocks in Parquet files, many to a file; a file is written completely or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpbench.arrays import Floats, Ints
from dpbench.output.files import atomic
from dpbench.privacy import AMOUNTS
from dpbench.seeds import digest
from dpbench.sweep.block import Block, BlockTask
from dpbench.sweep.metrics import ERRORS, EXTRAS

__all__ = ["CorruptBlockError", "Memory", "Store"]

Stored = tuple[BlockTask, Block]
# ROWS: rows at which a file is full, about 5 MB. OPENED: files kept in memory. SECONDS: longest
# time that a new block waits to be written.
ROWS = 1 << 17
OPENED = 4
SECONDS = 1.0
UNREADABLE = (OSError, pa.ArrowException, LookupError, ValueError, TypeError)
ABOUT = [
    "distribution", "estimator", "privacy", *AMOUNTS, "n", "trial", "status", "message", "seed",
]  # fmt: skip
STATUS = ("released", "nothing released", "failed")


class CorruptBlockError(Exception):
    """Error for a stored block that is damaged or missing."""


class Opened(NamedTuple):
    """Contents of a file of blocks."""

    blocks: dict[str, tuple[slice, list[str]]]  # rows and names of columns of each block, by key
    values: dict[str, Floats]  # columns by name
    codes: Ints  # index in `texts` of the failure message of each row
    texts: list[str]


class Store:
    """Blocks of one origin in the folder ``blocks/`` of a run.

    The name of a file contains digests of the origin and of the file's bytes, which reveal damage.
    The last file is rewritten with the new blocks until it is full. So there are few files, and a
    killed run loses only the blocks of about the last second.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    source : str
        Digest of the origin, `Origin.bits`.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder.absolute() / "blocks"  # absolute, because pyarrow expands ~
        self.damaged: list[str] = []  # names of unreadable files, each with the error
        self._source = source
        self._lock = threading.RLock()
        self._last: dict[str, Stored] = {}  # the blocks of the last file, by key
        self._rows = 0
        self._waiting = False  # whether some blocks of _last are not written yet
        self._timer: threading.Timer | None = None  # writes them if no further block arrives
        self._next = -math.inf  # time of the next write, on the monotonic clock
        self._opened = lru_cache(OPENED)(_opened)

    def key(self, task: BlockTask) -> str:
        """Return a digest of everything that the numbers of a block depend on."""
        return digest(self._source, task.name, task.index)

    def files(self) -> list[Path]:
        """Return the files of this origin, oldest first."""
        found = self.folder.glob(f"{digest(self._source)[:16]}-*.parquet")
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def write(self, task: BlockTask, result: Block) -> None:
        """Store a block, at once or within about a second.

        Parameters
        ----------
        task : BlockTask
            Task of the block.
        result : Block
            Its numbers.

        Raises
        ------
        OSError
            If a file cannot be written; perhaps only at a later call, or by `flush`.
        """
        with self._lock:
            self._last[self.key(task)] = task, result
            self._rows += result.values["error"].size
            self._waiting = True
            wait = self._next - time.monotonic()
            if wait <= 0 or self._rows >= ROWS:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(wait, self._flush_in_time)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write all waiting blocks; a failure raises OSError and leaves no partial file."""
        with self._lock:
            if not self._waiting:
                return
            out, start = pa.BufferOutputStream(), time.monotonic()
            how = {
                "use_dictionary": ABOUT,
                "write_statistics": False,
            }  # defaults cost 1/3 more
            pq.write_table(_table(self._last), out, compression="zstd", **how)
            data = out.getvalue()
            path = self.folder / f"{digest(self._source)[:16]}-{_checksum(data)}.parquet"
            with atomic(path) as temporary:
                temporary.write_bytes(data)
            _enter(self._where, self._last, path)
            end = time.monotonic()
            self._waiting, self._next = False, end + max(SECONDS, 10 * (end - start))
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._rows >= ROWS:
                self._last, self._rows = {}, 0

    def _flush_in_time(self) -> None:
        with contextlib.suppress(OSError):
            self.flush()

    def find(self, task: BlockTask) -> Block | None:
        """Return the block of a task; None if it is missing or its file is damaged."""
        key = self.key(task)
        path = self._where.get(key)
        if path is None:
            return None
        try:
            file = self._opened(path)
        except UNREADABLE as error:
            self._set_aside(path, error)
            for lost in [one for one, at in self._where.items() if at == path]:
                del self._where[lost]
            return None
        (rows, names), shape = file.blocks[key], (len(task.keys), task.trials)
        values = {name: file.values[name][rows].reshape(shape) for name in names}
        codes = file.codes[rows].reshape(shape)[:, 0]
        return Block(
            values, {i: file.texts[code] for i, code in enumerate(codes) if file.texts[code]}
        )

    def read(self, task: BlockTask) -> Block:
        """Return the block of a task; raise CorruptBlockError if it is damaged or missing."""
        block = self.find(task)
        if block is None:
            raise CorruptBlockError(" ".join(self.damaged[-1:]) or "a block is missing")
        return block

    @cached_property
    def _where(self) -> dict[str, Path]:
        """File of every block, by key."""
        where: dict[str, Path] = {}
        for path in self.files():
            try:
                with pq.ParquetFile(_whole(path)) as file:
                    _enter(where, json.loads(file.schema_arrow.metadata[b"dpbench"]), path)
            except UNREADABLE as error:
                self._set_aside(path, error)
        return where

    def _set_aside(self, path: Path, error: Exception) -> None:
        """Note a damaged file and rename it, so that it is not read again."""
        self.damaged.append(f"{path.name}: {(str(error) or repr(error)).splitlines()[0]}")
        with contextlib.suppress(OSError):
            path.rename(path.with_name(f"_{path.name}.damaged"))


class Memory:
    """Blocks in memory, with the interface of `Store`."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self._blocks: dict[tuple[str, int], Block] = {}

    def find(self, task: BlockTask) -> Block | None:
        """Return the block of a task, or None."""
        return self._blocks.get((task.name, task.index))

    def write(self, task: BlockTask, result: Block) -> None:
        """Keep the block `result` of `task` in memory.

        Parameters
        ----------
        task : BlockTask
            Task of the block.
        result : Block
            Its numbers.
        """
        self._blocks[task.name, task.index] = result

    def flush(self) -> None:
        """Do nothing, because no block waits to be written."""

    def read(self, task: BlockTask) -> Block:
        """Return the block of a task, which must be there."""
        return self._blocks[task.name, task.index]


def _checksum(data: bytes | pa.Buffer) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _enter(where: dict[str, Path], keys: Iterable[str], path: Path) -> None:
    """Record that `path` holds these keys, and delete files that no key refers to any more."""
    before = {where[key] for key in keys if key in where} - {path}
    where.update(dict.fromkeys(keys, path))
    for old in before - set(where.values()) if before else ():
        old.unlink(missing_ok=True)


def _whole(path: Path) -> pa.BufferReader:
    """Return a file's bytes; raise ValueError if they do not match the digest in its name."""
    data = path.read_bytes()
    if path.stem.rpartition("-")[2] != _checksum(data):
        raise ValueError("its bytes have changed")
    return pa.BufferReader(data)


def _opened(path: Path) -> Opened:
    with pq.ParquetFile(_whole(path), read_dictionary=["message"]) as file:
        schema = file.schema_arrow
        about = json.loads(schema.metadata[b"dpbench"])
        names = [name for name in (*ERRORS, *EXTRAS) if name in schema.names]
        table = file.read(columns=[*names, "message"]).combine_chunks()
    ends = np.cumsum([rows for rows, _ in about.values()]).tolist()
    rows = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    message = table["message"].chunk(0)
    return Opened(
        {key: (at, of) for (key, (_, of)), at in zip(about.items(), rows, strict=True)},
        {name: table[name].to_numpy() for name in names},
        message.indices.to_numpy(),
        message.dictionary.to_pylist(),
    )


def _table(stored: Mapping[str, Stored]) -> pa.Table:
    """Return a table with a row for each block, key and trial, in that order."""
    keys = [
        (task, label, setting, block.failures.get(i, ""))
        for task, block in stored.values()
        for i, (label, _, setting) in enumerate(task.keys)
    ]
    index = np.repeat(np.arange(len(keys)), [task.trials for task, *_ in keys])

    def repeated(values: Sequence[object], kind: pa.DataType, at: Ints = index) -> pa.Array:
        return pa.array(values, kind, from_pandas=True).take(pa.array(at))  # NaN becomes null

    blocks = [block for _, block in stored.values()]
    names = {name for block in blocks for name in block.values}
    values = {name: _joined(name, blocks) for name in (*ERRORS, *EXTRAS) if name in names}
    budgets = [setting.budget.columns for _, _, setting, _ in keys]
    failed = np.array([bool(message) for *_, message in keys])[index]
    status = np.where(failed, 2, np.where(np.isfinite(values["error"].to_numpy()), 0, 1))
    trials = [np.arange(task.trials) + task.index * task.trials for task, *_ in keys]
    columns = {
        "distribution": repeated([label for _, label, *_ in keys], pa.string()),
        "estimator": repeated([setting.label for _, _, setting, _ in keys], pa.string()),
        "privacy": repeated([budget["privacy"] for budget in budgets], pa.string()),
        **{name: repeated([b[name] for b in budgets], pa.float64()) for name in AMOUNTS},
        "n": pa.array(np.array([task.n for task, *_ in keys])[index]),
        "trial": pa.array(np.concatenate(trials)),
        **values,
        "status": repeated(STATUS, pa.string(), status),
        "message": repeated([message for *_, message in keys], pa.string()),
        "seed": pa.array(np.array([task.seed for task, *_ in keys])[index]),
    }
    about = {
        key: [block.values["error"].size, list(block.values)] for key, (_, block) in stored.items()
    }
    return pa.table(columns).replace_schema_metadata({"dpbench": json.dumps(about)})


def _joined(name: str, blocks: Iterable[Block]) -> pa.ChunkedArray:
    """Return a column of the values of all blocks, null for blocks without this column."""
    kind, parts = pa.float64(), [(b.values.get(name), b.values["error"].size) for b in blocks]
    return pa.chunked_array(
        [pa.nulls(size, kind) if v is None else pa.array(v.ravel()) for v, size in parts], kind
    )
