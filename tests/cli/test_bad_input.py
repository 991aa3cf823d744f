"""Configurations that cannot be used: one line, exit code 2, nothing written."""

from __future__ import annotations

from typing import Any

import pytest

from dpbench.registry import ConfigError

from .conftest import FIGURE, Bench, unusable

# What is given, and what the line must name.
OVERRIDES = [
    (["sweep=nope"], ["sweep", "'nope'", "heavy_tail, heavy_tail_cover, heavy_tail_location,"]),
    (["runner=nope"], ["runner", "'nope'", "dask, local"]),
    (["runner.backend=nope"], ["runner.backend", "'nope'", "'local' or 'dask'"]),
    (["+runner.address=nope"], ["runner.address", "'nope'"]),
    (["sed=1"], ["sed:", "choose from", "seed"]),
    (["+sed=1"], ["sed:", "choose from", "seed"]),
    (["sweep.budgts.pure.epsilon=1"], ["sweep.budgts.pure.epsilon"]),
    (["+sweep.gates=true"], ["sweep.gates", "choose from", "gate"]),
    (["+sweep.parts.worst.trails=3"], ["sweep.parts.worst.trails", "choose from", "trials"]),
    (["+sweep.budgets.pure.eps=3"], ["sweep.budgets.pure.eps", "choose from", "epsilon"]),
    (["trials=abc"], ["trials", "'abc'", "integer"]),
    (["trials=0"], ["trials: 0", "1"]),
    (["trials=-1"], ["trials: -1"]),
    (["trials=1.5"], ["trials: 1.5"]),
    (["trials=true"], ["trials: True"]),
    (["n_jobs=0"], ["n_jobs: 0", "-1"]),
    (["n_jobs=abc"], ["n_jobs: 'abc'"]),
    (["seed=-1"], ["seed: -1"]),
    (["seed=abc"], ["seed: 'abc'"]),
    (["seed=100000000000000000000"], ["seed: 100000000000000000000"]),
    (["resume=maybe"], ["resume: 'maybe'"]),
    (["out="], ["out: ''"]),
    (["sweep.budgets.pure.epsilon=0"], ["sweep.budgets.pure.epsilon: 0"]),
    (["sweep.budgets.pure.epsilon=-1"], ["sweep.budgets.pure.epsilon: -1"]),
    (["sweep.budgets.pure.epsilon=abc"], ["sweep.budgets.pure.epsilon: 'abc'"]),
    (["sweep.budgets.pure.epsilon=nan"], ["sweep.budgets.pure.epsilon: nan"]),
    (["sweep.budgets.pure.epsilon=inf"], ["sweep.budgets.pure.epsilon: inf"]),
    (["sweep.budgets.pure.epsilon=[1,0]"], ["sweep.budgets.pure.epsilon: 0"]),
    (["sweep.budgets.pure.epsilon=[]"], ["sweep.budgets.pure.epsilon: []", "empty"]),
    (["sweep.families.two_point.k=1.5"], ["sweep.families.two_point.k: 1.5", "2"]),
    (["+sweep.estimators.minimax.k=1"], ["sweep.estimators.minimax.k: 1", "2"]),
    (["sweep.families.two_point.k=[]"], ["sweep.families.two_point.k: []", "empty"]),
    (["sweep.families.tails.unit_moment=5"], ["sweep.families.tails", "5"]),
    (["sweep.parts.worst.n=[0]"], ["sweep.parts.worst.n.0: ", "0"]),
    (["sweep.parts.worst.n=[1.5]"], ["sweep.parts.worst.n.0: ", "1.5"]),
    (["sweep.parts.worst.n=[1e25]"], ["sweep.parts.worst.n", "1e+25"]),
    (["sweep.parts.tails.n=[1e12]"], ["sweep.parts.tails.n", "1000000000000", "at most"]),
    (["+sweep.parts.worst.estimators=[nope]"], ["parts.worst.estimators", "'nope'", "rate"]),
    (["+sweep.parts.worst.estimators=[]"], ["sweep.parts.worst.estimators: []"]),
    (["sweep.parts.worst.families=[nope]"], ["parts.worst.families", "'nope'", "two_point_k2"]),
    (["+sweep.parts.worst.budgets=[nope]"], ["parts.worst.budgets", "'nope'", "pure"]),
    (["~sweep.parts.worst", "~sweep.parts.tails"], ["sweep.parts", "at least one"]),
    (["sweep.estimators.rate.kind=nope"], ["estimators.rate.kind", "'nope'", "clipped_mean"]),
    (["sweep.families.tails.kind=nope"], ["families.tails.kind", "'nope'", "two_point_family"]),
    (["sweep.budgets.pure.kind=nope"], ["sweep.budgets.pure.kind", "'nope'", "zcdp"]),
    (["sweep.estimators.rate.policy=nope"], ["rate.policy", "'nope'", "'minimax'"]),
    (["sweep.claims.alpha.theorem=nope"], ["sweep.claims.alpha", "'nope'", "heavy_tail_alpha"]),
    (["sweep.claims.alpha.families=[nope]"], ["claims.alpha.families", "'nope'", "tails"]),
    (["sweep.claims.alpha.estimators=[nope]"], ["claims.alpha.estimators", "'nope'", "rate"]),
    (["sweep.claims.alpha.budgets=[nope]"], ["claims.alpha.budgets", "'nope'", "pure"]),
    (["sweep.claims.alpha.tolerance=0"], ["sweep.claims.alpha.tolerance: 0"]),
    (["plugins=[no_such_module]"], ["plugins", "'no_such_module'"]),
    (["plugins=[../evil]"], ["plugins", "'../evil'"]),
    (["hydra.run.dir=x"], ["hydra.run.dir=x", "out=DIR"]),
    (["+hydra.searchpath=[x]"], ["hydra.searchpath"]),
    (["hydra/launcher=joblib"], ["hydra/launcher"]),
    (["--flag"], ["--flag", "--config-dir"]),
    (["--config-dir", "nowhere"], ["--config-dir", "'nowhere'"]),
    (["--cfg", "nope"], ["--cfg", "'nope'", "job"]),
    (["seed=1,2"], ["seed=1,2"]),
    (["trials=${nope}"], ["trials", "nope"]),
    (["sweep.budgets.pure.epsilon=["], ["sweep.budgets.pure.epsilon=["]),
    ([""], []),
    (["sweep"], ["sweep"]),
    (["=3"], ["=3"]),
    (["sweep=null"], ["sweep"]),
    (["~sweep"], ["sweep"]),
    (["--multirun", "seed=1,-2"], ["seed: -2"]),
]


