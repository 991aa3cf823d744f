"""What a configuration may say: for people by --help, for editors by the committed schema."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf

from dpbench.analysis.claim_kinds import Exponent
from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.audit.cases import AuditCase, AuditSettings, AuditSweep
from dpbench.cli.main import run
from dpbench.estimators import Estimator
from dpbench.jobs import describe
from dpbench.libraries.sweep import HostileSettings, LibraryClaim, LibrarySettings, LibrarySweep
from dpbench.package import conf_folder
from dpbench.registry import labelled_entries, validated
from dpbench.report.study import Study, StudyPart, gather_entries
from dpbench.theory.theorems import THEOREMS
from tests.bench import Bench

SCHEMA = conf_folder() / "sweep.schema.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))
SWEEPS = sorted((conf_folder() / "sweep").glob("*.yaml"))


def test_the_committed_schema_is_what_the_command_prints() -> None:
    """If not: python -m dpbench --schema > conf/sweep.schema.json."""
    # in a process of its own, where no other test has added kinds
    command = [sys.executable, "-m", "dpbench", "--schema"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == SCHEMA.read_text()
    Draft202012Validator.check_schema(VALIDATOR.schema)
    text = SCHEMA.read_text()
    assert all(f'"#/$defs/{name}"' in text for name in VALIDATOR.schema["$defs"])


@cache
def read(path: Path) -> Any:
    """A sweep's file as it stands, to be read only: an editor sees no other."""
    return OmegaConf.to_container(OmegaConf.load(path), resolve=True)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_shipped_sweep_keeps_to_the_schema_and_names_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == SCHEMA.resolve()
    assert not list(VALIDATOR.iter_errors(read(path)))


CLAIM = "parts.worst_case.claims.ksu20_alpha"
GONE = object()  # in place of a value


@pytest.fixture(scope="module")
def quick() -> Any:
    """A sweep in which a test makes a mistake, of its own copy."""
    spec = deepcopy(read(conf_folder() / "sweep" / "quick.yaml"))
    spec["budgets"]["pure"]["epsilon"] = [0.1, 1]  # one variant each
    spec["estimators"]["mine"] = {"_target_": "mine.Mine", "anything": 1}
    assert VALIDATOR.is_valid(spec)
    for listed, is_valid in (
        ([{"epsilon": 1}, {"rho": 1}], True),
        ([{"epsilon": 1, "rho": 1}], False),
    ):
        assert VALIDATOR.is_valid({**spec, "budgets": listed}) == is_valid
    return spec


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fail_on_inconsistent", "perhaps"), ("fail_on_inconsistency", True),
         ("parts.worst_case.trails", 3),
        ("budgets.pure.eps", 3), ("parts.worst_case.figures.worst_case.captoin", "x"),
        ("estimators.mean.kind", "nope"), ("families.pareto_k2.kind", GONE),
        (f"{CLAIM}.theorem", "nope"), (f"{CLAIM}.denominator", "rate"), (f"{CLAIM}.tolerance",
         GONE),
        ("budgets.pure.epsilon", "small"), ("families.two_point.c", "wide"),
        ("parts.worst_case.n", "many"), ("estimators.rate.policy", "nope"),
        ("parts.worst_case.trials", 0), ("parts.worst_case.families", 3), ("estimators", GONE),
    ],
)  # fmt: skip
def test_a_mistake_is_underlined(key: str, value: object, quick: Any) -> None:
    spec = deepcopy(quick)
    *path, last = key.split(".")
    at = spec
    for step in path:
        at = at[step]
    at[last] = value
    if value is GONE:
        del at[last]
    assert not VALIDATOR.is_valid(spec)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


def test_help_on_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    keys = told(capsys, "--help", "sweep")
    listed = (
        "fail_on_inconsistent: bool = True",
        "n: list of int, or Grid (required)",
        "== an audit",
    )
    required = (*listed, "theorem: str or OwnTheorem (required)")
    assert [words for words in required if words not in keys] == []
    for path in SWEEPS:
        about = told(capsys, "--help", "sweep", path.stem)
        assert about.endswith(f"file: {path}\n")
        assert "schema" not in about
        assert len(about.splitlines()) >= 2
        claims = gather_entries(read(path), "claims")
        predicted = [label for label, spec in claims.items() if "theorem" in spec]
        shown = re.findall(r"^  (\S+)  +(?:<= )?-?[\d.].* \+- ", about, re.MULTILINE)
        assert shown == predicted


