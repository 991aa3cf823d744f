"""Validated parameters, and the registry of names that a configuration may use.

Everything that a configuration can build is a frozen dataclass that checks its fields. It names a
class by its registered name (``kind: clipped_mean``) or by its path
(``_target_: dpbench.estimators.ClippedMean``), looked up among the classes that are registered
already, so that reading a configuration never imports or calls anything.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from dpbench.errors import ConfigError, RenamedWarning, choose_from

__all__ = [
    "LABEL", "MOST_RECORDS", "ConfigError", "Count", "Label", "MomentOrder", "Nested",
    "Probability", "Radius", "Registered", "Trials", "as_config_error", "from_mapping",
    "keyed", "named", "usable_label", "validated", "validated_positional",
]  # fmt: skip

T = TypeVar("T")
# Order of a bounded moment; a probability; a bound R on a mean, which 1e300 may be.
MomentOrder = Annotated[float, Field(ge=2)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Radius = Annotated[float, Field(ge=0, le=1e300)]
# Records, as far as counts of them are drawn; repetitions.
MOST_RECORDS = 10**15
Count = Annotated[int, Field(ge=1, le=MOST_RECORDS)]
Trials = Annotated[int, Field(ge=1, le=10_000_000)]
# What a user calls something: in tables, legends and file names, where it is text and no more.
LABEL = r"^[A-Za-z0-9][A-Za-z0-9_.=+-]{0,99}$"
LONGEST = 200  # characters of a value in a message


def usable_label(name: Any) -> str:
    """The label, if it is one; else ValueError."""
    text = str(name)
    if not re.fullmatch(LABEL, text):
        allowed = "up to 100 letters, digits and _ . = + -, a letter or digit first"
        raise ValueError(f"{_shown(text)}: a label has {allowed}")
    return text


Label = Annotated[str, AfterValidator(usable_label), Field(json_schema_extra={"pattern": LABEL})]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def validated(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass; a field that cannot be used is a ConfigError."""
    return _make(cls, kw_only=True)


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def validated_positional(cls: type[T]) -> type[T]:
    """Make `cls` like `validated` does, with fields that may be given by position."""
    return _make(cls, kw_only=False)


def _make(cls: type[T], *, kw_only: bool) -> type[T]:
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    make: Any = pydantic_dataclass(frozen=True, kw_only=kw_only, config=config)
    made: type[T] = make(cls)
    _tell_in_one_line(made)
    if issubclass(made, Registered):
        made._enter()
    return made


def _tell_in_one_line(cls: Any) -> None:
    """Let the class refuse what it is given in Python as a configuration's: in one line."""
    checked = cls.__init__

    @wraps(checked)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise ConfigError(_one_line(error, "", cls)) from None

    cls.__init__ = init


@contextmanager
def as_config_error(where: str) -> Iterator[None]:
    """Numbers of the configuration alone are computed: where that fails it cannot be used."""
    import numpy as np  # slow to load

    try:
        with np.errstate(all="ignore"):
            yield
    except ConfigError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error


