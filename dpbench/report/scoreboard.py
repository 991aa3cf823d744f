"""Format the text that a run prints at its end, in 80 columns or more.

Numbers are rounded. The files of the run have all digits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import yaml

from dpbench.analysis.claims import UNKNOWN, count_claim_verdicts, shown_verdicts
from dpbench.analysis.exact_of_sweep import MAX_N
from dpbench.analysis.factors import ENDS, EXACT
from dpbench.analysis.fallback import FALLBACK_NOTE, answers_without_data
from dpbench.analysis.largest_of_noisy import largest
from dpbench.analysis.smallest_n import TERMS
from dpbench.analysis.summary_table import Failure
from dpbench.output.names import NOTIONS, as_text, format_digits
from dpbench.output.terminal import fill, format_count, spread, table
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.package import conf_folder
from dpbench.privacy.symbols import SYMBOLS, budget_text
from dpbench.report.answer import format_answer
from dpbench.report.labels import metric_text
from dpbench.report.study import Compared, Study
from dpbench.sweep.selection import BUDGET
from dpbench.theory.theorems import CODE

__all__ = ["render", "shipped_estimators"]

FALLBACK_MARK = "*"  # beside an error that an estimator reaches without data
MAX_FAILING = 12  # rows of failing settings
MAX_ROWS = 12  # rows of claims that do not agree
MAX_ERROR_ROWS = 40  # rows of errors, for a sweep without claims
MAX_COMPARED_ROWS = 20  # rows of values that a figure compares, in a sweep with claims
MAX_NAME = 14  # characters of a name beside a number, in lines of 80
MAX_UNCLAIMED_ROWS = 12  # rows of errors of estimators without a claim, in a sweep with claims


def _format_claims(
    claims: pd.DataFrame, summary: pd.DataFrame, study: Study, compared: Compared | None = None
) -> Iterator[str]:
    """Yield the answer, a line for each claim, the rows that do not agree, and counts.

    A table of the values `compared` stands below the answer.
    """
    first, *others = format_answer(claims, summary, study)
    yield from [first, *([] if compared is None else [_format_compared(compared)]), *others]
    words = pd.Series([shown_verdicts(row)[0] for row in claims.to_dict("records")], claims.index)
    few = bool(summary["trials"].max() < max(part.trials for part in study.parts.values()))
    unlike = claims[~words.isin(["consistent", *["inconclusive"] * few])]
    worst = unlike.loc[words[unlike.index].map(lambda word: CLAIMS[word].rank).sort_values().index]
    for title, part in (
        ("Numbers of theory that are not confirmed", worst[worst["checks"] != CODE]),
        ("Checks of the code that do not pass", worst[worst["checks"] == CODE]),
    ):
        if len(part):
            more = len(part) - MAX_ROWS
            rest = [f"and {more} more: see claims.csv"] if more > 0 else []
            yield table(title, [*_format_claim_rows(part[:MAX_ROWS], study), *rest])
    unknown = [f"-: {UNKNOWN}"] if claims["measured"].isna().any() else []
    yield "\n".join([*count_claim_verdicts(claims.to_dict("records")), *unknown])


def _format_claim_rows(claims: pd.DataFrame, study: Study) -> list[Mapping[str, str] | str]:
    """Format the rows of a table of claims: for each claim a heading, then its measurements.

    A row has the theorem's number, the measured number with its interval, and the verdict.
    """
    rows: list[Mapping[str, str] | str] = []
    names = ("formula" if (claims["checks"] == CODE).all() else "theorem", "at these n")
    for label, group in claims.groupby("claim", sort=False):
        first, seen = group.iloc[0], group["detectable_deviation"]
        rows.append(
            f"{label} ({first['source']}): +- {first['tolerance']:g}, "
            f"detectable {_format_range(seen.min(), seen.max(), 2)}"
        )
        limit = "<= " if study.all_claims[str(label)].statement.at_most else ""
        records = group.to_dict("records")
        for row in records:
            word, here = shown_verdicts(row)
            rows.append(
                {
                    **_label_cells(row, "estimator", "distribution"),
                    names[0]: _format_stated(row["theorem"], limit),
                    names[1]: _format_stated(row["exact_at_run_n"], limit),
                    "measured (95%)": _format_interval(row),
                    "verdict": CLAIMS[word].text if word in CLAIMS else word,
                }
            )
            rows += [_explain_early(row)] if word == EARLY else []
            rows += [f"  with the number at these n:  {here}"] if here and word != EARLY else []
    return rows


def _format_stated(number: float, limit: str) -> str:
    return "" if np.isnan(number) else f"{limit}{format_digits(number)}"


def _explain_early(row: Mapping[Hashable, Any]) -> str:
    """Return a line that says from which n on the exact number is near the theorem's number."""
    start, distance = row["asymptotic_from"], f"within {row['tolerance']:g}"
    unknown = f"no n up to {MAX_N:.0e} is known to be {distance}"
    return f"  {EARLY}: {unknown if np.isnan(start) else f'{distance} from n = {start:.2g} on'}"


