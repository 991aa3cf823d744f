"""Read the files of a configuration: a source of configurations for Hydra's `compose`.

Hydra finds the source and its search path by two plug-ins, `ConfFiles` and `ConfFolders`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from yaml import MappingNode, Node, SafeLoader, ScalarNode

from dpbench.errors import MAX_ENTRIES, ConfigError, choose_from

__all__ = ["check_package", "compose_files", "describe_missing_file", "refuse_functions"]

SHIPPED_DATA = Path(__file__).parents[1] / "data"
# Folders of configurations in use; the first one that has a file of some name gives it.
FOLDERS: ContextVar[Sequence[Path]] = ContextVar("FOLDERS", default=())
# Types that YAML gives to texts without quotes: no, 1e3, null.
TEXT, BOOLEAN, FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "float"))
DATE = "tag:yaml.org,2002:timestamp"
PLAIN = {BOOLEAN, FLOAT, "tag:yaml.org,2002:int", "tag:yaml.org,2002:null"}
EXPONENT = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+")
# Words of Hydra with which a file or a word leaves the place of the file that names it.
ABSOLUTE = re.compile("_global_|_group_")


def compose_files(words: Sequence[str], folders: Sequence[Path]) -> DictConfig:
    """Merge ``config.yaml`` with the files that it and the words ``group=name`` choose.

    If the caller has set up Hydra for a configuration of its own, this setting returns.
    """
    for plugin in (ConfFiles, ConfFolders):
        Plugins.instance().register(plugin)
    callers_hydra = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    token = FOLDERS.set([folder.resolve() for folder in folders])
    try:
        folder = str(folders[0].resolve())
        with _no_settings_of_hydra(), initialize_config_dir(folder, version_base="1.3"):
            return compose("config", list(words))
    finally:
        FOLDERS.reset(token)
        if callers_hydra is not None:
            GlobalHydra.instance().initialize(callers_hydra)


@contextmanager
def _no_settings_of_hydra() -> Iterator[None]:
    """Leave out the ten files of Hydra's own settings, which are unused and take half the time."""
    group = ConfigStore.instance().repo["hydra"]
    kept = group["config.yaml"]
    group["config.yaml"] = _hydra_without_files()
    try:
        yield
    finally:
        group["config.yaml"] = kept


@cache
def _hydra_without_files() -> ConfigNode:
    settings = OmegaConf.structured(HydraConf(defaults=[]))
    return ConfigNode("config.yaml", settings, "hydra", package=None, provider="hydra")


class ConfFolders(SearchPathPlugin):
    """Search path with the folders in use, after Hydra's own and before that of the caller."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in FOLDERS.get():
            search_path.prepend("dpbench", f"{ConfFiles.scheme()}://{folder}", anchor="main")


class ConfFiles(ConfigSource):
    """Source of the files in one folder of configurations."""

    @staticmethod
    def scheme() -> str:
        return "dpbench"

    def _file(self, config_path: str) -> Path:
        return Path(self.path, f"{config_path.removesuffix('.yaml')}.yaml")

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        return self._file(config_path).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of files, for messages; Hydra asks for groups only to complete words."""
        files = Path(self.path, config_path).glob("*.yaml")
        return sorted(file.stem for file in files)

    def load_config(self, config_path: str) -> ConfigResult:
        path = self._file(config_path)
        with path.open(encoding="utf-8") as file:
            header = re.match(r"\s*#\s*@package\s+(\S+)", file.read(500))
            file.seek(0)
            values = _Loader(file).get_single_data() or {}
        if not isinstance(values, dict):
            raise ConfigError(f"{config_path}: expected a mapping; write KEY: VALUE")
        package = header and header[1]
        if package:
            check_package(config_path, package)
        if absolute := ABSOLUTE.search(str(values.get("defaults"))):
            check_package(config_path, absolute[0])
        group = config_path.rpartition("/")[0].replace("/", ".")
        _check_defaults(values, config_path.rpartition("/")[0])
        config = OmegaConf.create(_prepare(values, group, path.parent))
        return ConfigResult(self.provider, self.full_path(), config, {"package": package})


def _check_defaults(values: dict[str, Any], group: str) -> None:
    """Raise ConfigError with a line for each file of the list ``defaults`` that does not exist.

    Hydra would stop at the first. `group` is the folder of the file with these values.
    """
    entries, missing = values.get("defaults"), list[str]()
    for entry in entries if isinstance(entries, list) else ():
        for key, names in entry.items() if isinstance(entry, dict) else [("", entry)]:
            *flags, place = key.partition("@")[0].split(" ")
            folder = place[1:] if place.startswith("/") else f"{group}/{place}".strip("/")
            for name in names if isinstance(names, list) else [names]:
                is_name = isinstance(name, str) and name not in {"_self_", "???"}
                if is_name and "${" not in name and "optional" not in flags:
                    missing += _describe_if_missing(folder, name)
    if missing:
        raise ConfigError(*missing)