def test_help_on_a_sweep_has_the_number_of_each_claim(capsys: pytest.CaptureFixture[str]) -> None:
    """k/(k-1) for the moment orders of the claim's families; a number of the file; a limit."""
    about = " ".join(told(capsys, "--help", "sweep", "quick").split())
    rates = ", ".join(f"{k / (k - 1):.4g}" for k in (2, 3, 4, 6))
    assert re.search(
        rf" ksu20_alpha {rates} \+- 0.01 s in n ~ \S+; q90; KSU20, Theorem 3.5; families two_p",
        about,
    )
    assert " private_side 1.333 +- 0.06, exact at these n s in n ~" in about
    assert " near_optimal <= 1.25 +- 0.05 error over the lower bound; q90; lower bound," in about
    tail = " ".join(told(capsys, "--help", "sweep", "heavy_tail").split())
    same = r"s in n ~ \S+; q90; KSU20, Theorem 3.5; families (.*?; budgets .*?) "
    selections = re.findall(same, tail)  # of claims that are alike in all else
    assert len(selections) == len(set(selections)) == 6
    noise = " ".join(told(capsys, "--help", "sweep", "noise").split())
    ratio = math.sqrt(6 * 256**2 / (257 * 258))  # HT10's noise of the cube
    assert f" laplace_over_cube {ratio:.4g} +- 0.02 error over another estimator's; rmse" in noise


def test_help_finds_claims_and_theorems_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--help", "claim") == told(capsys, "--help", "theorem")
    sweeps = told(capsys, "--help", "claim", "ksu20_alpha").splitlines()[1:]
    assert [line.split()[-1] for line in sweeps] == ["heavy_tail", "quick"]
    found = told(capsys, "--help", "theorem", "ksu20").splitlines()[1:]
    assert "heavy_tail_rho" in {line.split()[0] for line in found if line}
    assert "central_limit" not in " ".join(found)


