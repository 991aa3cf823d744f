"""Entries of a sweep's sections, expanded into variants: families, estimators, budgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, Nested, Registered, usable_label
from dpbench.sweep.selection import Variant
from dpbench.theory.families import Family, build_family

__all__ = ["Budgets", "Estimators", "Families", "expanded"]

MOST_VARIANTS = 10_000


def expanded(
    name: str, spec: Mapping[str, Any], kinds: Iterable[type[Registered]]
) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Expand an entry into one specification for each combination of listed values.

    A parameter is expanded if it is given a list although it takes one value.

    Parameters
    ----------
    name : str
        Name of the entry, for messages.
    spec : mapping
        Kind and parameters of the entry.
    kinds : iterable of type
        Registries in which the kind is looked up.

    Returns
    -------
    list of (mapping, tuple of str)
        Specifications, each with the names of the expanded parameters.

    Raises
    ------
    ConfigError
        If a list is empty, or more than 10,000 specifications result.
    """
    chosen = next(filter(None, (kind.find(spec) for kind in kinds)), None)
    # A class that is no dataclass has no such fields; it is refused when it is built.
    takes = vars(chosen or object).get("__dataclass_fields__", {})
    specs, swept = [dict(spec)], []
    for key, values in spec.items():
        if not isinstance(values, list) or key not in takes or "list[" in str(takes[key].type):
            continue
        if not values:
            raise ConfigError(f"{name}.{key}: []: an empty grid; give at least one value")
        if len(specs) * len(values) > MOST_VARIANTS:
            raise ConfigError(f"{name}.{key}: more than {MOST_VARIANTS} entries from its lists")
        specs = [{**one, key: value} for one in specs for value in values]
        swept.append(key)
    return [(one, tuple(swept)) for one in specs]


def _variants(
    make: Callable[[Any, str], Any], *kinds: type[Registered], optional: tuple[str, ...] = ()
) -> Any:
    """Return a validator of a section, which turns mappings or instances into variants by label."""

    def build(entries: Any) -> dict[str, Variant[Any]]:
        if not isinstance(entries, Mapping):
            raise ValueError("expected a mapping of names")
        if not entries:
            raise ValueError("at least one entry is needed")
        if all(isinstance(one, Variant) for one in entries.values()):  # made before
            return dict(entries)
        found: dict[str, Variant[Any]] = {}
        for key, given in entries.items():
            name, entry = str(key), given
            for kind in kinds:
                entry = kind.current(entry, name)
            alone = not isinstance(entry, Mapping)
            for spec, swept in [(entry, ())] if alone else expanded(name, entry, kinds):
                made = make(spec, name)
                one = Variant(name, made, _parameters(made), swept)
                label = usable_label(one.label())
                if label in found:
                    raise ConfigError(f"{name}: two entries would be called {label!r}")
                found[label] = one
        return found

    check = PlainValidator(build)
    return Nested(of=kinds, check=check, by_label=True, variants=True, optional=optional)


def _parameters(made: Any) -> Mapping[str, Any]:
    """Return the parameters of a specification or an instance, including defaults."""
    if isinstance(made, Mapping):
        known = vars(Estimator.lookup(made, ""))["__pydantic_fields__"]
        defaults = {name: one.default for name, one in known.items() if not one.is_required()}
        return {**defaults, **made}
    law = getattr(made, "distribution", made)  # a family of one distribution has its parameters
    return {field.name: getattr(law, field.name) for field in dataclasses.fields(law)}


def _estimator(spec: Any, where: str) -> Any:
    """Return an estimator's specification, checked; it is built later for each family.

    A sweep takes the moment order k of the family if none is given.
    """
    if isinstance(spec, Estimator):
        return Estimator.build(spec, where)
    Estimator.lookup(spec, where)
    return spec


Families = Annotated[dict[str, Variant[Family]], _variants(build_family, Family, Distribution)]
# A sweep takes a family's k and m for an estimator that needs them and is given none.
Estimators = Annotated[
    dict[str, Variant[Any]], _variants(_estimator, Estimator, optional=("k", "m"))
]
Budgets = Annotated[dict[str, Variant[Budget]], _variants(Budget.build, Budget)]
