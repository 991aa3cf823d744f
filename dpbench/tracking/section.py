"""Section that compares errors with a stored baseline."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from dpbench.output.verdicts import failing_words, page_tones
from dpbench.report.page_run import RunFolder, worst_tone
from dpbench.report.page_tables import count_noun, make_table
from dpbench.report.sections.base import Section, section
from dpbench.tracking.power import power_sentence
from dpbench.tracking.verdicts import TRACKING

COLUMNS = (
    "verdict", "estimator", "trimmed_mean_error", "trimmed_mean_error_low",
    "trimmed_mean_error_high", "smallest_detectable", "distribution", "privacy", "epsilon", "delta",
    "rho", "mu", "n", "comparison",
)  # fmt: skip


@section("baseline", "Baseline", "Accuracy against the baseline")
def build_baseline(run: RunFolder) -> Section | None:
    """Build the section that compares the errors of a run with a stored baseline.

    Rows with the worst verdicts come first. The table is unfolded if any error is worse than in the
    baseline, or is missing in this run.
    """
    rows = run.rows("tracking")
    if not rows:
        return None
    rows.sort(key=lambda row: [*TRACKING, row["verdict"]].index(row["verdict"]))
    verdicts = Counter(row["verdict"] for row in rows)
    fallen, tones = sum(verdicts[word] for word in failing_words(TRACKING)), page_tones(TRACKING)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    caption = "Errors of this run over those of the baseline"
    table = make_table(
        rows, run.max_rows, caption, COLUMNS, tones, name="tracking", urgent=fallen > 0
    )
    power = run.rows("tracking_power")
    return Section(
        text=power_sentence(pd.DataFrame(power)) if power else "",
        note=f"{counts}. trimmed_mean_error is the ratio of new to old trimmed mean errors, with "
        "its 95% interval: below 1 the error fell. smallest_detectable is the change that the row "
        "would show with probability 0.9.",
        tables=[table],
        findings=[
            f"{fallen} of {count_noun(len(rows), 'error')} worse than the baseline's or gone"
        ],
        rank=2,
        tone=worst_tone([tones.get(verdict, "") for verdict in verdicts]),
    )