def _format_interval(row: Mapping[Hashable, Any]) -> str:
    """Format a measured number with its 95% interval; return a dash if the number is unknown."""
    number, low, high = (format_digits(row[name]) for name in ("measured", "low", "high"))
    return "-" if np.isnan(row["measured"]) else f"{number} ({low}, {high})"


def _format_range(low: float, high: float, places: int = 3) -> str:
    if np.isnan(low):
        return "-"
    first, last = as_text(low, places), as_text(high, places)
    return last if first == last else f"{first} .. {last}"


def _format_sizes(low: float, high: float) -> str:
    return f"{format_count(low)} .. {format_count(high)}" if low < high else format_count(high)


def _format_privacy(row: Mapping[Hashable, Any]) -> str:
    """Format the budget of a row: its amounts, for example ε, and its label.

    The label is left out if it only repeats the notion of privacy.
    """
    label = "" if pd.isna(row["privacy"]) else row["privacy"]
    mechanism = "" if label in {"none", *NOTIONS} else label
    amounts = budget_text(row, number=as_text)
    return " ".join(filter(None, [amounts, mechanism])) or label


def _label_cells(row: Mapping[Hashable, Any], *names: str) -> dict[str, str]:
    """Select the columns `names` of a row, and add its budget as text in the cell ``privacy``."""
    return {name: row[name] for name in names} | {"privacy": _format_privacy(row)}


def _format_errors(summary: pd.DataFrame) -> Iterator[str]:
    """Yield a table of errors for each family, with a row for each estimator and budget.

    The columns are as many of the n that were run as a line has room for. Cells have the 0.9
    quantile of the error on the worst member of the family. A mark says that the mean of the member
    is what the estimator answers without data. At most 40 (`MAX_ERROR_ROWS`) rows are printed.
    Tables that do not fit are named instead; only the first table is cut.
    """
    rows_left, left_out = MAX_ERROR_ROWS, list[str]()
    for family, members in summary.groupby("family", sort=False):
        headings = {n: f"n={format_count(n)}" for n in np.unique(members["n"])}
        labels = [_label_cells(row, "estimator") for row in members.to_dict("records")]
        shown_sizes = spread([*headings], max(map(len, headings.values())), _width_of(labels))
        rows: list[Mapping[str, str] | str] = []
        for _, curve in members.groupby(["estimator", *BUDGET], dropna=False, sort=False):
            worst = curve.loc[curve.dropna(subset="q90").groupby("n")["q90"].idxmax()]
            errors = dict(zip(worst["n"], worst["q90"], strict=True))
            chance = dict(zip(worst["n"], answers_without_data(worst), strict=True))
            numbers = {
                headings[n]: f"{as_text(errors[n])}{FALLBACK_MARK * chance[n]}"
                if n in errors
                else ""
                for n in shown_sizes
            }
            rows.append(_label_cells(curve.iloc[0].to_dict(), "estimator") | numbers)
        if rows_left < min(len(rows), MAX_ERROR_ROWS):
            left_out.append(f"{family} ({len(rows)} rows)")
            continue
        more = len(rows) - rows_left
        rows = [*rows[:rows_left], *([f"and {more} more: see q90 in summary.csv"] * (more > 0))]
        rows_left -= len(rows)
        yield table(f"Errors on {family}: the 0.9 quantile, worst over its laws", rows)
    if left_out:
        yield fill(f"Not printed: errors on {', '.join(left_out)}; see q90 in summary.csv")


