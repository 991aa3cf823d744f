"""Reading a configuration or a run's folder runs nothing that they name."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.study import Study
from dpbench.runner import store
from tests.bench import MINE, TINY, Bench, changed, unusable

# Keys below `sweep` that are given something evil.
PLACES = [
    "estimators.evil", "families.evil", "budgets.evil", "figures.evil", "claims.evil", "parts.evil",
    "parts.worst.claims.evil", "families.tails.tail_index", "families.two_point.c",
    "parts.tails.budgets", "runs", "estimators.rate",
]  # fmt: skip


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return Path.write_text, (self.marker, "harm")  # type: ignore[return-value]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What must not be there in the end; a package that would make it can be imported."""
    path = tmp_path / "marker"
    package = tmp_path / "evil_module"
    package.mkdir()
    (package / "__init__.py").write_text(f"open({str(path)!r}, 'w').close()\n")
    return path


@pytest.fixture
def pickled(tmp_path: Path, marker: Path) -> Path:
    path = tmp_path / "bomb.pkl"
    path.write_bytes(pickle.dumps(Bomb(marker)))
    return path


def harm(marker: Path, pickled: Path) -> list[dict[str, Any]]:
    """Targets, with what they would be called with, if they were."""
    touch = f"touch {marker}"
    return [
        {"_target_": "os.system", "command": touch},
        {"_target_": "dpbench.runner.store.os.system", "command": touch},
        {"_target_": "builtins.eval", "_args_": [f"open({str(marker)!r}, 'w')"]},
        {"_target_": "pandas.read_pickle", "filepath_or_buffer": str(pickled)},
        {"_target_": "hydra.utils.instantiate", "config": {"_target_": "os.system"}},
        {"_target_": "dpbench.cli.main.run", "argv": ["sweep=tiny"]},
        {"_target_": ["os.system"]},
        {"_target_": None},
    ]


def test_the_bomb_would_go_off(marker: Path, pickled: Path) -> None:
    pickle.loads(pickled.read_bytes())
    assert marker.exists()


@pytest.mark.parametrize("place", PLACES)
def test_a_target_that_is_no_class_of_ours(marker: Path, pickled: Path, place: str) -> None:
    for evil in harm(marker, pickled):
        nested = {"kind": "coordinate_wise", "base": evil}
        spec = changed(place, nested if place == "estimators.rate" else evil)
        with pytest.raises(ConfigError) as error:
            from_mapping(Study, spec, "sweep").plan()
        assert all(line.startswith("sweep.") for line in error.value.lines)
        assert not marker.exists(), evil


def test_on_the_command_line(bench: Bench, marker: Path, pickled: Path) -> None:
    evil = ("+runner._target_=os.system", f"+runner.command='touch {marker}'")
    bench.refuses(*evil, named=["runner._target_: no such key"])
    bench.write(lambda spec: spec["estimators"].update(evil=harm(marker, pickled)[0]))
    bench.refuses(named=["sweep.estimators.evil._target_: 'os.system': refused", "clipped_mean"])
    bench.text(f"name: !!python/object/apply:os.system ['touch {marker}']\n")
    bench.refuses()
    assert not marker.exists()


@pytest.mark.parametrize("flags", [[], ["--multirun"], ["--cfg", "job"]])
def test_hydras_own_settings_in_a_sweep(bench: Bench, marker: Path, flags: list[str]) -> None:
    target = {"_target_": "os.system", "command": f"touch {marker}"}
    logging = {"()": "os.system", "command": f"touch {marker}"}
    hydra: dict[str, Any] = {
        "callbacks": {"evil": target}, "launcher": target, "sweeper": target,
        "job_logging": logging, "hydra_logging": logging, "searchpath": ["pkg://evil_module"],
        "run": {"dir": "elsewhere"}, "output_subdir": "elsewhere",
    }  # fmt: skip
    bench.text("# @package _global_\n" + json.dumps({"hydra": hydra, "sweep": TINY}))
    assert bench.run(*flags, "trials=1").code in {0, 2}
    assert not marker.exists()
    assert not (bench.folder / "elsewhere").exists()


