"""Describe the keys of configurations, as help texts and as a JSON schema.

The descriptions are read from the classes that the configurations build, and their docstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

import dpbench.distributions
import dpbench.estimators
import dpbench.report  # noqa: F401 (their kinds enter the registry)
from dpbench.analysis.claim_kinds import build_claim
from dpbench.analysis.claims import Claim
from dpbench.app import applications
from dpbench.errors import choose_from
from dpbench.estimators import Estimator
from dpbench.estimators.catalogue import GROUPS, catalogue, keywords, search
from dpbench.jobs.app import STUDY
from dpbench.jobs.sweep_files import find_sweeps, read_texts
from dpbench.registry import LABEL, ConfigError, Nested, Registered
from dpbench.report.labels import describe_number, metric_text
from dpbench.report.study import SELECTION_KEYS, Figure, Study, gather_entries
from dpbench.runner.settings import Settings
from dpbench.sweep.entries import Families
from dpbench.sweep.selection import select_labels
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = [
    "KEYS",
    "collect_titles",
    "describe_topic",
    "keys_at",
    "kinds",
    "parameters",
    "predicted_number",
    "schema",
]

Schema = dict[str, Any]
# Keys of a theorem of one's own, by the kind of claim that tests it.
OWN_NUMBERS = {"exponent": ("exponent",), "limit": ("constant", "limit")}
MAX_REPEATED_LENGTH = 100  # characters of a meaning that `--help sweep` prints more than once

# Classes of sweeps, by the key that only a sweep of this class has.
SWEEPS: dict[str, type[Any]] = {
    app.key.removeprefix("sweep."): app.job().sweeps
    for app in (STUDY, *applications())
    if app is STUDY or app.key.startswith("sweep.")
}


def _nested_fields(kind: type[Any]) -> dict[str, Nested]:
    """Return descriptions of those fields of a class whose values are nested mappings.

    The key ``budgets`` of a sweep is an example. The descriptions are keyed by name of the field.
    """
    return {
        name: nested
        for name, field in kind.__pydantic_fields__.items()
        for nested in field.metadata
        if isinstance(nested, Nested)
    }


def collect_titles() -> dict[str, type[Any]]:
    """Return each class that ``--help sweep`` describes, keyed by its heading in the help text."""
    classes: dict[str, type[Any]] = {}

    def add(kind: type[Any]) -> None:
        for key, nested in _nested_fields(kind).items():
            # Entries with a kind are described by --help kind and --help figure.
            named_classes = {} if isinstance(nested.of, tuple) else nested.of
            for name, cls in named_classes.items():
                title = nested.title.format(name) or key
                if title not in classes and cls not in classes.values():
                    classes[title] = cls
                    add(cls)

    earlier_keys: set[str] = set()
    for key, kind in SWEEPS.items():
        new_keys = kind.__pydantic_fields__.keys() - earlier_keys
        if new_keys - _nested_fields(kind).keys():
            classes[f"a sweep with the key {key}" if key else "a sweep"] = kind
        earlier_keys |= new_keys
        add(kind)
    return classes


# Headings of the other registries in `--help kind`, by the name of their base class.
OTHER_GROUPS = {
    "Distribution": "distributions",
    "Family": "families: sets of distributions, for worst cases",
    "Budget": "privacy budgets",
}
SECTIONS = {
    name: nested.of
    for name, nested in _nested_fields(Study).items()
    if nested.variants and isinstance(nested.of, tuple)
}
KEYS = collect_titles()


def kinds(*registries: type[Registered]) -> dict[str, type[Registered]]:
    """Return the classes of the given registries without ``non_private``, keyed by kind, sorted.

    A kind is the name of a class in configurations.
    """
    classes = {label: cls for registry in registries for label, cls in registry.kinds().items()}
    classes.pop("non_private", None)  # estimators without privacy need no budget
    return dict(sorted(classes.items()))


def describe_topic(topic: str, name: str | None, folders: Iterable[Path]) -> str:
    """Return the help text on a sweep, on a kind, on a figure or on a theorem.

    A kind is the name of a class in configurations, for example of an estimator. The text on a kind
    or a figure lists its keys with types and defaults. The text on a sweep has the texts of its
    file, which is searched in `folders`, and its claims. The text on a theorem states what a claim
    that names it predicts, with a claim of a sweep in `folders` as an example.

    `topic` is ``sweep``, ``kind``, ``figure`` or ``theorem``; a name may take its place. For a
    kind, `name` may also be a search word; for a theorem a word of its source, or the name of a
    claim. The topic may also be called ``claim``. Without a name, the text describes the keys of
    all sweeps, or lists all kinds, figures or theorems. Raise ConfigError if there is no such topic
    or name.
    """
    everywhere = [registry for section in SECTIONS.values() for registry in section]
    files = find_sweeps(folders)
    topics: dict[str, Mapping[str, Any]]
    topics = {"sweep": files, "kind": kinds(*everywhere), "figure": kinds(Figure)}
    topics["theorem"] = THEOREMS
    topic = "theorem" if topic in {"claim", "claims"} else topic
    if topic not in topics and name is None:  # the name of a sweep, kind, figure or theorem alone
        topic, name = next((key for key in topics if topic in topics[key]), topic), topic
    if topic not in topics:
        raise ConfigError(f"--help: {topic!r}: {choose_from(topic, topics)}")
    names = topics[topic]
    if name is None:
        return _list_topic(topic, names)
    if name not in names:
        matches = [kind for kind in search(name) if kind in names] if topic == "kind" else []
        if topic == "theorem" and (text := _find_claims(name, files)):
            return text
        if not matches:
            choices = choose_from(name, sorted(names))
            raise ConfigError(f"--help {topic}: {name!r}: no such {topic}; {choices}")
        return (
            f"kinds that match {name!r}:\n{_list_classes({kind: names[kind] for kind in matches})}"
        )
    if topic == "sweep":
        return _describe_sweep(files[name])
    if topic == "theorem":
        return _describe_theorem(name, files)
    entry = catalogue().get(name) or keywords().get(name) if topic == "kind" else None
    return "\n".join([f"kind: {name}", _describe(names[name]), *(entry.lines() if entry else [])])


def _find_claims(word: str, files: Mapping[str, Path]) -> str:
    """Return the theorems whose source has a word, or the sweeps with a claim so called, or ""."""
    found = {
        name: theorem
        for name, theorem in THEOREMS.items()
        if word.lower() in theorem.source.lower()
    }
    if found:
        return f"theorems that match {word!r}:\n{_list_theorems(found)}"
    lines = [
        f"  python -m dpbench --help sweep {name}"
        for name, path in files.items()
        if word in path.read_text(encoding="utf-8") and word in _read_claims(path)[1]
    ]
    head = f"{word!r} is in these sweeps, whose help has the number of each claim:"
    return "\n".join([head, *lines]) if lines else ""


def _list_topic(topic: str, names: Mapping[str, Any]) -> str:
    """Return the text of ``--help TOPIC`` without a name."""
    if topic == "sweep":
        said = dict[str, str]()
        texts = [f"== {title}\n{_describe(kind, title, said)}" for title, kind in KEYS.items()]
        return "\n\n".join(texts)
    if topic == "theorem":
        return _list_theorems(THEOREMS)
    return _list_kinds(names) if topic == "kind" else _list_classes(names)


def _describe_sweep(path: Path) -> str:
    """Return the texts of a sweep's file, its run time, its claims and the path of the file."""
    own = read_texts(path)
    cost = f"on two cores: {own.cost}" if own.cost else ""
    claims = "\n".join(_describe_claims(path))
    parts = (own.title, own.question, own.about, cost, claims, f"file: {path}")
    return "\n\n".join(filter(None, parts))