def _describe_if_missing(group: str, name: str) -> list[str]:
    """Return the message on a file in a list if no folder in use has the file."""
    folders = [root / group for root in FOLDERS.get()]
    if any((folder / f"{name.removesuffix('.yaml')}.yaml").is_file() for folder in folders):
        return []
    options = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    return [describe_missing_file(group, name, sorted(options))]


def describe_missing_file(group: str, name: str, options: Sequence[str]) -> str:
    """Return the message on a file that does not exist; its group has the files `options`."""
    return f"{group}: {name!r}: no such configuration{_advise_file(group, name, options)}"


def _advise_file(group: str, name: str, options: Sequence[str]) -> str:
    """Return advice for a configuration that was not found: the file that it may mean, or a list.

    A file in the working folder is not read, because its folder is no folder of configurations.
    """
    stem = Path(name).name.removesuffix(".yaml")
    if stem != name and stem in options:
        return f"; write {group}={stem}"
    if (Path(group) / f"{stem}.yaml").is_file():
        return f"; for ./{group}/{stem}.yaml write {group}={stem} --config-dir ."
    found = next(filter(Path.is_file, (Path(name), Path(f"{name}.yaml"))), None)
    if found is not None:
        return f"; move {found} to {group}/{stem}.yaml, then write {group}={stem} --config-dir ."
    return f"; {choose_from(name, options)}" if options else ""


def check_package(name: str, package: str) -> None:
    """Raise ConfigError if a package, a place of a file, is not below ``sweep`` or ``runner``."""
    if package.partition(".")[0] not in {"sweep", "runner"} or ABSOLUTE.search(package):
        raise ConfigError(
            f"{name}: its package is {package or '_global_'!r}: a file can set keys of sweep and "
            "runner only; set the others on the command line"
        )


def refuse_functions(place: str, text: str) -> None:
    """Raise ConfigError if a text calls a function, such as ``${oc.env:HOME}``.

    A text may name other keys, as in ``${sweep.name}``.
    """
    rest, before = text, ""
    while rest != before:  # names of keys may hold names of keys
        rest, before = re.sub(r"\$\{[^{}:]*\}", "", rest), rest
    if "${" in rest:
        raise ConfigError(f"{place}: {text!r}: only keys are allowed in braces: ${{sweep.name}}")


def _prepare(value: Any, place: str, folder: Path, key: str = "") -> Any:
    """Return a value of a file with absolute paths at the keys ``path``; refuse functions.

    Relative paths begin at `folder`, the folder of the file. `place` names the value in messages.
    """
    if isinstance(value, dict):
        return {
            key: _prepare(item, f"{place}.{key}".lstrip("."), folder, key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_prepare(item, place, folder, key) for item in value]
    if isinstance(value, str):
        refuse_functions(place, value)
        return _resolve_path(value, folder) if key == "path" else value
    return value


def _resolve_path(path: str, folder: Path) -> str:
    """Return the absolute form of a relative path that begins at `folder`.

    All other texts are returned unchanged, for example the name of a file shipped with dpbench.
    """
    if "${" in path or path.startswith("~"):
        return path
    absolute = folder / path
    is_shipped = (SHIPPED_DATA / path).is_file() and not absolute.exists()
    return path if is_shipped else str(absolute.resolve())


class _Loader(SafeLoader):  # type: ignore[misc]
    """Reader of YAML files in which every key is text, and only true and false are booleans.

    A label may be ``no`` or ``null``, and a part may name it without quotes. Texts such as 1e3 are
    numbers, and dates are texts. A key stands once in a mapping.
    """

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        tag: str = super().resolve(kind, value, implicit)
        if tag == BOOLEAN and str(value).lower() not in {"true", "false"}:
            return TEXT
        if tag == TEXT and kind is ScalarNode and implicit[0] and EXPONENT.fullmatch(str(value)):
            return FLOAT
        return TEXT if tag == DATE else tag

    def compose_node(self, parent: Node | None, index: Any) -> Any:
        """Refuse a mapping with too many entries at once, because OmegaConf would take minutes."""
        if isinstance(parent, MappingNode) and len(parent.value) >= MAX_ENTRIES:
            place = f"{self.name}, line {parent.start_mark.line + 1}"
            raise ConfigError(f"{place}: more than {MAX_ENTRIES} entries in a mapping; write fewer")
        node = super().compose_node(parent, index)
        if isinstance(parent, MappingNode) and index is None and isinstance(node, ScalarNode):
            node.tag = TEXT if node.tag in PLAIN else node.tag  # the key of an entry
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if key.tag == TEXT]
        if len(set(keys)) < len(keys):
            place = f"{self.name}, line {node.start_mark.line + 1}"
            key = max(keys, key=keys.count)
            raise ConfigError(f"{place}: {key}: more than one such key; keep one")
        return super().construct_mapping(node, deep)
