"""Compose one estimator and one distribution from the words of the command ``plan``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from dpbench.distributions import Distribution
from dpbench.errors import ConfigError, choose_from
from dpbench.estimators import Estimator
from dpbench.jobs.composition import compose
from dpbench.output.names import NOTIONS
from dpbench.package import conf_folder
from dpbench.planner.needed_records import EstimatorPlan
from dpbench.planner.question import LAW_NAMES
from dpbench.privacy import Budget, NonPrivate
from dpbench.registry import Registered, check_label, from_mapping
from dpbench.runner.origin import Origin
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import Settings, load_plugins
from dpbench.sweep.plan import Sweep
from dpbench.theory.families import Family

__all__ = ["EntryWords", "prepare_estimator_plan"]

GROUPS = {"estimator": "estimators", "law": "families"}
# Words of the command line that give a budget of each notion.
KEYS = {"pure": "epsilon=", "approx": "epsilon= delta=", "zcdp": "rho=", "gdp": "mu="}
FOLDERS = {"estimator": "estimator", "law": "distribution"}
ASSUMED_SCALES = ("scale", "sigma", "sigma_low", "sigma_high")


@dataclass(frozen=True)
class EntryWords:
    """Words of the command line that name the estimator, the distribution and the plug-ins.

    Parameters
    ----------
    estimator : str
        Name of a file in the folder ``estimator`` of a configuration, or a kind.
    law : str or Distribution
        Name of a file in the folder ``distribution``, or a kind; or the distribution itself.
    parameters : mapping of str to list of str
        Overrides ``KEY=VALUE`` in Hydra's grammar, keyed by ``estimator`` and ``law``.
    plugins : sequence of str
        Words such as ``plugins=[mine]``.
    config_dir : Path, optional
        Folder of the user's configurations and plug-ins.
    """

    estimator: str
    law: str | Distribution
    parameters: Mapping[str, Sequence[str]]
    plugins: Sequence[str] = ()
    config_dir: Path | None = None

    def files(self, key: str) -> list[str]:
        """Return the names of the files of estimators, or of distributions if `key` is ``law``."""
        folders = [conf_folder(), *([self.config_dir] if self.config_dir else [])]
        paths = (path for folder in folders for path in (folder / FOLDERS[key]).glob("*.yaml"))
        return sorted({path.stem for path in paths})

    def overrides(self, key: str, name: str) -> list[str]:
        """Return the overrides that compose one entry of a sweep, as in Hydra's grammar.

        The key is ``estimator`` or ``law``, and the name is that of a file or a kind. A file gives
        the parameters that the words leave out. A distribution that `plan` knows without files, and
        whose parameters the words give, is built without its file, so that both uses of `plan` mean
        the same distribution. The scale in a shipped file is left out, because it fits the shipped
        distributions only.
        """
        check = check_entry_name(key, name)
        place, parameters = f"sweep.{GROUPS[key]}.{check}", self.parameters[key]
        is_known = key == "law" and name in LAW_NAMES and parameters
        choice = f"{place}.kind={name}"
        if name in self.files(key) and not is_known:
            choice = f"{FOLDERS[key]}@{place}={name}"
        return [
            f"+{choice}",
            *(f"~{place}.{scale}" for scale in self._shipped_scales(key, name)),
            *(f"++{place}.{word}" for word in parameters),
        ]

    def _shipped_scales(self, key: str, name: str) -> list[str]:
        """Return the assumed scales of the records in a shipped file of an estimator."""
        own = self.config_dir and self.config_dir / FOLDERS[key] / f"{name}.yaml"
        path = conf_folder() / FOLDERS[key] / f"{name}.yaml"
        if key != "estimator" or not path.is_file() or (own and own.is_file()):
            return []
        return [
            scale for scale in ASSUMED_SCALES if scale in yaml.safe_load(path.read_text("utf-8"))
        ]


def check_entry_name(key: str, name: str) -> str:
    """Return the name of an estimator or distribution; raise ConfigError if it is no label.

    The message names the key that gave the name, ``estimator`` or ``law``.
    """
    try:
        return check_label(name)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


@contextmanager
def _name_keys_of_plan(words: EntryWords, budget_key: str) -> Iterator[None]:
    """Replace the keys of a sweep in error messages by the keys of the command ``plan``."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        for key, group in GROUPS.items():
            name = re.escape(str(getattr(words, key)) if key == "estimator" else _law_name(words))
            text = re.sub(rf"\+*(\w+@)?sweep\.{group}\.{name}\b", key, text)
        text = re.sub(r"sweep\.parts\.plan\.budgets", budget_key, text)
        text = re.sub(r"sweep\.parts\.plan\.families", "law", text)
        text = re.sub(r"sweep\.parts\.plan(?=\W)", "plan", text).replace("plan.n:", "n:")
        raise ConfigError(re.sub(r"^distribution:", "law:", text)) from error