def _read_claims(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return a sweep's file and its claims by name; a file that cannot be read has none."""
    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(path))
        specs = gather_entries(config, "claims")
        return config, {label: spec for label, spec in specs.items() if "theorem" in spec}
    except (yaml.YAMLError, OmegaConfBaseException, AttributeError, TypeError, OSError):
        return None, {}


def _describe_claims(path: Path) -> Iterator[str]:
    """Yield two lines for each claim of a sweep's file: its number; meaning, metric and source.

    Claims that are alike in the second line add there the selections in which they differ.
    Nothing is run, and the sweep is not checked. A claim that cannot be read has its error.
    """
    config, specs = _read_claims(path)
    if specs:
        yield "claims, with the predicted number, its meaning and its metric:"
    width = max(map(len, specs), default=0)
    numbers, subjects = dict[str, str](), dict[str, str]()
    for label, spec in specs.items():
        try:
            claim = build_claim(spec, label)
            numbers[label] = _claimed_number(claim, config)
        except ConfigError as error:
            yield f"  {error}"
            continue
        theorem = claim.statement
        what = describe_number(theorem.variable, theorem)
        subjects[label] = f"{what}; {theorem.metric}; {theorem.source}"
    for label, subject in subjects.items():
        alike = [specs[other] for other, text in subjects.items() if text == subject]
        text = "; ".join([subject, *_selected_apart(specs[label], alike)])
        yield f"  {label:{width}}  {numbers[label]}\n      {text}"


