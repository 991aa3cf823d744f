"""The words of the command line: flags, and what is left for the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from dpbench.errors import ConfigError

__all__ = [
    "arguments",
    "command_words",
]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags, which are a few of Hydra's; the rest are overrides."""
    parser = argparse.ArgumentParser(prog="dpbench", add_help=False, exit_on_error=False)
    parser.add_argument("--help", "-h", nargs="*")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--schema", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job"])
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("overrides", nargs="*")
    try:
        found, unknown = parser.parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    if unknown:
        raise ConfigError(
            f"{unknown[0]}: no such flag; choose from --help, --version, --schema, --cfg job, "
            "--multirun, --config-dir DIR, or write key=value"
        )
    if found.help is not None:  # it takes all words; overrides are none of its own
        found.overrides += [word for word in found.help if "=" in word]
        found.help = [word for word in found.help if "=" not in word]
    if found.config_dir is not None and not found.config_dir.is_dir():
        raise ConfigError(f"--config-dir: '{found.config_dir}': no such folder")
    return found


def command_words(
    words: Sequence[str], usage: str, keys: Sequence[str] = (), *, least: int = 0, most: int
) -> tuple[list[str], dict[str, str]]:
    """The words of a command such as ``compare``, and what is given as key=value.

    ConfigError, with the usage, if there are fewer than `least` words, more than `most`, or a key
    or a flag that is none of its own.
    """
    known = usage.partition("\n")[0]
    places, given = list[str](), dict[str, str]()
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in keys and value:
            given[key] = value
        elif word.startswith("-") or (equals and key.isidentifier() and not Path(word).exists()):
            raise ConfigError(f"{word}: no such word of this command; {known}")
        else:
            places.append(word)
    if not least <= len(places) <= most:
        raise ConfigError(f"{' '.join(words) or 'no words'}: {known}")
    return places, given