def _width_of(rows: Sequence[Mapping[str, str]]) -> int:
    """Return the characters that columns with these cells take in a line of a table."""
    return sum(max(len(row[name]) for row in [{name: name}, *rows]) + 2 for name in rows[0])


def _format_compared(compared: Compared) -> str:
    """Return a table of the values that a figure compares, with a column for each parameter value.

    A row is an estimator under a budget at one n, on the worst distribution of a family.
    """
    parameter, rows = compared.parameter, compared.rows.assign(**{compared.parameter: np.nan})
    symbol = SYMBOLS[parameter].ascii if parameter in SYMBOLS else parameter
    text = format_count if parameter == "n" else as_text
    headings = {x: f"{symbol}={text(x)}" for x in np.unique(rows["x"])}
    several = [name for name in ("estimator", "distribution", "n") if rows[name].nunique() > 1]
    groups = [g for _, g in rows.groupby([*several, *BUDGET], dropna=False, sort=False)]
    labels = []
    for group in groups:
        first = group.iloc[0].to_dict()
        labels.append(_label_cells(first | {"n": format_count(first["n"])}, *several))
    shown = spread([*headings], max(map(len, headings.values())), _width_of(labels))
    lines: list[Mapping[str, str] | str] = []
    for label, group in zip(labels, groups, strict=True):
        worst = group.groupby("x")["value"].max()
        lines.append(label | {headings[x]: as_text(worst[x]) if x in worst else "" for x in shown})
    n = "" if "n" in (parameter, *several) else f", n = {format_count(rows['n'].iloc[0])}"
    over = f" over {compared.over}" if compared.over else ""
    title = f"{metric_text(compared.metric)}{over} against {parameter}{n}"
    more = len(lines) - MAX_COMPARED_ROWS
    rest = [f"and {more} more: see {compared.metric} in summary.csv"] if more > 0 else []
    return table(f"{title[0].upper()}{title[1:]}", [*lines[:MAX_COMPARED_ROWS], *rest])


def _format_fallbacks(summary: pd.DataFrame) -> str:
    """Return lines that list the estimators that answer the mean of a distribution without data."""
    found = summary[answers_without_data(summary)]
    lines = [
        f"{estimator} on {law}, n = {_format_sizes(rows['n'].min(), rows['n'].max())}"
        for (estimator, law), rows in found.groupby(["estimator", "distribution"], sort=False)
    ]
    more = [f"and {len(lines) - MAX_FAILING} more"] if len(lines) > MAX_FAILING else []
    shown = [fill(f"  {line}") for line in [*lines[:MAX_FAILING], *more]]
    return "\n".join([f"{FALLBACK_MARK}: {FALLBACK_NOTE}", *shown]) if lines else ""


def _format_unclaimed(summary: pd.DataFrame, study: Study) -> Iterator[str]:
    """Yield a table of errors of the estimators that no claim is about, in a sweep with claims.

    A user may have added them. Estimators without privacy, and those of the shipped sweep of this
    name, are left out. A row has the budget with the most n, at its largest n. ``best other`` is
    the most accurate other private estimator there.
    """
    shipped = shipped_estimators(study.name)
    claimed = {label for label, variant in study.estimators.items() if variant.name in shipped}
    private = summary[summary["privacy"] != "none"]
    if private["estimator"].isin(claimed).all():
        return
    for claim in study.all_claims.values():
        claimed |= {*summary["estimator"][claim.rows(summary, study)]}
    private = private.assign(budget=list(map(_format_privacy, private.to_dict("records"))))
    unclaimed = private[~private["estimator"].isin(claimed)]
    rows: list[Mapping[str, str] | str] = []
    for (label, family), group in unclaimed.groupby(["estimator", "family"], sort=False):
        budget = group.groupby("budget", sort=False)["n"].nunique().idxmax()
        n = group.loc[group["budget"] == budget, "n"].max()
        names = {"family": family, "budget": budget, "n": n}
        beside = private[np.all([private[name] == value for name, value in names.items()], axis=0)]
        worst = beside.groupby("estimator")["q90"].max()
        others = worst.drop(index=label).dropna()
        name = str(others.idxmin()) if len(others) else ""
        best = as_text(others.min()) if len(others) else ""
        is_short = len(name) <= MAX_NAME
        cells = {"estimator": str(label), "distribution": str(family), "privacy": str(budget)}
        cells |= {"n": format_count(n), "q90": as_text(worst[str(label)])}
        rows.append(cells | {"best other": f"{best} {name if is_short else ''}".strip()})
        rows += [] if is_short else [f"  best other: {name}"]
    if len(rows) > MAX_UNCLAIMED_ROWS:
        rest = len(rows) - MAX_UNCLAIMED_ROWS
        rows = [*rows[:MAX_UNCLAIMED_ROWS], f"and {rest} more: see q90 in summary.csv"]
    if rows:
        yield table("Errors without a claim: worst q90 of each family at its largest n", rows)


