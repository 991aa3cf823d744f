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

from dpbench.files import atomic
from dpbench.runner.block import EXTRAS, METRICS, BlockResult, BlockTask
from dpbench.seeds import digest

__all__ = ["CorruptBlockError", "Store", "source_digest"]

STATUS = ("released", "nothing released", "failed")
PACKAGE = Path(__file__).parents[1]
NUMERICAL = (
    "samples",
    "distributions",
    "privacy",
    "estimators",
    "seeds.py",
    "registry.py",
    "runner/block.py",
)


class CorruptBlockError(Exception):
    """A stored block that cannot be read whole."""


@cache
def source_digest(plugins: tuple[Path, ...] = ()) -> str:
    """A digest of everything that numbers depend on but the parameters.

    The source of distributions, samples, privacy, estimators, seeding and plug-ins, and
    the versions of numpy and scipy. A stored block of another digest is not reused.
    """
    files = [f for name in NUMERICAL for f in sorted((PACKAGE / name).rglob("*.py"))]
    files += [PACKAGE / name for name in NUMERICAL if name.endswith(".py")]
    texts = [(f.relative_to(PACKAGE).as_posix(), f.read_text()) for f in files]
    texts += [(f.name, f.read_text()) for f in plugins]
    return digest(sorted(texts), np.__version__, scipy.__version__)


class Store:
    """The folder ``blocks/`` of a run.

    Parameters
    ----------
    folder : Path
    plugins : tuple of Path
        Source files of the plug-ins in use.
    """

    def __init__(self, folder: Path, plugins: tuple[Path, ...] = ()) -> None:
        self.folder = folder.absolute() / "blocks"  # pyarrow gives ~ a meaning
        self._source = source_digest(plugins)

    def key(self, task: BlockTask) -> str:
        """A digest of everything that the numbers of a block depend on."""
        return digest(self._source, task.cell, task.index)

    def path(self, task: BlockTask) -> Path:
        """Where the block is stored."""
        family = re.sub(r"[^\w.=+-]", "_", task.members[0][0].split("/")[0])
        return self.folder / f"{family}_n{task.n}_b{task.index}_{self.key(task)[:16]}.parquet"

    def has(self, task: BlockTask) -> bool:
        """Whether a file of the block's name is there; `read` tells whether it is whole."""
        return self.path(task).exists()

    def write(self, task: BlockTask, result: BlockResult) -> None:
        """Store a block.

        Raises
        ------
        OSError
            If the disk is full or not writable; no partial file is left.
        """
        table = _table(task, result).replace_schema_metadata({"dpbench": self.key(task)})
        with atomic(self.path(task)) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    def read(self, task: BlockTask) -> BlockResult:
        """Read a block back.

        Raises
        ------
        CorruptBlockError
            If the file is truncated, damaged or holds another block.
        """
        path = self.path(task)
        shape = (len(task.members), len(task.settings), task.trials)
        try:
            with pq.ParquetFile(
                path, read_dictionary=["message"], page_checksum_verification=True
            ) as file:
                known = [name for name in EXTRAS if name in file.schema_arrow.names]
                table = file.read(columns=[*METRICS, *known, "message"])
            if (table.schema.metadata or {}).get(b"dpbench") != self.key(task).encode():
                raise CorruptBlockError(f"{path.name}: it holds another block")
            values = {name: table[name].to_numpy().reshape(shape) for name in (*METRICS, *known)}
            coded = table["message"].combine_chunks()
            code = coded.indices.to_numpy().reshape(shape)[..., 0]
            texts = coded.dictionary.to_pylist()
            failed = {(int(i), int(j)): texts[code[i, j]] for i, j in np.ndindex(shape[:2])}
        except (OSError, pa.ArrowException, LookupError, ValueError) as error:
            raise CorruptBlockError(f"{path.name}: {str(error).splitlines()[0]}") from error
        return BlockResult(values, {index: text for index, text in failed.items() if text})


def _table(task: BlockTask, result: BlockResult) -> pa.Table:
    """One row per member, setting and trial, in that order."""
    members, settings, trials = len(task.members), len(task.settings), task.trials
    size = members * settings * trials

    def spread(values: Sequence[object], index: NDArray[np.intp], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(index))

    def amount(name: str) -> pa.Array:
        values = [getattr(s.budget, name, None) for s in task.settings]
        return spread(values, setting, pa.float64())

    pairs = [(i, j) for i in range(members) for j in range(settings)]
    messages = [result.failures.get(pair, "") for pair in pairs]
    pair, trial = np.repeat(np.arange(len(pairs)), trials), np.tile(np.arange(trials), len(pairs))
    member, setting = pair // settings, pair % settings
    failed = np.array([bool(message) for message in messages])[pair]
    released = np.isfinite(result.values["error"].ravel())
    return pa.table(
        {
            "distribution": spread([label for label, _ in task.members], member, pa.string()),
            "estimator": spread([s.label for s in task.settings], setting, pa.string()),
            "privacy": spread([s.budget.label for s in task.settings], setting, pa.string()),
            "epsilon": amount("epsilon"),
            "delta": amount("delta"),
            "rho": amount("rho"),
            "n": pa.array(np.full(size, task.n)),
            "trial": pa.array(trial + task.index * trials),
            **{metric: pa.array(values.ravel()) for metric, values in result.values.items()},
            "status": spread(STATUS, np.where(failed, 2, np.where(released, 0, 1)), pa.string()),
            "message": spread(messages, pair, pa.string()),
            "seed": pa.array(np.full(size, task.seed)),
        }
    )
