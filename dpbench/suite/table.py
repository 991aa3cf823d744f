"""What entries scored, in a file: the archive, or a run of your own."""

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
# Below these chances a row, and an entry, are below the bound; and what counts for an entry.
ROW, ENTRY, LOW = 1e-4, 1e-6, 0.05
COLUMNS = [
    "entry", "problem", "digest", "trials", "failure_rate", "score", "score_low", "score_high",
    "chance", "bound", "bound_by", "member", "mean_error", "quantiles", "quantiles_low",
    "quantiles_high", "draws", "seconds", "drawing_seconds",
]  # fmt: skip


def archive_path(suite: str) -> Path:
    """The archive of a suite, in the checkout."""
    return conf_folder().parent / "results" / "archive" / f"{suite}.parquet"


@dataclass(frozen=True)
class Scores:
    """What entries scored on a suite.

    Attributes
    ----------
    rows : DataFrame
        A row for each entry and problem that it answers: ``entry``, ``problem``, its ``digest``,
        ``trials``; ``score``, the worst 0.9 quantile of the error over the ``bound``, and its 95%
        interval ``score_low, score_high`` from order statistics (of a family whose members are
        equally bad the lower end is too high more often); the ``chance`` of so few errors above the
        bound, see `dpbench.suite.measure.chance_of`; what the bound is ``bound_by``;
        the worst ``member`` of the family, its ``mean_error`` over the releases there were, and
        its ``quantiles`` of the levels `LEVELS`, each with such an interval; the largest
        ``failure_rate`` of a member (a failure is an infinite error); ``draws``, bootstrap
        replicates of the score; ``seconds`` of processor time for a release, and for drawing its
        data, NaN if not measured.
    cards : dict of str to Card
        By entry.
    about : dict
        The ``suite``; the ``seed`` of places, data and noise; whether it was ``drawn`` after the
        entry was loaded, and not given; whether the run was ``quick``; and what made it: a digest
        of the numerical ``source``, the ``machine`` and ``versions``. Equal ones give equal bits,
        but for seconds.
    """

    rows: pd.DataFrame
    cards: Mapping[str, Card]
    about: Mapping[str, Any]

    @property
    def is_below(self) -> pd.Series[bool]:
        """Return whether each row is below the bound by more than chance, in the declared division.

        No private estimator that knows only what is public errs by less than the bound on all laws
        of the class. A row counts if its ``chance`` is below `ROW`. All rows of an entry count if
        the entry has a `joint_chance` below `ENTRY`. In the open division an entry knows the law
        that is drawn, and may err by less.
        """
        declared = {name for name, card in self.cards.items() if card.division == "declared"}
        together = {name for name, chance in self.joint_chance.items() if chance < ENTRY}
        low = (self.rows["chance"] < ROW) | self.rows["entry"].isin(together)
        return low & self.rows["entry"].isin(declared)

    @property
    def joint_chance(self) -> dict[str, float]:
        """Return by entry the probability of so many rows with a `chance` below `LOW`.

        Problems have data of their own, and each chance of a private entry is below `LOW` with that
        probability or less, so that c or more of m rows are with P(Binomial(m, LOW) >= c) or less.
        Rows far above the bound take little from it, so that an entry cannot hide behind them.
        """
        low = (self.rows["chance"] < LOW).groupby(self.rows["entry"])
        return {str(name): float(bdtrc(one.sum() - 1, len(one), LOW)) for name, one in low}

    @property
    def ranked(self) -> pd.DataFrame:
        """The rows that count in rankings and profiles: a score below the bound is none."""
        return self.rows[~self.is_below].reset_index(drop=True)

    def of(self, suite: Suite) -> Scores:
        """The scores on the problems of a suite, or of those that are chosen of it."""
        chosen = self.rows["problem"].isin([one.id for one in suite.problems])
        return replace(self, rows=self.rows[chosen].reset_index(drop=True))

    def write(self, path: Path) -> None:
        """Store it, whole or not at all."""
        table = pa.Table.from_pandas(self.rows[COLUMNS], preserve_index=False)
        cards = {name: asdict(card) for name, card in self.cards.items()}
        known = {"format": FORMAT, "levels": LEVELS, **self.about, "cards": cards}
        table = table.replace_schema_metadata({"dpbench-suite": json.dumps(known, sort_keys=True)})
        with atomic(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    @classmethod
    def read(cls, path: Path, suite: Suite) -> Scores:
        """Read the scores of a suite.

        Raises
        ------
        ConfigError
            If there is no such file, or it is damaged, or of other problems.
        """
        where = f"'{path}'"
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                about = json.loads((file.schema_arrow.metadata or {})[b"dpbench-suite"])
                rows = file.read().to_pandas()
            given, known = about.pop("format"), about.pop("cards")
            if given == 1:  # of dpbench-mean-v1
                rows["chance"], given = np.nan, FORMAT
            rows = rows[COLUMNS]
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
