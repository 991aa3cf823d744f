"""What is printed: within 80 columns, verdicts whole, and every piece of advice can be followed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpbench import __version__, cli
from dpbench.analysis.scoreboard import _samples
from dpbench.analysis.smallest_n import TERMS
from dpbench.analysis.study import Study
from dpbench.jobs.composition import composed
from dpbench.output.terminal import WIDTH, replay_line, say, table, whole
from dpbench.registry import ConfigError, canonical, from_mapping
from dpbench.runner.settings import Settings
from tests.bench import MINE, TINY, Bench

LONG = "an_estimator_with_a_name_that_is_longer_than_others.really"


def test_a_table_shortens_words_alone() -> None:
    row = {"estimator": LONG, "pair": "", "n": "5,398", "verdict": "inconclusive"}
    lines = table("T", [row, "heading " + "x" * 100, {**row, "estimator": "a"}]).splitlines()
    assert lines[1].split() == ["estimator", "n", "verdict"]  # none that are empty
    assert max(map(len, lines)) == len(lines[3]) == WIDTH
    wide = table("T", [{**row, "pair": LONG, "n": "9" * 46}]).splitlines()
    assert len(wide[2]) == WIDTH
    assert wide[2].endswith(f"{'9' * 46}  inconclusive")
    assert [wide[2][:3], wide[2].count("…")] == ["an_", 2]
    assert [whole(n) for n in (30, 53980.4, 1e10)] == ["30", "53,980", "1e+10"]


def test_everything_printed_fits(bench: Bench) -> None:
    def change(spec: Any) -> None:
        spec["estimators"][LONG] = {"kind": "heavy_tailed_mean", "policy": "all"}
        spec["estimators"]["a_second_" + LONG] = spec["estimators"]["minimax"]
        spec["claims"]["alpha"]["estimators"] = ["minimax", f"a_second_{LONG}"]
        spec["claims"][f"alpha_{LONG}"] = spec["claims"]["alpha"]

    bench.write(change)
    bench.done()
    lines = bench.read("scoreboard.txt").splitlines()
    assert max(map(len, lines)) <= WIDTH
    claims = bench.table("claims.csv")
    ends = "|".join(set(claims["verdict"]))
    assert len([one for one in lines if re.search(f"  ({ends})$", one)]) >= len(claims) == 8
    terms = {f"{name}_term": 1e3 for name in TERMS}
    found: dict[str, Any] = {
        "request": "a",
        "method": "search",
        "estimator": LONG,
        "distribution": LONG,
    }
    found |= {"privacy": "pure", "epsilon": 1.0, "alpha": 0.1, "samples": 53980.0, **terms}
    (shown,) = _samples(pd.DataFrame([found | {"low": 5e4, "high": 6e10}]))
    assert shown.splitlines()[2].split()[2:] == [
        "eps=1", "0.1", "53,980", "50,000", "..", "6e+10", whole(1e3 * len(TERMS)),
    ]  # fmt: skip
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a  inconsistent\nb  consistent\n1 consistent, 0 inconsistent, 2 inconclusive\n[red]"
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    say(text)
    monkeypatch.setenv("FORCE_COLOR", "1")
    say(text)
    monkeypatch.setenv("NO_COLOR", "1")
    say(text)
    plain, coloured = f"{text}\n", capsys.readouterr().out
    red, green = "\x1b[31minconsistent\x1b[0m", "\x1b[32mconsistent\x1b[0m"
    shown = plain.replace("  inconsistent", f"  {red}").replace("  consistent", f"  {green}")
    assert coloured == plain + shown + plain


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
        replayed = bench.raw(*shlex.split(command)[3:])
        assert (replayed.code, "no luck" in replayed.err) == (1, True)
    assert replay_line(["a=1", "track=check"], "f").endswith("dpbench a=1 replay=f")


def test_fewer_trials_say_how_to_see_more_again(bench: Bench) -> None:
    bench.done()
    before = bench.results()
    fewer = bench.done("trials=4")
    (line,) = [one for one in fewer.out.splitlines() if "showed" in one]
    assert line.startswith("'out' showed 40 trials and shows 4 from now on")
    shown = bench.read("scoreboard.txt")
    assert ", visible -\n" in shown
    assert "\n-: too few trials (under 36, 72 if " in shown
    assert "nan" not in shown
    assert bench.results() != before
    assert "showed" not in bench.done("trials=4").out
    again = bench.raw(*shlex.split(line.partition("to show them again: ")[2])[3:])
    assert (again.code, "showed" in again.out, bench.counts()[0]) == (0, False, 0)
    assert bench.results() == before


def _followed(word: str, message: str) -> str:
    """The word as a message advises to write it."""
    key, _, value = word.rpartition("=")
    if meant := re.search(r"did you mean (?:'(\S+)'|(\S+))\? ", message):
        if message.startswith("sweep: "):
            return f"sweep={meant[1]}"
        return f"{meant[2] or key.rpartition('.')[0] + '.' + meant[1]}={value}".lstrip(".")
    if meant := re.search(r"to add one write (\S+)=\.\.\.", message):
        return f"{meant[1]}={value}"
    if meant := re.search(r"expected a list: (\[\S+\])", message):
        return f"{key}={meant[1]}"
    meant = re.search(r"a part chooses by (\S+)=\[NAME\]", message)
    assert meant, message
    return f"{meant[1].replace('NAME.KEY', 'worst.' + key.rpartition('.')[2])}={value}"


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("sweep=tny", ["sweep: 'tny': no such configuration; did you mean 'tiny'? choose from"]),
        ("trails=5", ["trails: no such key; did you mean 'trials'? choose from sweep, seed,"]),
        ("sweep.budgets.pure.eps=1", ["sweep.budgets.pure.eps: no such key; did you mean 'epsi"]),
        ("epsilon=1", ["epsilon: no such key; did you mean sweep.budgets.pure.epsilon? choose"]),
        ("n=100", ["did you mean sweep.parts.worst.n? ", ".n: 100: expected a list: [100]"]),
        ("estimators.minimax.k=2", ["sweep.estimators.minimax.k? ", "not set in this sweep; to "]),
        ("plugins=json", ["plugins: 'json': expected a list: [json]"]),
        ("sweep.estimators.odd.kind=median", ["minimax, rate, mean; to add one write +sweep"]),
        ("estimator@sweep.estimators.x=median", ["no file is chosen there; to add one write +"]),
        ("sweep.estimators=[minimax]", ["expected a mapping; a part chooses by ++sweep.parts"]),
        ("runner.adress=tcp://x:1", ["did you mean 'address'? choose", "not set in this sweep"]),
    ],
)  # fmt: skip
def test_advice_can_be_followed(bench: Bench, word: str, lines: list[str]) -> None:
    bench.write(lambda spec: spec.pop("claims"))
    for line in lines:
        with pytest.raises(ConfigError) as error:
            _made(word)
        assert line in str(error.value)
        word = _followed(word, str(error.value))
    _made(word)


def _made(*words: str) -> Study:
    every = words if words[0].startswith("sweep=") else ("sweep=tiny", *words)
    settings = from_mapping(Settings, composed(every, Path("conf")), "")
    study = from_mapping(Study, settings.sweep, "sweep")
    study.plan(settings.trials)
    return study


def test_records_are_a_list_or_a_grid_whatever_the_sweep_has() -> None:
    """A list in the place of a grid, a grid in that of a list, a key of a grid, none."""
    for word, wanted in (
        ("sweep.parts.worst_case.n=[1000,2000]", [1000, 2000]),
        ("sweep.parts.real_tails.n={low: 10, high: 90, points: 3}", (10, 90, 3)),
        ("sweep.parts.worst_case.n={points: 3}", (1e5, 1e12, 3)),
        ("~sweep.parts.real_tails.n", None),
    ):
        part = re.sub(r".*parts\.(\w+)\.n.*", r"\1", word)
        found = composed(["sweep=quick", word])["sweep"]["parts"][part].get("n")
        assert (tuple(found.values()) if isinstance(found, dict) else found) == wanted


def test_a_choice_is_a_list_or_a_mapping_whatever_the_sweep_has() -> None:
    key = "sweep.parts.worst_case.budgets"
    values = {"pure": {"epsilon": [0.1]}}
    for first, second in ((["pure"], values), (values, ["pure"])):
        written = [json.dumps(one).replace('"', "") for one in (first, second)]
        found = composed(["sweep=quick", f"++{key}={written[0]}", f"{key}={written[1]}"])
        assert found["sweep"]["parts"]["worst_case"]["budgets"] == second


def _laws(*words: str) -> dict[str, Any]:
    """The distributions of a sweep whose families are of one each."""
    families = _made(*words).families.items()
    return {name: getattr(one.value, "distribution", None) for name, one in families}


def test_kinds_that_were_meant() -> None:
    for section, name, meant in (
        ("estimators", "heavy_tail_mean", "heavy_tailed_mean"),
        ("families", "two_point_famly", "two_point_family"),
        ("families", "studnt_t", "student_t"),
        ("budgets", "pure", "pure_dp"),
    ):
        spec = {**TINY, section: {"x": {"kind": name}}}
        with pytest.raises(ConfigError, match=rf"kind: '{name}': did you mean '{meant}'\? choose"):
            from_mapping(Study, spec, "sweep")


def test_data_lie_beside_the_file_that_names_them(bench: Bench) -> None:
    """A sweep's or a distribution's; from the command line in the working folder."""
    (bench.conf / "distribution").mkdir()
    law = "kind: empirical\npath: p.csv\ncolumn: x\n"
    (bench.conf / "distribution" / "own.yaml").write_text(law)
    shipped = {"kind": "empirical", "path": "galton_heights.csv", "column": "height_in"}
    many = {"kind": "empirical", "path": ["p.csv", "../p.csv"], "column": "x"}
    bench.write(
        lambda spec: spec["families"].update(
            here={**many, "path": "p.csv"}, up={**many, "path": "../p.csv"}, shipped=shipped
        )
    )
    for mean, folder in enumerate((bench.folder, bench.conf, bench.conf / "sweep")):
        (folder / "p.csv").write_text(f"x\n{mean}\n")
    (bench.conf / "distribution" / "p.csv").write_text("x\n7\n")
    known = _laws("+distribution@sweep.families.own=own")
    means = {name: known[name].mean for name in ("here", "up", "own", "shipped")}
    assert means == {"here": 2, "up": 1, "own": 7, "shipped": pytest.approx(68, abs=3)}
    typed = _laws("sweep.families.here.path=p.csv")["here"]
    assert typed.mean == 0
    # Streams are named by what a file holds, not by where it lies.
    assert str(bench.folder) not in canonical(known["here"])
    bench.write(lambda spec: spec["families"].update(many={**many, "path": ["p.csv", "p.csv.gz"]}))
    with pytest.raises(ConfigError, match=r"sweep/p.csv.gz': no such file"):
        _made("sweep=tiny")


def test_help_has_a_line_for_each_sweep_and_the_version(bench: Bench) -> None:
    shown = bench.raw("--help", "--config-dir", "conf").out.splitlines()
    (quick,) = [line for line in shown if line.startswith("  quick ")]
    assert quick.endswith("The shape of heavy_tail in half a minute: the default")
    assert "  tiny" in [line.rstrip() for line in shown]
    assert max(len(line) for line in shown if line.startswith("  ")) <= 100
    assert bench.raw("--version") == (0, f"dpbench {__version__}\n", "")


def test_a_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plann", "n=3"]) == 2
    assert capsys.readouterr().err.startswith(
        "dpbench: plann: no such command; did you mean 'plan'?"
    )
    assert cli.run(["heavy_tail"]) == 2
    assert capsys.readouterr().err == "dpbench: heavy_tail: is a sweep; write sweep=heavy_tail\n"
    assert cli.run(["heavy_tial"]) == 2
    assert capsys.readouterr().err.endswith("no such command, nor sweep; write sweep=heavy_tail\n")
