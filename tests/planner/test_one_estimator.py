"""Words of the command line that name an estimator and a distribution."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpbench.distributions import Distribution, LogNormal, StudentT
from dpbench.errors import ConfigError
from dpbench.estimators import ClippedMean, Estimator
from dpbench.planner.needed_records import EstimatorPlan
from dpbench.planner.one_estimator import EntryWords, prepare_estimator_plan
from dpbench.privacy import Budget, PureDP

CLASS = """
from dpbench import Estimate, Estimator, validated

@validated
class Halves(Estimator):
    bound: float

    def estimate(self, sample, ledger):
        clipped = sample.clipped_mean(-self.bound, self.bound)
        return Estimate(ledger.add_noise(clipped, 2 * self.bound / sample.n), clipped)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder outside of the checkout, which is not the working folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    user = tmp_path / "user"
    (user / "estimator").mkdir(parents=True)
    (user / "distribution").mkdir()
    (user / "halves_module.py").write_text(CLASS)
    (user / "halves.py").write_text(CLASS.replace("Halves", "Thirds"))
    (user / "broken.py").write_text("import nothing_such")
    (user / "estimator" / "mine.yaml").write_text("kind: halves\nbound: 4\n")
    (user / "distribution" / "ages.yaml").write_text("kind: gaussian\nlocation: 40\nscale: 15\n")
    yield user
    for name in ("halves_module", "halves"):
        sys.modules.pop(name, None)


def prepared(
    estimator: str = "clipped_mean",
    law: str | Distribution = "gaussian",
    own: Sequence[str] = (),
    of_law: Sequence[str] = (),
    plugins: Sequence[str] = (),
    config_dir: Path | None = None,
    budget: Budget | None = None,
) -> EstimatorPlan:
    parameters = {"estimator": own, "law": of_law}
    words = EntryWords(estimator, law, parameters, plugins, config_dir)
    options: dict[str, Any] = {"seed": 3, "trials": None, "n_max": None, "report": print}
    return prepare_estimator_plan(words, budget or PureDP(1.0), **options)


def test_a_file_gives_what_the_words_leave_out() -> None:
    plan = prepared(own=["lower=-1"])
    (setting,), (_, law) = plan.cell.settings, plan.cell.members[0]
    assert setting.estimator == ClippedMean(lower=-1, upper=300)
    assert (float(law.mean), plan.options.seed) == (0, 3)


@pytest.mark.parametrize(
    ("law", "of_law", "built"),
    [
        # as without estimator=, where no file plays a part
        ("student_t", ["tail_index=3"], StudentT(tail_index=3)),
        ("log_normal", ["scale=50", "sigma=0.7"], LogNormal(scale=50, sigma=0.7)),
        ("student_t", [], StudentT(tail_index=2.5, standardised_moment=2)),  # the file
    ],
)
def test_a_law_of_the_plan_means_the_same_law(
    law: str, of_law: list[str], built: Distribution
) -> None:
    assert prepared(law=law, of_law=of_law).cell.members[0][1] == built


def test_estimators_and_laws_of_the_users_folder(folder: Path) -> None:
    plugins = ["plugins=[halves_module]"]
    plan = prepared("mine", "ages", ["bound=5"], ["scale=10"], plugins, folder)
    (setting,), (_, law) = plan.cell.settings, plan.cell.members[0]
    assert vars(setting.estimator) == {"bound": 5.0}
    assert (law.mean, law.variance) == (40, 100)
    assert plan.options.origin.plugins == (folder / "halves_module.py",)
    by_kind = prepared("halves", own=["bound=2"], plugins=plugins, config_dir=folder)
    assert vars(by_kind.cell.settings[0].estimator) == {"bound": 2.0}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"law": "gausian"}, "law: 'gausian': no such distribution; did you mean 'gaussian'?"),
        (
            {"estimator": "clipd_mean"},
            "estimator: 'clipd_mean': no such estimator; did you mean 'cl",
        ),
        ({"estimator": "a/b"}, "estimator: 'a/b': a label has up to 100"),
        ({"own": ["lowr=1"]}, "estimator.lowr: no such key; did you mean 'lower'?"),
        ({"own": ["lower=400"]}, "estimator: upper must exceed lower"),
        ({"own": ["lower=[1,2]"]}, "estimator.lower: [1, 2]: several values; give one"),
        ({"own": ["lower=[1"]}, "estimator.lower=[1: "),
        ({"of_law": ["scale=-2"]}, "law.scale: -2: input should be greater than 0"),
        ({"estimator": "tuned_clipped_mean"}, "estimator.k: this key is required"),
        (
            {"estimator": "coinpress_mean", "own": ["sigma=1"]},
            "epsilon: 1: coinpress_mean cannot honour pure DP; it supports zCDP (rho=), Gaussian",
        ),
        # the shipped file's scale fits the shipped distributions only
        ({"estimator": "ksu20_mean", "own": ["k=2"]}, "estimator.scale: this key is required"),
        (
            {"estimator": "inverse_sensitivity", "budget": PureDP(1.0, neighbours="add_remove")},
            "neighbours: 'add_remove': inverse_sensitivity cannot honour this relation",
        ),
        (
            {"estimator": "empirical_mean", "law": "two_point_family"},
            "law: 'two_point_family': its laws depend on a budget, and empirical_mean has none",
        ),
        ({"estimator": "mine"}, "estimator: 'halves': no such estimator, but"),
        (
            {"estimator": "mine", "plugins": ["plugins=[broken]"]},
            "plugins: 'broken': ModuleNotFound",
        ),
        ({"estimator": "mine", "plugins": ["plugins=[none]"]}, "plugins: 'none': ModuleNotFound"),
        (
            {"estimator": "mine", "plugins": ["plugins=mine"]},
            "plugins: 'mine': expected a list: [mine]",
        ),
        (
            {"estimator": "halves", "plugins": ["plugins=[halves_module]"]},
            "estimator.bound: this key is required",
        ),
    ],
)
def test_what_cannot_be_used_is_said_by_the_keys_of_the_plan(
    folder: Path, words: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        prepared(**{"config_dir": folder, **words})
    assert str(error.value).startswith(told)
    assert "sweep" not in str(error.value)
