"""What a run prints at its end."""

from __future__ import annotations

import math
import re
import shlex
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dpbench.analysis.factors import ENDS, EXACT
from dpbench.analysis.largest_of_noisy import largest
from dpbench.output.terminal import WIDTH, rerun_line
from dpbench.output.verdicts import EARLY
from dpbench.report.answer import BOTH_SIDES, ONE_SIDE
from dpbench.report.scoreboard import (
    _format_claims,
    _format_errors,
    _format_factors,
    _format_failing_trials,
    _format_samples,
    _format_spending,
    _format_unclaimed,
    shipped_estimators,
)
from dpbench.theory.theorems import THEOREMS
from tests.bench import MINE, TINY, Bench


def test_a_sweep_without_claims_prints_errors_by_n(bench: Bench) -> None:
    bench.write(lambda spec: spec.pop("claims"))
    bench.done()
    lines = bench.read("scoreboard.txt").splitlines()
    at = lines.index("Errors on two_point_k2: the 0.9 quantile, worst over its laws")
    assert lines[at + 1].split() == ["estimator", "privacy", "n=100,000", "n=1e+08"]
    summary = bench.table().query("family == 'two_point_k2' and estimator == 'minimax'")
    worst = summary.groupby("n")["q90"].max()
    (row,) = [one for one in lines[at + 2 : at + 5] if one.startswith("minimax")]
    assert row.split() == ["minimax", "eps=0.1", *(f"{q:.3g}" for q in worst)]


@pytest.mark.parametrize("question", ["How large is the error?", "Does theory hold?"])
def test_an_open_question_is_answered_by_the_values_of_a_figure(
    bench: Bench, question: str
) -> None:
    """With a row for each estimator and n, on the worst of the laws; beside claims."""
    figure = {
        "kind": "against_parameter", "parameter": "k", "n": [10**5, 10**8], "caption": "k",
        "families": "two_point", "estimators": ["minimax", "rate"], "metrics": ["rmse"],
    }  # fmt: skip
    bench.write(lambda spec: spec.update(question=question, figures={"by_k": figure}))
    out = bench.done().out
    title = "\nRoot mean square error against k\n"
    assert (title in out) == question.startswith("How")
    if title not in out:
        return
    answer, _, after = out.partition(title)
    assert "Theory against measurement" not in answer
    head, *lines = after.partition("\n\n")[0].splitlines()
    assert head.split() == ["estimator", "n", "privacy", "k=2", "k=3"]
    worst = bench.table().groupby(["estimator", "n", "k"])["rmse"].max()
    assert [line.split() for line in lines] == [
        [
            name,
            f"{n:,}" if n < 1e8 else "1e+08",
            "eps=0.1",
            *(f"{worst[name, n, k]:.3g}" for k in (2, 3)),
        ]
        for name, n in (("minimax", 10**5), ("minimax", 10**8), ("rate", 10**5), ("rate", 10**8))
    ]


@pytest.mark.parametrize("relative", [False, True])
def test_figures_against_n_alone_answer_with_the_values_at_n(bench: Bench, relative: bool) -> None:
    """The values are those of the first figure; a figure against another parameter comes first."""
    errors = {
        "kind": "error_against_n", "families": "two_point", "estimators": "minimax",
        "caption": "n", "relative": relative,
    }  # fmt: skip
    by_k = {"kind": "against_parameter", "parameter": "k", "n": 10**5, "caption": "k"}
    by_k |= {"families": "two_point", "estimators": "minimax"}
    bench.write(lambda spec: spec.update(question="How large?", figures={"errors": errors}))
    title = f"\nError (0.9 quantile){' over the lower bound' * relative} against n\n"
    answer, found, after = bench.done().out.partition(title)
    assert found
    assert "Theory against measurement" not in answer
    head, *lines = after.partition("\n\n")[0].splitlines()
    assert head.split() == ["distribution", "privacy", "n=100,000", "n=1e+08"]
    worst = bench.table().query("estimator == 'minimax'").groupby(["family", "n"])
    values = worst["q90"].max() / (worst["lower_bound"].min() if relative else 1)
    assert [line.split() for line in lines] == [
        [law, "eps=0.1", *(f"{values[law, n]:.3g}" for n in (10**5, 10**8))]
        for law in ("two_point_k2", "two_point_k3")
    ]
    both = {"errors": errors, "by_k": by_k}
    bench.write(lambda spec: spec.update(question="How large?", figures=both))
    assert "\nError (0.9 quantile) against k, n = 100,000\n" in bench.done().out


