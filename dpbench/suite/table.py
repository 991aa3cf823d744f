"""Stored scores of entries: the archive, or a new run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import bdtrc

from dpbench.output.files import atomic
from dpbench.package import conf_folder
from dpbench.registry import ConfigError, from_mapping
from dpbench.suite.entries import Card
from dpbench.suite.measure import LEVELS
from dpbench.suite.problems import Suite

__all__ = ["Scores", "archive_path"]

FORMAT = 2
# Significance levels: of a single row, of all rows of an entry, and of the rows that are counted
# for an entry.
ROW, ENTRY, LOW = 1e-4, 1e-6, 0.05
COLUMNS = [
    "entry", "problem", "digest", "trials", "failure_rate", "score", "score_low", "score_high",
    "chance", "bound", "bound_name", "member", "mean_error", "quantiles", "quantiles_low",
    "quantiles_high", "draws", "seconds", "drawing_seconds",
]  # fmt: skip


def archive_path(suite: str) -> Path:
    """Return the path of a suite's archive in the checkout."""
    return conf_folder().parent / "results" / "archive" / f"{suite}.parquet"


@dataclass(frozen=True)
class Scores:
    """Scores of entries on a suite.

    Attributes
    ----------
    rows : DataFrame
        One row for each entry and problem that it answers:

        - ``entry``, ``problem``, ``digest`` of the problem, ``trials``;
        - ``score``: worst 0.9 quantile of the error over the ``bound``; ``score_low`` and
          ``score_high``: its 95% interval from order statistics (for a family with equally bad
          members the lower end is too high more often);
        - ``chance``: p-value of the number of errors above the bound, see
          `dpbench.suite.measure.chance_of`;
        - ``bound_name``: argument that proves the bound;
        - ``member``: worst member of the family; ``mean_error`` over its successful releases;
          ``quantiles`` at `LEVELS` with ``quantiles_low`` and ``quantiles_high``;
        - ``failure_rate``: largest over the members; a failure is an infinite error;
        - ``draws``: bootstrap replicates of the score;
        - ``seconds``, ``drawing_seconds``: processor time of a release, and of drawing its data;
          NaN if not measured.
    cards : dict of str to Card
        Card of each entry.
    about : dict
        ``suite``; ``seed`` of places, data and noise; ``drawn``: whether the seed was drawn after
        the entry was loaded; ``quick``; digest of the numerical ``source``, ``machine`` and
        ``versions``. Runs with equal values have equal rows, except for the seconds.
    """

    rows: pd.DataFrame
    cards: Mapping[str, Card]
    about: Mapping[str, Any]

    @property
    def is_below(self) -> pd.Series[bool]:
        """True for each row of the declared division that is significantly below the bound.

        No private estimator that uses only public knowledge has an error below the bound for all
        distributions of the class. A row is below the bound if its ``chance`` is below `ROW`; all
        rows of an entry are if its `joint_chance` is below `ENTRY`. Entries of the open division
        know the shape of the distribution and may have a smaller error.
        """
        declared = {name for name, card in self.cards.items() if card.division == "declared"}
        together = {name for name, chance in self.joint_chance.items() if chance < ENTRY}
        low = (self.rows["chance"] < ROW) | self.rows["entry"].isin(together)
        return low & self.rows["entry"].isin(declared)

    @property
    def joint_chance(self) -> dict[str, float]:
        """Joint p-value of each entry, from the number of its rows with a ``chance`` below `LOW`.

        The data of the problems are independent, and a private entry has a ``chance`` below `LOW`
        with probability at most `LOW`. Hence c or more of m rows have this with probability at most
        P(Binomial(m, LOW) >= c). Rows far above the bound change it little, so that an entry cannot
        hide a violation behind them.
        """
        low = (self.rows["chance"] < LOW).groupby(self.rows["entry"])
        return {str(name): float(bdtrc(one.sum() - 1, len(one), LOW)) for name, one in low}

    @property
    def ranked(self) -> pd.DataFrame:
        """Rows that count in rankings and profiles: all except `is_below`."""
        return self.rows[~self.is_below].reset_index(drop=True)

    def of(self, suite: Suite) -> Scores:
        """Return the scores on the problems of `suite`, which may be a selection."""
        chosen = self.rows["problem"].isin([one.id for one in suite.problems])
        return replace(self, rows=self.rows[chosen].reset_index(drop=True))

    def write(self, path: Path) -> None:
        """Write the scores to a Parquet file atomically."""
        table = pa.Table.from_pandas(self.rows[COLUMNS], preserve_index=False)
        cards = {name: asdict(card) for name, card in self.cards.items()}
        known = {"format": FORMAT, "levels": LEVELS, **self.about, "cards": cards}
        table = table.replace_schema_metadata({"dpbench-suite": json.dumps(known, sort_keys=True)})
        with atomic(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    @classmethod
    def read(cls, path: Path, suite: Suite) -> Scores:
        """Read the scores of a suite.

        Parameters
        ----------
        path : Path
            Parquet file.
        suite : Suite
            Suite that the scores belong to.

        Returns
        -------
        Scores

        Raises
        ------
        ConfigError
            If the file is missing, damaged, or has scores of other problems.
        """
        where = f"'{path}'"
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                about = json.loads((file.schema_arrow.metadata or {})[b"dpbench-suite"])
                rows = file.read().to_pandas()
            given, known = about.pop("format"), about.pop("cards")
            if given == 1:  # files of dpbench-mean-v1 lack the column chance
                rows["chance"], given = np.nan, FORMAT
            rows = rows.rename(columns={"bound_by": "bound_name"})[COLUMNS]  # of version 0.1
            cards = {name: from_mapping(Card, card, where) for name, card in known.items()}
        except FileNotFoundError as error:
            raise ConfigError(f"{where}: no such file; suite run makes one") from error
        except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
            raise ConfigError(f"{where}: no scores of a suite, or damaged") from error
        if given != FORMAT or about["suite"] != suite.name:
            raise ConfigError(
                f"{where}: scores of {about['suite']}, format {given}, and not of {suite.name}: "
                f"give suite={about['suite']}, or make them again by suite run"
            )
        digests = {one.id: one.digest for one in suite.problems}
        for name, found in zip(rows["problem"], rows["digest"], strict=True):
            if digests.get(name) != found:
                raise ConfigError(f"{where}: {name}: another problem than that of {suite.name}")
        return cls(rows, cards, about)
