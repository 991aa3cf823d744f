"""What a configuration may say, read off the classes: for people, and as a schema for editors."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

import dpbench.distributions
import dpbench.estimators
import dpbench.report  # noqa: F401 (their kinds enter the registry)
from dpbench.analysis.kinds import KINDS
from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.analysis.study import Figure, Study, StudyPart
from dpbench.audit.cases import AuditSettings, AuditSweep, Case
from dpbench.distributions import Distribution
from dpbench.errors import choose_from
from dpbench.estimators import Estimator
from dpbench.estimators.catalogue import catalogue, search
from dpbench.libraries.sweep import HostileSettings, LibraryClaim, LibrarySettings
from dpbench.privacy import Budget
from dpbench.registry import LABEL, ConfigError, Registered
from dpbench.runner.execute import Runner
from dpbench.theory.families import Family
from dpbench.theory.theorems import THEOREMS

__all__ = ["help_on", "keys_at", "kinds", "parameters", "schema"]

Schema = dict[str, Any]

SECTIONS: dict[str, tuple[type[Registered], ...]] = {
    "families": (Family, Distribution),
    "estimators": (Estimator,),
    "budgets": (Budget,),
}
# What --help sweep lists.
KEYS: dict[str, type[Any]] = {
    "a sweep": Study,
    "a part": StudyPart,
    **{f"a claim whose theorem is of the kind {kind}": one for kind, one in KINDS.items()},
    "a sample complexity": SampleComplexity,
    "an audit (a sweep with the key audit)": AuditSettings,
    "a case of an audit": Case,
    "libraries (a sweep with the key libraries)": LibrarySettings,
    "hostile columns of libraries": HostileSettings,
}


def kinds(*registries: type[Registered]) -> dict[str, type[Registered]]:
    """What a configuration may name, sorted."""
    known = {label: one for registry in registries for label, one in registry.kinds().items()}
    known.pop("non_private", None)  # the budget of those that need none
    return dict(sorted(known.items()))


def help_on(topic: str, name: str | None, folders: Iterable[Path]) -> str:
    """Keys, types and defaults of a sweep, a kind or a figure (the topic), with a line each.

    Of one with a name, which is looked up in `folders` of configurations if it is a sweep, else
    a list of all; ConfigError if there is none of that name.
    """
    everywhere = [registry for section in SECTIONS.values() for registry in section]
    files = {path.stem: path for one in folders for path in sorted((one / "sweep").glob("*.yaml"))}
    asked: dict[str, Mapping[str, Any]]
    asked = {"sweep": files, "kind": kinds(*everywhere), "figure": kinds(Figure)}
    if topic not in asked:
        raise ConfigError(f"--help: {topic!r}: {choose_from(topic, asked)}")
    known = asked[topic]
    if name is None:
        if topic == "sweep":
            return "\n\n".join(f"== {title}\n{_described(one)}" for title, one in KEYS.items())
        return "\n".join(f"{label:36} {_first_line(one)}" for label, one in known.items())
    if name not in known:
        choices, about = choose_from(name, sorted(known)), search(name) if topic == "kind" else []
        choices = f"about it: {', '.join(about)}" if about else choices
        raise ConfigError(f"--help {topic}: {name!r}: no such {topic}; {choices}")
    found = known[name]
    if topic == "sweep":
        lines = [line for line in found.read_text("utf-8").splitlines() if line.startswith("# ")]
        about = [line[2:].strip() for line in lines if "yaml-language-server" not in line]
        return "\n".join([*about, f"file: {found}"])
    listed = catalogue().get(name) if topic == "kind" else None
    return "\n".join([f"kind: {name}", _described(found), *(listed.lines() if listed else [])])


def keys_at(config: Mapping[str, Any], steps: Sequence[str]) -> list[str] | None:
    """The keys of whatever a configuration makes where these steps lead; None if any will do."""
    found: Any = config
    for step in steps:
        found = found[step]
    sections: dict[str, tuple[type[Registered], ...]] = {**SECTIONS, "figures": (Figure,)}
    fixed: dict[str, type[Any]] = {
        "parts": StudyPart,
        "sample_complexity": SampleComplexity,
        "cases": Case,
    }
    above = steps[-2] if len(steps) > 2 else ""
    kind: type[Any] | None = fixed.get(above)
    if steps == ["sweep"]:
        kind = AuditSweep if "audit" in found else Study
    elif steps in (["runner"], ["sweep", "audit"]):
        kind = {"runner": Runner, "audit": AuditSettings}[steps[-1]]
    elif above in sections:
        kind = next(filter(None, (one.find(found) for one in sections[above])), None)
    elif above == "claims" and found.get("theorem") in THEOREMS:
        kind = KINDS[THEOREMS[found["theorem"]].kind]
    extra = ["kind"] if above in sections else []
    return None if kind is None else [*extra, *(field.name for field in dataclasses.fields(kind))]


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


def _define(into: Schema, one: type[Any], name: str, **fixed: Any) -> Schema:
    """Define the mapping that makes a class, with some properties fixed; a reference to it."""
    found = TypeAdapter(one).json_schema(ref_template="#/$defs/{model}", schema_generator=_Schema)
    into.update(found.pop("$defs", {}))
    properties = found.get("properties", {})
    for key, told in _parameters(one).items():
        if key in properties:
            properties[key]["description"] = " ".join(filter(None, told))
    found["properties"] = properties | fixed
    found["required"] = list(dict.fromkeys([*fixed, *found.get("required", [])]))
    into[name] = {**found, "description": _first_line(one)}
    return {"$ref": f"#/$defs/{name}"}


def _entries(into: Schema, *registries: type[Registered]) -> Schema:
    """Entries with a kind; in a section a list of values stands for one entry each."""
    references = []
    for name, one in kinds(*registries).items():
        references.append(_define(into, one, f"kind.{name}", kind={"const": name}))
        made = into[f"kind.{name}"]
        for key, value in made["properties"].items() if registries != (Figure,) else ():
            if key != "kind":
                about, lists = value.pop("description", ""), {"type": "array", "items": value}
                made["properties"][key] = {"description": about, "anyOf": [value, lists]}
        if registries == (Estimator,):  # the family's k and m by default
            made["required"] = [key for key in made["required"] if key not in ("k", "m")]
    return _by_name({"oneOf": [*references, {"required": ["_target_"]}]})


def schema() -> Schema:
    """A JSON schema of a sweep's file, which editors complete and check by."""
    into: Schema = {}
    names = {kind: [n for n, theorem in THEOREMS.items() if theorem.kind == kind] for kind in KINDS}
    claims = [
        _define(into, one, f"claim.{kind}", theorem={"enum": names[kind]})
        for kind, one in KINDS.items()
    ]
    claims.append(_define(into, LibraryClaim, "claim.libraries"))
    asked = {"claims": _by_name({"oneOf": claims}), "figures": _entries(into, Figure)}
    part, audit = _define(into, StudyPart, "part"), _define(into, AuditSettings, "audit")
    into["part"]["properties"] |= asked
    into["audit"]["properties"]["cases"] = _by_name(_define(into, Case, "case"))
    libraries = _define(into, LibrarySettings, "libraries")
    hostile = _define(into, HostileSettings, "hostile")
    into["libraries"]["properties"] |= {"audit": audit, "hostile": hostile}
    request = _define(into, SampleComplexity, "sample_complexity")
    _define(into, Study, "sweep")
    sweep = into.pop("sweep")
    sweep["properties"] |= {name: _entries(into, *kinds) for name, kinds in SECTIONS.items()}
    sweep["properties"] |= {"parts": _by_name(part), "sample_complexity": _by_name(request)}
    sweep["properties"] |= {**asked, "audit": audit, "libraries": libraries}
    used = json.dumps([sweep, into])  # not what has been replaced
    return {
        **sweep,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of dpbench",
        "required": ["name", "estimators", "budgets"],
        "$defs": {name: into[name] for name in sorted(into) if f'"#/$defs/{name}"' in used},
    }


def _by_name(entry: Schema) -> Schema:
    labels = {"pattern": LABEL}
    return {"type": "object", "additionalProperties": entry, "propertyNames": labels}
