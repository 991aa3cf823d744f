"""The page that a plan prints."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from dpbench.cli.main import run
from dpbench.planner import figure
from dpbench.planner.question import LAW_NAMES

COMMAND = ["plan", "n=2000", "epsilon=1", "lower=0", "upper=300", "law=log_normal", "law.scale=50"]


def test_the_command_prints_a_page_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, "alpha=8", f"out={tmp_path}"]) == 0
    page = capsys.readouterr().out
    assert max(len(line) for line in page.splitlines() if str(tmp_path) not in line) <= 80
    assert {"plan.html", "plan.pdf", "plan.png"} == {path.name for path in tmp_path.iterdir()}
    assert "A q90 of 8 needs " in page
    assert "best: smallest guarded q90, " in page
    assert "with 2,000 records " in page
    html = (tmp_path / "plan.html").read_text("utf-8")
    assert page.partition("\n\nOpenDP")[0].splitlines()[5] in html
    code, told = (
        page.partition("Python, ")[2].partition(":")[2].partition("OpenDP")[0],
        io.StringIO(),
    )
    with contextlib.redirect_stdout(told):
        exec(code, {})
    assert 0 < float(told.getvalue()) < 300
    compile(page.partition("best clip:")[2].partition("figure:")[0], "opendp", "exec")


def test_alone_it_says_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan"]) == 0
    page = capsys.readouterr().out
    assert ", ".join(LAW_NAMES) in " ".join(page.split())
    assert page.count("python -m dpbench plan ") >= 3
    assert max(map(len, page.splitlines())) <= 100


def test_data_say_how_many_they_are_and_that_it_is_not_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "write", lambda *_: [])  # slow
    words = ["plan", "epsilon=1", "data=galton_heights.csv", "column=height_cm", f"out={tmp_path}"]
    assert run([*words, "lower=0", "upper=300"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("934 records")
    assert "Not private if the values of galton_heights.csv" in page


BITS = ["plan", "estimator=clipped_mean", "estimator.lower=0", "estimator.upper=1"]


def test_one_command_gives_the_records_of_an_estimator_and_a_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPBENCH_COMMAND", raising=False)
    assert run([*BITS, "law=bernoulli", "law.p=0.5", "epsilon=1", "alpha=0.05"]) == 0
    page = capsys.readouterr().out
    (n, low, high) = re.findall(r"About (\S+) records \(95% interval (\S+) .. (\S+)\) give", page)[
        0
    ]
    assert int(low) <= int(n) <= int(high)
    assert "Bernoulli(p=0.5); mean 0.5, sd 0.5" in page
    check = shlex.split(page.rstrip().splitlines()[-1])
    assert check[:3] == ["python", "-m", "dpbench"]
    assert check[-2:] == [f"n={n}", "seed=1"]
    assert run(check[3:]) == 0
    reached = re.match(rf"{n} records give an error of at most (\S+) in", capsys.readouterr().out)
    assert reached is not None
    assert float(reached[1]) == pytest.approx(0.05, rel=0.08)


def test_alpha_and_n_are_both_answered_and_data_are_a_law(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ages.csv").write_text("age\n" + "\n".join(["20", "60"] * 20) + "\n")
    words = [*BITS[:2], "estimator.lower=0", "estimator.upper=100", "n=50", "alpha=10", "epsilon=2"]
    assert run([*words, f"data={tmp_path / 'ages.csv'}", "column=age"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("About ")
    assert "\n50 records give an error of at most " in page
    assert "mean 40, sd 20" in " ".join(page.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("estimator=median epsilon=1 law=gaussian", "alpha: this key is required, the error to "),
        ("estimator=median epsilon=1 alpha=0 law=gaussian", "alpha: 0: input should be greater"),
        ("estimator=median epsilon=1 alpha=1", "law: give one of law=NAME, and data=FILE"),
        ("estimator=median alpha=1 law=gaussian", "epsilon: this key is required, or rho"),
        ("estimator=median estimator=mean", "estimator: given twice, median and mean"),
        ("estimator.lower=1 alpha=1", "estimator.lower: give estimator=NAME, too"),
        ("estimator=median estimator.q= alpha=1", "estimator.q: '': an empty value"),
        ("estimator=median law.scale=1 alpha=1", "law.scale: give law=NAME, too"),
        ("estimator=median lower=0 alpha=1", "lower: 0.0: not used with estimator=; write"),
        (
            "estimator=median trails=9 alpha=1",
            "trails: no such key of plan; did you mean 'trials'?",
        ),
        ("estimator=median trials=9 alpha=1", "trials: 9: input should be greater than"),
        ("estimator=median --config-dir nowhere", "--config-dir: 'nowhere': no such folder"),
        ("n=5 epsilon=1 law=gaussian trials=100", "trials: 100: goes with estimator=NAME"),
        ("n=5 epsilon=1 law=gaussian plugins=[a]", "plugins: goes with estimator=NAME"),
        ("--config-dir . n=5", "--config-dir: goes with estimator=NAME"),
    ],
)
def test_words_that_cannot_be_used_are_named_in_a_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", *words.split()]) == 2
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
    assert found.err.startswith(f"dpbench: {told}")


def test_a_command_after_a_flag_is_sent_to_the_front(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config-dir", ".", "plan", "n=5"]) == 2
    assert capsys.readouterr().err.startswith("dpbench: plan: a command comes first: dpbench plan")
