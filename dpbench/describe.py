"""What a configuration may say, read off the classes: for people, and as a schema for editors."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

import dpbench.distributions
import dpbench.estimators
import dpbench.report  # noqa: F401 (their kinds enter the registry)
from dpbench.analysis.claim_kinds import KINDS
from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.audit.cases import AuditSettings, Case
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, Registered
from dpbench.study import Figure, Study, StudyPart
from dpbench.theory.families import Family
from dpbench.theory.theorems import THEOREMS

__all__ = ["TOPICS", "help_on", "schema"]

TOPICS = ("sweep", "kind", "figure")
SECTIONS: dict[str, tuple[type[Registered], ...]] = {
    "families": (Family, Distribution),
    "estimators": (Estimator,),
    "budgets": (Budget,),
}
# Not for configurations.
HIDDEN = {"non_private"}


def help_on(topic: str, name: str | None, folders: Iterable[Path]) -> str:
    """Keys, types and defaults of a sweep, a kind or a figure, with a line each.

    Parameters
    ----------
    topic : {'sweep', 'kind', 'figure'}
    name : str, optional
        Of one of these; all are listed by default, and for a sweep its keys.
    folders : iterable of Path
        Where configurations are.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    if topic == "sweep":
        return _sweeps_help(name, folders)
    if topic not in TOPICS:
        raise ConfigError(f"--help: {topic!r}: choose from {', '.join(TOPICS)}")
    registries = (Figure,) if topic == "figure" else tuple(k for s in SECTIONS.values() for k in s)
    known = {label: one for registry in registries for label, one in registry.kinds().items()}
    kinds = {label: one for label, one in known.items() if label not in HIDDEN}
    if name is None:
        return "\n".join(f"{label:36} {_first_line(one)}" for label, one in sorted(kinds.items()))
    if name not in kinds:
        choices = ", ".join(sorted(kinds))
        raise ConfigError(f"--help {topic}: {name!r}: no such {topic}; choose from {choices}")
    return f"kind: {name}\n{_described(kinds[name])}"


def _sweeps_help(name: str | None, folders: Iterable[Path]) -> str:
    files = {path.stem: path for one in folders for path in sorted((one / "sweep").glob("*.yaml"))}
    if name is None:
        asked = {
            "a sweep": Study,
            "a part": StudyPart,
            "a claim, by its theorem": None,
            "a sample complexity": SampleComplexity,
            "an audit (a sweep with the key audit)": AuditSettings,
            "a case of an audit": Case,
        }
        texts = []
        for title, one in asked.items():
            listed = "\n".join(f"({kind})\n{_described(c)}" for kind, c in KINDS.items())
            texts.append(f"== {title}\n{_described(one) if one else listed}")
        return "\n\n".join(texts)
    if name not in files:
        raise ConfigError(
            f"--help sweep: {name!r}: no such sweep; choose from {', '.join(sorted(files))}"
        )
    lines = files[name].read_text().splitlines()
    head = [line.removeprefix("#").strip() for line in lines if line.startswith("# ")]
    about = [line for line in head if not line.startswith("yaml-language-server")]
    return "\n".join([*about, f"file: {files[name]}"])


def _described(kind: Any) -> str:
    """The docstring's first paragraph and every parameter: its default, and what it is."""
    told = _parameters(kind)
    lines = [_first_line(kind)]
    for field in dataclasses.fields(kind):
        text, about = told.get(field.name, (_plain_type(str(field.type)), ""))
        text = text.removesuffix(", optional").replace("optional", "names, or values by name")
        lines.append(f"  {field.name}: {text}{_default(kind.__pydantic_fields__[field.name])}")
        lines += [f"      {about}"] if about else []
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return " (required)"
    default = field.get_default(call_default_factory=True)
    return f" = {'null' if default is None else default}"


def _plain_type(text: str) -> str:
    return re.sub(r"Annotated\[(\w+).*", r"\1", text)


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


def schema() -> dict[str, Any]:
    """A JSON schema of a sweep's file, which editors complete and check by."""
    definitions: dict[str, Any] = {}

    def of(one: type[Any], name: str, **fixed: Any) -> dict[str, Any]:
        """Define the mapping that makes a class, and refer to it."""
        found = TypeAdapter(one).json_schema(
            ref_template="#/$defs/{model}", schema_generator=_Schema
        )
        definitions.update(found.pop("$defs", {}))
        told = _parameters(one)
        for key, value in found.get("properties", {}).items():
            if key in told:
                value["description"] = " ".join(filter(None, told[key]))
        found["properties"] = {**fixed, **found.get("properties", {})}
        found["required"] = list(dict.fromkeys([*fixed, *found.get("required", [])]))
        definitions[name] = {**found, "description": _first_line(one)}
        return {"$ref": f"#/$defs/{name}"}

    def kinds(*registries: type[Registered], swept: bool = False) -> dict[str, Any]:
        """Entries with a kind; lists of values stand for one each where entries are swept."""
        known = {n: one for r in registries for n, one in r.kinds().items() if n not in HIDDEN}
        references = []
        for name, one in sorted(known.items()):
            references.append(of(one, f"kind.{name}", kind={"const": name}))
            properties = definitions[f"kind.{name}"]["properties"]
            for key, value in properties.items() if swept else ():
                if key != "kind":
                    about = value.pop("description", "")
                    lists = {"type": "array", "items": value}
                    properties[key] = {"description": about, "anyOf": [value, lists]}
            if "k" in properties and registries == (Estimator,):  # the family's by default
                required = definitions[f"kind.{name}"]["required"]
                definitions[f"kind.{name}"]["required"] = [key for key in required if key != "k"]
        return _by_name({"oneOf": [*references, {"required": ["_target_"]}]})

    claims = []
    for kind, one in KINDS.items():
        names = [name for name, theorem in THEOREMS.items() if theorem.kind == kind]
        claims.append(of(one, f"claim.{kind}", theorem={"enum": names}))
        definitions[f"claim.{kind}"]["properties"]["theorem"] = {"enum": names}
    several = {"claims": _by_name({"oneOf": claims}), "figures": kinds(Figure)}
    part = of(StudyPart, "part")
    definitions["part"]["properties"] |= several
    audit = of(AuditSettings, "audit")
    definitions["audit"]["properties"]["cases"] = _by_name(of(Case, "case"))
    made = {section: kinds(*registries, swept=True) for section, registries in SECTIONS.items()}
    told = _parameters(Study)
    properties = {
        "name": {"type": "string", "pattern": r"^[\w-]+$"},
        **made,
        "parts": _by_name(part),
        "sample_complexity": _by_name(of(SampleComplexity, "sample_complexity")),
        **several,
        "gate": {"type": "boolean", "description": " ".join(told["gate"])},
        "audit": audit,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of dpbench",
        "type": "object",
        "properties": properties,
        "required": ["name", "estimators", "budgets"],
        "additionalProperties": False,
        "$defs": dict(sorted(definitions.items())),
    }


def _by_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(entry)}