@pytest.mark.parametrize(("given", "named"), OVERRIDES, ids=[" ".join(o[0]) for o in OVERRIDES])
def test_an_unusable_override(bench: Bench, given: list[str], named: list[str]) -> None:
    before = bench.files()
    unusable(bench.run(*given), *named)
    assert bench.files() == before


@pytest.mark.parametrize("delta", ["0", "1", "2", "-0.1", "abc"])
def test_delta_lies_strictly_between_0_and_1(bench: Bench, delta: str) -> None:
    before = bench.files()
    result = bench.run(f"+sweep.budgets.b={{kind:approx_dp,epsilon:1,delta:{delta}}}")
    unusable(result, "sweep.budgets.b.delta", delta)
    assert bench.files() == before


@pytest.mark.parametrize("n", ["[]", "abc", "[1e25]"])
def test_the_line_about_n_says_what_n_may_be(bench: Bench, n: str) -> None:
    result = bench.run(f"sweep.parts.worst.n={n}")
    unusable(result, "sweep.parts.worst.n")
    assert "instance of Grid" not in result.err


@pytest.mark.parametrize("key", ["seed", "trials", "out", "n_jobs", "runner", "resume"])
def test_a_setting_taken_away_is_its_default_or_a_line(bench: Bench, key: str) -> None:
    result = bench.run(f"~{key}")
    assert result.code == 0 or result.err.count("\n") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"families": ["tails"]},  # one n only
        {"n_max": 10},  # no n at all
        {"budgets": None},  # the estimator runs under budgets only
    ],
)
def test_a_claim_that_nothing_speaks_about(bench: Bench, change: dict[str, Any]) -> None:
    bench.write(lambda spec: spec["claims"]["alpha"].update(change))
    before = bench.files()
    unusable(bench.run(), "sweep.claims.alpha")
    assert bench.files() == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kind": "nope"}, ["figures.errors.kind", "'nope'", "error_against_n"]),
        ({"families": ["nope"]}, ["figures.errors.families", "'nope'", "two_point_k2"]),
        ({"budget": "nope"}, ["figures.errors.budget", "'nope'", "pure"]),
        ({"metric": "nope"}, ["figures.errors.metric", "'nope'", "q90"]),
        ({"estimators": ["nope"]}, ["figures.errors.estimators", "'nope'", "minimax"]),
    ],
)
def test_a_figure_of_something_unknown(
    bench: Bench, change: dict[str, Any], named: list[str]
) -> None:
    bench.write(lambda spec: spec["figures"].update(errors={**FIGURE, **change}))
    before = bench.files()
    unusable(bench.run(), *named)
    assert bench.files() == before


