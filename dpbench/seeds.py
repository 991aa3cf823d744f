"""Random streams, each named by its purpose and by the objects that draw from it.

`canonical` names an object by its class and its parameters. A stream's name decides its numbers, so
the names in streams are fixed: a class that is renamed keeps its old name in `stream_name`, and a
renamed parameter keeps its old name in `first_names`. ``tests/stream_names.yaml`` lists the
names of all classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["canonical", "check_generator", "digest", "stream", "stream_name", "stream_parameters"]


def digest(*names: object) -> str:
    """SHA-256 of the names, in hexadecimal."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def stream(*names: str | int) -> np.random.Generator:
    """The random stream of that name, independent of all others.

    So adding, removing or reordering estimators, or moving work to other processes, changes no
    other number. SFC64 was the fastest of numpy's generators on this workload.
    """
    import numpy as np  # slow to load, where digests are enough

    entropy = int(digest(*names), 16)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))


def check_generator(rng: object) -> None:
    """TypeError if that is no generator: a seed, which would give every release the same noise."""
    import numpy as np  # slow to load

    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng is {rng!r}; give a generator: np.random.default_rng(0)")


def canonical(instance: Any) -> str:
    """Name an object by its class and its parameters, as the names of streams contain it.

    Objects with equal names behave equally. A parameter that holds the path of a file is replaced
    by a digest of the file's values, if the class has a property `content`.

    Raises
    ------
    TypeError
        If a parameter is not JSON and no dataclass or function.
    """
    return f"{stream_name(type(instance))}{json.dumps(_parameters(instance), sort_keys=True)}"


def stream_name(cls: type[Any]) -> str:
    """Return the name of a class in streams: its attribute `stream_name`, or its own name.

    A subclass does not inherit the attribute, because two classes need two names.
    """
    name: str = vars(cls).get("stream_name", cls.__name__)
    return name


def stream_parameters(cls: type[Any]) -> dict[str, str]:
    """Map each field of a dataclass to its name in streams.

    The class attribute `first_names` maps renamed fields to their first names. Subclasses
    inherit it.
    """
    first = getattr(cls, "first_names", {})
    return {field.name: first.get(field.name, field.name) for field in fields(cls)}


def _parameters(instance: Any) -> dict[str, Any]:
    """Return the parameters in a stream's name, without those that were added later.

    The class attribute `added_parameters` maps each parameter that was added after streams were
    drawn to the value that leaves the class as it was before. A parameter with this value is left
    out, so that the old streams keep their names.
    """
    names = stream_parameters(type(instance))
    added = getattr(instance, "added_parameters", {})
    values = {name: getattr(instance, name) for name in names}
    kept = {
        names[name]: _value(value)
        for name, value in values.items()
        if name not in added or value != added[name]
    }
    content = getattr(instance, "content", None)
    return kept if content is None else {**kept, "path": content}


def _value(value: Any) -> Any:
    """Return a parameter's value as JSON: a nested object or a function by its name."""
    if is_dataclass(value):
        return {stream_name(type(value)): _parameters(value)}
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else value