def test_errors_that_are_not_printed_are_counted() -> None:
    """The second family does not fit, but the third does; a first family that is long is cut."""
    sizes = {"a": 30, "b": 20, "c": 10}
    rows = [(name, f"e{i}") for name, count in sizes.items() for i in range(count)]
    summary = pd.DataFrame(rows, columns=["family", "estimator"]).assign(
        distribution="law", n=10, q90=1.0, q50=0.5, sampling_q90=1.0, privacy="pure", epsilon=1.0,
        delta=np.nan, rho=np.nan, mu=np.nan,
    )  # fmt: skip
    first, third, note = _format_errors(summary)
    assert [len(text.splitlines()) for text in (first, third)] == [2 + 30, 2 + 10]
    assert note == "Not printed: errors on b (20 rows); see q90 in summary.csv"
    long, *notes = _format_errors(summary.assign(family="all", estimator=list(map(str, range(60)))))
    assert long.splitlines()[-1] == "and 20 more: see q90 in summary.csv"
    assert notes == []


def test_an_estimator_without_a_claim_has_its_errors_printed(bench: Bench) -> None:
    """Beside the best other one; not those of the shipped sweep of this name, nor without end."""
    bench.odd()
    told = bench.done(MINE).out
    title = "Errors without a claim: worst q90 of each family at its largest n"
    _, _, after = told.partition(f"{title}\n")
    lines = after.partition("\n\n")[0].splitlines()
    assert lines[0].split() == ["estimator", "distribution", "privacy", "n", "q90", "best", "other"]
    assert max(map(len, told.partition("Best estimator")[0].splitlines())) <= WIDTH
    q90 = bench.table().groupby(["family", "n", "estimator"])["q90"].max()
    found = {tuple(line.split()[:2]): line.split()[2:] for line in lines[1:]}
    assert set(found) == {
        (label, family)
        for label, families in {
            "odd": ("two_point_k2", "two_point_k3", "tails"),
            "rate": ("two_point_k2", "two_point_k3", "tails"),
        }.items()
        for family in families
    }
    at = q90["two_point_k2", 10**8]
    best = at.drop(index="odd")
    assert found["odd", "two_point_k2"] == [
        "eps=0.1", "1e+08", f"{at['odd']:.3g}", f"{best.min():.3g}", best.idxmin()
    ]  # fmt: skip
    bench.write(lambda spec: spec["estimators"].pop("rate"))
    assert title not in bench.done().out  # every private estimator has a claim


def test_estimators_of_a_shipped_sweep_need_no_claim_to_be_known() -> None:
    shipped = shipped_estimators("heavy_tail")
    assert {"minimax", "median_of_means"} <= shipped
    assert shipped_estimators("a sweep of mine") == set()


def test_many_errors_without_a_claim_are_cut(bench: Bench) -> None:
    many = {f"clip{i}": {"kind": "clipped_mean", "lower": -9, "upper": i} for i in range(1, 9)}
    bench.write(lambda spec: spec["estimators"].update(many))
    lines = bench.done().out.splitlines()
    assert "and 15 more: see q90 in summary.csv" in lines  # 9 estimators on 3 families


def test_a_failure_now_and_then_is_replayed_by_what_is_printed(bench: Bench) -> None:
    """In the second of two blocks, by its data; of two runs together each has its own command."""
    often = "if clipped[0] > 0: raise ArithmeticError('no luck')"
    part = {**TINY["parts"]["tails"], "trials": 800}
    bench.odd(often, lambda spec: (spec.update(parts={"tails": part}), spec.pop("claims")))
    both = bench.raw(*bench.argv("--multirun", "seed=1,2", "out=out-${seed}", MINE))
    printed = re.findall(r"first failure's traceback: (.*)", both.out)
    assert len(printed) == 2
    for seed, command in enumerate(printed, 1):
        failed = len(bench.manifest(f"out-{seed}")["failures"])
        assert 0 < failed < len(bench.table(out=f"out-{seed}"))
        repeated = bench.raw(*shlex.split(command)[3:])
        assert (repeated.code, "no luck" in repeated.err) == (1, True)
    assert rerun_line(["a=1", "track=check"], "f").endswith("dpbench a=1 rerun=f")