def test_a_config_of_the_users_own(bench: Bench, marker: Path) -> None:
    """Ours stands before it, so that its search path is never followed."""
    (bench.conf / "config.yaml").write_text(
        "defaults: [sweep: tiny]\nhydra: {searchpath: ['pkg://evil_module']}\n"
        "seed: 99\nplugins: [evil_module]\n"
    )
    bench.text("name: not_ours", "quick")
    shown = bench.raw("--config-dir", "conf", "--cfg", "job").out
    assert "seed: 0\n" in shown
    assert "plugins: []\n" in shown
    assert "not_ours" not in shown
    assert not marker.exists()


def test_a_pickle_among_the_blocks(
    bench: Bench, marker: Path, pickled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_FILE_ROWS", 1)  # a block a file
    bench.done("trials=4")
    summary = bench.read("summary.csv")
    blocks = bench.folder / "out" / "blocks"
    for path in (blocks / "evil.parquet", blocks / "evil.pkl", bench.blocks()[0]):
        shutil.copy(pickled, path)
    bench.done("trials=4")
    assert not marker.exists()
    assert bench.counts() == (1, 4)
    assert bench.read("summary.csv") == summary


def test_a_plugin_that_is_not_listed_or_only_shown(bench: Bench, marker: Path) -> None:
    bench.done("plugins=[evil_module]", "--cfg", "job")
    bench.odd()
    path = bench.conf / "mine.py"
    path.write_text(f"import evil_module\n{path.read_text()}")
    bench.refuses(named=["sweep.estimators.odd.kind: 'odd': choose from"])
    assert not marker.exists()


def test_classes_by_their_paths(bench: Bench) -> None:
    """One of ours, and one of a listed plug-in; no other name of its module."""
    ours = {"_target_": "dpbench.estimators.ClippedMean", "lower": -10, "upper": 10}

    def write(target: str) -> None:
        bench.odd(change=lambda s: s["estimators"].update(clipped=ours, odd={"_target_": target}))

    write("mine.Odd")
    bench.refuses(named=["sweep.estimators.odd._target_: 'mine.Odd': refused"])
    bench.done(MINE, "trials=4")
    assert {"clipped", "odd"} < set(bench.table()["estimator"])
    write("mine.np.load")
    unusable(bench.run(MINE), "sweep.estimators.odd._target_: 'mine.np.load': ref")


# Files of the user's own below conf/, one of which is added to the sweep as an estimator.
PRECIOUS = "plugins: [evil_module]\nout: elsewhere\ntrack: update\nbaseline: precious\n"
REACHING = [
    {"estimator/evil": "defaults: [/other@_global_]\n", "other": PRECIOUS},
    {
        "estimator/evil": "defaults: [inner]\n",
        "estimator/inner": f"# @package _global_\n{PRECIOUS}",
    },
    {"estimator/evil": "defaults: [/other@_global_.trials]\n", "other": "nope: 1\n"},
]


@pytest.mark.parametrize("files", REACHING)
def test_a_file_sets_no_key_of_the_top_level(
    bench: Bench, marker: Path, files: dict[str, str]
) -> None:
    (bench.folder / "precious").write_text("mine")
    (bench.conf / "estimator").mkdir()
    for name, text in files.items():
        (bench.conf / f"{name}.yaml").write_text(text)
    adding = "+estimator@sweep.estimators.evil=evil"
    for flags in ([], ["--cfg", "job"], ["--multirun"]):
        bench.refuses(adding, *flags, named=["its package is", "sweep and runner only"])
    for package in ("_global_", "trials"):
        bench.text(f"# @package {package}\n{PRECIOUS}")
        bench.refuses(named=[f"sweep/tiny: its package is '{package}'"])
    assert not marker.exists()


@pytest.mark.parametrize(
    "secret", ["${oc.env:SECRET}", "${oc.${word}:SECRET}", "${oc.decode:'1'}", "${now:%Y}"]
)
def test_no_value_is_what_a_function_returns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """But another key's value it may be."""
    monkeypatch.setenv("SECRET", "hunter2")
    bench.write(lambda spec: spec["claims"]["alpha"].update(reason=secret, word="env"))
    bench.refuses(named=["sweep.claims.alpha.reason"])
    bench.write()
    bench.refuses(f"sweep.name={secret}")
    bench.text(f'defaults: [{{/estimator@estimators.a: "{secret}"}}]\n')
    assert "hunter2" not in bench.run().err
    bench.write(lambda spec: spec["claims"]["alpha"].update(reason="few: ${sweep.name}"))
    assert "reason: 'few: tiny'" in bench.done("--cfg", "job").out