def shipped_estimators(name: str) -> set[str]:
    """Return the names of the estimators in the shipped sweep of a name; empty if there is none."""
    path = conf_folder() / "sweep" / f"{name}.yaml"
    return {*yaml.safe_load(path.read_text("utf-8"))["estimators"]} if path.exists() else set()


def _format_factors(factors: pd.DataFrame, study: Study) -> Iterator[str]:
    """Yield tables of factors: errors of the best estimators, divided by lower bounds.

    The error is the 0.9 quantile on the worst distribution of a family. A line of a table has the
    largest factor over n. The first tables have exact factors. The last table has factors from
    trials.

    Factors from trials and their intervals are already corrected for the choice of the worst member
    and of the best estimator. Here `largest` takes the maximum of these factors over n and corrects
    the maximum again. The upper end of its interval stays valid, because it needs only the upper
    end of the largest true factor. The lower end is heuristic, because `largest` expects plain 95%
    intervals. The lower end is conservative if several estimators compete.

    A simulation of 4000 runs had one estimator, 8 sample sizes n, and 5 distributions that tie at
    each n. The lower end was too high in 3.6% of these runs. The upper end was never too low.
    Because the maximum is corrected twice, it is too low rather than too high.
    """
    problem_columns = ["distribution", *BUDGET]
    factors = factors.assign(exact=factors["error_over_bound_from"] == EXACT)
    exact = factors.groupby(problem_columns, dropna=False)["exact"].transform("all")
    title = "Best estimator's worst q90 over the lower bound, largest over n"
    exact_rows = factors[exact].assign(
        law=[study.families[label].label("k") for label in factors["distribution"][exact]],
        order=["factor" if np.isnan(k) else f"k = {k:g}" for k in factors["k"][exact]],
    )
    for _, same_kind in exact_rows.groupby(exact_rows["k"].isna()):
        orders, rows = same_kind.sort_values("k")["order"].unique(), list[Mapping[str, str] | str]()
        for _, group in same_kind.groupby(["law", *BUDGET], dropna=False, sort=False):
            numbers = group.groupby("order")["error_over_bound"].max()
            row = {
                order_text: as_text(numbers[order_text]) if order_text in numbers else ""
                for order_text in orders
            }
            rows.append(_best_cells(group, str(group["law"].iloc[0])) | row | _verdict_cell(group))
        yield table(f"{title}: exact", rows)
    rows = []
    for _, group in factors[~exact].groupby(problem_columns, dropna=False, sort=False):
        maximum = largest(*group[ENDS].to_numpy().T)
        rows.append(
            _best_cells(group, group["distribution"].iloc[0])
            | {"factor (95%)": _format_interval(dict(zip(maximum._fields, maximum, strict=True)))}
            | _verdict_cell(group)
        )
    if rows:
        yield table(f"{title}: by trials", rows)


def _best_cells(group: pd.DataFrame, law: str) -> dict[str, str]:
    """Return the distribution, budget and best estimators, the first cells of a line of a table.

    Each number in the table is a factor: the worst error of the best estimator, divided by the
    lower bound. A line of the table covers several n, which may have different best estimators.
    """
    cells = {"distribution": law} | _label_cells(group.iloc[0].to_dict())
    return cells | {"estimator": ", ".join(dict.fromkeys(group["estimator"]))}


def _verdict_cell(group: pd.DataFrame) -> dict[str, str]:
    """Return the cell ``verdict`` of a line in a table of factors (errors over lower bounds).

    A line covers several n, each with its factor and verdict. The cell is ``mixed`` if these
    verdicts differ.
    """
    verdicts = group["verdict"].unique()
    return {"verdict": verdicts[0] if len(verdicts) == 1 else "mixed"}