def test_fewer_trials_say_how_to_see_more_again(bench: Bench) -> None:
    """The part with the most trials counts."""
    bench.write(lambda spec: spec["parts"]["tails"].update(trials=10))
    bench.done()
    before = bench.results()
    fewer = bench.done("trials=4")
    (line,) = [one for one in fewer.out.splitlines() if "showed" in one]
    assert line.startswith("'out' showed 40 trials and now shows 4; ")
    shown = bench.read("scoreboard.txt")
    assert "A claim needs 36 trials or more, and finite errors." in shown
    assert "\n-: too few trials (under 36, 72 if " in shown
    assert "nan" not in shown
    assert bench.results() != before
    assert "showed" not in bench.done("trials=4").out
    again = bench.raw(*shlex.split(line.partition("to show them again: ")[2])[3:])
    assert (again.code, "showed" in again.out, bench.counts()[0]) == (0, False, 0)
    assert bench.results() == before


def _row(of_theorem: Any, here: str, **more: Any) -> dict[str, Any]:
    row = {
        "claim": "c", "source": "HLY21", "estimator": "instance_optimal_mean",
        "distribution": "multivariate_gaussian", "privacy": "zcdp", "rho": 0.5, "mu": math.nan,
        "epsilon": math.nan, "delta": math.nan, "measured": 0.87, "low": 0.86, "high": 0.88,
        "tolerance": 0.06, "detectable_deviation": 0.1, "checks": "theorem", "theorem": 1.0,
        "exact_at_run_n": math.nan, "asymptotic_from": math.nan, "predicted": 1.0,
    }  # fmt: skip
    return row | {"theorem_verdict": of_theorem, "verdict": here} | more


def _study(question: str = "", trials: int = 100, cost: str = "") -> Any:
    claims = dict.fromkeys("cde", SimpleNamespace(statement=THEOREMS["shifted_dimension"]))
    parts = {"all": SimpleNamespace(trials=trials)}
    texts = {"name": "mine", "question": question, "cost": cost}
    return SimpleNamespace(all_claims=claims, parts=parts, **texts)


def _told(rows: list[dict[str, Any]], study: Any, trials: int = 100) -> list[str]:
    summary = pd.DataFrame({"trials": [trials]})
    return list(_format_claims(pd.DataFrame(rows), summary, study))


DOES = "Does theory hold?"


@pytest.mark.parametrize(
    ("words", "question", "answer"),
    [
        (["consistent"], DOES, "YES. 1 of 1 numbers of theorems agree with the measurement."),
        (["consistent"] * 2, "", "AGREE. 2 of 2 numbers of theorems agree with the measurement."),
        (
            ["consistent", "inconsistent"],
            DOES,
            "NO. 1 of 2 numbers of theorems disagree with the measurement.",
        ),
        (["consistent", "inconclusive code"], DOES, "YES. 1 of 1 numbers of theorems agree"),
        (["consistent", "inconsistent code"], DOES, "IN DOUBT. 1 of 1 checks of the code disagree"),
        (["consistent", "inconsistent target"], DOES, "NO. 1 of 1 targets disagree with"),
        (["not_yet", "consistent"], DOES, "YES. 1 of 2 numbers of theorems agree with the"),
        (["inconclusive", "inconsistent"], "How?", "DISAGREE. 1 of 2 numbers of theorems disagree"),
        (
            ["inconclusive", "consistent"],
            DOES,
            "UNDECIDED: the intervals of 1 of 2 numbers of theorems are too wide.",
        ),
    ],
)
def test_the_answer_comes_first(words: list[str], question: str, answer: str) -> None:
    first = _told(
        [
            _row(
                *2 * [EARLY if word == "not_yet" else word.split()[0]],
                checks=word.partition(" ")[2] or "theorem",
            )
            for word in words
        ],
        _study(question),
    )[0].splitlines()
    assert first[: bool(question)] == [f"mine: {question}"] * bool(question)
    assert " ".join(first[bool(question) :]).startswith(answer)


