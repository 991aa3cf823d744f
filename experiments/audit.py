"""Figures of the privacy audit: ``python -m experiments.audit``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dpbench.audit.report import bounds_figure, spaced, strongest
from dpbench.drawing import save, style
from experiments.paper import DONE, RESULTS, main, write
from experiments.tables import escaped, tabular

# Parameters that stand in labels before their value.
PARAMETERS = r"_(policy|mechanism|aggregate|outside|composition)(?=_)"
FIGURES = {
    "estimators": (
        "audit.csv",
        "The largest lower bound on the privacy parameter of every estimator, over what it claims: "
        "none is refuted, which proves nothing",
    ),
    "controls": (
        "controls.csv",
        "The same for estimators that are broken on purpose, as published code has been: each is "
        "refuted",
    ),
}
UNITS = {"approx": "epsilon (approximate DP)", "pure": "epsilon (pure DP)", "zcdp": "rho (zCDP)"}
HEADER = ("Estimator", "Notion", "Pair", "Runs", "Claimed", "Lower bound", "Verdict")


@dataclass(frozen=True)
class AuditSource:
    """The audit, which has tables of its own."""

    name: str = "audit"
    title: str = "Lower bounds on every privacy parameter"
    sweeps: tuple[str, ...] = ("audit",)

    @style("column")
    def draw(self, codes: Mapping[str, int]) -> int:
        """Draw the strongest pair of each estimator and of each control."""
        if codes["audit"] != DONE:
            return DONE
        folder = RESULTS / "paper" / self.name
        manifest = json.loads((RESULTS / "audit" / "manifest.json").read_text())
        for name, (file, says) in FIGURES.items():
            table = pd.read_csv(RESULTS / "audit" / file)
            save(bounds_figure(table, printed), folder, name, ("pdf", "png"))
            write(folder / f"{name}.txt", _caption(says, table, manifest))
            rows = [_row(row) for row in strongest(table).to_dict("records")]
            write(folder / f"{name}.tex", tabular("lllrrrl", HEADER, rows))
        print(f"figures: {folder}/", flush=True)
        return DONE


def printed(label: str) -> str:
    """A label without names of parameters: ``heavy_tailed_policy_all`` as 'heavy tailed all'."""
    return spaced(re.sub(PARAMETERS, "", label))


def _caption(says: str, table: pd.DataFrame, manifest: Mapping[str, object]) -> str:
    configuration = manifest["configuration"]
    assert isinstance(configuration, dict)
    error = configuration["sweep"]["audit"]["error"]
    runs = sorted(table["runs"].unique())
    claimed = table.groupby(table["notion"].str.split("_").str[0])["claimed"].first()
    claims = ", ".join(f"{UNITS[str(name)]} = {value:g}" for name, value in claimed.items())
    return (
        f"{says}. {len(table)} pairs of neighbouring datasets; claimed: {claims}; releases on each "
        f"dataset: {', '.join(map(str, runs))}; seed {manifest['seed']}. All bounds of the table "
        f"hold together with probability 1 - {error:g}.\n"
    )


def _row(row: Mapping[object, object]) -> list[str]:
    return [
        escaped(printed(str(row["estimator"]))),
        escaped(str(row["notion"])),
        escaped(spaced(str(row["pair"]))),
        str(row["runs"]),
        f"{row['claimed']:g}",
        f"{row['lower_bound']:.3f}",
        str(row["verdict"]),
    ]


SOURCE = AuditSource()

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
