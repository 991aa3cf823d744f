"""What a configuration may say, read off the classes: for people, and as a schema for editors."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

import dpbench.distributions
import dpbench.estimators
import dpbench.report  # noqa: F401 (their kinds enter the registry)
from dpbench.analysis.study import Figure, Study
from dpbench.errors import choose_from
from dpbench.estimators import Estimator
from dpbench.estimators.catalogue import GROUPS, catalogue, keywords, search
from dpbench.jobs.prepare import KINDS, kind_at
from dpbench.registry import LABEL, ConfigError, Nested, Registered
from dpbench.runner.settings import Settings

__all__ = ["KEYS", "help_on", "keys_at", "kinds", "parameters", "schema", "titled"]

Schema = dict[str, Any]

# What a sweep can be, by the key that only such a sweep has.
SWEEPS: dict[str, type[Any]] = {key: kind_at(path).sweeps for key, path in KINDS.items()}


def _nested(kind: type[Any]) -> dict[str, Nested]:
    """Return the fields of a class that hold keys of their own."""
    return {
        name: one
        for name, field in kind.__pydantic_fields__.items()
        for one in field.metadata
        if isinstance(one, Nested)
    }


def titled() -> dict[str, type[Any]]:
    """Collect what ``--help sweep`` lists, by title: each class once, and one for each title."""
    found: dict[str, type[Any]] = {}

    def add(kind: type[Any]) -> None:
        for key, nested in _nested(kind).items():
            # entries with a kind are other topics
            of = {} if isinstance(nested.of, tuple) else nested.of
            for name, one in of.items():
                title = nested.title.format(name) or key
                if title not in found and one not in found.values():
                    found[title] = one
                    add(one)

    known: set[str] = set()
    for key, kind in SWEEPS.items():
        own = kind.__pydantic_fields__.keys() - known
        if own - _nested(kind).keys():
            found[f"a sweep with the key {key}" if key else "a sweep"] = kind
        known |= own
        add(kind)
    return found


# Headings of the other registries in `--help kind`, by the name of their base class.
OTHER_GROUPS = {
    "Distribution": "distributions",
    "Family": "families: sets of distributions, for worst cases",
    "Budget": "privacy budgets",
}
SECTIONS = {
    name: one.of
    for name, one in _nested(Study).items()
    if one.variants and isinstance(one.of, tuple)
}
KEYS = titled()


def kinds(*registries: type[Registered]) -> dict[str, type[Registered]]:
    """What a configuration may name, sorted."""
    known = {label: one for registry in registries for label, one in registry.kinds().items()}
    known.pop("non_private", None)  # the budget of those that need none
    return dict(sorted(known.items()))


def help_on(topic: str, name: str | None, folders: Iterable[Path]) -> str:
    """Describe the keys, types and defaults of a sweep, a kind or a figure.

    Parameters
    ----------
    topic : {'sweep', 'kind', 'figure'}
    name : str or None
        Name of a sweep, kind or figure; for a kind also a search word. None lists all of the topic.
    folders : iterable of Path
        Folders of configurations, in which a sweep is looked up.

    Returns
    -------
    str
        Lines for the terminal.

    Raises
    ------
    ConfigError
        If there is no such topic or name.
    """
    everywhere = [registry for section in SECTIONS.values() for registry in section]
    files = {path.stem: path for one in folders for path in sorted((one / "sweep").glob("*.yaml"))}
    topics: dict[str, Mapping[str, Any]]
    topics = {"sweep": files, "kind": kinds(*everywhere), "figure": kinds(Figure)}
    if topic not in topics:
        raise ConfigError(f"--help: {topic!r}: {choose_from(topic, topics)}")
    names = topics[topic]
    if name is None:
        if topic == "sweep":
            return "\n\n".join(f"== {title}\n{_described(one)}" for title, one in KEYS.items())
        return _listed_kinds(names) if topic == "kind" else _lines(names)
    if name not in names:
        matches = [kind for kind in search(name) if kind in names] if topic == "kind" else []
        if not matches:
            choices = choose_from(name, sorted(names))
            raise ConfigError(f"--help {topic}: {name!r}: no such {topic}; {choices}")
        return f"kinds that match {name!r}:\n{_lines({kind: names[kind] for kind in matches})}"
    if topic == "sweep":
        lines = [line for line in names[name].read_text("utf-8").splitlines() if line[:2] == "# "]
        header = [line[2:].strip() for line in lines if "yaml-language-server" not in line]
        return "\n".join([*header, f"file: {names[name]}"])
    entry = catalogue().get(name) or keywords().get(name) if topic == "kind" else None
    return "\n".join([f"kind: {name}", _described(names[name]), *(entry.lines() if entry else [])])


def _listed_kinds(names: Mapping[str, type[Any]]) -> str:
    """Return the kinds in groups: estimators by their use, then distributions and budgets."""
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
    parts = [f"== {title}\n{_lines(members)}" for title, members in groups.items() if members]
    about = "more about one, or the kinds that match a word: --help kind NAME|WORD"
    return "\n\n".join([*parts, about])


def _lines(names: Mapping[str, type[Any]]) -> str:
    """Return a line about each class, with the keys of its sources and its search words."""
    lines = []
    for name, kind in names.items():
        lines.append(f"{name:36} {_first_line(kind)}")
        if entry := keywords().get(name):
            cited = ", ".join(entry.sources)
            about = "; ".join(filter(None, [cited, ", ".join(entry.words)]))
            lines.append(
                textwrap.fill(about, 110, initial_indent=" " * 39, subsequent_indent=" " * 39)
            )
    return "\n".join(lines)


def keys_at(config: Mapping[str, Any], steps: Sequence[str]) -> list[str] | None:
    """Return the keys of what a configuration makes where these steps lead; None if any will do."""
    found: Any = config
    kind: type[Any] | None = Settings
    entries: Nested | None = None  # whose label comes next
    extra: list[str] = []
    for step in steps:
        found, extra = found[step], []
        if entries is None and kind is Settings and step == "sweep":
            kind = next((one for key, one in SWEEPS.items() if key in found), Study)
            continue
        nested = entries or _nested(kind).get(step) if kind else None
        if nested is None:
            return None
        if nested.by_label and entries is None:
            entries = nested
            continue
        entries, kind = None, nested.find(found)
        extra = ["kind"] if isinstance(nested.of, tuple) else []
    if entries or kind is None:
        return None
    return [*extra, *(field.name for field in dataclasses.fields(kind))]


def _described(kind: Any) -> str:
    """The docstring's first paragraph and every parameter: its default, and what it is."""
    lines = [_first_line(kind)]
    for name, text, default, about in parameters(kind):
        lines.append(f"  {name}: {text}{' (required)' if default is None else f' = {default}'}")
        lines += [f"      {about}"] if about else []
    return "\n".join(lines)


