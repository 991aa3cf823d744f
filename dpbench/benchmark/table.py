"""Scores of entries, stored in the archive of the benchmark or in the file of a new run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import bdtrc

from dpbench.benchmark.entries import Card
from dpbench.benchmark.measure import LEVELS
from dpbench.benchmark.problems import Benchmark
from dpbench.benchmark.reference import archive_path
from dpbench.output.files import atomic
from dpbench.registry import ConfigError, from_mapping

__all__ = ["Scores", "archive_path"]

FORMAT = 2
# Significance levels of a single row, of all rows of an entry, and of the rows that `joint_chance`
# counts for an entry.
ROW_LEVEL, ENTRY_LEVEL, COUNTED_LEVEL = 1e-4, 1e-6, 0.05
COLUMNS = [
    "entry", "problem", "digest", "trials", "failure_rate", "score", "score_low", "score_high",
    "chance", "bound", "bound_name", "member", "mean_error", "quantiles", "quantiles_low",
    "quantiles_high", "draws", "seconds", "drawing_seconds",
]  # fmt: skip


@dataclass(frozen=True)
class Scores:
    """Scores of entries on a benchmark.

    Attributes
    ----------
    rows : DataFrame
        One row for each entry and problem that it answers:

        - ``entry``, ``problem``, ``digest`` of the problem, ``trials``;
        - ``score``: largest 0.9 quantile of the error over the members (distributions) of the
          family, divided by the lower ``bound``;
        - ``score_low``, ``score_high``: 95% interval of the score from order statistics; if several
          members are equally bad, the lower end exceeds the true score in more than 2.5% of runs;
        - ``chance``: p-value of the number of errors above the bound, see
          `dpbench.benchmark.measure.exceedance_p_value`;
        - ``bound_name``: argument that proves the bound;
        - ``member``: worst member of the family; ``mean_error`` over its successful releases;
          ``quantiles`` of its error at `LEVELS` with ``quantiles_low`` and ``quantiles_high``;
        - ``failure_rate``: share of releases that fail, the largest over the members; a failure is
          an infinite error;
        - ``draws``: bootstrap replicates of the score;
        - ``seconds``, ``drawing_seconds``: processor time of a release, and of drawing its data;
          NaN if not measured.
    cards : dict of str to Card
        Card of each entry.
    about : dict
        ``benchmark``: name of the benchmark; ``seed`` of locations, data and noise; ``drawn``:
        whether the seed was drawn after the entry was loaded; ``quick``: whether trials were fewer;
        digest of the numerical ``source``, ``machine`` and ``versions``. Runs with equal values
        have equal rows, except for the seconds.
    """

    rows: pd.DataFrame
    cards: Mapping[str, Card]
    about: Mapping[str, Any]

    @property
    def is_below(self) -> pd.Series[bool]:
        """True for rows of the declared division with an error significantly below the lower bound.

        No private estimator that uses only public knowledge has an error below the bound for all
        distributions of the class. A row is below the bound if its p-value ``chance`` is below the
        level `ROW_LEVEL`. All rows of an entry are below the bound if the entry's p-value
        `joint_chance` is below `ENTRY_LEVEL`. Entries of the open division use the shape of the
        distribution and may have a smaller error.
        """
        declared = {name for name, card in self.cards.items() if card.division == "declared"}
        jointly_low = {name for name, chance in self.joint_chance.items() if chance < ENTRY_LEVEL}
        low = (self.rows["chance"] < ROW_LEVEL) | self.rows["entry"].isin(jointly_low)
        return low & self.rows["entry"].isin(declared)

    @property
    def joint_chance(self) -> dict[str, float]:
        """Joint p-value of the hypothesis that an entry is private, for each entry.

        A row of the scores is for one entry on one problem. Its p-value ``chance`` is small if the
        error is below the lower bound for private estimators. Let c be the number of rows of the
        entry with a p-value below the level `COUNTED_LEVEL`. The data of the entry's m problems are
        independent. If the entry is private, the p-value of a row is below the level with
        probability at most `COUNTED_LEVEL`. Hence c or more p-values are below the level with
        probability at most P(Binomial(m, COUNTED_LEVEL) >= c), the joint p-value. Rows with an
        error far above the lower bound hardly change the joint p-value, so an entry cannot hide a
        violation behind such rows.
        """
        low = (self.rows["chance"] < COUNTED_LEVEL).groupby(self.rows["entry"])
        return {
            str(name): float(bdtrc(entry_rows.sum() - 1, len(entry_rows), COUNTED_LEVEL))
            for name, entry_rows in low
        }

    @property
    def ranked(self) -> pd.DataFrame:
        """Rows that count in rankings and profiles: all rows for which `is_below` is False."""
        return self.rows[~self.is_below].reset_index(drop=True)

    def select(self, benchmark: Benchmark) -> Scores:
        """Return the scores on those problems that are in `benchmark`."""
        chosen = self.rows["problem"].isin([problem.id for problem in benchmark.problems])
        return replace(self, rows=self.rows[chosen].reset_index(drop=True))

    def without(self, entries: Iterable[str]) -> Scores:
        """Return the scores of all entries but those with the given names."""
        names = set(entries)
        kept = self.rows[~self.rows["entry"].isin(names)].reset_index(drop=True)
        cards = {name: card for name, card in self.cards.items() if name not in names}
        return replace(self, rows=kept, cards=cards)

    def add(self, other: Scores) -> Scores:
        """Return these scores and the scores of `other`, whose entries replace those of equal name.

        The facts in `about` stay, so they do not describe the entries of `other`.
        """
        kept = self.without(other.cards)
        rows = pd.concat([kept.rows, other.rows], ignore_index=True)
        return replace(self, rows=rows, cards={**kept.cards, **other.cards})

    def write(self, path: Path) -> None:
        """Write the scores to a Parquet file; an older file is replaced only by a complete file."""
        table = pa.Table.from_pandas(self.rows[COLUMNS], preserve_index=False)
        cards = {name: asdict(card) for name, card in self.cards.items()}
        metadata = {"format": FORMAT, "levels": LEVELS, **self.about, "cards": cards}
        table = table.replace_schema_metadata(
            {"dpbench-scores": json.dumps(metadata, sort_keys=True)}
        )
        with atomic(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    @classmethod
    def read(cls, path: Path, benchmark: Benchmark) -> Scores:
        """Read the scores of a benchmark from a Parquet file.

        A ConfigError says that the file is missing, damaged, or has scores of other problems.
        """
        where = f"'{path}'"
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                metadata = json.loads((file.schema_arrow.metadata or {})[b"dpbench-scores"])
                rows = file.read().to_pandas()
            file_format, card_fields = metadata.pop("format"), metadata.pop("cards")
            rows = rows[COLUMNS]
            cards = {name: from_mapping(Card, card, where) for name, card in card_fields.items()}
        except FileNotFoundError as error:
            raise ConfigError(f"{where}: no such file; benchmark run makes one") from error
        except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
            raise ConfigError(f"{where}: no scores of a benchmark, or damaged") from error
        if file_format != FORMAT or metadata["benchmark"] != benchmark.name:
            raise ConfigError(
                f"{where}: scores of {metadata['benchmark']}, format {file_format}, and not of "
                f"{benchmark.name}: give benchmark={metadata['benchmark']}, or "
                "make them again by benchmark run"
            )
        digests = {problem.id: problem.digest for problem in benchmark.problems}
        for name, row_digest in zip(rows["problem"], rows["digest"], strict=True):
            if digests.get(name) != row_digest:
                raise ConfigError(f"{where}: {name}: another problem than that of {benchmark.name}")
        return cls(rows, cards, metadata)
