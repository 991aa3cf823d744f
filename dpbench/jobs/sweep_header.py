"""Read the comment at the top of a sweep's file: its title, its text, its run time and its size."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SweepHeader", "find_sweeps", "read_header"]

COST = re.compile(
    r"Run time: (?:about )?(?P<time>\d+ (?:s|min)) on two cores\. "
    r"Disk space: (?P<megabytes>\d+ MB)\."
)


@dataclass(frozen=True)
class SweepHeader:
    """Comment at the top of a sweep's file.

    Its lines stand without ``# `` and without the line that names the schema.
    """

    lines: tuple[str, ...]

    @property
    def title(self) -> str:
        """First sentence of the comment, without its full stop."""
        text = " ".join(line.strip() for line in self.lines)
        return text.split(". ")[0].rstrip(".")

    @property
    def cost(self) -> str:
        """Run time on two cores and disk space, such as "12 s, 107 MB"; "" if they are not told.

        Every shipped sweep tells them by a sentence of the form ``Run time: about 12 s on two
        cores. Disk space: 107 MB.``
        """
        stated = COST.search(" ".join(self.lines))
        return "" if stated is None else f"{stated['time']}, {stated['megabytes']}"


def read_header(path: Path) -> SweepHeader:
    """Read the header of a sweep's file."""
    text = path.read_text("utf-8", errors="replace")
    comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    lines = (line.removeprefix("#").removeprefix(" ") for line in comment)
    return SweepHeader(tuple(line for line in lines if "yaml-language-server" not in line))


def find_sweeps(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the file of each sweep in folders of configurations, keyed and sorted by name.

    If several folders have a sweep of one name, the first of these folders is used, as in a run.
    """
    paths = [path for folder in folders for path in (folder / "sweep").glob("*.yaml")]
    return dict(sorted({path.stem: path for path in reversed(paths)}.items()))
