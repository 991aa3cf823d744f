"""Storage of blocks of trials in Parquet files, each with many blocks.

A file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpbench.arrays import Floats, Ints
from dpbench.output.files import atomic, checksum
from dpbench.privacy import AMOUNTS
from dpbench.seeds import digest
from dpbench.sweep.block import Block, BlockTask
from dpbench.sweep.metrics import ERRORS, EXTRAS

__all__ = ["CorruptBlockError", "Memory", "Store"]

Stored = tuple[BlockTask, Block]
# MAX_FILE_ROWS: rows from which on a file is full, about 5 MB. MAX_OPEN_FILES: read files whose
# contents stay in memory, and as many full files that were written. SECONDS_BETWEEN_WRITES,
# MAX_SECONDS_BETWEEN_WRITES: time between two writes of new blocks; between these limits it is ten
# times the time of a write.
MAX_FILE_ROWS = 1 << 17
MAX_OPEN_FILES = 4
SECONDS_BETWEEN_WRITES, MAX_SECONDS_BETWEEN_WRITES = 1.0, 2.0
READ_ERRORS = (OSError, pa.ArrowException, LookupError, ValueError, TypeError)
DICTIONARY_COLUMNS = [
    "distribution", "estimator", "privacy", *AMOUNTS, "n", "trial", "status", "message", "seed",
]  # fmt: skip
STATUSES = ("released", "nothing released", "failed")


class CorruptBlockError(Exception):
    """Error for a stored block that is damaged or missing."""


class Opened(NamedTuple):
    """Contents of one Parquet file that holds blocks of trials."""

    blocks: dict[str, tuple[slice, list[str]]]  # rows and column names of each block, by key
    values: dict[str, Floats]  # columns by name
    codes: Ints  # index in `texts` of the failure message of each row
    texts: list[str]


class Store:
    """Blocks of one origin in the folder ``blocks/`` of a run.

    The origin is the source, versions and machine behind the numbers; `source` is its digest
    `Origin.bits`. The name of a file contains a digest of the origin, and a digest of the file's
    bytes that reveals damage. The last file is rewritten with the new blocks until it is full.
    Therefore there are few files, and a killed run loses only the blocks of the last two seconds.

    Blocks may depend on files outside their origin. They are read only if `finished` is True,
    because the run that computed them goes on. Otherwise they are dropped.
    """

    def __init__(self, folder: Path, source: str, *, finished: bool = False) -> None:
        self.folder = folder.absolute() / "blocks"  # absolute, because pyarrow expands ~
        self.damaged: list[str] = []  # names of unreadable files, each with the error
        self.unusable: dict[str, None] = {}  # files that stored blocks read outside their origin
        self._source, self._finished = source, finished
        self._lock = threading.RLock()
        self._last: dict[str, Stored] = {}  # the blocks of the last file, by key
        self._full = deque[dict[str, Stored]](maxlen=MAX_OPEN_FILES)  # those of files before
        self._rows = 0
        self._waiting = False  # True if some blocks of _last are not written yet
        self._timer: threading.Timer | None = None  # writes them if no further block arrives
        self._next = -math.inf  # time of the next write, on the monotonic clock
        self._opened = lru_cache(MAX_OPEN_FILES)(_open_file)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy on another process reads the files, with the blocks that still wait to be written.
        self.flush()
        return partial(Store, finished=self._finished), (self.folder.parent, self._source)

    def key(self, task: BlockTask) -> str:
        """Return a digest of everything on which the numbers of the block of `task` depend."""
        return digest(self._source, task.name, task.index)

    def files(self) -> list[Path]:
        """Return the files that hold blocks of this store's origin, oldest first."""
        paths = self.folder.glob(f"{digest(self._source)[:16]}-*.parquet")
        return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def write(self, task: BlockTask, result: Block) -> None:
        """Store a block, at once or within two seconds.

        If a file cannot be written, this call, a later call or `flush` raises OSError.
        """
        with self._lock:
            self._last[self.key(task)] = task, result
            self._rows += result.values["error"].size
            self._waiting = True
            wait = self._next - time.monotonic()
            if wait <= 0 or self._rows >= MAX_FILE_ROWS:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(wait, self._flush_late_blocks)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write all blocks that are not on disk yet.

        If this fails, raise OSError and leave no partial file.
        """
        with self._lock:
            if not self._waiting:
                return
            out, start = pa.BufferOutputStream(), time.monotonic()
            # pyarrow's defaults cost a third more. The schema would make readers encode the texts.
            options = {
                "use_dictionary": DICTIONARY_COLUMNS,
                "write_statistics": False,
                "store_schema": False,
            }
            table = _table(self._last)
            with pq.ParquetWriter(out, table.schema, compression="zstd", **options) as writer:
                writer.write_table(table)
                writer.add_key_value_metadata({"dpbench": json.dumps(_layout(self._last))})
            data = out.getvalue()
            path = self.folder / f"{digest(self._source)[:16]}-{checksum(data)}.parquet"
            with atomic(path) as temporary:
                temporary.write_bytes(data)
            _enter_file(self._file_of_key, self._last, path)
            end = time.monotonic()
            pause = max(SECONDS_BETWEEN_WRITES, 10 * (end - start))
            self._waiting, self._next = False, end + min(MAX_SECONDS_BETWEEN_WRITES, pause)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._rows >= MAX_FILE_ROWS:
                self._full.append(self._last)
                self._last, self._rows = {}, 0

    def _flush_late_blocks(self) -> None:
        """Write all blocks that are not on disk yet; leave errors to the next `flush`."""
        with contextlib.suppress(OSError):
            self.flush()

    def find(self, task: BlockTask) -> Block | None:
        """Return the block of a task; None if it is missing or its file is damaged."""
        key = self.key(task)
        for stored in (self._last, *self._full):
            if key in stored:
                return stored[key][1]
        path = self._file_of_key.get(key)
        if path is None:
            return None
        try:
            file = self._opened(path)
        except READ_ERRORS as error:
            self._set_aside(path, error)
            for lost_key in [k for k, p in self._file_of_key.items() if p == path]:
                del self._file_of_key[lost_key]
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
    def _file_of_key(self) -> dict[str, Path]:
        """Mapping of every stored block to its file; a block is given by the digest `key`."""
        file_of_key: dict[str, Path] = {}
        for path in self.files():
            try:
                with pq.ParquetFile(_read_checked(path)) as file:
                    layout = json.loads(file.schema_arrow.metadata[b"dpbench"])
                reads = {key: more for key, (_, _, *more) in layout.items() if more}
                reads = {} if self._finished else reads
                self.unusable |= dict.fromkeys(f for more in reads.values() for f in more)
                _enter_file(file_of_key, [key for key in layout if key not in reads], path)
                if len(reads) == len(layout):
                    path.unlink(missing_ok=True)
            except READ_ERRORS as error:
                self._set_aside(path, error)
        return file_of_key

    def _set_aside(self, path: Path, error: Exception) -> None:
        """Note a damaged file in `damaged`, and rename it because it must not be read again."""
        self.damaged.append(f"{path.name}: {(str(error) or repr(error)).splitlines()[0]}")
        with contextlib.suppress(OSError):
            path.rename(path.with_name(f"_{path.name}.damaged"))


class Memory:
    """Storage of blocks in memory, with the interface of `Store`."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self.unusable: dict[str, None] = {}
        self._blocks: dict[tuple[str, int], Block] = {}

    def find(self, task: BlockTask) -> Block | None:
        """Return the block of a task; None if it is missing."""
        return self._blocks.get((task.name, task.index))

    def write(self, task: BlockTask, result: Block) -> None:
        """Keep the block `result` of `task` in memory."""
        self._blocks[task.name, task.index] = result

    def flush(self) -> None:
        """Do nothing, because no block waits to be written."""

    def read(self, task: BlockTask) -> Block:
        """Return the block of a task, which must have been written."""
        return self._blocks[task.name, task.index]


