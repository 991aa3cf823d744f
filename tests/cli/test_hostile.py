"""Reading a configuration or a run's folder runs nothing that they name."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpbench.config import composed

from .conftest import FIGURE, TINY, Bench, Result, unusable

TARGETS = [
    "os.system",
    "subprocess.run",
    "builtins.eval",
    "pandas.read_pickle",
    "numpy.load",
    "hydra.utils.instantiate",
    "dpbench.runner.store.os.system",
    "dpbench.estimators.base.np.load",
    "dpbench.cli.run",
]
PLACES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "estimators": lambda spec, evil: spec["estimators"].update(evil=evil),
    "families": lambda spec, evil: spec["families"].update(evil=evil),
    "budgets": lambda spec, evil: spec["budgets"].update(evil=evil),
    "figures": lambda spec, evil: spec["figures"].update(evil=evil),
    "claims": lambda spec, evil: spec["claims"].update(evil=evil),
    "parts": lambda spec, evil: spec["parts"]["tails"].update(evil),
    "sweep": lambda spec, evil: spec.update(evil),
    "parameter": lambda spec, evil: spec["families"]["tails"].update(tail_index=evil),
    "list": lambda spec, evil: spec["families"]["two_point"].update(c=[1, evil]),
}


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return Path.write_text, (self.marker, "harm")  # type: ignore[return-value]


@pytest.fixture
def marker(bench: Bench) -> Path:
    return bench.folder / "marker"


@pytest.fixture
def pickled(bench: Bench, marker: Path) -> Path:
    path = bench.folder / "bomb.pkl"
    path.write_bytes(pickle.dumps(Bomb(marker)))
    return path


def evil(target: str, marker: Path, pickled: Path) -> dict[str, Any]:
    """What `target` would be called with, if it were."""
    touch = f"touch {marker}"
    arguments: dict[str, dict[str, Any]] = {
        "os.system": {"command": touch},
        "dpbench.runner.store.os.system": {"command": touch},
        "subprocess.run": {"args": ["touch", str(marker)]},
        "builtins.eval": {"_args_": [f"open({str(marker)!r}, 'w')"]},
        "pandas.read_pickle": {"filepath_or_buffer": str(pickled)},
        "numpy.load": {"file": str(pickled), "allow_pickle": True},
        "dpbench.estimators.base.np.load": {"file": str(pickled), "allow_pickle": True},
        "hydra.utils.instantiate": {"config": {"_target_": "os.system", "command": touch}},
        "dpbench.cli.run": {"argv": ["sweep=tiny"]},
    }
    return {"_target_": target, **arguments[target]}


def test_the_bomb_would_go_off(marker: Path, pickled: Path) -> None:
    pickle.loads(pickled.read_bytes())
    assert marker.exists()


@pytest.mark.parametrize(("place", "target"), list(zip(PLACES, TARGETS, strict=True)))
def test_a_target_that_is_no_class_of_ours(
    bench: Bench, marker: Path, pickled: Path, target: str, place: str
) -> None:
    bench.write(lambda spec: PLACES[place](spec, evil(target, marker, pickled)))
    before = bench.files()
    unusable(bench.run(), "sweep")
    assert bench.files() == before
    assert not marker.exists()


@pytest.mark.parametrize("place", PLACES)
def test_every_target_at_every_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, marker: Path, pickled: Path, place: str
) -> None:
    """Composed once, by Hydra; the rest of the command is as always."""
    whole = composed(bench.argv()[2:], bench.conf)
    before = bench.files()
    for target in TARGETS:
        spec = copy.deepcopy(TINY)
        PLACES[place](spec, evil(target, marker, pickled))
        monkeypatch.setattr("dpbench.cli.composed", lambda *_, spec=spec: {**whole, "sweep": spec})
        unusable(bench.run(), "sweep")
        assert bench.files() == before, target
        assert not marker.exists(), target


@pytest.mark.parametrize("target", ["os.system", "subprocess.run"])
def test_a_target_as_the_runner(bench: Bench, marker: Path, target: str) -> None:
    before = bench.files()
    result = bench.run(f"+runner._target_={target}", f"+runner.command=touch {marker}")
    unusable(result, "runner._target_")
    assert bench.files() == before


@pytest.mark.parametrize("target", [["os.system"], {"a": "os.system"}, 3, None, True])
def test_a_target_that_is_no_text(bench: Bench, target: object) -> None:
    bench.write(lambda spec: spec["budgets"].update(evil={"_target_": target}))
    unusable(bench.run(), "sweep.budgets.evil._target_")


@pytest.mark.parametrize(
    "hydra",
    [
        {"callbacks": {"evil": {"_target_": "os.system", "command": "touch marker"}}},
        {"job_logging": {"()": "os.system", "command": "touch marker"}},
        {"hydra_logging": {"()": "os.system", "command": "touch marker"}},
        {"launcher": {"_target_": "os.system", "command": "touch marker"}},
        {"sweeper": {"_target_": "os.system", "command": "touch marker"}},
        {"searchpath": ["pkg://evil_module"]},
        {"run": {"dir": "elsewhere"}, "output_subdir": "elsewhere"},
    ],
)
@pytest.mark.parametrize("flags", [[], ["--multirun"], ["--cfg", "job"]])
def test_hydras_own_settings_in_a_sweep(
    bench: Bench, marker: Path, hydra: dict[str, Any], flags: list[str]
) -> None:
    evil_module(bench, marker)
    spec = {"hydra": hydra, "sweep": json.loads(sweep_text(bench))}
    bench.text("# @package _global_\n" + json.dumps(spec))
    result = bench.run(*flags)
    assert result.code in {0, 2}
    assert not marker.exists()
    assert not (bench.folder / "elsewhere").exists()


def test_a_config_of_the_users_own(bench: Bench, marker: Path) -> None:
    """Ours stands before it, so that its search path is never followed."""
    evil_module(bench, marker)
    (bench.conf / "config.yaml").write_text(
        "defaults: [sweep: tiny]\nhydra: {searchpath: ['pkg://evil_module']}\n"
        "seed: 99\nplugins: [evil_module]\n"
    )
    result = bench.run()
    assert result.code == 0, result.err
    assert bench.manifest()["seed"] == 0
    assert not marker.exists()


def test_a_sweep_of_the_users_own_does_not_replace_ours(bench: Bench) -> None:
    bench.write(lambda spec: spec.update(name="not_ours"), name="quick")
    result = bench.raw("--config-dir", "conf", "--cfg", "job")
    assert "not_ours" not in result.out


def test_a_yaml_tag(bench: Bench, marker: Path) -> None:
    bench.text(f"name: !!python/object/apply:os.system ['touch {marker}']\n")
    try:
        unusable(bench.run())
    finally:
        assert not marker.exists()


def test_a_figure_stays_in_the_runs_folder(bench: Bench) -> None:
    bench.write(lambda spec: spec["figures"].update({"../../evil": FIGURE}))
    result = bench.run()
    assert not list(bench.folder.glob("evil*"))
    unusable(result, "sweep.figures")


@pytest.mark.parametrize("name", ["evil.parquet", "evil.pkl", "block"])
def test_a_pickle_among_the_blocks(bench: Bench, marker: Path, pickled: Path, name: str) -> None:
    bench.run()
    summary = bench.read("summary.csv")
    block = bench.blocks()[0]
    shutil.copy(pickled, block if name == "block" else block.with_name(name))
    result = bench.run()
    assert result.code == 0
    assert not marker.exists()
    assert bench.read("summary.csv") == summary


def test_showing_a_configuration_imports_no_plugin(bench: Bench, marker: Path) -> None:
    evil_module(bench, marker)
    assert bench.run("plugins=[evil_module]", "--cfg", "job").code == 0
    assert bench.raw("--help").code == 0
    assert not marker.exists()


def test_a_class_of_ours_by_its_path(bench: Bench) -> None:
    target = {"_target_": "dpbench.estimators.ClippedMean", "lower": -10, "upper": 10}
    bench.write(lambda spec: spec["estimators"].update(clipped=target))
    assert bench.run().code == 0
    assert ",clipped,pure," in bench.read("summary.csv")


@pytest.mark.parametrize("spec", [{"kind": "wide_mean"}, {"_target_": "mine.WideMean"}])
def test_a_listed_plugin(bench: Bench, spec: dict[str, str]) -> None:
    bench.plugin("WideMean")
    bench.write(lambda sweep: sweep["estimators"].update(wide=spec))
    assert bench.run("plugins=[mine]").code == 0
    assert ",wide,pure," in bench.read("summary.csv")


@pytest.mark.parametrize("spec", [{"kind": "wide_mean"}, {"_target_": "mine.WideMean"}])
def test_a_plugin_that_is_not_listed(bench: Bench, spec: dict[str, str]) -> None:
    bench.plugin("WideMean", "open('marker', 'w')")
    bench.write(lambda sweep: sweep["estimators"].update(wide=spec))
    before = bench.files()
    unusable(bench.run(), "sweep.estimators.wide", next(iter(spec.values())))
    assert bench.files() == before


def test_a_listed_plugin_gives_its_estimators_only(bench: Bench, marker: Path) -> None:
    bench.plugin("WideMean")
    bench.write(lambda sweep: sweep["estimators"].update(wide={"_target_": "mine.np.load"}))
    result: Result = bench.run("plugins=[mine]")
    unusable(result, "sweep.estimators.wide._target_", "'mine.np.load'", "refused")


def evil_module(bench: Bench, marker: Path) -> None:
    """A package on the path that leaves a mark when it is imported."""
    package = bench.folder / "evil_module"
    package.mkdir()
    (package / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\n")


def sweep_text(bench: Bench) -> str:
    return (bench.conf / "sweep" / "tiny.yaml").read_text()