def test_a_claim_that_cannot_be_read_has_its_error(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write(lambda spec: spec["claims"].update(odd={"theorem": "mine", "tolerance": 1}))
    about = told(capsys, "--config-dir", "conf", "--help", "sweep", "tiny")
    assert "  odd.theorem: 'mine': no such theorem; choose from" in about
    assert re.search(r"  alpha +2, 1.5 \+- 0.3\n", about)


def test_help_on_kinds_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    *groups, last = told(capsys, "--help", "kind").split("\n\n")
    assert last.startswith("more about one")
    names: dict[str, list[str]] = {}
    for group in groups:
        title, *lines = group.splitlines()
        first = [line for line in lines if line[0] != " "]
        assert all(len(line.split(maxsplit=1)) == 2 for line in first)  # each has a summary
        names[title] = [line.split()[0] for line in first]
        assert names[title] == sorted(names[title])
    assert "clipped_mean" in names["== private means of numbers, central model"]
    assert "gaussian" in names["== distributions"]
    assert "two_point_family" in names["== families: sets of distributions, for worst cases"]
    assert "zcdp" in names["== privacy budgets"]
    about = told(capsys, "--help", "kind", "ksu20_mean")
    assert about.startswith("kind: ksu20_mean\n")
    assert not [words for words in ("radius: ", "(required)", "constants: ") if words not in about]
    assert "metric: str = q90" in told(capsys, "--help", "figure", "error_against_n")


# A class, its name in the schema, a sweep that makes it, and the steps from there to its keys.
CLAIMS = {"c": {"theorem": "heavy_tail_alpha"}}
PLACES: tuple[tuple[type[Any], str, dict[str, Any], str], ...] = (
    (Study, "", {}, ""),
    (StudyPart, "part", {"parts": {"p": {}}}, "parts.p"),
    (Exponent, "claim.exponent", {"parts": {"p": {"claims": CLAIMS}}}, "parts.p.claims.c"),
    (
        SampleComplexity,
        "sample_complexity",
        {"sample_complexity": {"s": {}}},
        "sample_complexity.s",
    ),
    (AuditSweep, "", {"audit": {}}, ""),
    (AuditSettings, "audit", {"audit": {}}, "audit"),
    (AuditCase, "case", {"audit": {"cases": {"c": {}}}}, "audit.cases.c"),
    (LibrarySweep, "", {"libraries": {}}, ""),
    (LibraryClaim, "claim.libraries", {"libraries": {}, "claims": {"error": {}}}, "claims.error"),
    (LibrarySettings, "libraries", {"libraries": {}}, "libraries"),
    (HostileSettings, "hostile", {"libraries": {"hostile": {}}}, "libraries.hostile"),
)


@pytest.mark.parametrize(
    ("kind", "name", "sweep", "steps"), PLACES, ids=[c[0].__name__ for c in PLACES]
)
def test_every_key_is_in_help_schema_and_proposals(
    kind: type[Any], name: str, sweep: dict[str, Any], steps: str
) -> None:
    keys = [field.name for field in fields(kind)]
    whole = describe.schema()
    assert set(keys) <= set((whole["$defs"][name] if name else whole)["properties"])
    assert describe.keys_at({"sweep": sweep}, ["sweep", *filter(None, steps.split("."))]) == keys
    sections = describe.describe_topic("sweep", None, []).split("\n\n")
    (first,) = (kind.__doc__ or "").splitlines()[:1]
    listed = [one for one in sections if f"\n{first}\n" in one] if name else sections
    for key in keys:
        assert any(f"\n  {key}: " in one or f"the key {key})" in one for one in listed), key


def test_help_says_a_paragraph_once() -> None:
    lines = describe.describe_topic("sweep", None, []).split("\n")
    places = [
        i for i, line in enumerate(lines) if line.startswith("      All by default. A choice is")
    ]
    assert len(places) == 1
    assert [line.partition(":")[0].strip() for line in lines[places[0] - 3 : places[0]]] == [
        "families", "estimators", "budgets",
    ]  # fmt: skip
    long = [line for line in lines if len(line.strip()) > describe.MAX_REPEATED_LENGTH]
    explained = [line for line in long if line.startswith("      ")]
    assert len(explained) == len(set(explained)) > 20
    titles = {line.removeprefix("== "): i for i, line in enumerate(lines) if line[:3] == "== "}
    references = [(i, line.split('"')[1]) for i, line in enumerate(lines) if " See " in line]
    assert len(references) > 8
    assert all(titles[title] < i for i, title in references)


@validated
class Layer:
    """A layer."""

    depth: int = 3


@validated
class LayeredAudit(AuditSweep):
    """An audit with keys that no other sweep has."""

    layers: Annotated[Mapping[str, Layer], labelled_entries(Layer, title="a layer")]
    height: int = 2


def test_a_new_key_is_in_help_schema_and_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(describe.SWEEPS, "audit", LayeredAudit)
    monkeypatch.setattr(describe, "KEYS", describe.collect_titles())
    keys = describe.describe_topic("sweep", None, [])
    assert "\n\n== a layer\nA layer.\n  depth: int = 3" in keys
    assert "\n\n== a sweep with the key audit\n" in keys
    assert "\n  height: int = 2" in keys
    found = describe.schema()
    assert found["properties"]["height"]["default"] == 2
    layers = found["properties"]["layers"]
    assert layers["additionalProperties"] == {"$ref": "#/$defs/layer"}
    assert list(found["$defs"]["layer"]["properties"]) == ["depth"]
    config: dict[str, Any] = {"sweep": {"audit": {}, "layers": {"top": {}}}}
    assert describe.keys_at(config, ["sweep", "layers", "top"]) == ["depth"]
    assert describe.keys_at(config, ["sweep", "layers"]) is None
    assert "height" in (describe.keys_at(config, ["sweep"]) or ())


def test_an_override_names_the_keys_of_its_own_kind_of_sweep(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, line in (
        (
            "sweep.libaries.seconds=3",
            "sweep.libaries.seconds: no such key; did you mean 'libraries'?",
        ),
        ("sweep.libraries=3", "sweep.libraries: 3: input should be a dictionary"),
    ):
        assert run(["sweep=libraries", words]) == 2
        assert capsys.readouterr().err.startswith(f"dpbench: {line}")


PLUGIN = '''
from dpbench import Estimator, validated


@validated
class Mine(Estimator):
    """A line about it.

    Parameters
    ----------
    width : float
        How wide.
    """

    width: float = 3.0

    def estimate(self, sample, ledger):
        raise NotImplementedError
'''


def test_help_on_a_plugins_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "described_plugin.py").write_text(PLUGIN)
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "own.yaml").write_text("name: own\ntitle: Of my own\n")
    words = ["--config-dir", str(tmp_path), "plugins=[described_plugin]"]
    found = told(capsys, "--help", "kind", "mine", *words)
    assert found == "kind: mine\nA line about it.\n  width: float = 3.0\n      How wide.\n"
    assert "Of my own\n" in told(capsys, *words, "--help", "sweep", "own")
    schema = json.loads(told(capsys, "--schema", *words))
    assert schema["$defs"]["kind.mine"]["properties"]["width"]["description"] == "float How wide."


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nope"], "--help: 'nope': choose from sweep, kind, figure, theorem"),
        (["swep"], "--help: 'swep': did you mean 'sweep'? choose from sweep"),
        (["sweep", "zzz"], "--help sweep: 'zzz': no such sweep; choose from add_remove,"),
        (["figure", "nope"], "--help figure: 'nope': no such figure; choose from against_param"),
        (
            ["theorem", "heavy_tail_rh"],
            "--help theorem: 'heavy_tail_rh': no such theorem; did you mean 'heavy_tail_rho'?",
        ),
        (["claim", "figures"], "--help theorem: 'figures': no such theorem; choose from"),
        (["kind", "mine", "plugins=[no_such]"], "plugins: 'no_such': ModuleNotFoundError"),
        (["sweep", "quick", "audit"], "--help: 'audit': give a topic and one name"),
        (["kind", "no", "such"], "--help kind: 'no such': no such kind; choose from "),
    ],
)
def test_help_on_nothing(capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    assert run(["--help", *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"dpbench: {line}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "heavy_tail_alpha",
            ["number: 2, 1.5, 1.33 (for", "of: s in n ~ (1/\u03b1)ˢ", "metric: q90 ("],
        ),
        ("heavy_tail_rho", ["number: 0.5", "of: s in n ~ (1/\u03c1)ˢ", "kind of claim: exponent"]),
        ("shifted_dimension", ["of: c in error ~ dᶜ"]),
        ("heavy_tail_private_part", ["number: ≤ 2, 1.5, 1.33 (", "metric: privacy_cost_q90 ("]),
        (
            "within",
            ["number: the claim gives it, as an upper limit", "kind of claim: error over bound"],
        ),
        ("exact_samples", ["number: 1", "kind of claim: level of n"]),
    ],
)
def test_help_on_a_theorem_states_its_number(
    name: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = _print_help(capsys, "theorem", name)
    assert all(f"\n  {line}" in told for line in lines), told
    source, example = told.partition("\n  source: ")[2].split("\n  example, from sweep=")
    assert source.startswith(THEOREMS[name].source + "\n")
    sweep, _, text = example.partition(":\n")
    (label, claim), *others = yaml.safe_load(text)["claims"].items()
    shipped = read(conf_folder() / "sweep" / f"{sweep}.yaml")
    sections = [shipped, *shipped.get("parts", {}).values()]
    assert not others
    assert claim["theorem"] == name
    assert any(claim == section.get("claims", {}).get(label) for section in sections)


def test_help_lists_every_theorem(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print_help(capsys, "theorem").split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == list(THEOREMS)
    assert "1.33" in lines[0]
    assert lines[0].endswith("; KSU20, Theorem 3.5")


def _print_help(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["--help", *words]) == 0
    return capsys.readouterr().out


def test_help_on_an_estimator_has_the_lines_of_the_catalogue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help", "kind", "universal_mean"]) == 0
    told = capsys.readouterr().out
    assert "assumes: nothing beyond records that double precision can hold\n" in told
    assert "in plans, and of means in the benchmark: universal_mean" in told
    assert run(["--help", "kind", "library_mean"]) == 0
    assert (
        "in plans, and of means in the benchmark: no, because libraries run"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("word", "found"),
    [("heavy tails", "tuned_clipped_mean"), ("dp-sgd", "gradient_descent_mean"),
     ("private_median", "inverse_sensitivity"), ("coin", "binary_mean"),
     ("huang", "instance_optimal_mean"), ("Bun", "smooth_sensitivity_trimmed_mean"), ("staircase",
      "pure_dp"),
     ("privunit", "privunit_mean"), ("sparse vector", "universal_mean"), ("Duchi", "local_mean"),
     ("user level", "user_level_mean"), ("clipped mean", "clipped_mean"), ("KSU20", "ksu20_mean"),
     ("Bun-Steinke", "smooth_sensitivity_trimmed_mean"),
     ("Huang-Liang-Yi", "instance_optimal_mean"),
     ("smooth sensitivity", "smooth_sensitivity_trimmed_mean"), ("friendlycore",
      "friendly_core_mean")],
)  # fmt: skip
def test_kinds_are_found_by_words(
    word: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--help", "kind", *word.split()]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"kinds that match '{word}':\n")
    assert f"\n{found} " in printed
    assert "\nconstant_mean " not in printed
