"""Complete words of the command line with Tab, in bash, zsh and fish.

A script of the shell, which ``--completion SHELL`` prints, calls ``dpbench --complete WORD ...`` at
each Tab. This module completes commands, sweeps and top keys, from the names of files, the JSON
schema of sweeps and the usage texts of commands. It imports nothing slow and composes no
configuration, because an answer must appear at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from dpbench.app import commands
from dpbench.cli.help import top_keys
from dpbench.errors import ConfigError, choose_from
from dpbench.jobs.sweep_files import find_sweeps
from dpbench.package import conf_folder
from dpbench.theory.theorems import THEOREMS

__all__ = ["SCRIPTS", "complete", "completion_script"]

FLAGS = ("--help", "--version", "--schema", "--cfg", "--multirun", "--config-dir", "--completion")
VALUES = {
    "track": ("check", "update"), "report": ("all",), "font": ("sans", "serif"),
    "paper": ("true", "false"), "resume": ("true", "false"), "quick": ("true", "false"),
    "neighbours": ("replace", "add_remove"),
}  # fmt: skip

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
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o bashdefault -o default -F _dpbench dpbench
"""
ZSH = """\
#compdef dpbench
_dpbench() {
    local -a found open
    found=("${(@f)$($words[1] --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    open=(${(M)found:#*=})
    found=(${found:#*=})
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
    """Return the script that completes words of dpbench's command line in bash, zsh or fish.

    Another shell is a `ConfigError`.
    """
    if shell not in SCRIPTS:
        raise ConfigError(f"--completion: {shell!r}: {choose_from(shell, SCRIPTS)}")
    return SCRIPTS[shell]


def complete(words: Sequence[str]) -> list[str]:
    """Return the possible completions of the last word of a command line.

    `words` are those after the command ``dpbench``, up to the cursor; the last one may be empty.
    The completions are whole words that begin with it. A completion that ends in ``=`` goes on.
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
        values = _names(key, folders) if key in {"sweep", "runner"} else VALUES.get(key, ())
        return [f"{key}={value}" for value in values]
    names = [] if before else [*commands(), "help"]
    return [*names, *(f"{key}=" for key in top_keys())]


def _config_folders(words: Sequence[str]) -> list[Path]:
    """Return the folder that ``--config-dir`` names among some words, in a list."""
    flags = {"--config-dir", "-cd"}
    return [Path(folder).expanduser() for flag, folder in pairwise(words) if flag in flags]


def _topics(words: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return what may follow ``--help`` and some words."""
    if not words:
        return ["sweep", "kind", "figure", "theorem", *commands()]
    if words[0] == "sweep":
        return find_sweeps(folders)
    if words[0] == "theorem":
        return THEOREMS
    return (
        _kinds("figures") if words[0] == "figure" else _kinds("estimators", "families", "budgets")
    )


def _names(group: str, folders: Iterable[Path]) -> list[str]:
    """Return the names of the files of a group, such as ``runner``."""
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


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