def _enter_file(file_of_key: dict[str, Path], keys: Iterable[str], path: Path) -> None:
    """Record in `file_of_key` that the file `path` holds the blocks with the given keys.

    `file_of_key` maps the key of a block, a digest, to its file. A file that loses its last block
    to `path` is deleted.
    """
    replaced = {file_of_key[key] for key in keys if key in file_of_key} - {path}
    file_of_key.update(dict.fromkeys(keys, path))
    for unused in replaced - set(file_of_key.values()) if replaced else ():
        unused.unlink(missing_ok=True)


def _read_checked(path: Path) -> pa.BufferReader:
    """Return the bytes of a file; raise ValueError if they do not match the digest in its name."""
    data = path.read_bytes()
    if path.stem.rpartition("-")[2] != checksum(data):
        raise ValueError("its bytes have changed")
    return pa.BufferReader(data)


def _open_file(path: Path) -> Opened:
    """Read a Parquet file of blocks and return its contents."""
    with pq.ParquetFile(_read_checked(path), read_dictionary=["message"]) as file:
        schema = file.schema_arrow
        layout = json.loads(schema.metadata[b"dpbench"])
        names = [name for name in (*ERRORS, *EXTRAS) if name in schema.names]
        table = file.read(columns=[*names, "message"]).combine_chunks()
    ends = np.cumsum([rows for rows, *_ in layout.values()]).tolist()
    rows = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    message = table["message"].chunk(0)
    return Opened(
        {
            key: (span, columns)
            for (key, (_, columns, *_)), span in zip(layout.items(), rows, strict=True)
        },
        {name: table[name].to_numpy() for name in names},
        message.indices.to_numpy(),
        message.dictionary.to_pylist(),
    )