def _format_samples(samples: pd.DataFrame) -> Iterator[str]:
    """Yield a table with the smallest n that reaches an error alpha, measured and by a theorem.

    The measured n comes from a direct search, which runs more n than the sweep. Yield nothing if no
    direct search was run.
    """
    searches = samples[samples["method"] == "search"] if len(samples) else samples
    if searches.empty:
        return
    rows = []
    for sample in searches.to_dict("records"):
        terms = [sample[f"{name}_term"] for name in TERMS]
        total = float(np.nansum(terms)) if np.isfinite(sample["privacy_term"]) else np.nan
        row = _label_cells(sample, "estimator", "distribution") | {
            "alpha": as_text(sample["alpha"])
        }
        row |= {
            "n": format_count(sample["samples"]),
            "95% interval": _format_sizes(sample["low"], sample["high"]),
        }
        rows.append(row | {"theorem": "" if np.isnan(total) else format_count(total)})
    yield table("Smallest n: P(error <= alpha) >= 1 - beta", rows)


def _format_failing_trials(summary: pd.DataFrame) -> Iterator[str]:
    """Yield a table of failure rates, for estimators that released nothing in some trials."""
    rows: list[Mapping[str, str] | str] = []
    failing = summary[summary["failures"] > 0].drop(columns="distribution")
    failing = failing.rename(columns={"family": "distribution"})
    for _, group in failing.groupby(["estimator", "distribution", *BUDGET], dropna=False):
        row = _label_cells(group.iloc[0].to_dict(), "estimator", "distribution")
        row["n"] = _format_sizes(group["n"].min(), group["n"].max())
        row["failure rate"] = _format_range(
            group["failure_rate"].min(), group["failure_rate"].max()
        )
        rows.append(row)
    if not rows:
        return
    if len(rows) > MAX_FAILING:
        note = f"and {len(rows) - MAX_FAILING} more: see failure_rate in summary.csv"
        rows = [*rows[:MAX_FAILING], note]
    yield table("Trials without a release (counted failures)", rows)


def _format_spending(summary: pd.DataFrame) -> str:
    """Return a line for each estimator that spends only a part of its budget."""
    unspent = (
        summary[summary["budget_fraction_spent"].notna()]
        if "budget_fraction_spent" in summary
        else summary[:0]
    )
    lines = []
    for _, group in unspent.groupby(["estimator", *BUDGET], dropna=False):
        row = _label_cells(group.iloc[0].to_dict(), "estimator")
        share = group["budget_fraction_spent"].min()
        lines.append(f"{row['estimator']} spends {as_text(share)} of {row['privacy']}")
    return "\n".join(lines)


def _format_failures(failures: Sequence[Failure]) -> str:
    """Return a line for each setting that raised an error, with the name to run its trials again.

    If there are more than 12 such settings, the last line counts the rest.
    """
    lines = [
        f"failed: {failure.text} (rerun={failure.rerun})" for failure in failures[:MAX_FAILING]
    ]
    hidden = len(failures) - MAX_FAILING
    return "\n".join([*lines, *([f"and {hidden} more: see manifest.json"] if hidden > 0 else [])])


def render(
    study: Study,
    *,
    summary: pd.DataFrame,
    claims: pd.DataFrame,
    factors: pd.DataFrame,
    samples: pd.DataFrame,
    failures: Sequence[Failure],
    compared: Compared | None = None,
) -> str:
    """Return the text that a run prints at its end: tables and lines.

    The tables of the run are those of `dpbench.report.run_result.Result`. A sweep with an open
    question prints the values that a figure has `compared`. If there are no
    claims, the text has the errors of the summary in place of verdicts. Else it has the errors of
    estimators without a claim, such as those of a user. It ends with the error messages of the
    settings that raised an error.
    """
    parts = [
        *(
            _format_errors(summary)
            if claims.empty
            else _format_claims(claims, summary, study, compared)
        ),
        _format_fallbacks(summary),
        *(() if claims.empty else _format_unclaimed(summary, study)),
        *_format_factors(factors, study),
        *_format_samples(samples),
        *_format_failing_trials(summary),
        _format_spending(summary),
        _format_failures(failures),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
