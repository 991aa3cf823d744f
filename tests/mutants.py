"""Errors for the tests to find: `python -m tests.mutants [NAME ...]`, from the checkout.

Every mutant is one wrong line. It is put into a copy of the checkout, the tests that should
notice run there, and the exit code is 1 if a mutant is not killed, or its text is gone. Tests
marked as slow are not among them: every mutant is killed without these.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
COPIED = (
    "conf", "docs/howto", "dpbench", "results/archive", "results/baselines", "tests",
    "CONTRIBUTING.md", "pyproject.toml",
)  # fmt: skip
SECONDS = 900.0


# By name: `file` below `dpbench`, where `old` occurs once and becomes `new`; `tests` are paths.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MUTANTS: dict[str, dict[str, str]] = yaml.load(
    (ROOT / "tests" / "mutants.yaml").read_text(),
    LOADER,
)


def judge(mutant: dict[str, str]) -> str:
    """What comes of the tests with this mutant: killed, survived, gone or not decided."""
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            put = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            put(ROOT / name, Path(folder) / name)
        target = Path(folder) / "dpbench" / mutant["file"]
        text = target.read_text()
        if text.count(mutant["old"]) != 1:
            return "gone"
        target.write_text(text.replace(mutant["old"], mutant["new"]))
        paths = [f"tests/{path}" for path in mutant["tests"].split()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0"]
        # The copy goes before the checkout, which is installed.
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            found = subprocess.run(
                [*command, *paths], cwd=folder, env=environment, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"not decided: no end within {SECONDS:g} s"
    if found.returncode == 0:
        return "survived"
    if found.returncode != 1:
        return f"broken: pytest ended with {found.returncode}"
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"killed: {failed[0].split(' - ')[0].partition(' ')[2] if failed else '?'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MUTANTS))
    names = parser.parse_args().names or list(MUTANTS)
    if unknown := set(names) - set(MUTANTS):
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    alive = []
    for name in names:
        start = time.monotonic()
        verdict = judge(MUTANTS[name])
        print(f"{name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
        if not verdict.startswith("killed"):
            alive.append(name)
    print(f"{len(names) - len(alive)} of {len(names)} killed")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
