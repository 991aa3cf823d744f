"""Write the text that a run prints at its end, 80 columns wide; the files have all digits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import UNKNOWN, headline
from dpbench.analysis.extremes import largest
from dpbench.analysis.factors import ENDS, EXACT
from dpbench.analysis.oracle import MAX_N
from dpbench.analysis.results import Failure
from dpbench.analysis.smallest_n import TERMS
from dpbench.analysis.study import Study
from dpbench.output.style import NOTIONS
from dpbench.output.terminal import fit_columns, shortened, table, whole
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.privacy.symbols import budget_text
from dpbench.sweep.selection import BUDGET

__all__ = ["render"]

WHAT = ("estimator", "distribution", "privacy")
# Characters for the columns `WHAT` together: in tables without and with numbers at these n.
ROOM, NARROW_ROOM = 31, 20
TITLES = (
    "Claims: theory against measurement",
    "Claims: theory, and the exact number at these n, against measurement",
    "Checks of the code against its own formulas",
)
MOST_FAILING = 12  # rows of failing settings
MOST_SIZES, MOST_ERRORS = 5, 40  # columns of n and rows of errors, for a sweep without claims


def _claims(claims: pd.DataFrame, study: Study) -> str:
    """Return tables of claims: theorems without, then with exact numbers, checks of the code."""
    code, early = claims["checks"] == "code", claims["at_these_n"].notna()
    parts = (claims[~code & ~early], claims[~code & early], claims[code])
    tables = [
        table(title, _claim_rows(part, study))
        for title, part in zip(TITLES, parts, strict=True)
        if len(part)
    ]
    note = "visible: half of all runs would call a truth this far off inconsistent"
    unknown = f"\n-: {UNKNOWN}" if claims["measured"].isna().any() else ""
    counts = "\n".join(headline(claims.to_dict("records")))
    return "\n\n".join([*tables, f"{counts}\n{note}{unknown}"])


def _claim_rows(claims: pd.DataFrame, study: Study) -> list[Mapping[str, str] | str]:
    """Return a heading for each claim, then rows with numbers, intervals and verdicts."""
    rows: list[Mapping[str, str] | str] = []
    names = ("formula" if (claims["checks"] == "code").all() else "theorem", "at these n")
    for label, about in claims.groupby("claim", sort=False):
        first, visible = about.iloc[0], about["visible"]
        rows.append(
            f"{label} ({first['source']}): +- {first['tolerance']:g}, "
            f"visible {_range(visible.min(), visible.max(), '.2g')}"
        )
        limit = "<= " if study.all_claims[str(label)].statement.at_most else ""
        found = about.to_dict("records")
        columns = [[_privacy(r) if name == "privacy" else r[name] for r in found] for name in WHAT]
        room = ROOM if claims["at_these_n"].isna().all() else NARROW_ROOM
        widths = fit_columns([max(map(len, column)) for column in columns], room)
        for row, *what in zip(found, *columns, strict=True):
            short = (shortened(text, w).ljust(w) for text, w in zip(what, widths, strict=True))
            judged = row["theorem_verdict"] in CLAIMS
            word = CLAIMS[row["theorem_verdict"]].text if judged else row["verdict"]
            rows.append(
                {
                    ", ".join(WHAT): " ".join(short).rstrip(),
                    names[0]: _stated(row["theorem"], limit),
                    names[1]: _stated(row["at_these_n"], limit),
                    "measured (95%)": _interval(row),
                    "verdict": word,
                }
            )
            rows += _at_these_n(row)
    return rows


def _stated(number: float, limit: str) -> str:
    return "" if np.isnan(number) else f"{limit}{number:.3f}"


def _at_these_n(row: Mapping[Hashable, Any]) -> list[str]:
    """Return a line that explains why a row's verdicts on theorem and exact number differ."""
    if row["theorem_verdict"] == EARLY:
        since, off = row["asymptotic_from"], f"within {row['tolerance']:g}"
        none = f"no n up to {MAX_N:.0e} is known to be {off}"
        return [f"  {EARLY}: {none if np.isnan(since) else f'{off} from n = {since:.2g} on'}"]
    if pd.isna(row["theorem_verdict"]) or row["theorem_verdict"] == row["verdict"]:
        return []
    return [f"  with the number at these n:  {row['verdict']}"]