@pytest.mark.parametrize(
    "text",
    [
        "name: tiny\n  bad: [",
        "\tname: tiny\n",
        "name: tiny\nname: other\n",
        "",
        "- 1\n- 2\n",
        "hello\n",
        "defaults:\n  - /estimator@estimators.a: nope\n",
    ],
)
def test_a_sweep_that_is_no_mapping(bench: Bench, text: str) -> None:
    bench.text(text)
    before = bench.files()
    unusable(bench.run())
    assert bench.files() == before


def test_a_sweep_that_is_no_text(bench: Bench) -> None:
    (bench.conf / "sweep" / "tiny.yaml").write_bytes(b"name: \xff\xfe\n")
    unusable(bench.run())


def test_an_abstract_kind_is_no_choice(bench: Bench) -> None:
    unusable(bench.run("sweep.families.tails.kind=location_scale"), "sweep.families.tails")
    assert "location_scale" not in bench.run("sweep.families.tails.kind=nope").err


def test_two_labels_of_one_name(bench: Bench) -> None:
    """One entry must not replace another in silence."""
    bench.write(
        lambda spec: spec["budgets"].update(
            more={"kind": "pure_dp", "epsilon": [0.5, 0.50000001]},
        )
    )
    unusable(bench.run(), "sweep.budgets", "more_epsilon0.5")


def test_a_budget_whose_notion_an_estimator_cannot_honour(bench: Bench) -> None:
    bench.plugin("PureOnly")
    path = bench.conf / "mine.py"
    notions = "    notions: ClassVar = (PureDP,)\n    factor"
    path.write_text(path.read_text().replace("    factor", notions))

    def change(spec: dict[str, Any]) -> None:
        spec["estimators"]["pure_only"] = {"kind": "pure_only"}
        spec["budgets"]["z"] = {"kind": "zcdp", "rho": 0.1}
        spec["parts"]["worst"]["estimators"] = ["pure_only"]

    bench.write(change)
    before = bench.files()
    unusable(bench.run("plugins=[mine]"), "sweep.parts.worst.budgets", "pure_only", "'zcdp'")
    assert bench.files() == before


@pytest.mark.parametrize(
    "source", ["def broken(:\n", "raise RuntimeError('two\\nlines')\n", "import no_such\n"]
)
def test_a_plugin_that_cannot_be_imported(bench: Bench, source: str) -> None:
    (bench.conf / "mine.py").write_text(source)
    before = bench.files()
    unusable(bench.run("plugins=[mine]"), "plugins", "'mine'")
    assert bench.files() == before


def test_a_plugin_may_not_take_a_name_of_ours(bench: Bench) -> None:
    bench.plugin("ClippedMean")
    unusable(bench.run("plugins=[mine]"), "clipped_mean")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["sweep=nope"], "'nope'"),
        (["sweep.budgets.pure.epsilon=0"], "epsilon"),
    ],
)
def test_the_real_command(bench: Bench, given: list[str], named: str) -> None:
    before = bench.files()
    unusable(bench.command(*bench.argv(*given)), named)
    assert bench.files() == before


def test_full_error_gives_the_traceback(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    result = bench.command(*bench.argv("trials=abc"))
    assert "Traceback" in result.err
    assert "trials" in result.err
    with pytest.raises(ConfigError):
        bench.run("trials=abc")


@pytest.mark.parametrize("out", ["file/x", "file", "/proc/x", "/proc/1/x"])
def test_a_folder_that_cannot_be_made(bench: Bench, out: str) -> None:
    (bench.folder / "file").write_text("")
    before = bench.files()
    unusable(bench.run(f"out={out}"), "out", out)
    assert bench.files() == before
