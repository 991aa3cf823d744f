"""Tests mirror the layout: `dpbench/ROOM/NAME.py` is tested by `tests/ROOM/test_NAME.py`."""

from __future__ import annotations

from pathlib import Path

from dpbench.app import BUILT_IN
from tests.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
WHOLE = {"conf", "docs", "packaging", "whole"}  # about no module: each has all of them run

# Modules that have no test of their name, and the test that sees what is wrong in them.
ELSEWHERE = {
    # nothing but names
    "arrays.py": "",
    "output/names.py": "report/drawing/test_style.py",
    # nothing can be seen of them but what comes of it
    "report/overview.py": "report/test_run_result.py",
    "tracking/command_init_ci.py": "tracking/test_pytest_plugin.py",
    "site/command.py": "docs/test_site.py",
    "distributions/beta.py": "distributions/test_continuous.py",
    "distributions/hyperexponential.py": "distributions/test_continuous.py",
    "distributions/value_table.py": "distributions/test_real_column.py",
    "tracking/pytest_check.py": "tracking/test_pytest_plugin.py",
    "jobs/prepare.py": "conf/test_sweeps.py",
    "jobs/rerun.py": "jobs/test_study.py",
    "tracking/job.py": "tracking/test_check.py",
    "estimators/public.py": "estimators/test_catalogue.py",
    "libraries/means/worker.py": "libraries/means/test_process.py",
    "libraries/sweep.py": "libraries/test_job.py",
    "report/error_table_text.py": "report/test_error_table.py",
    "report/labels.py": "report/test_error_figures.py",
    "report/parameter_figures.py": "report/test_error_figures.py",
    "report/sections/errors.py": "report/test_page.py",
    "audit/section.py": "report/sections/test_audit.py",
    "audit/paper.py": "audit/test_job.py",
    "libraries/paper.py": "libraries/test_job.py",
    "libraries/section.py": "libraries/test_job.py",
    "output/new_files.py": "starter/test_new.py",
    "paper/command.py": "report/test_latex.py",
    "report/answer.py": "report/test_scoreboard.py",
    "tracking/section.py": "report/sections/test_tracking.py",
    "report/sections/origin.py": "report/sections/test_failures.py",
    # one check of estimators that are wrong in one way each
    "testing/case.py": "testing/test_promises.py",
    "testing/neighbours.py": "testing/test_promises.py",
    # one table of exact values against draws, or the tests of the only estimator that it is about
    "theory/exact/instance_noise.py": "theory/exact/test_value.py",
    "theory/exact/clip_and_noise_oracle.py": "theory/exact/test_value.py",
    "theory/exact/columns.py": "estimators/test_columns.py",
    "theory/exact/clip_and_noise.py": "theory/exact/test_value.py",
    "theory/exact/vectors.py": "theory/exact/test_value.py",
    "theory/exact/intervals.py": "estimators/test_intervals.py",
    "theory/exact/local.py": "estimators/test_privunit.py",
    "theory/exact/regression.py": "estimators/test_regression.py",
    "theory/exact/score.py": "estimators/test_gaussian_score.py",
    "theory/exact/ball_searches.py": "privacy/test_noisy_search.py",
}
# what every application has, in one test for all
ELSEWHERE |= {f"{name}/app.py": "test_app.py" for name in (*BUILT_IN, "jobs")}
ELSEWHERE |= {
    f"{name}/verdicts.py": "output/test_verdicts.py" for name in ("audit", "libraries", "tracking")
}
# Tests of a module that are apart from those of its name, and the module.
APART = {
    "test_arguments.py": "errors.py",
    "audit/test_rogues.py": "privacy/replay.py",
    "samples/test_row_independence.py": "samples/dense.py",
    "theory/bounds/test_extreme_budgets.py": "theory/bounds/record_information.py",
    "estimators/test_scales.py": "registry.py",
    "theory/exact/test_scales.py": "theory/exact/value.py",
    "analysis/test_search.py": "analysis/smallest_n.py",
    "report/sections/test_audit.py": "audit/section.py",
    "report/sections/test_tracking.py": "tracking/section.py",
    "report/test_page_browser.py": "report/page.py",
    "report/test_page_interactive.py": "report/page.py",
    "benchmark/test_cheats.py": "benchmark/scoring.py",
    "starter/test_new.py": "starter/app.py",
}


def test_a_module_is_tested_by_a_file_of_its_name() -> None:
    package, tests = ROOT / "dpbench", ROOT / "tests"
    modules = {path.relative_to(package) for path in package.rglob("[!_]*.py")}
    modules = {path for path in modules if "templates" not in path.parts}
    found = {path.relative_to(tests) for path in tests.rglob("test_*.py")}
    found = {path for path in found if path.parts[0] not in WHOLE}
    own = {path: path.with_name(f"test_{path.name}") for path in modules}
    without = {path.as_posix() for path, test in own.items() if test not in found}
    assert without - set(ELSEWHERE) == set(), "write tests/ROOM/test_NAME.py for each"
    assert set(ELSEWHERE) - without == set(), "has a test of its name: take it from ELSEWHERE"
    assert {path.as_posix() for path in found - set(own.values())} == set(APART)
    named = [tests / test for test in ELSEWHERE.values()]
    named += [package / module for module in APART.values()]
    assert [path for path in named if not path.exists()] == []


def test_a_file_of_tests_has_tests() -> None:
    """One that was emptied by mistake would fail nothing."""
    files = (ROOT / "tests").rglob("test_*.py")
    assert [path for path in files if "\ndef test_" not in path.read_text("utf-8")] == []


def test_each_error_of_the_list_can_be_made() -> None:
    """A line of the code that moves or changes moves in `tests/mutants.yaml`, too."""
    for name, mutant in MUTANTS.items():
        code = ROOT / "dpbench" / mutant["file"]
        assert code.is_file(), f"{name}: no such file: {code}"
        assert code.read_text().count(mutant["old"]) == 1, f"{name}: `old` is not once in {code}"
        missing = [path for path in mutant["tests"].split() if not (ROOT / "tests" / path).exists()]
        assert not missing, f"{name}: no such tests: {missing}"