def _table(stored: Mapping[str, Stored]) -> pa.Table:
    """Return the table to store, with one row for each trial of each member and setting.

    A member is a distribution, and a setting is an estimator with a budget. Rows are sorted by
    block, then by member and setting (`BlockTask.keys`), then by trial.
    """
    keys = [
        (task, label, setting, block.failures.get(i, ""))
        for task, block in stored.values()
        for i, (label, _, setting) in enumerate(task.keys)
    ]
    index = np.repeat(np.arange(len(keys)), [task.trials for task, *_ in keys])

    def repeat_values(values: Sequence[object], kind: pa.DataType, at: Ints = index) -> pa.Array:
        once = pa.array(values, kind, from_pandas=True)  # NaN becomes null
        # Parquet writes an encoded text once, and compares no copies of it.
        once = once.dictionary_encode() if kind == pa.string() else once
        return once.take(pa.array(at))

    blocks = [block for _, block in stored.values()]
    names = {name for block in blocks for name in block.values}
    values = {name: _join_column(name, blocks) for name in (*ERRORS, *EXTRAS) if name in names}
    budgets = [setting.budget.columns for _, _, setting, _ in keys]
    failed = np.array([bool(message) for *_, message in keys])[index]
    status = np.where(failed, 2, np.where(np.isfinite(values["error"].to_numpy()), 0, 1))
    trials = [np.arange(task.trials) + task.index * task.trials for task, *_ in keys]
    columns = {
        "distribution": repeat_values([label for _, label, *_ in keys], pa.string()),
        "estimator": repeat_values([setting.label for _, _, setting, _ in keys], pa.string()),
        "privacy": repeat_values([budget["privacy"] for budget in budgets], pa.string()),
        **{name: repeat_values([b[name] for b in budgets], pa.float64()) for name in AMOUNTS},
        "n": pa.array(np.array([task.n for task, *_ in keys])[index]),
        "trial": pa.array(np.concatenate(trials)),
        **values,
        "status": repeat_values(STATUSES, pa.string(), status),
        "message": repeat_values([message for *_, message in keys], pa.string()),
        "seed": pa.array(np.array([task.seed for task, *_ in keys])[index]),
    }
    return pa.table(columns)


def _layout(stored: Mapping[str, Stored]) -> dict[str, list[Any]]:
    """Return the number of rows and the columns of each block, then the files that it has read.

    These files are outside the block's origin. Blocks are in the order of the table.
    """
    return {
        key: [block.values["error"].size, list(block.values), *block.reads]
        for key, (_, block) in stored.items()
    }


def _join_column(name: str, blocks: Iterable[Block]) -> pa.ChunkedArray:
    """Return the column `name` of all blocks in one array, null for blocks without this column."""
    dtype, parts = pa.float64(), [(b.values.get(name), b.values["error"].size) for b in blocks]
    return pa.chunked_array(
        [pa.nulls(size, dtype) if v is None else pa.array(v.ravel()) for v, size in parts], dtype
    )