def test_an_undecided_answer_says_how_many_trials_decide() -> None:
    """Half of the interval is 0.12, and the tolerance 0.06: 16 times 100 trials.

    With the exact normal law, intervals of half the tolerance decide 19 of 20 true predictions.
    """
    row = _row("inconclusive", "inconclusive", low=0.75, high=0.99)
    assert "About 2,000 trials would decide each of them" in _told([row], _study(DOES))[0]
    study = _study(DOES, trials=6000, cost="12 s, 3 MB")
    study.parts["short"] = SimpleNamespace(trials=50)
    few = _told([row], study)
    own = "The sweep's own are 6,000 (12 s on two idle cores): leave out trials=100."
    assert own in " ".join(few[0].split())
    assert "not confirmed" not in "".join(few)  # too few trials for any verdict
    unknown = _row("inconclusive", "inconclusive", measured=math.nan, low=math.nan, high=math.nan)
    assert "A claim needs 36 trials" in _told([unknown], _study(DOES))[0]
    h, t = 0.5, 1.0
    assert t / h == BOTH_SIDES
    assert 2 * norm.cdf(1.96 * (t / h - 1)) - 1 == pytest.approx(0.95, abs=1e-3)


def test_the_upper_end_alone_decides_an_upper_limit() -> None:
    """Its distance is 0.12, and the tolerance 0.06: 13.5 times 100 trials, whatever the lower end.

    By the normal law, an interval of 1/1.84 of the tolerance decides 19 of 20 numbers at a limit.
    """
    study = _study(DOES)
    study.all_claims["c"] = SimpleNamespace(statement=THEOREMS["near_optimal"])
    for low in (0.1, 0.86):
        row = _row("inconclusive", "inconclusive", low=low, high=0.99, checks="target")
        assert "About 1,000 trials would decide each of them" in _told([row], study)[0]
    assert norm.cdf(1.96 * (ONE_SIDE - 1)) == pytest.approx(0.95, abs=1e-3)


def test_the_farthest_number_is_the_one_nearest_to_its_upper_limit() -> None:
    study = _study(DOES)
    study.all_claims["c"] = SimpleNamespace(statement=THEOREMS["near_optimal"])
    rows = [_row(*["consistent"] * 2, measured=m, low=m - 0.01, high=m + 0.01) for m in (0.2, 0.9)]
    (line,) = (line for line in _told(rows, study)[1].splitlines() if line.startswith("c "))
    assert "0.900 +-0.010" in line
    assert "0.200..0.900" in line


def test_errors_without_a_claim_are_those_of_the_budget_with_most_n() -> None:
    summary = pd.DataFrame({
        "estimator": "mine", "family": "f", "privacy": "pure", "epsilon": [1.0, 0.1, 0.1],
        "n": [1000, 10, 100], "q90": [0.1, 3.0, 2.0],
    })  # fmt: skip
    summary = summary.assign(delta=math.nan, rho=math.nan, mu=math.nan)
    study: Any = SimpleNamespace(name="mine", estimators={}, all_claims={})
    (text,) = _format_unclaimed(summary, study)
    assert text.splitlines()[-1].split() == ["mine", "f", "eps=0.1", "100", "2"]


@pytest.mark.parametrize("since", [4e9, math.nan])
def test_rows_that_are_not_confirmed_are_listed(since: float) -> None:
    """In 80 columns; a line says when a theorem's number is early."""
    early = {"exact_at_run_n": 0.86, "asymptotic_from": since, "claim": "d"}
    rows = [
        _row("inconclusive", "inconclusive"),
        _row("pre-asymptotic", "consistent", **early),
        _row("consistent", "consistent"),
        _row("consistent", "consistent", checks="target"),
        _row(math.nan, "inconsistent", checks="code", claim="e"),
    ]
    _, lines, _, listed, code, counts = _told(rows, _study())
    assert [line.split()[0] for line in lines.splitlines()[2:]] == ["c", "d", "e"]
    assert lines.splitlines()[2].endswith("2/3 agree inconclusive")
    far = _told([_row("consistent", "consistent"), _row("consistent", "consistent", measured=1.0)],
                _study())[1]  # fmt: skip
    assert "0.870..1.000  0.870 +-0.010" in far
    assert listed.startswith("Numbers of theory that are not confirmed\n")
    where = "within 0.06 from n = 4e+09 on"
    none = "no n up to 1e+15 is known to be within 0.06"
    assert f"  pre-asymptotic: {none if math.isnan(since) else where}" in listed.splitlines()
    assert code.startswith("Checks of the code that do not pass\n")
    assert counts.splitlines() == [
        "theorems: 1 consistent, 1 pre-asymptotic, 1 inconclusive",
        "targets: 1 consistent",
        "of these, at these n: 1 consistent",
        "checks of the code: 1 inconsistent",
    ]
    text = "\n".join([lines, listed, code, counts])
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "…" not in text


