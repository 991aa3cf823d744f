"""Application ``starter``: the command ``new``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpbench.app import App, Command

TEMPLATES = Path(__file__).parent / "templates"
USAGE = """\
Write the files with which a new estimator begins, into the working folder: NAME.py with an
estimator that works, sweep/NAME.yaml, which compares it with known estimators, and test_NAME.py,
which checks its promises. Replaces no file.

usage: python -m dpbench new NAME"""


def _main(words: Sequence[str]) -> int:
    """Write the files, print the next command, and return the exit code 0."""
    from dpbench.errors import ConfigError
    from dpbench.estimators import Estimator
    from dpbench.output.command_line import NoKeys, read_words
    from dpbench.output.new_files import check_module, write_new_files
    from dpbench.output.terminal import command_line, say

    (name,), _ = read_words("new", words, "NAME", NoKeys)
    check_module("new", Path(f"{name}.py"))
    if name in Estimator.kinds():
        raise ConfigError(f"new: {name!r}: dpbench has a kind of this name; choose another name")
    command = command_line(["--config-dir", ".", f"plugins=[{name}]", f"sweep={name}"])
    class_name = "".join(part.capitalize() for part in name.split("_"))

    def fill(template: str) -> str:
        text = (TEMPLATES / template).read_text("utf-8").replace("@NAME@", name)
        return text.replace("@CLASS@", class_name).replace("@COMMAND@", command)

    files = {
        f"{name}.py": fill("estimator.txt"),
        f"sweep/{name}.yaml": fill("sweep.txt"),
        f"test_{name}.py": fill("test.txt"),
    }
    write_new_files("new", Path(), files)
    for path in files:
        say(f"wrote {path}")
    say(f"next: {command}")
    return 0


class _Starter(App):
    def commands(self) -> Sequence[Command]:
        summary = "write an estimator of your own, a sweep that compares it, and a test"
        return (Command("new NAME", summary, USAGE, _main),)


APP = _Starter()