def _law_name(words: EntryWords) -> str:
    return words.law if isinstance(words.law, str) else "data"


def _check_kinds(words: EntryWords, entries: Mapping[str, Any]) -> None:
    """Raise ConfigError if an entry names no registered class; suggest a plug-in or a name."""
    registries: dict[str, tuple[type[Registered], ...]] = {
        "estimator": (Estimator,),
        "law": (Distribution, Family),
    }
    for key, entry in entries.items():
        if not isinstance(entry, Mapping) or any(kind.find(entry) for kind in registries[key]):
            continue
        kind, thing = str(entry.get("kind") or entry.get("_target_")), FOLDERS[key]
        module = kind.partition(".")[0]
        folders = [Path.cwd(), *([words.config_dir] if words.config_dir else [])]
        if any((folder / f"{module}.py").is_file() for folder in folders):
            found = f"no such {thing}, but there is {module}.py"
            raise ConfigError(f"{key}: {kind!r}: {found}; list it: 'plugins=[{module}]'")
        if kind == getattr(words, key):
            kinds = {name for registry in registries[key] for name in registry.kinds()}
            names = sorted({*words.files(key), *kinds})
            raise ConfigError(f"{key}: {kind!r}: no such {thing}; {choose_from(kind, names)}")


def _check_notion(sweep: Sweep, budget: Budget, budget_key: str) -> None:
    """Raise ConfigError if the estimator cannot honour the privacy notion of the budget."""
    (label,), (family,) = sweep.estimators, sweep.families
    estimator = sweep.estimator(label, family)
    if estimator.supports(NonPrivate()) and sweep.families[family].value.follows_budget:
        problem = f"its laws depend on a budget, and {label} has none; choose another law"
        raise ConfigError(f"law: {family!r}: {problem}")
    if estimator.supports(budget) or estimator.supports(NonPrivate()):
        return
    amount = f"{budget_key}: {budget.named_amounts[budget_key]:g}"
    if budget.neighbours not in estimator.relations:
        relations = ", ".join(estimator.relations)
        problem = f"{label} cannot honour this relation; choose from {relations}"
        raise ConfigError(f"neighbours: {budget.neighbours!r}: {problem}")
    usable = [f"{NOTIONS[kind.notion]} ({KEYS[kind.notion]})" for kind in estimator.honoured]
    problem = f"{label} cannot honour {NOTIONS[budget.notion]}; it supports {', '.join(usable)}"
    raise ConfigError(f"{amount}: {problem}")


def prepare_estimator_plan(
    words: EntryWords,
    budget: Budget,
    *,
    seed: int,
    trials: int | None,
    n_max: int | None,
    report: Callable[[str], None],
) -> EstimatorPlan:
    """Build the search for the number of records that one estimator needs.

    `trials`, `n_max` and `report` are those of `EstimatorPlan`. The seed is that of all random
    streams. If a word cannot be used, or the estimator cannot run on the distribution with the
    budget, a ConfigError is raised.
    """
    budget_key = next(iter(budget.named_amounts))
    law_name = _law_name(words)
    with _name_keys_of_plan(words, budget_key):
        overrides = ["~sweep", *words.overrides("estimator", words.estimator), *words.plugins]
        if isinstance(words.law, str):
            overrides += words.overrides("law", words.law)
        config = compose(overrides, words.config_dir)
        settings = from_mapping(Settings, {**config, "seed": seed}, "")
        plugins = load_plugins(settings.plugins, words.config_dir)
        spec = {"families": {law_name: words.law}, **settings.sweep}
        _check_kinds(
            words, {key: next(iter(spec[group].values())) for key, group in GROUPS.items()}
        )
        part = {"n": [1], "trials": 1, "estimators": [words.estimator]}
        spec |= {"budgets": {"budget": budget}, "parts": {"plan": part}}
        sweep = from_mapping(Sweep, spec, "sweep")
        for key, variants in (("estimator", sweep.estimators), ("law", sweep.families)):
            if len(variants) > 1:
                swept = next(iter(variants.values())).swept[0]
                values = [variant.parameters[swept] for variant in variants.values()]
                raise ConfigError(f"{key}.{swept}: {values}: several values; give one")
        _check_notion(sweep, budget, budget_key)
        origin = Origin.of(names=settings.plugins, plugins=plugins)
        options = replace(RunOptions(origin=origin), seed=seed)
        plan = EstimatorPlan(sweep, options, trials, n_max, report)
        plan.cell  # noqa: B018 (checks the estimator on the distribution with the budget)
        return plan
