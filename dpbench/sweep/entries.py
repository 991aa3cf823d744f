"""Expand the entries of a sweep's families, estimators and budgets into variants.

An entry with a list of values for a parameter gives one variant for each value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from dpbench.distributions import Distribution
from dpbench.errors import ErrorCollector, describe_value
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.budgets import add_kind
from dpbench.registry import ConfigError, Nested, Registered, check_label, check_number
from dpbench.sweep.selection import Variant
from dpbench.theory.families import Family, build_family

__all__ = ["Budgets", "Estimators", "Families", "expand_entry"]

MAX_VARIANTS = 10_000


def expand_entry(
    name: str, spec: Mapping[str, Any], kinds: Iterable[type[Registered]]
) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Expand an entry into one specification for each combination of its listed values.

    A parameter is expanded if it takes a single value but the entry gives a list of values. Each
    specification comes with the names of the expanded parameters. `kinds` are the base classes
    whose registries are searched for the kind, in this order. A ConfigError is raised if a list is
    empty, or more than 10,000 specifications result. The message names the entry.
    """
    kind_class = next(filter(None, (kind.find(spec) for kind in kinds)), None)
    # A class that is no dataclass has no such fields; building it raises an error later.
    fields = vars(kind_class or object).get("__dataclass_fields__", {})
    specs, swept = [dict(spec)], []
    for key, values in spec.items():
        if not isinstance(values, list) or key not in fields or "list[" in str(fields[key].type):
            continue
        if not values:
            raise ConfigError(f"{name}.{key}: []: an empty grid; give at least one value")
        if len(specs) * len(values) > MAX_VARIANTS:
            raise ConfigError(f"{name}.{key}: more than {MAX_VARIANTS} entries from its lists")
        specs = [{**partial_spec, key: value} for partial_spec in specs for value in values]
        swept.append(key)
    return [(partial_spec, tuple(swept)) for partial_spec in specs]


def _variants_validator(
    make: Callable[[Any, str], Any],
    *kinds: type[Registered],
    optional: tuple[str, ...] = (),
    prepare: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a pydantic validator for one section of a sweep, for example its estimators.

    The validator expands each entry of the section into variants, one for each combination of the
    values that the entry lists. It returns all variants, keyed by label. An entry is a mapping or
    an object. If `prepare` is given, the section may also be a list, which `prepare` turns into a
    mapping.
    """

    def build(entries: Any) -> dict[str, Variant[Any]]:
        entries = entries if prepare is None else prepare(entries)
        if not isinstance(entries, Mapping):
            example = f", as {{NAME: {{kind: {entries}}}}}" if isinstance(entries, str) else ""
            raise ValueError(f"expected a mapping of names{example}")
        if not entries:
            raise ValueError("at least one entry is needed")
        check_number(entries)
        if all(isinstance(variant, Variant) for variant in entries.values()):  # validated before
            return dict(entries)
        variants: dict[str, Variant[Any]] = {}
        errors = ErrorCollector()
        for key, text in entries.items():
            with errors.step():
                expand(check_label(key), text, variants)
        errors.raise_all()
        return variants

    def expand(name: str, entry: Any, variants: dict[str, Variant[Any]]) -> None:
        is_instance = not isinstance(entry, Mapping)
        for spec, swept in [(entry, ())] if is_instance else expand_entry(name, entry, kinds):
            value = make(spec, name)
            variant = Variant(name, value, _parameters(value), swept)
            label = check_label(variant.label())
            if label in variants:
                raise ConfigError(f"{name}: two entries would be called {label!r}")
            variants[label] = variant

    check = PlainValidator(build)
    is_list = prepare is not None
    return Nested(
        of=kinds, check=check, by_label=True, variants=True, optional=optional, listed=is_list
    )


def _parameters(value: Any) -> Mapping[str, Any]:
    """Return the parameters of an estimator's specification or of an object, including defaults."""
    if isinstance(value, Mapping):
        fields = vars(Estimator.lookup(value, ""))["__pydantic_fields__"]
        defaults = {
            name: field_info.default
            for name, field_info in fields.items()
            if not field_info.is_required()
        }
        return {**defaults, **value}
    # A family of one distribution has the parameters of that distribution.
    law = getattr(value, "distribution", value)
    return {field.name: getattr(law, field.name) for field in dataclasses.fields(law)}


def _check_estimator_entry(spec: Any, where: str) -> Any:
    """Check an entry of the section `estimators` of a sweep, and return the entry.

    If the entry is a mapping, only its kind is checked. The sweep builds the estimator later, once
    for each family. The reason is that the entry may lack the moment order k or the number m of
    records of a person; then the family's value is used.
    """
    if isinstance(spec, Estimator):
        return Estimator.build(spec, where)
    Estimator.lookup(spec, where)
    return spec


def _name_budgets(entries: Any) -> Any:
    """Return the section `budgets` of a sweep as a mapping of budgets with their kinds.

    The budgets of a list are named by their notion and parameters, such as ``pure_epsilon0.1``.
    Raise ConfigError if an entry of a list is no budget, or two budgets of a list are equal.
    """
    if isinstance(entries, Mapping):
        return {name: add_kind(spec, str(name)) for name, spec in entries.items()}
    if not isinstance(entries, list | tuple):
        return entries
    named, errors = dict[str, Any](), ErrorCollector()
    for place, entry in enumerate(entries, 1):
        with errors.step():
            if not isinstance(entry, Mapping | Budget):
                example = "write a mapping such as {epsilon: 1}"
                raise ConfigError(f"{place}: {describe_value(entry)}: not a budget; {example}")
            spec = add_kind(entry, str(place))
            if isinstance(spec, Mapping):
                for one, _ in expand_entry(str(place), spec, [Budget]):
                    Budget.build(one, str(place))
            kind = Budget.lookup(spec, str(place)) if isinstance(spec, Mapping) else type(spec)
            given = spec if isinstance(spec, Mapping) else spec.named_amounts
            keys = [k for k, v in given.items() if k != "kind" and not isinstance(v, list)]
            name = Variant(kind.notion, spec, given, tuple(keys)).label()
            if name in named:
                raise ConfigError(f"{place}: {name}: stands twice in the list; remove one")
            named[name] = spec
    errors.raise_all()
    return named


Families = Annotated[
    dict[str, Variant[Family]], _variants_validator(build_family, Family, Distribution)
]
# k and m are optional, because a sweep takes them from the family if an estimator needs them.
Estimators = Annotated[
    dict[str, Variant[Any]],
    _variants_validator(_check_estimator_entry, Estimator, optional=("k", "m")),
]
Budgets = Annotated[
    dict[str, Variant[Budget]],
    _variants_validator(Budget.build, Budget, optional=("kind",), prepare=_name_budgets),
]