def _one_line(error: ValidationError, where: str, cls: type[Any]) -> str:
    """Say one problem of `error` as ``key: value: what is allowed``: a word that is none, first."""
    strange = {"unexpected_keyword_argument", "extra_forbidden"}
    positional = "unexpected_positional_argument"
    first = min(error.errors(), key=lambda one: one["type"] not in {*strange, positional})
    steps, names = [str(step) for step in first["loc"]], [field.name for field in fields(cls)]
    unknown = first["type"] in strange
    if first["type"] == positional:
        return f"{cls.__name__}: {_shown(first['input'])}: name it, of {', '.join(names)}"
    if first["loc"] and isinstance(first["loc"][0], int):  # by position
        steps[0] = names[first["loc"][0]]
    last = [steps.pop()] if unknown else []  # as the user wrote it
    # pydantic's own steps into a union carry brackets or a class name: they are no keys
    path = [step for step in steps if re.fullmatch(r"[a-z0-9_]+", step)] + last
    key = _path(where, *path) or cls.__name__
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # of something that is built inside: it begins with its key
        return f"{key}.{inner}"
    if first["type"] in {"missing", "missing_argument"}:
        return f"{key}: this key is required"
    if unknown:
        return f"{key}: no such key; {choose_from(last[0], names)}"
    given = first["input"]
    if first["type"] in {"list_type", "tuple_type"} and isinstance(given, str | int | float):
        return f"{key}: {_shown(given)}: expected a list: [{given}]"
    message = first["msg"].removeprefix("Value error, ")
    for limit in first.get("ctx", {}).values():  # which pydantic writes without exponent
        if isinstance(limit, float):
            number = repr(limit).removesuffix(".0")
            message = re.sub(r" \S+$", f" {number}", message)
    message = message[:1].lower() + message[1:]
    shown = isinstance(given, str | int | float | list | None)
    return f"{key}: {_shown(given)}: {message}" if shown else f"{key}: {message}"


def _shown(value: Any) -> str:
    """A value in a message, its beginning if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _path(*keys: str) -> str:
    return ".".join(key for key in keys if key)


def from_mapping(cls: type[T], spec: Any, where: str) -> T:
    """Make a `cls` from the keys of `spec`, which stands at `where`; what is one is taken as it is.

    ConfigError if it is no mapping, or a key is missing, unknown or invalid.
    """
    if isinstance(spec, cls):
        return spec
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{where}: {spec!r}: expected a mapping")
    spec = _with_new_keys(cls, spec, where)
    for field in fields(cls):  # type: ignore[arg-type]
        given = spec.get(field.name)
        if isinstance(given, bool) and "bool" not in str(field.type):  # true would pass for 1
            raise ConfigError(f"{_path(where, field.name)}: {given}: not a number or text")
    try:
        return cls(**{str(key): value for key, value in spec.items()})
    except (ConfigError, ValidationError) as error:  # the latter of a class that is made late
        found = error if isinstance(error, ValidationError) else error.__context__
        assert isinstance(found, ValidationError)
        raise ConfigError(_one_line(found, where, cls)) from None


def _with_new_keys(cls: type[Any], spec: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Replace the keys of `spec` that an earlier release used by those of today, and say so."""
    renamed = {old: new for new, old in getattr(cls, "first_names", {}).items() if old in spec}
    for old, new in renamed.items():
        if new in spec:
            raise ConfigError(f"{_path(where, old)}: this key is now {new}; write {new} alone")
        _warn_renamed(_path(where, old), f"write the key {new!r}")
    return {renamed.get(str(key), key): value for key, value in spec.items()}


def _warn_renamed(key: str, remedy: str) -> None:
    """Say that a name of an earlier release was read, which the next release will refuse."""
    warnings.warn(f"{key}: renamed; {remedy}", RenamedWarning, stacklevel=2)