def _interval(row: Mapping[Hashable, Any]) -> str:
    """Format a measured number with its interval; a dash if it is unknown."""
    number, low, high = (_digits(row[name]) for name in ("measured", "low", "high"))
    return "-" if np.isnan(row["measured"]) else f"{number} ({low}, {high})"


def _digits(value: float) -> str:
    """Format a number with three decimals, or with a single digit if it is below 0.005."""
    return f"{value:.3f}" if abs(value) >= 5e-3 or value == 0 or np.isnan(value) else f"{value:.0e}"


def _range(low: float, high: float, digits: str = ".3g") -> str:
    if np.isnan(low):
        return "-"
    first, last = f"{low:{digits}}", f"{high:{digits}}"
    return last if first == last else f"{first} .. {last}"


def _sizes(low: float, high: float) -> str:
    return f"{whole(low)} .. {whole(high)}" if low < high else whole(high)


def _privacy(row: Mapping[Hashable, Any]) -> str:
    """Format a budget: its amounts, and its label if that is more than the notion."""
    label = "" if pd.isna(row["privacy"]) else row["privacy"]
    more = "" if label in {"none", *NOTIONS} else label
    return " ".join(filter(None, [budget_text(row), more])) or label


def _about(row: Mapping[Hashable, Any], *names: str) -> dict[str, str]:
    """Return some columns of a row, and its formatted budget."""
    return {name: row[name] for name in names} | {"privacy": _privacy(row)}


def _errors(summary: pd.DataFrame) -> Iterator[str]:
    """Return a table for each family: 0.9 quantiles of the errors, in columns for some n."""
    left = MOST_ERRORS
    for family, found in summary.groupby("family", sort=False):
        sizes = np.unique(found["n"])
        places = np.linspace(0, len(sizes) - 1, min(MOST_SIZES, len(sizes)))
        shown = sizes[places.round().astype(int)]
        rows: list[Mapping[str, str] | str] = []
        for _, about in found.groupby(["estimator", *BUDGET], dropna=False, sort=False):
            worst = about.groupby("n")["q90"].max()
            numbers = {f"n={whole(n)}": f"{worst[n]:.3g}" if n in worst else "" for n in shown}
            rows.append(_about(about.iloc[0].to_dict(), "estimator") | numbers)
        if len(rows) > left:
            yield "more: q90 in summary.csv"
            return
        left -= len(rows)
        yield table(f"Errors on {family}: the 0.9 quantile, worst over its laws", rows)


def _factors(found: pd.DataFrame, study: Study) -> Iterator[str]:
    """Return tables of the best estimators' worst errors over lower bounds: exact, then by trials.

    Factors by trials are already debiased, and their intervals adjusted, over members and
    estimators. Here they go through `largest` again, over n. The upper end stays valid, because
    only the upper end of the largest true factor matters. The lower end is heuristic, because
    `largest` expects plain 95% intervals. It is conservative if several estimators compete. For
    one estimator with 5 distributions that tie at each of 8 n, it was too high in 3.6% of 4000
    simulated runs, and the upper end never too low. The number is debiased twice, so that it
    tends to be too low rather than too high.
    """
    at = ["distribution", *BUDGET]
    found = found.assign(exact=found["factor_by"] == EXACT)
    exact = found.groupby(at, dropna=False)["exact"].transform("all")
    title = "Best estimator's worst q90 over the lower bound, largest over n"
    known = found[exact].assign(
        law=[study.families[label].label("k") for label in found["distribution"][exact]],
        order=["factor" if np.isnan(k) else f"k = {k:g}" for k in found["k"][exact]],
    )
    for _, about_k in known.groupby(known["k"].isna()):
        orders, rows = about_k.sort_values("k")["order"].unique(), list[Mapping[str, str] | str]()
        for _, about in about_k.groupby(["law", *BUDGET], dropna=False, sort=False):
            numbers = about.groupby("order")["factor"].max()
            row = {one: f"{numbers[one]:.3g}" if one in numbers else "" for one in orders}
            rows.append(_best(about, str(about["law"].iloc[0])) | row | _partly(about))
        yield table(f"{title}: exact", rows)
    rows = []
    for _, about in found[~exact].groupby(at, dropna=False, sort=False):
        over = largest(*about[ENDS].to_numpy().T)
        rows.append(
            _best(about, about["distribution"].iloc[0])
            | {"factor (95%)": _interval(dict(zip(over._fields, over, strict=True)))}
            | _partly(about)
        )
    if rows:
        yield table(f"{title}: by trials", rows)


