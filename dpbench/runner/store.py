"""Blocks on disk: one Parquet file each, written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from dpbench.metrics import ERRORS, EXTRAS
from dpbench.output import atomic
from dpbench.privacy import AMOUNTS
from dpbench.runner.block import Block, BlockTask
from dpbench.seeds import digest

__all__ = ["CorruptBlockError", "Memory", "Store", "source_digest"]

Ints = NDArray[np.intp]
STATUS = ("released", "nothing released", "failed")
PACKAGE = Path(__file__).parents[1]
NUMERICAL = (
    "samples", "distributions", "privacy", "estimators", "seeds.py", "registry.py",
    "runner/block.py",
)  # fmt: skip


class CorruptBlockError(Exception):
    """A stored block that cannot be read whole."""


@cache
def source_digest(plugins: tuple[Path, ...] = (), own: tuple[str, ...] = ()) -> str:
    """A digest of all that numbers depend on but parameters: source, versions of numpy and scipy.

    A stored block of another digest is not reused; `own` is source, too.
    """
    files = [f for name in NUMERICAL for f in sorted((PACKAGE / name).rglob("*.py"))]
    files += [PACKAGE / name for name in NUMERICAL if name.endswith(".py")]
    texts = [(f.relative_to(PACKAGE).as_posix(), f.read_text()) for f in files]
    texts += [(f.name, f.read_text()) for f in plugins]
    texts += [("", text) for text in own]
    return digest(sorted(texts), np.__version__, scipy.__version__)


class Store:
    """The folder ``blocks/`` of a run, of blocks that a source has computed: `source_digest`."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder.absolute() / "blocks"  # pyarrow gives ~ a meaning
        self._source = source

    def key(self, task: BlockTask) -> str:
        """A digest of everything that the numbers of a block depend on."""
        return digest(self._source, task.name, task.index)

    def path(self, task: BlockTask) -> Path:
        """Where the block is stored."""
        family = re.sub(r"[^\w.=+-]", "_", task.members[0][0].split("/")[0])
        return self.folder / f"{family}_n{task.n}_b{task.index}_{self.key(task)[:16]}.parquet"

    def has(self, task: BlockTask) -> bool:
        """Whether a file of the block's name is there; `read` tells whether it is whole."""
        return self.path(task).exists()

    def write(self, task: BlockTask, result: Block) -> None:
        """Store a block; if that fails (OSError), no partial file is left."""
        table = _table(task, result).replace_schema_metadata({"dpbench": self.key(task)})
        with atomic(self.path(task)) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    def read(self, task: BlockTask) -> Block:
        """Read a block back; CorruptBlockError if it is damaged, or another block."""
        path = self.path(task)
        shape = (len(task.keys), task.trials)
        try:
            with pq.ParquetFile(
                path, read_dictionary=["message"], page_checksum_verification=True
            ) as file:
                known = [name for name in EXTRAS if name in file.schema_arrow.names]
                table = file.read(columns=[*ERRORS, *known, "message"])
            if (table.schema.metadata or {}).get(b"dpbench") != self.key(task).encode():
                raise CorruptBlockError(f"{path.name}: it holds another block")
            values = {name: table[name].to_numpy().reshape(shape) for name in (*ERRORS, *known)}
            coded = table["message"].combine_chunks()
            texts = coded.dictionary.to_pylist()
            code = coded.indices.to_numpy().reshape(shape)[:, 0]
            failed = {key: texts[i] for key, i in enumerate(code) if texts[i]}
        except (OSError, pa.ArrowException, LookupError, ValueError) as error:
            raise CorruptBlockError(f"{path.name}: {str(error).splitlines()[0]}") from error
        return Block(values, failed)


class Memory:
    """Blocks that are kept for this process alone, as `Store` keeps them on disk."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, int], Block] = {}

    def has(self, task: BlockTask) -> bool:
        """Whether the block is there."""
        return (task.name, task.index) in self._blocks

    def write(self, task: BlockTask, result: Block) -> None:
        """Keep a block."""
        self._blocks[task.name, task.index] = result

    def read(self, task: BlockTask) -> Block:
        """Give it back."""
        return self._blocks[task.name, task.index]


def _table(task: BlockTask, block: Block) -> pa.Table:
    """One row per key and trial, in that order."""
    keys, trials = task.keys, task.trials
    key, trial = np.repeat(np.arange(len(keys)), trials), np.tile(np.arange(trials), len(keys))

    def repeated(values: Sequence[object], kind: pa.DataType, index: Ints = key) -> pa.Array:
        return pa.array(values, kind, from_pandas=True).take(pa.array(index))  # NaN is no amount

    budgets = [setting.budget.columns for *_, setting in keys]
    messages = [block.failures.get(i, "") for i in range(len(keys))]
    failed = np.array([bool(message) for message in messages])[key]
    released = np.isfinite(block.values["error"].ravel())
    status = np.where(failed, 2, np.where(released, 0, 1))
    columns = {
        "distribution": repeated([label for label, *_ in keys], pa.string()),
        "estimator": repeated([setting.label for *_, setting in keys], pa.string()),
        "privacy": repeated([budget["privacy"] for budget in budgets], pa.string()),
        **{name: repeated([b[name] for b in budgets], pa.float64()) for name in AMOUNTS},
        "n": pa.array(np.full(len(key), task.n)),
        "trial": pa.array(trial + task.index * trials),
        **{name: pa.array(values.ravel()) for name, values in block.values.items()},
        "status": repeated(STATUS, pa.string(), status),
        "message": repeated(messages, pa.string()),
        "seed": pa.array(np.full(len(key), task.seed)),
    }
    return pa.table(columns)