PURE = {"privacy": "pure", "epsilon": 1.0, "delta": math.nan, "rho": math.nan, "mu": math.nan}


def cells(text: str) -> list[list[str]]:
    """The cells of the rows of a printed table, which are two spaces or more apart."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()[2:]]


def test_the_distances_that_would_be_noticed_are_a_range() -> None:
    rows = [_row("consistent", "consistent", detectable_deviation=v) for v in (0.2, 0.1, 0.15)]
    note = "A truth off by 0.1 to 0.2, row by row, would be noticed in half of all runs."
    assert _told(rows, _study())[2].splitlines()[1] == note
    rows = [_row("inconclusive", "inconclusive", detectable_deviation=v) for v in (0.2, 0.1)]
    assert "+- 0.06, detectable 0.1 .. 0.2\n" in _told(rows, _study())[3]


def test_a_line_of_factors_has_the_largest_over_n() -> None:
    """Exact ones have a column for each moment order; others an interval for the largest."""
    study: Any = SimpleNamespace(
        families={f"f{k}": SimpleNamespace(label=lambda _: "f") for k in (2, 3)}
    )
    rows = [
        {"distribution": f"f{k}", "k": k, "n": n, "estimator": e, **PURE,
         **dict.fromkeys(ENDS, factor), "error_over_bound_from": EXACT, "verdict": verdict}
        for k, n, e, factor, verdict in (
            (2, 10, "a", 1.5, "open"), (2, 90, "b", 1.2, "open"), (3, 10, "a", 3.0, "open"),
            (3, 90, "a", 4.0, "open"),
        )
    ]  # fmt: skip
    (text,) = _format_factors(pd.DataFrame(rows), study)
    assert text.splitlines()[0].endswith("largest over n: exact")
    assert cells(text) == [["f", "eps=1", "a, b", "1.5", "4", "open"]]
    ends = {
        "error_over_bound_low": [1.0, 0.9],
        "error_over_bound": [1.2, 1.0],
        "error_over_bound_high": [1.5, 1.6],
    }
    trials = pd.DataFrame(rows[:2]).assign(
        error_over_bound_from="trials", verdict=["open", "optimal"], **ends
    )
    (text,) = _format_factors(trials, study)
    found = largest([1.2, 1.0], [1.0, 0.9], [1.5, 1.6])
    told = f"{found.measured:.3f} ({found.low:.3f}, {found.high:.3f})"
    assert cells(text) == [["f2", "eps=1", "a, b", told, "mixed"]]


def test_the_smallest_n_stands_beside_the_sum_of_the_terms() -> None:
    row = {"method": "search", "estimator": "e", "distribution": "d", **PURE, "alpha": 0.25,
           "samples": 120.0, "low": 100.0, "high": 140.0}  # fmt: skip
    terms = {"sampling_term": 60.0, "privacy_term": 30.0, "range_term": math.nan}
    unknown = dict.fromkeys(terms, math.nan) | {"sampling_term": 60.0}
    (text,) = _format_samples(
        pd.DataFrame([row | terms, row | unknown, row | terms | {"method": "curve"}])
    )
    known, other = cells(text)
    assert known == ["e", "d", "eps=1", "0.25", "120", "100 .. 140", "90"]
    assert other == known[:-1]


def test_failing_trials_and_unspent_budgets_by_hand() -> None:
    rows = [
        {"estimator": "e", "family": "f", "distribution": "law", **PURE, "n": n, "failures": many,
         "failure_rate": rate, "budget_fraction_spent": spent}
        for n, many, rate, spent in (
            (10, 4, 0.4, 0.75), (100, 1, 0.1, 0.5), (1000, 0, 0.0, 1.0), (20, 9, 0.9, math.nan),
        )
    ]  # fmt: skip
    (text,) = _format_failing_trials(pd.DataFrame(rows))
    assert cells(text) == [["e", "f", "eps=1", "10 .. 100", "0.1 .. 0.9"]]
    assert _format_spending(pd.DataFrame(rows)) == "e spends 0.5 of eps=1"
    assert _format_spending(pd.DataFrame(rows[:1])) == "e spends 0.75 of eps=1"
    assert not _format_spending(pd.DataFrame(rows[3:]))