def _best(about: pd.DataFrame, law: str) -> dict[str, str]:
    """Return the distribution, the budget and the best estimators of a line of factors."""
    named = {"distribution": law} | _about(about.iloc[0].to_dict())
    return named | {"estimator": ", ".join(dict.fromkeys(about["estimator"]))}


def _partly(about: pd.DataFrame) -> dict[str, str]:
    """Return the verdict that all factors of a line share, else ``partly``."""
    verdicts = about["verdict"].unique()
    return {"verdict": verdicts[0] if len(verdicts) == 1 else "partly"}


def _samples(samples: pd.DataFrame) -> Iterator[str]:
    """Return a table of directly searched sample complexities, beside the theorem's n."""
    sought = samples[samples["method"] == "search"] if len(samples) else samples
    if sought.empty:
        return
    rows = []
    for one in sought.to_dict("records"):
        terms = [one[f"{name}_term"] for name in TERMS]
        total = float(np.nansum(terms)) if np.isfinite(one["privacy_term"]) else np.nan
        row = _about(one, "estimator", "distribution") | {"alpha": f"{one['alpha']:.3g}"}
        row |= {"n": whole(one["samples"]), "95% interval": _sizes(one["low"], one["high"])}
        rows.append(row | {"theorem": "" if np.isnan(total) else whole(total)})
    yield table("Smallest n: P(error <= alpha) >= 1 - beta", rows)


def _without_release(summary: pd.DataFrame) -> Iterator[str]:
    """Return a table of the estimators with trials without a release, and their failure rates."""
    rows: list[Mapping[str, str] | str] = []
    failing = summary[summary["failures"] > 0].drop(columns="distribution")
    failing = failing.rename(columns={"family": "distribution"})
    for _, found in failing.groupby(["estimator", "distribution", *BUDGET], dropna=False):
        row = _about(found.iloc[0].to_dict(), "estimator", "distribution")
        row["n"] = _sizes(found["n"].min(), found["n"].max())
        row["failure rate"] = _range(found["failure_rate"].min(), found["failure_rate"].max())
        rows.append(row)
    if not rows:
        return
    if len(rows) > MOST_FAILING:
        more = f"and {len(rows) - MOST_FAILING} more: see failure_rate in summary.csv"
        rows = [*rows[:MOST_FAILING], more]
    yield table("Trials without a release (counted failures)", rows)


def _spending(summary: pd.DataFrame) -> str:
    """Return a line for each estimator that spends only a part of its budget."""
    partly = (
        summary[summary["budget_fraction_spent"].notna()]
        if "budget_fraction_spent" in summary
        else summary[:0]
    )
    lines = []
    for _, found in partly.groupby(["estimator", *BUDGET], dropna=False):
        row = _about(found.iloc[0].to_dict(), "estimator")
        least = found["budget_fraction_spent"].min()
        lines.append(f"{row['estimator']} spends {least:.3g} of {row['privacy']}")
    return "\n".join(lines)


def _failures(failures: Sequence[Failure]) -> str:
    """Return a line for each setting that raised an error, with its replay name."""
    lines = [f"failed: {one.text} (replay={one.replay})" for one in failures[:MOST_FAILING]]
    more = len(failures) - MOST_FAILING
    return "\n".join([*lines, *([f"and {more} more: see manifest.json"] if more > 0 else [])])


def render(
    study: Study,
    *,
    summary: pd.DataFrame,
    claims: pd.DataFrame,
    factors: pd.DataFrame,
    samples: pd.DataFrame,
    failures: Sequence[Failure],
) -> str:
    """Return the text that a run prints at its end.

    Parameters
    ----------
    study : Study
    summary, claims, factors, samples : DataFrame
        Tables of the run, see `dpbench.analysis.result.Result`. Without claims, the text has the
        errors of the summary instead of verdicts.
    failures : sequence of Failure
        Settings that raised an error.

    Returns
    -------
    str
        Tables and lines, 80 columns wide.
    """
    parts = [
        *(_errors(summary) if claims.empty else [_claims(claims, study)]),
        *_factors(factors, study),
        *_samples(samples),
        *_without_release(summary),
        _spending(summary),
        _failures(failures),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
