"""Complete words of the command line with Tab, in bash, zsh and fish.

A script of the shell, which ``--completion SHELL`` prints, calls ``dpbench --complete WORD ...`` at
each Tab. This module answers from the names of files, the JSON schema of sweeps and the usage texts
of commands. It imports nothing slow and composes no configuration, because an answer must appear
at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from dpbench.app import commands
from dpbench.cli.help import top_keys
from dpbench.errors import ConfigError, choose_from
from dpbench.jobs.sweep_header import find_sweeps
from dpbench.package import conf_folder

__all__ = ["SCRIPTS", "complete", "completion_script"]

FLAGS = ("--help", "--version", "--schema", "--cfg", "--multirun", "--config-dir", "--completion")
VALUES = {
    "track": ("check", "update"), "report": ("all",), "font": ("sans", "serif"),
    "paper": ("true", "false"), "resume": ("true", "false"), "quick": ("true", "false"),
    "neighbours": ("replace", "add_remove"),
}  # fmt: skip
SECTIONS = {"estimator": "estimators", "distribution": "families"}

# The current word is split at each = in bash, so that only what follows the last = is replaced.
BASH = """\
_dpbench() {
    local line=${COMP_LINE:0:COMP_POINT} current prefix
    local -a words
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]} - 1]}
    mapfile -t COMPREPLY < <("$1" --complete "${words[@]:1}" 2>/dev/null)
    prefix=${current%"${current##*[=:]}"}
    [[ $COMP_WORDBREAKS == *=* ]] || prefix=
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    [[ ${COMPREPLY[0]-} == *[=.] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o bashdefault -o default -F _dpbench dpbench
"""
ZSH = """\
#compdef dpbench
_dpbench() {
    local -a found open
    found=("${(@f)$($words[1] --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    open=(${(M)found:#*[=.]})
    found=(${found:#*[=.]})
    (( ${#open} )) && compadd -Q -S '' -- $open
    (( ${#found} )) && compadd -Q -- $found
    (( ${#open} + ${#found} )) || _files
}
compdef _dpbench dpbench
"""
FISH = """\
function __dpbench_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    dpbench --complete $words[2..-1] (commandline --cut-at-cursor --current-token) 2>/dev/null
end
complete --command dpbench --arguments '(__dpbench_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
# Words that may follow a flag; the shell itself completes folders.
AFTER_FLAGS: dict[str, Iterable[str]] = {
    "--completion": SCRIPTS, "--cfg": ("job",), "-c": ("job",), "--config-dir": (), "-cd": (),
}  # fmt: skip


def completion_script(shell: str) -> str:
    """Return the script that completes words of dpbench's command line in a shell.

    Raises
    ------
    ConfigError
        If `shell` is not bash, zsh or fish.
    """
    if shell not in SCRIPTS:
        raise ConfigError(f"--completion: {shell!r}: {choose_from(shell, SCRIPTS)}")
    return SCRIPTS[shell]


def complete(words: Sequence[str]) -> list[str]:
    """Return the possible completions of the last word of a command line.

    Parameters
    ----------
    words : sequence of str
        Words after the command ``dpbench``, up to the cursor. The last one may be empty.

    Returns
    -------
    list of str
        Whole words that begin with the last word. A word that ends in ``=`` or ``.`` goes on.
    """
    *before, word = words or [""]
    found = _candidates(before, word)
    return list(dict.fromkeys(text for text in found if text.startswith(word)))


def _candidates(before: Sequence[str], word: str) -> Iterable[str]:
    """Return candidates for a word, given the words before it."""
    folders = [conf_folder(), *_config_folders(before)]
    last = before[-1] if before else ""
    if before and before[0] in commands():
        return _words_of_command(before, word)
    for flag in ("--help", "-h", "help"):
        if flag in before:
            return _topics(before[before.index(flag) + 1 :], folders)
    if last in AFTER_FLAGS:
        return AFTER_FLAGS[last]
    key, equals, _ = word.partition("=")
    if word.startswith("-"):
        return FLAGS
    if equals:
        return [f"{key}={value}" for value in _values(key, before, folders)]
    names = [] if before or word.startswith(("+", "sweep.")) else [*commands(), "help"]
    return [*names, *_keys(word, before, folders)]


def _config_folders(words: Sequence[str]) -> list[Path]:
    """Return the folder that ``--config-dir`` names among some words, in a list."""
    flags = {"--config-dir", "-cd"}
    return [Path(folder).expanduser() for flag, folder in pairwise(words) if flag in flags]


def _topics(words: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return what may follow ``--help`` and some words."""
    if not words:
        return ["sweep", "kind", "figure", *commands()]
    if words[0] == "sweep":
        return find_sweeps(folders)
    return (
        _kinds("figures") if words[0] == "figure" else _kinds("estimators", "families", "budgets")
    )


def _names(group: str, folders: Iterable[Path]) -> list[str]:
    """Return the names of the files of a group, such as ``runner``."""
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


def _values(key: str, before: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return the values that a key may have."""
    group = key.lstrip("+").partition("@")[0]
    if group in {"sweep", "runner", *SECTIONS}:
        return _names(group, folders)
    if key in VALUES:
        return VALUES[key]
    path = key.lstrip("+").split(".")
    if path[:1] != ["sweep"] or len(path) < 2:
        return []
    if path[-1] == "kind":
        return _kinds(path[1] if path[1] != "parts" else "figures")
    schema = _find_schema(path[1:], _sweep(before, folders))
    values = [value for one in _branches(schema) for value in _constants(one)]
    return values or (["true", "false"] if schema.get("type") == "boolean" else [])


def _constants(schema: Mapping[str, Any]) -> list[str]:
    """Return the texts that a schema lists as values."""
    listed = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
    return [str(value) for value in listed if value is not None]


def _keys(word: str, before: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return the keys ``KEY=`` and the sections ``KEY.`` that may follow the beginning of a key."""
    sign = word[: len(word) - len(word.lstrip("+~"))]
    name = word.removeprefix(sign)
    if not name.startswith("sweep."):
        added = [f"{group}@sweep.{section}." for group, section in SECTIONS.items()] if sign else []
        keys = [f"{key}=" for key in top_keys()]
        return [f"{sign}{key}" for key in [*keys, "sweep.", *added]]
    parent, _, _ = name.rpartition(".")
    steps, sweep = parent.split(".")[1:], _sweep(before, folders)
    present: Any = sweep
    for step in steps:
        present = present.get(step) if isinstance(present, dict) else None
    known = _find_schema(steps, sweep)
    listed: dict[str, None] = dict.fromkeys(present if isinstance(present, dict) else ())
    schema_keys = {key for one in _branches(known) for key in one.get("properties", {})}
    listed |= dict.fromkeys(
        sorted(schema_keys - {"kind", "_target_"} | ({"kind"} if sign else set()))
    )
    return [f"{sign}{parent}.{key}{_ending(present, known, key)}" for key in listed]


def _ending(present: Any, schema: Mapping[str, Any], key: str) -> str:
    """Return "." if the value of a key is a mapping, else "="."""
    if isinstance(present, dict) and key in present:
        return "." if isinstance(present[key], dict) else "="
    inner = [
        one["properties"][key] for one in _branches(schema) if key in one.get("properties", {})
    ]
    whole = [branch for one in inner for branch in _branches(_resolve(one, schema), schema)]
    return "." if any(one.get("type") == "object" for one in whole) else "="


def _sweep(before: Sequence[str], folders: Sequence[Path]) -> dict[str, Any]:
    """Return the contents of the sweep's file that some words choose; empty if unreadable."""
    chosen = [word.removeprefix("sweep=") for word in before if word.startswith("sweep=")]
    path = find_sweeps(folders).get(chosen[-1] if chosen else "quick")
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        sweep = yaml.load(path.read_text("utf-8"), loader) if path else {}  # noqa: S506 (safe)
    except (OSError, ValueError, yaml.YAMLError):
        sweep = {}
    return sweep if isinstance(sweep, dict) else {}


def _schema() -> dict[str, Any]:
    """Return the JSON schema of sweeps, as it is stored with the configurations."""
    schema: dict[str, Any] = json.loads((conf_folder() / "sweep.schema.json").read_text("utf-8"))
    return schema


def _kinds(*sections: str) -> list[str]:
    """Return the kinds that may be entries of some sections of a sweep."""
    schema = _schema()
    references = [
        reference.get("$ref", "").rpartition("/")[2]
        for section in sections
        for reference in schema["properties"]
        .get(section, {})
        .get("additionalProperties", {})
        .get("oneOf", [])
    ]
    return sorted({name[5:] for name in references if name.startswith("kind.")})


def _find_schema(steps: Sequence[str], sweep: Any) -> dict[str, Any]:
    """Return the schema of a place in a sweep; empty if the schema does not describe the place.

    The contents of the sweep's file choose between the schemas of several kinds.
    """
    root = _schema()
    at: dict[str, Any] = root
    for step in steps:
        sweep = sweep.get(step) if isinstance(sweep, dict) else None
        found = next((one["properties"][step] for one in _branches(at, root)
                      if step in one.get("properties", {})), None)  # fmt: skip
        if found is None:
            found = next((one["additionalProperties"] for one in _branches(at, root)
                          if isinstance(one.get("additionalProperties"), dict)), {})  # fmt: skip
        at = _resolve(found, root)
        branches = [_resolve(one, root) for one in at.get("oneOf", [])]
        for key in ("kind", "theorem"):
            if isinstance(sweep, dict) and key in sweep:
                allowed = [(one, one.get("properties", {}).get(key, {})) for one in branches]
                at = next((one for one, of in allowed if sweep[key] in _constants(of)), at)
    return {**at, "$defs": root["$defs"]}


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema, or the schema to which it refers."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return dict(root["$defs"][name] if name else schema)


def _branches(
    schema: Mapping[str, Any], root: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the alternatives of a schema, each resolved."""
    root = root or schema
    alternatives = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    return [dict(schema), *(_resolve(one, root) for one in alternatives)]


def _words_of_command(before: Sequence[str], word: str) -> Iterable[str]:
    """Return tasks and keys of a command, which its usage text shows."""
    command = commands()[before[0]]
    key, equals, _ = word.partition("=")
    if equals:
        return [f"{key}={value}" for value in command.values.get(key, VALUES.get(key, ()))]
    start = rf"^(?:usage:)? +(?:python -m dpbench )?{before[0]} "
    tasks = dict.fromkeys(re.findall(rf"(?m){start}([a-z]+)\b(?!=)", command.usage))
    if len(before) == 1 and tasks:
        return [*tasks, "--help"]
    if "" in command.values:
        return command.values[""]
    keys = dict.fromkeys(re.findall(r"\b([a-z_]+)=", command.usage))
    return [*(f"{key}=" for key in keys), "--help"]