def _selected_apart(spec: Schema, alike: Sequence[Schema]) -> Iterator[str]:
    """Yield the families, estimators and budgets of a claim in which the claims `alike` differ."""
    for key in SELECTION_KEYS:
        if key in spec and any(other.get(key) != spec[key] for other in alike):
            text = yaml.safe_dump(spec[key], default_flow_style=True, width=10**6)
            yield f"{key} {text.removesuffix('...' + chr(10)).strip().strip('[]')}"


def _claimed_number(claim: Claim, config: Mapping[str, Any]) -> str:
    """Return the number that a claim predicts, with its tolerance, as in ``2, 1.5 +- 0.01``.

    A number that depends on the order k of the bounded moment is given for the orders of the
    claim's families in the sweep `config`.
    """
    theorem, finite = claim.statement, getattr(claim, "exact_at_run_n", False)
    orders: list[float] = [2.0]
    if claim.predicted is None and theorem.predicted(2) != theorem.predicted(3):
        families = TypeAdapter(Families).validate_python(config["families"])
        chosen = (families[label].value for label in select_labels(claim.families, families))
        orders = sorted({float(family.moment_order or np.nan) for family in chosen})
    if finite is not False and finite is not True:
        numbers = [f"{finite:.4g}"]
    else:
        numbers = [f"{claim.prediction(k):.4g}" for k in orders]
    limit, here = "<= " * theorem.at_most, ", exact at these n" * (finite is not False)
    return f"{limit}{', '.join(dict.fromkeys(numbers))} +- {claim.tolerance:g}{here}"


def _list_kinds(names: Mapping[str, type[Any]]) -> str:
    """Return the text of ``--help kind``, which lists classes with their summaries in groups.

    Estimators are grouped by use, and other classes by base class, such as privacy budgets.
    """
    headings = {**GROUPS, "plugin": "estimators of plugins"}
    groups: dict[str, dict[str, type[Any]]] = {title: {} for title in headings.values()}
    for name, kind in names.items():
        if issubclass(kind, Estimator):
            entry = catalogue().get(name)
            title = headings[entry.group if entry else "plugin"]
        else:
            registry = next(base for base in kind.__mro__ if Registered in base.__bases__)
            title = OTHER_GROUPS[registry.__name__]
        groups.setdefault(title, {})[name] = kind
    parts = [
        f"== {title}\n{_list_classes(members)}" for title, members in groups.items() if members
    ]
    hint = "more about one, or the kinds that match a word: --help kind NAME|WORD"
    return "\n\n".join([*parts, hint])


def _list_classes(names: Mapping[str, type[Any]]) -> str:
    """Return a text with each class's name, its summary, its cited sources and its search words."""
    lines = []
    for name, kind in names.items():
        lines.append(f"{name:36} {_first_line(kind)}")
        if entry := keywords().get(name):
            cited = ", ".join(entry.sources)
            details = "; ".join(filter(None, [cited, ", ".join(entry.words)]))
            lines.append(
                textwrap.fill(details, 110, initial_indent=" " * 39, subsequent_indent=" " * 39)
            )
    return "\n".join(lines)


