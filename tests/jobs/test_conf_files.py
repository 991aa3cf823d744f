"""Files of configurations, as Hydra reads them for dpbench."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hydra import compose as compose_by_hydra
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from dpbench.errors import MAX_ENTRIES, ConfigError
from dpbench.jobs.composition import compose
from dpbench.jobs.conf_files import SHIPPED_DATA, _resolve_path
from dpbench.jobs.sweep_files import find_sweeps
from dpbench.package import PACKAGE, conf_folder


def test_a_file_of_the_user_goes_before_shipped_data(tmp_path: Path) -> None:
    """A path is read from the folder of the configuration that gives it, if it is there."""
    name = next(path.name for path in SHIPPED_DATA.glob("*.csv"))
    assert _resolve_path(name, tmp_path) == name
    (tmp_path / name).write_text("x")
    assert _resolve_path(name, tmp_path) == str((tmp_path / name).resolve())
    assert _resolve_path("mine.csv", tmp_path) == str((tmp_path / "mine.csv").resolve())


def test_help_describes_the_sweep_that_is_run(tmp_path: Path) -> None:
    """A file of the user with the name of a shipped one is neither run nor described."""
    (tmp_path / "sweep").mkdir()
    for name in ("quick", "other"):
        (tmp_path / "sweep" / f"{name}.yaml").write_text("name: mine")
    described = find_sweeps([conf_folder(), tmp_path])
    for name, path, is_mine in (
        ("quick", conf_folder() / "sweep" / "quick.yaml", False),
        ("other", tmp_path / "sweep" / "other.yaml", True),
    ):
        assert described[name] == path
        assert (compose([f"sweep={name}"], tmp_path)["sweep"]["name"] == "mine") is is_mine


LABELS = ("no", "on", "Off", "YES", "y", "null", "~x", "true", "1e3", "0x10", "010", "2024-01-01")


@pytest.mark.parametrize("word", LABELS)
def test_labels_are_the_text_of_the_file(tmp_path: Path, word: str) -> None:
    """Whatever else YAML may read there; a part names words such as no without quotes."""
    (tmp_path / "sweep").mkdir()
    entries = {section: {word: {"kind": "k"}} for section in ("families", "estimators", "budgets")}
    lines = [f"{section}:\n  {word}: {{kind: k}}" for section in entries]
    lines += [f"parts:\n  {word}: {{budgets: [no, On, 'null'], n: [1e3, 10]}}"]
    (tmp_path / "sweep" / "own.yaml").write_text("\n".join(lines))
    found = compose(["sweep=own"], tmp_path)["sweep"]
    part = {"budgets": ["no", "On", "null"], "n": [1000.0, 10]}
    assert found == {**entries, "parts": {word: part}}


def test_too_many_entries_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """The rest of the file is no YAML, so that the test sees that nothing reads it."""
    (tmp_path / "sweep").mkdir()
    families = "".join(f"  f{i}: {{kind: gaussian}}\n" for i in range(MAX_ENTRIES))
    for more, line in (
        ("  g: {kind: gaussian}\n  : [}", "more than 2000 entries in a mapping; write fewer"),
        ("estimators: []", ""),
    ):
        (tmp_path / "sweep" / "own.yaml").write_text(f"families:\n{families}{more}\n")
        with pytest.raises(ConfigError) if line else contextlib.nullcontext() as error:
            compose(["sweep=own"], tmp_path)
        assert error is None or str(error.value).endswith(f"own.yaml, line 2: {line}")


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [("name: a\nname: b\n", 1, "name"), ("a: 1\nb:\n  no: 1\n  no: 2\n", 3, "no")],
)
def test_a_key_stands_once(tmp_path: Path, text: str, line: int, key: str) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "own.yaml").write_text(text)
    message = f"own.yaml, line {line}: {key}: more than one such key; keep one"
    with pytest.raises(ConfigError, match=message):
        compose(["sweep=own"], tmp_path)


def test_numbers_and_texts_are_those_of_omegaconf(tmp_path: Path) -> None:
    """But words such as no are texts."""
    text = "a: [1e3, 1.5E3, +1e-3, 1_000, 0x10, 010, 1:30, .5, 5., 2020-01-01, e3, 1e, true, ~]\n"
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "own.yaml").write_text(text)
    assert compose(["sweep=own"], tmp_path)["sweep"] == OmegaConf.create(text)


def test_a_callers_own_hydra_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("x: ${oc.env:WORD,none}\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert compose(["sweep=ci"])["sweep"]["name"] == "ci"
        whole = compose_by_hydra("mine", return_hydra_config=True)
    assert whole.x == "none"
    assert whole.hydra.runtime.choices["hydra/launcher"] == "basic"  # it has its own files


def test_nothing_private_of_hydra_or_omegaconf_is_used() -> None:
    private = re.compile(r"(?:hydra|omegaconf)(?:\.\w+)*(?:\._| import (?:\w+, )*_)")
    assert private.search("from omegaconf import OmegaConf, _utils")
    assert private.search("from hydra._internal.utils import f")
    modules = PACKAGE.rglob("*.py")
    assert not [path for path in modules if private.search(path.read_text("utf-8"))]
