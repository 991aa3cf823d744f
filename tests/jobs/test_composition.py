"""Overrides, files and plug-ins that a configuration is made of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench.jobs.composition import compose
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.study import Study
from dpbench.runner.settings import Settings
from dpbench.seeds import canonical
from tests.bench import MINE, Bench, Spec, unusable

# What Hydra's grammar or composition refuses, and what the line must name.
WORDS: list[tuple[str, list[str]]] = [
    ("sweep=nope", ["sweep: 'nope'", "heavy_tail, heavy_tail_cover, heavy_tail_large,"]),
    ("sed=1", ["sed: ", "choose from", "seed"]),
    ("sweep.budgts.pure.epsilon=1", ["sweep.budgts.pure.epsilon: ", "did you mean 'budgets'?"]),
    ("hydra.run.dir=x", ["hydra.run.dir=x", "out=DIR"]),
    ("+hydra.searchpath=[x]", ["hydra.searchpath"]),
    ("seed=1,2", ["seed=1,2", "--multirun"]),
    ("trials=${nope}", ["trials", "nope"]),
    ("sweep.budgets.pure.epsilon=[", ["sweep.budgets.pure.epsilon=["]),
    ("", ["mismatched input"]),
    ("sweep=null", ["sweep=null"]),
    ("~nosuch", ["nosuch"]),
    ("out=~nosuch", ["out=~nosuch", "in quotes"]),
    ("sweep=é", ["sweep=é", "in quotes"]),
]


@pytest.mark.parametrize(("word", "named"), WORDS)
def test_an_override(word: str, named: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        compose([word])
    assert "\n" not in str(error.value)
    assert not [one for one in named if one not in str(error.value)], error.value


def test_a_sweep_that_cannot_be_read(bench: Bench) -> None:
    for text in (
        b"name: tiny\n  bad: [",
        b"name: tiny\nname: other\n",
        b"",
        b"- 1\n- 2\n",
        b"defaults:\n  - /estimator@estimators.a: nope\n",
        b"name: \xff\xfe\n",
        b"defaults: [tiny]\nname: tiny\n",
        b'name: "\\ud800"\n',
        b"name: !!binary aGk=\n",
        b"name: 2000-01-01\n",
        b"name: 1" + 400 * b"0" + b"\n",
    ):
        (bench.conf / "sweep" / "tiny.yaml").write_bytes(text)
        bench.refuses()


def test_a_plugin_that_cannot_be_imported(bench: Bench) -> None:
    for source, named in (
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two"),
        ("import no_such\n", "no_such"),
    ):
        (bench.conf / "mine.py").write_text(source)
        bench.refuses(MINE, named=["plugins: 'mine': ", named])


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
        ("sweep.trials=50", ["sweep.trials: no such key; did you mean sweep.parts.worst.trials? "]),
        ("sweep.n=[9]", ["sweep.n: no such key; did you mean sweep.parts.worst.n? "]),
        ("estimators.minimax.k=2", ["did you mean sweep.estimators.minimax.k? "]),
        ("estimator.minimax.k=2", ["did you mean sweep.estimators.minimax.k? "]),
        ("distribution.k=2", ["distribution.k: no such key; did you mean sweep.families."]),
        ("budgets.epsilon=1", ["did you mean sweep.budgets.pure.epsilon? "]),
        ("n=10..1e3", ["worst.n? ", "[10,1e3], or a grid: '{low: 10, high: 1e3, points: 8}'"]),
        ("plugins=json", ["plugins: 'json': expected a list: [json]"]),
        ("sweep.estimators.odd.kind=median", ["minimax, rate, mean; to add one write +sweep"]),
        ("estimator@sweep.estimators.x=median", ["no file is chosen there; to add one write +"]),
        ("sweep.parts={x: {n: [9], trials: 5}}", ["no key 'x'; to add one write +sweep.parts="]),
        ("sweep.estimators=[minimax]", ["expected a mapping; a part chooses by ++sweep.parts"]),
        ("runner.adress=tcp://x:1", ["did you mean 'address'? choose"]),
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


def test_a_parameter_with_a_default_is_set_like_others(bench: Bench) -> None:
    key = "sweep.estimators.minimax.beta"
    plain, added = (_made(f"{sign}{key}=0.3").estimators["minimax"] for sign in ("", "+"))
    assert plain == added != _made("seed=0").estimators["minimax"]
    assert compose(["sweep=tiny", "sweep.names.rate=Rate"], Path("conf"))["sweep"]["names"] == {
        "rate": "Rate"
    }


def _made(*words: str) -> Study:
    every = words if words[0].startswith("sweep=") else ("sweep=tiny", *words)
    settings = from_mapping(Settings, compose(every, Path("conf")), "")
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
        found = compose(["sweep=quick", word])["sweep"]["parts"][part].get("n")
        assert (tuple(found.values()) if isinstance(found, dict) else found) == wanted


def test_budgets_of_the_command_line_may_be_a_list(bench: Bench) -> None:
    bench.write(lambda spec: spec.pop("claims"))
    listed = "sweep.budgets=[{epsilon: 0.1}, {rho: .1}]"
    assert list(_made(listed).budgets) == ["pure_epsilon0.1", "zcdp_rho0.1"]
    with pytest.raises(ConfigError, match="expected a mapping; a part chooses by"):
        _made("sweep.families=[{kind: gaussian}]")


def test_a_choice_is_a_list_or_a_mapping_whatever_the_sweep_has() -> None:
    key = "sweep.parts.worst_case.budgets"
    values = {"pure": {"epsilon": [0.1]}}
    for first, second in ((["pure"], values), (values, ["pure"])):
        written = [json.dumps(one).replace('"', "") for one in (first, second)]
        found = compose(["sweep=quick", f"++{key}={written[0]}", f"{key}={written[1]}"])
        assert found["sweep"]["parts"]["worst_case"]["budgets"] == second


def _laws(*words: str) -> dict[str, Any]:
    """The distributions of a sweep whose families are of one each."""
    families = _made(*words).families.items()
    return {name: getattr(one.value, "distribution", None) for name, one in families}


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


def test_all_errors_are_told_at_once_with_a_line_each(bench: Bench) -> None:
    """Words that cannot be parsed, misspelt keys, then values, of options and of the sweep."""
    words = ["trails=5", "sed=1", "seed=-1", "sweep.budgets.pure.epsilon=0", "n_jobs=0", "x=["]
    words += ["sweep.budgts.pure.epsilon=1", "+sweep.estimators.a.kind=medin"]
    before = bench.files()
    code, out, err = bench.run(*words)
    assert (code, out, bench.files()) == (2, "", before)
    told = [line.split(": ")[1] for line in err.splitlines()]
    assert told == [
        "x=[", "trails", "sed", "sweep.budgts.pure.epsilon", "seed", "n_jobs",
        "sweep.estimators.a.kind", "sweep.budgets.pure.epsilon",
    ]  # fmt: skip
    assert all(line.startswith("dpbench: ") for line in err.splitlines())


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["sweep=nope", "runner=bar", "sweep.parts.x.n=3", "sed=1"],
            ["sweep: 'nope': no such", "runner: 'bar': no such", "sed: no such key"],
        ),
        (
            ["+estimator@sweep.estimators.a=medin", "estimator@sweep.estimators.b=median",
             "sweep.estimators.a.n=1", "+estimator=median"],
            ["estimator: an entry needs a label", "estimator: 'medin': no such",
             "estimator@sweep.estimators.b: no file is chosen there"],
        ),
        (
            ["trials=${nope}", "+sweep.names={rate: '${sweep.nope}'}", "n_jobs=???"],
            ["trials: interpolation key 'nope' not found", "n_jobs: ???: a value is required",
             "sweep.names.rate: interpolation key 'sweep.nope' not found"],
        ),
        (["--multirun", "seed=[1", "out=a=b"], ["seed=[1: no viable", "out=a=b: mismatched"]),
    ],
)  # fmt: skip
def test_all_errors_of_a_composition_are_told_at_once(
    bench: Bench, words: list[str], lines: list[str]
) -> None:
    """Keys below a file that is missing are not checked."""
    code, _, err = bench.run(*words)
    told = err.splitlines()
    assert (code, len(told)) == (2, len(lines)), told
    assert all(any(f"dpbench: {line}" in one for one in told) for line in lines), told


def test_all_errors_of_a_file_are_told_at_once(bench: Bench) -> None:
    def break_all(spec: Spec) -> None:
        spec["families"]["tails"]["tail_indx"] = 3
        spec["families"]["two_point"]["k"] = -1
        spec["budgets"]["pure"]["epsilon"] = -1
        spec["parts"]["worst"]["trials"] = 0
        spec["parts"]["tails"]["n"] = []
        spec["claims"]["alpha"]["tolerance"] = -1
        spec["figurs"] = {}

    bench.write(break_all)
    code, _, err = bench.run()
    told = sorted(line.split(": ")[1] for line in err.splitlines())
    assert code == 2
    assert told == [
        "sweep.budgets.pure.epsilon", "sweep.claims.alpha.tolerance",
        "sweep.families.tails.tail_indx", "sweep.families.two_point.k", "sweep.figurs",
        "sweep.parts.tails.n", "sweep.parts.worst.trials",
    ]  # fmt: skip


def test_all_errors_of_selections_are_told_at_once(bench: Bench) -> None:
    def break_all(spec: Spec) -> None:
        spec["parts"]["worst"] |= {"families": "nope", "estimators": ["nope"]}
        spec["estimators"]["rate"]["policy"] = "rat"

    bench.write(break_all)
    _, _, err = bench.run()
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        "sweep.parts.worst.estimators", "sweep.parts.worst.families",
        "sweep.estimators.rate.policy",
    ]  # fmt: skip


def test_a_key_misspelt_is_not_told_as_missing(bench: Bench) -> None:
    bench.write(lambda spec: spec["budgets"].update(pure={"kind": "pure_dp", "epsilom": 1}))
    bench.refuses(named=["sweep.budgets.pure.epsilom: no such key; did you mean 'epsilon'?"])


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("estimator=median", ["LABEL=median"]),
        ("+estimator=median", ["write +estimator@sweep.estimators.LABEL=median"]),
        ("+distribution=gaussian", ["write +distribution@sweep.families.LABEL=gaussian"]),
        ("sweep.estimators=median", ["expected a mapping of names, as {NAME: {kind: median}}"]),
        ("+sweep.estimators.x=median", ["expected a mapping with a key 'kind', as {kind: median}"]),
        ("plugins=mylab.py", ["plugins: 'mylab.py': expected a list: [mylab]"]),
        ("plugins=[mylab.py]", ["expected names of modules: [mylab]"]),
        ("plugins=[sub/mylab.py]", ["expected names of modules: [mylab], and --config-dir sub"]),
        ("plugins=[my-lab.py]", ["expected names of modules: [my_lab], after renaming the file"]),
        ("plugins=[mylba]", ["No module named 'mylba'; did you mean 'mylab'?"]),
        ("plugins=[nope]", ["it is searched in the working folder and in --config-dir DIR"]),
        ("+sweep.families.x.kind=normal", ["'normal': did you mean 'gaussian'? choose from"]),
        ("+sweep.families.x.kind=log_norml", ["did you mean 'log_normal'? choose from"]),
        ("seed=1,2", ["seed=1,2: several values; ", "--multirun runs each value"]),
        ("sweep=tfig", ["for ./sweep/tfig.yaml write sweep=tfig --config-dir ."]),
        ("sweep=./sweep/tfig.yaml", ["for ./sweep/tfig.yaml write sweep=tfig --config-dir ."]),
        ("sweep=there", ["move there.yaml to sweep/there.yaml, then write sweep=there --config-"]),
        ("sweep=sweep/quick", ["no such configuration; write sweep=quick"]),
        ("seed= 5", ["without spaces around =: seed=5"]),
        ("sweep:quick", ["Error parsing override 'sweep:quick'; write sweep=quick"]),
        ("--seed=5", ["keys have no hyphen: seed=5"]),
        ("seed", ["seed: is a key; write seed=VALUE"]),
    ],
)  # fmt: skip
def test_advice_to_a_stranger(bench: Bench, words: str, lines: list[str]) -> None:
    (bench.folder / "sweep").mkdir()
    for name in ("sweep/tfig.yaml", "there.yaml", "mylab.py"):
        (bench.folder / name).write_text("name: tfig\n")
    unusable(bench.raw(words), *lines)


@pytest.mark.parametrize("word", ["true", "False", "null"])
def test_labels_of_overrides_are_text(word: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(["sweep=quick", f"++sweep.estimators={{{word}: {{kind: empirical_mean}}}}"])
    small = word.lower()
    advice = f"write ++sweep.estimators.{small}=..."
    assert str(error.value) == f"sweep.estimators: {small}: a label is text; {advice}"
    found = compose(["sweep=quick", f"++sweep.estimators.{small}={{kind: empirical_mean}}"])
    assert found["sweep"]["estimators"][small] == {"kind": "empirical_mean"}


def test_all_errors_of_a_list_of_budgets_are_told_at_once(bench: Bench) -> None:
    """Wrong values beside wrong forms, by their places in the list."""
    budgets = [{"epsilon": -1}, 5, {"kind": "nope"}, {"kind": "zcdp"}, {"epsilon": [1, 0]}]
    bench.write(lambda spec: spec.update(budgets=budgets))
    code, _, err = bench.run()
    told = [line.removeprefix("dpbench: sweep.budgets.") for line in err.splitlines()]
    assert code == 2
    assert [line.split(": ")[0] for line in told] == [
        "1.epsilon", "2", "3.kind", "4.rho", "5.epsilon",
    ]  # fmt: skip


def test_all_missing_files_of_one_file_are_told_at_once(bench: Bench) -> None:
    wrong = [{"/estimator@x": "no_a"}, {"optional y": "no_c"}, {"/estimator@z": ["no_b", "median"]}]
    bench.write(lambda spec: spec.update(defaults=[*wrong, "_self_"]))
    code, _, err = bench.run()
    assert code == 2
    found = [re.match(r"dpbench: estimator: '(\w+)': no such", line) for line in err.splitlines()]
    assert [one and one[1] for one in found] == ["no_a", "no_b"], err