def parameters(kind: Any) -> list[tuple[str, str, str | None, str]]:
    """Of each parameter its name, type, default (None if it is required), and what it is."""
    told, found = _parameters(kind), []
    for field in dataclasses.fields(kind):
        plain = re.sub(r"Annotated\[(\w+).*", r"\1", str(field.type))
        text, about = told.get(field.name, (plain, ""))
        text = text.removesuffix(", optional").replace("optional", "names, or values by name")
        known = kind.__pydantic_fields__[field.name]
        default = known.get_default(call_default_factory=True)
        shown = "null" if default is None else f"{default}"
        found.append((field.name, text, None if known.is_required() else shown, about))
    return found


def _first_line(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _parameters(kind: type[Any]) -> dict[str, tuple[str, str]]:
    """Type and text of the parameters, from the numpydoc of the class and its bases."""
    found: dict[str, tuple[str, str]] = {}
    for one in reversed(kind.__mro__):
        doc = inspect.cleandoc(vars(one).get("__doc__") or "")
        section = re.search(r"Parameters\n-+\n(.*?)(?=\n\w[^\n]*\n-+\n|\Z)", doc, re.DOTALL)
        if section is None:
            continue
        for names, kind_of, text in re.findall(
            r"^(\w[\w, ]*?) : ([^\n]*)((?:\n(?: +[^\n]*|$))*)", section[1], re.MULTILINE
        ):
            for name in names.split(", "):
                found[name] = (kind_of, " ".join(text.split()))
    return found


class _Schema(GenerateJsonSchema):
    """Where a class checks what pydantic cannot describe, anything goes."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}

    def function_plain_schema(self, schema: Any) -> dict[str, Any]:
        return {}


def _keys_of(into: Schema, kind: type[Any]) -> Schema:
    """Return what pydantic and the docstring tell of a class and its keys."""
    found = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}", schema_generator=_Schema)
    into.update(found.pop("$defs", {}))
    properties = found.setdefault("properties", {})
    for key, told in _parameters(kind).items():
        if key in properties:
            properties[key]["description"] = " ".join(filter(None, told))
    return {**found, "description": _first_line(kind)}


def _define(into: Schema, cls: type[Any], name: str, **fixed: Any) -> Schema:
    """Define the mapping that makes a class, with some properties fixed; a reference to it."""
    found = _keys_of(into, cls)
    held = {key: _held(into, key, nested) for key, nested in _nested(cls).items()}
    found["properties"] |= {**held, **fixed}
    found["required"] = list(dict.fromkeys([*fixed, *found.get("required", [])]))
    into[name] = found
    return {"$ref": f"#/$defs/{name}"}


def _held(into: Schema, key: str, nested: Nested) -> Schema:
    """Define the classes of a field that holds keys of its own, and return what it may hold."""
    if isinstance(nested.of, tuple):
        one = {"oneOf": [*_kinds(into, nested), {"required": ["_target_"]}]}
    else:
        known, fixed = key.removesuffix("s") if nested.by_label else key, Schema()
        found = []
        for name, kind in nested.of.items():
            if nested.choice:
                choice, values = nested.choice
                fixed = {choice: {"enum": values[name]}} if name in values else {}
            found.append(_define(into, kind, f"{known}.{name}".rstrip("."), **fixed))
        one = {"oneOf": found} if len(found) > 1 else found[0]
    if not nested.by_label:
        return one
    return {"type": "object", "additionalProperties": one, "propertyNames": {"pattern": LABEL}}


def _kinds(into: Schema, nested: Nested) -> list[Schema]:
    """Define entries with a kind, where a list of values may stand for one entry each."""
    references = []
    for name, one in kinds(*nested.of).items():
        references.append(_define(into, one, f"kind.{name}", kind={"const": name}))
        made = into[f"kind.{name}"]
        for key, value in made["properties"].items() if nested.variants else ():
            if key != "kind":
                about, lists = value.pop("description", ""), {"type": "array", "items": value}
                made["properties"][key] = {"description": about, "anyOf": [value, lists]}
        made["required"] = [key for key in made["required"] if key not in nested.optional]
    return references


def schema() -> Schema:
    """Return a JSON schema of a sweep's file, which editors complete and check by."""
    into: Schema = {}
    every = [kind.__pydantic_fields__ for kind in SWEEPS.values()]
    sweep, held = _keys_of(into, Study), dict[str, Nested]()
    for kind in SWEEPS.values():
        for key, value in _keys_of(into, kind)["properties"].items():
            sweep["properties"].setdefault(key, value)
        for key, one in _nested(kind).items():
            held[key] = _either(held.get(key, one), one)
    sweep["properties"] |= {key: _held(into, key, one) for key, one in held.items()}
    asked = [key for key in every[0] if all(key in one for one in every)]
    used, found = set[str](), [json.dumps(sweep)]
    while found:  # not what has been replaced
        new = set(re.findall(r'"#/\$defs/([^"]+)"', found.pop())) - used
        used |= new
        found += [json.dumps(into[name]) for name in new]
    return {
        **sweep,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of dpbench",
        "required": [key for key in asked if any(one[key].is_required() for one in every)],
        "$defs": {name: into[name] for name in sorted(used)},
    }


def _either(one: Nested, other: Nested) -> Nested:
    """Join what two kinds of sweep hold under one key; of two of a name the first."""
    if isinstance(one.of, tuple) or isinstance(other.of, tuple):
        return one
    more = {name: kind for name, kind in other.of.items() if name not in one.of}
    return dataclasses.replace(one, of={**one.of, **more})
