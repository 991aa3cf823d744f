"""Blocks on disk: many to a Parquet file, which is written whole or not at all."""

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
# A file is full from so many rows on, 5 MB; this many stay open, and new blocks wait so long.
ROWS = 1 << 17
OPENED = 4
SECONDS = 1.0
UNREADABLE = (OSError, pa.ArrowException, LookupError, ValueError, TypeError)
ABOUT = [
    "distribution", "estimator", "privacy", *AMOUNTS, "n", "trial", "status", "message", "seed",
]  # fmt: skip
STATUS = ("released", "nothing released", "failed")


class CorruptBlockError(Exception):
    """A stored block that cannot be read."""


class Opened(NamedTuple):
    """A file's numbers: the rows and the names of each block's, and of failures codes of texts."""

    blocks: dict[str, tuple[slice, list[str]]]
    values: dict[str, Floats]
    codes: Ints
    texts: list[str]


class Store:
    """The folder ``blocks/`` of a run, of blocks of one origin: `Origin.bits`.

    A file is named by digests of the source and of its own bytes: damaged, it is no longer what its
    name says. The last one is written anew, with what has come since, until it is full: files are
    few, and what a killed run loses of finished blocks is those of the last second.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder.absolute() / "blocks"  # pyarrow gives ~ a meaning
        self.damaged: list[str] = []  # files that could not be read, with what is wrong
        self._source = source
        self._lock = threading.RLock()
        self._last: dict[str, Stored] = {}  # the blocks of the last file, by key
        self._rows = 0
        self._waiting = False  # whether some of them are not written yet
        self._timer: threading.Timer | None = None  # writes them, if no block comes
        self._next = -math.inf  # when it is time to
        self._opened = lru_cache(OPENED)(_opened)

    def key(self, task: BlockTask) -> str:
        """A digest of everything that the numbers of a block depend on."""
        return digest(self._source, task.name, task.index)

    def files(self) -> list[Path]:
        """The files of this source, oldest first."""
        found = self.folder.glob(f"{digest(self._source)[:16]}-*.parquet")
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def write(self, task: BlockTask, result: Block) -> None:
        """Store a block, soon; a failure (OSError) may be told by a later one, or by `flush`."""
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
        """Write what is not written yet; if that fails (OSError), no partial file is left."""
        with self._lock:
            if not self._waiting:
                return
            out, start = pa.BufferOutputStream(), time.monotonic()
            how = {"use_dictionary": ABOUT, "write_statistics": False}  # which take a third longer
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
        """The block; None if it is not there, or found to be in a file that is `damaged`."""
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
        """The block; CorruptBlockError if it is damaged or not there."""
        block = self.find(task)
        if block is None:
            raise CorruptBlockError(" ".join(self.damaged[-1:]) or "a block is missing")
        return block

    @cached_property
    def _where(self) -> dict[str, Path]:
        """The file of every block, by key."""
        where: dict[str, Path] = {}
        for path in self.files():
            try:
                with pq.ParquetFile(_whole(path)) as file:
                    _enter(where, json.loads(file.schema_arrow.metadata[b"dpbench"]), path)
            except UNREADABLE as error:
                self._set_aside(path, error)
        return where

    def _set_aside(self, path: Path, error: Exception) -> None:
        """Give a damaged file a name that nothing looks for."""
        self.damaged.append(f"{path.name}: {(str(error) or repr(error)).splitlines()[0]}")
        with contextlib.suppress(OSError):
            path.rename(path.with_name(f"_{path.name}.damaged"))


class Memory:
    """Blocks that are kept for this process alone, as `Store` keeps them on disk."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self._blocks: dict[tuple[str, int], Block] = {}

    def find(self, task: BlockTask) -> Block | None:
        """The block, if it is there."""
        return self._blocks.get((task.name, task.index))

    def write(self, task: BlockTask, result: Block) -> None:
        """Keep a block."""
        self._blocks[task.name, task.index] = result

    def flush(self) -> None:
        """Nothing is left to write."""

    def read(self, task: BlockTask) -> Block:
        """Give it back."""
        return self._blocks[task.name, task.index]


def _checksum(data: bytes | pa.Buffer) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _enter(where: dict[str, Path], keys: Iterable[str], path: Path) -> None:
    """Note the file of blocks; an earlier one of which nothing is needed any more goes."""
    before = {where[key] for key in keys if key in where} - {path}
    where.update(dict.fromkeys(keys, path))
    for old in before - set(where.values()) if before else ():
        old.unlink(missing_ok=True)


def _whole(path: Path) -> pa.BufferReader:
    """A file's bytes; one of `UNREADABLE` if they are not those that were written."""
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
    """One row per block, key and trial, in that order."""
    keys = [
        (task, label, setting, block.failures.get(i, ""))
        for task, block in stored.values()
        for i, (label, _, setting) in enumerate(task.keys)
    ]
    index = np.repeat(np.arange(len(keys)), [task.trials for task, *_ in keys])

    def repeated(values: Sequence[object], kind: pa.DataType, at: Ints = index) -> pa.Array:
        return pa.array(values, kind, from_pandas=True).take(pa.array(at))  # NaN is no amount

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
    """The values of all blocks, null where a block has none."""
    kind, parts = pa.float64(), [(b.values.get(name), b.values["error"].size) for b in blocks]
    return pa.chunked_array(
        [pa.nulls(size, kind) if v is None else pa.array(v.ravel()) for v, size in parts], kind
    )