def predicted_number(theorem: Theorem) -> str:
    """Return the number that a claim predicts; at k = 2, 3 and 4 if it depends on the order k."""
    if theorem.leaves_open:
        numbers = ["the claim's"]
    else:
        numbers = [f"{theorem.predicted(k):.3g}" for k in (2, 3, 4)]
    return ("≤ " if theorem.at_most else "") + ", ".join(dict.fromkeys(numbers))


def _list_theorems(theorems: Mapping[str, Theorem]) -> str:
    """Return a text with the predicted number of each theorem, its meaning and its source."""
    lines = [
        f"{name:24} {predicted_number(theorem):16} "
        f"{describe_number(theorem.variable, theorem)}; {theorem.source}"
        for name, theorem in theorems.items()
    ]
    hint = (
        "Numbers that depend on the order k of the bounded moment are shown at k = 2, 3 and 4. "
        '"the claim\'s": the key `predicted` of the claim gives the number.\n'
        "more about one, with a claim as an example: --help theorem NAME"
    )
    return "\n".join([*lines, "", hint])


def _describe_theorem(name: str, files: Mapping[str, Path]) -> str:
    """Return what a claim on a theorem predicts, and the first such claim of the sweeps `files`."""
    theorem = THEOREMS[name]
    number = predicted_number(theorem)
    if theorem.leaves_open:
        number = "the claim gives it" + (", as an upper limit" if theorem.at_most else "")
    elif "," in number:
        number += " (for bounded moments of order k = 2, 3, 4)"
    lines = [
        f"theorem: {name}",
        f"  number: {number}",
        f"  of: {describe_number(theorem.variable, theorem)}",
        f"  metric: {theorem.metric} ({metric_text(theorem.metric)})",
        f"  source: {theorem.source}",
        f"  kind of claim: {theorem.kind.replace('_', ' ')}",
    ]
    for sweep, path in files.items():
        if claim := _find_claim(path, name):
            example = textwrap.indent(_dump(claim), "    ")
            return "\n".join([*lines, f"  example, from sweep={sweep}:", example])
    return "\n".join([*lines, "  example: no sweep has such a claim"])


def _dump(mapping: Schema) -> str:
    """Return a mapping in YAML, with lines that a terminal of 80 columns need not break."""
    return str(yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=66)).rstrip()


def _find_claim(path: Path, theorem: str) -> Schema:
    """Return the first claim on a theorem in the file of a sweep, by its label; empty if none."""
    if f"theorem: {theorem}" not in path.read_text(encoding="utf-8"):  # most files need no parser
        return {}
    config: Any = OmegaConf.to_container(OmegaConf.load(path))
    for part in (config, *(config.get("parts") or {}).values()):
        for label, claim in ((part or {}).get("claims") or {}).items():
            if isinstance(claim, dict) and claim.get("theorem") == theorem:
                return {"claims": {label: claim}}
    return {}


def keys_at(config: Mapping[str, Any], steps: Sequence[str]) -> list[str] | None:
    """Return the keys that are allowed at one place of a configuration.

    `steps` are the keys that lead to the place, the outermost first; all of them exist in the whole
    configuration `config`. Return None if no class defines the keys of this place.
    """
    value: Any = config
    kind: type[Any] | None = Settings
    entries: Nested | None = None  # entries whose label is the next step
    extra: list[str] = []
    for step in steps:
        value, extra = value[step], []
        if entries is None and kind is Settings and step == "sweep":
            kind = next((sweep_class for key, sweep_class in SWEEPS.items() if key in value), Study)
            continue
        nested = entries or _nested_fields(kind).get(step) if kind else None
        if nested is None:
            return None
        if nested.by_label and entries is None:
            entries = nested
            continue
        entries, kind = None, nested.find(value)
        extra = ["kind"] if isinstance(nested.of, tuple) else []
    if entries or kind is None:
        return None
    return [*extra, *(field.name for field in dataclasses.fields(kind))]


