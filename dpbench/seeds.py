"""Random streams (random generators), each seeded by a name.

The name of a stream lists its purpose and the objects that draw from it. `canonical` describes an
object in this name by its class and its parameters. The name of a stream decides its random
numbers. So if a class is renamed, stream names keep the old name, which the class attribute
`stream_name` holds. For renamed parameters, `first_names` holds the old names.
``tests/stream_names.yaml`` lists the names of all classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from dpbench.errors import check_instance

if TYPE_CHECKING:
    import numpy as np

__all__ = ["canonical", "check_generator", "digest", "stream", "stream_name", "stream_parameters"]


def digest(*names: object) -> str:
    """Return the SHA-256 digest of a list of names, in hexadecimal."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def stream(*names: str | int) -> np.random.Generator:
    """Return the random generator that a name seeds, independent of other names' generators.

    Because every stream has its own name, no number changes if estimators are added, removed or
    reordered, or if work moves to other processes.
    """
    import numpy as np

    entropy = int(digest(*names), 16)
    # SFC64 was the fastest of numpy's generators on this workload.
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))


def check_generator(rng: object) -> None:
    """Raise TypeError if `rng` is not a numpy random generator.

    A seed is refused, because all releases with one seed would have equal noise.
    """
    import numpy as np

    check_instance("rng", rng, np.random.Generator, "a generator", "np.random.default_rng(0)")


def canonical(instance: Any) -> str:
    """Return an object's class and parameters as text, for the names of random streams.

    Objects with equal texts behave equally. If the class has a property `content`, a digest of a
    file's values, this digest replaces the parameter `path`. A TypeError is raised if a parameter
    is not a JSON value, a dataclass or a function.
    """
    return f"{stream_name(type(instance))}{json.dumps(_parameters(instance), sort_keys=True)}"


def stream_name(cls: type[Any]) -> str:
    """Return the name that stands for a class in the names of random streams.

    A renamed class has the attribute `stream_name`, which is returned. For other classes return the
    class's own name. A subclass does not inherit the attribute, because two classes need two names.
    """
    name: str = vars(cls).get("stream_name", cls.__name__)
    return name


def stream_parameters(cls: type[Any]) -> dict[str, str]:
    """Map each field of a dataclass to its name in the names of random streams.

    The class attribute `first_names` maps renamed fields to their first names. Subclasses
    inherit it.
    """
    first = getattr(cls, "first_names", {})
    return {field.name: first.get(field.name, field.name) for field in fields(cls)}


def _parameters(instance: Any) -> dict[str, Any]:
    """Map the names of an object's parameters to their values, for the names of random streams.

    If a new version of dpbench adds a parameter to a class, one value of the parameter keeps the
    old behaviour. The class attribute `added_parameters` maps the parameter to this value. A
    parameter with this value is left out, because existing streams must keep their names.
    """
    names = stream_parameters(type(instance))
    added = getattr(instance, "added_parameters", {})
    values = {name: getattr(instance, name) for name in names}
    parameters = {
        names[name]: _value(value)
        for name, value in values.items()
        if name not in added or value != added[name]
    }
    content = getattr(instance, "content", None)
    return parameters if content is None else {**parameters, "path": content}


def _value(value: Any) -> Any:
    """Return a parameter's value in a form that JSON can hold.

    An object becomes a mapping of its class's name to its parameters. A function becomes its name.
    A mapping of objects becomes a list of pairs, because the order of its keys may matter.
    """
    if isinstance(value, Mapping) and any(map(is_dataclass, value.values())):
        return [[key, _value(entry)] for key, entry in value.items()]
    if is_dataclass(value):
        return {stream_name(type(value)): _parameters(value)}
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else value