def _snake(name: str) -> str:
    """Return the name of a class in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class Nested:
    """Declare and check the keys inside a field, as metadata of the field's type.

    The help, the schema and the proposals for a wrong override are all derived from it.

    Parameters
    ----------
    of : tuple of registries, or mapping of str to class
        The classes that an entry can make; `check` is pydantic's validator.
    by_label : bool
        Whether the field holds entries by label, or by default one alone.
    title : str
        Heads the keys in the help, with the name of the class in `of` for {}.
    choice : tuple of str and mapping, optional
        A key, and which of its values choose each class of a mapping.
    variants : bool
        Whether a list of values stands for one entry each.
    optional : tuple of str
        Keys that an entry can omit although its class requires them.
    """

    of: tuple[type[Any], ...] | Mapping[str, type[Any]]
    check: Any
    by_label: bool = False
    title: str = ""
    choice: tuple[str, Mapping[str, Sequence[str]]] | None = None
    variants: bool = False
    optional: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.check.__get_pydantic_core_schema__(source, handler)

    def find(self, entry: Mapping[str, Any]) -> type[Any] | None:
        """Return the class that an entry makes; None if the entry names none."""
        if isinstance(self.of, tuple):
            return next(filter(None, (registry.find(entry) for registry in self.of)), None)
        if self.choice is None:
            return next(iter(self.of.values()))
        key, values = self.choice
        return next((one for name, one in self.of.items() if entry.get(key) in values[name]), None)


def keyed(cls: type[Any], title: str = "") -> Any:
    """Make a `cls` of a mapping, in a field of one, and name the keys that are wrong."""

    def build(spec: Any) -> Any:
        return from_mapping(cls, spec, "") if isinstance(spec, Mapping) else spec

    return Nested(of={"": cls}, check=BeforeValidator(build), title=title)


def named(
    of: type[Any] | Mapping[str, type[Any]],
    make: Callable[[Any, str], Any] | None = None,
    least: int = 0,
    **about: Any,
) -> Any:
    """Make at least so many entries by label: what `make` makes of an entry and its label.

    By default the class `of` is made of the entry's keys; for `about` see `Nested`.
    """
    classes: Any = of
    if isinstance(of, type):
        classes = (of,) if issubclass(of, Registered) else {"": of}
        make = make or partial(from_mapping, of)
    assert make is not None

    def build(entries: Any) -> Any:
        if not isinstance(entries, Mapping):
            raise ValueError("expected a mapping of names")
        if len(entries) < least:
            raise ValueError("at least one entry is needed")
        return {usable_label(name): make(one, str(name)) for name, one in entries.items()}

    return Nested(of=classes, check=PlainValidator(build), by_label=True, **about)


def _checked(kind: type[T], where: str) -> type[T]:
    """Refuse a class whose own parameters are not its fields: streams are named by these."""
    if "__pydantic_fields__" not in vars(kind):
        raise ConfigError(
            f"{where}: {kind.__module__}.{kind.__name__} does not check its parameters; "
            "write @validated above the class"
        )
    return kind


class Registered:
    """Base of the classes that a configuration can name.

    A direct subclass of `Registered` opens a registry of its own; every public class
    below it is entered there under its name in snake case, or under the `kind` that it gives.
    """

    _registry: ClassVar[dict[str, type[Any]]]
    _kind: ClassVar[str | None]

    def __init_subclass__(cls, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Registered in cls.__bases__:
            cls._registry = {}
        # One without a body may be what unpickling fills later, or drops for a class that is there.
        whole = any(not name.startswith("__") for name in vars(cls))
        cls._kind = kind
        if whole:
            cls._enter()

    @classmethod
    def _enter(cls) -> None:
        """Enter the class in its registry; ConfigError if another module has the name."""
        if Registered in cls.__bases__ or cls.__name__.startswith("_"):
            return
        name = cls._kind or _snake(cls.__name__)
        known = cls._registry.get(name)
        if known is not None and known.__module__ != cls.__module__:
            raise ConfigError(
                f"{cls.__module__}.{cls.__name__}: the name {name!r} is taken by "
                f"{known.__module__}.{known.__name__}; write class {cls.__name__}(..., "
                f"kind='another_name')"
            )
        cls._registry[name] = cls

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """The registered classes that can be made, by name."""
        return {name: one for name, one in cls._registry.items() if not inspect.isabstract(one)}

    @classmethod
    def kind_name(cls) -> str:
        """What a configuration calls this class."""
        return next(name for name, one in cls._registry.items() if one is cls)

    @classmethod
    def find(cls, spec: Mapping[str, Any], *, whole: bool = True) -> type[Self] | None:
        """The registered class that `spec` names, if any; nothing is imported.

        Of those that can be made, and (not `whole`) of others' that lack a method.
        """
        among = cls.kinds()
        if not whole:  # dpbench's own are abstract on purpose
            others = cls._registry.items()
            among |= {
                name: one for name, one in others if not one.__module__.startswith("dpbench.")
            }
        if "_target_" not in spec:
            return among.get(str(spec.get("kind")))
        module, _, name = str(spec["_target_"]).rpartition(".")
        for known in among.values():
            at = known.__module__
            if name == known.__name__ and module in {at, at.rpartition(".")[0]}:
                return known
        return None

    @classmethod
    def current(cls, spec: Any, where: str) -> Any:
        """Replace the names in `spec` that an earlier release used by those of today.

        A class with the attribute `stream_name` was once registered under that name, and a field
        in `first_names` once had another name. One line on standard error says what to write.

        Parameters
        ----------
        spec : mapping or object
            Specification of an object; anything but a mapping is returned unchanged.
        where : str
            Path of `spec` in the configuration, for messages.

        Returns
        -------
        mapping or object
            The specification with today's kind, ``_target_`` and keys.
        """
        if not isinstance(spec, Mapping):
            return spec
        module, _, target = str(spec.get("_target_", "")).rpartition(".")
        for kind, known in cls._registry.items():
            old = vars(known).get("stream_name")
            if old is None:
                continue
            if spec.get("kind") == _snake(old) != kind:
                _warn_renamed(_path(where, "kind") + f": {spec['kind']!r}", f"write {kind!r}")
                spec = {**spec, "kind": kind}
            if target == old != known.__name__:
                _warn_renamed(_path(where, "_target_") + f": {old!r}", f"write {known.__name__!r}")
                spec = {**spec, "_target_": f"{module}.{known.__name__}"}
        chosen = cls.find(spec)
        return spec if chosen is None else _with_new_keys(chosen, spec, where)

    @classmethod
    def lookup(cls, spec: Mapping[str, Any], where: str) -> type[Self]:
        """The registered class that `spec`, which stands at `where`, names; else ConfigError."""
        if not isinstance(spec, Mapping):
            raise ConfigError(f"{where}: {spec!r}: expected a mapping with a key 'kind'")
        found = cls.find(spec)
        if found is not None:
            return _checked(found, where)
        if part := cls.find(spec, whole=False):
            missing = ", ".join(sorted(getattr(part, "__abstractmethods__", ())))
            key = next(key for key in ("_target_", "kind") if key in spec)
            raise ConfigError(
                f"{_path(where, key)}: {spec[key]!r}: {part.__module__}.{part.__name__} does not "
                f"define {missing}"
            )
        choices = sorted(cls.kinds())
        if "_target_" in spec:
            name = str(spec["_target_"]).rpartition(".")[2]
            near = choose_from(name, {one.__name__ for one in cls.kinds().values()})
            meant = near.rpartition("choose from")[0]
            raise ConfigError(
                f"{_path(where, '_target_')}: {spec['_target_']!r}: refused; {meant}only classes "
                f"of dpbench and of listed plugins may be named: {', '.join(choices)}"
            )
        key = _path(where, "kind")
        if "kind" not in spec:
            raise ConfigError(f"{key}: this key is required; choose from {', '.join(choices)}")
        raise ConfigError(f"{key}: {spec['kind']!r}: {choose_from(spec['kind'], choices)}")

    @classmethod
    def build(cls, spec: Any, where: str) -> Self:
        """Make the instance of ``kind`` (or ``_target_``) and parameters; one is taken as it is.

        ConfigError, with the path `where` of `spec`, if a name or a parameter cannot be used.
        """
        if isinstance(spec, cls):  # made in Python
            _checked(type(spec), where)
            return spec
        spec = cls.current(spec, where)
        chosen = cls.lookup(spec, where)
        given = {key: value for key, value in spec.items() if key not in {"kind", "_target_"}}
        return from_mapping(chosen, given, where)