def _describe(kind: Any, title: str = "", said: dict[str, str] | None = None) -> str:
    """Return a text with the summary of a class, and each parameter's type, default and meaning.

    A meaning that consecutive parameters share stands once, below the last of them. `said` holds
    the titles of texts by the meanings that they have explained. A long meaning in it is replaced
    by the title, and new meanings are added under `title`.
    """
    lines, said = [_first_line(kind)], {} if said is None else said
    for meaning, group in groupby(parameters(kind), key=itemgetter(3)):
        for name, text, default, _ in group:
            lines.append(f"  {name}: {text}{' (required)' if default is None else f' = {default}'}")
        earlier = said.setdefault(meaning, title)
        is_long = len(meaning) > MAX_REPEATED_LENGTH
        shown = f'See "{earlier}" above.' if is_long and earlier != title else meaning
        lines += [f"      {shown}"] if shown else []
    return "\n".join(lines)


def parameters(kind: Any) -> list[tuple[str, str, str | None, str]]:
    """Return the name, type, default and meaning of each parameter of a class.

    The default is None if the parameter is required.
    """
    documented, rows = _parse_parameters(kind), []
    for field in dataclasses.fields(kind):
        plain = re.sub(r"Annotated\[(\w+).*", r"\1", str(field.type))
        text, meaning = documented.get(field.name, (plain, ""))
        text = text.removesuffix(", optional").replace("optional", "names, or values by name")
        field_info = kind.__pydantic_fields__[field.name]
        default = field_info.get_default(call_default_factory=True)
        default_text = "null" if default is None else f"{default}"
        rows.append((field.name, text, None if field_info.is_required() else default_text, meaning))
    return rows


def _first_line(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _parse_parameters(kind: type[Any]) -> dict[str, tuple[str, str]]:
    """Return (type, meaning) of each parameter, from the docstrings of a class and its bases."""
    parameters_by_name: dict[str, tuple[str, str]] = {}
    for cls in reversed(kind.__mro__):
        doc = inspect.cleandoc(vars(cls).get("__doc__") or "")
        section = re.search(r"Parameters\n-+\n(.*?)(?=\n\w[^\n]*\n-+\n|\Z)", doc, re.DOTALL)
        if section is None:
            continue
        for names, kind_of, text in re.findall(
            r"^(\w[\w, ]*?) : ([^\n]*)((?:\n(?: +[^\n]*|$))*)", section[1], re.MULTILINE
        ):
            for name in names.split(", "):
                parameters_by_name[name] = (kind_of, " ".join(text.split()))
    return parameters_by_name


class _Schema(GenerateJsonSchema):
    """JSON schema generator that allows any value if pydantic cannot describe the value's check."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}

    def function_plain_schema(self, schema: Any) -> dict[str, Any]:
        return {}


def _class_schema(into: Schema, kind: type[Any]) -> Schema:
    """Return the JSON schema of a class, with descriptions from its docstring.

    The schemas of other classes, to which this schema refers, are added to the mapping `into`.
    """
    class_schema = TypeAdapter(kind).json_schema(
        ref_template="#/$defs/{model}", schema_generator=_Schema
    )
    into.update(class_schema.pop("$defs", {}))
    properties = class_schema.setdefault("properties", {})
    for key, texts in _parse_parameters(kind).items():
        if key in properties:
            properties[key]["description"] = " ".join(filter(None, texts))
    return {**class_schema, "description": _first_line(kind)}


def _define(into: Schema, cls: type[Any], name: str, **fixed: Any) -> Schema:
    """Store the JSON schema of a class in the mapping `into`, and return a reference to it.

    The schemas in `fixed` replace the schemas of the properties that have the same names.
    """
    definition = _class_schema(into, cls)
    fields = {key: _field_schema(into, key, nested) for key, nested in _nested_fields(cls).items()}
    definition["properties"] |= {**fields, **fixed}
    definition["required"] = list(dict.fromkeys([*fixed, *definition.get("required", [])]))
    into[name] = definition
    return {"$ref": f"#/$defs/{name}"}


def _field_schema(into: Schema, key: str, nested: Nested) -> Schema:
    """Return the JSON schema of a configuration field whose value is a nested mapping.

    A class is built from each such mapping. The schemas of these classes are added to `into`.
    """
    if isinstance(nested.of, tuple):
        entry_schema = {"oneOf": [*_kind_schemas(into, nested), {"required": ["_target_"]}]}
    else:
        prefix, fixed = key.removesuffix("s") if nested.by_label else key, Schema()
        references = []
        for name, kind in nested.of.items():
            if nested.choice:
                choice, values = nested.choice
                own = [{"type": "object", "required": [key]} for key in OWN_NUMBERS.get(name, ())]
                names = {"anyOf": [{"enum": values.get(name, [])}, *own]}
                fixed = {choice: names} if name in values else {}
            references.append(_define(into, kind, f"{prefix}.{name}".rstrip("."), **fixed))
        entry_schema = {"oneOf": references} if len(references) > 1 else references[0]
    if not nested.by_label:
        return entry_schema
    labelled = {
        "type": "object",
        "additionalProperties": entry_schema,
        "propertyNames": {"pattern": LABEL},
    }
    return (
        {"anyOf": [labelled, {"type": "array", "items": entry_schema}]}
        if nested.listed
        else labelled
    )


def _kind_schemas(into: Schema, nested: Nested) -> list[Schema]:
    """Return references to the JSON schemas of the classes that a configuration field allows.

    The field is described by `nested`, and the schemas are added to `into`. If `nested.variants` is
    True, each parameter of a class may also be a list of values.
    """
    references = []
    for name, cls in kinds(*nested.of).items():
        references.append(_define(into, cls, f"kind.{name}", kind={"const": name}))
        definition = into[f"kind.{name}"]
        for key, value in definition["properties"].items() if nested.variants else ():
            if key != "kind":
                description, lists = value.pop("description", ""), {"type": "array", "items": value}
                definition["properties"][key] = {
                    "description": description,
                    "anyOf": [value, lists],
                }
        definition["required"] = [
            key for key in definition["required"] if key not in nested.optional
        ]
    return references


def schema() -> Schema:
    """Return a JSON schema of sweep files, with which editors complete and check keys."""
    into: Schema = {}
    fields_of_sweeps = [kind.__pydantic_fields__ for kind in SWEEPS.values()]
    sweep, nested_fields = _class_schema(into, Study), dict[str, Nested]()
    for kind in SWEEPS.values():
        for key, value in _class_schema(into, kind)["properties"].items():
            sweep["properties"].setdefault(key, value)
        for key, item in _nested_fields(kind).items():
            nested_fields[key] = _merge_nested(nested_fields.get(key, item), item)
    sweep["properties"] |= {
        key: _field_schema(into, key, item) for key, item in nested_fields.items()
    }
    shared_keys = [
        key for key in fields_of_sweeps[0] if all(key in item for item in fields_of_sweeps)
    ]
    used_names, texts = set[str](), [json.dumps(sweep)]
    while texts:  # collect only definitions to which a schema refers
        new_names = set(re.findall(r'"#/\$defs/([^"]+)"', texts.pop())) - used_names
        used_names |= new_names
        texts += [json.dumps(into[name]) for name in new_names]
    return {
        **sweep,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of dpbench",
        "required": [
            key for key in shared_keys if any(item[key].is_required() for item in fields_of_sweeps)
        ],
        "$defs": {name: into[name] for name in sorted(used_names)},
    }


def _merge_nested(first: Nested, second: Nested) -> Nested:
    """Merge the descriptions of a key that two kinds of sweep have.

    The merged description allows the classes of both. If both have a class of one name, the class
    of `first` is used. If `of` of a description is a tuple of registries, `first` is returned.
    """
    if isinstance(first.of, tuple) or isinstance(second.of, tuple):
        return first
    added_classes = {name: kind for name, kind in second.of.items() if name not in first.of}
    return dataclasses.replace(first, of={**first.of, **added_classes})
