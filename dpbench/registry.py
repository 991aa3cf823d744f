"""Validated parameters, and the registry of names that a configuration may use.

Everything that a configuration can build is a frozen dataclass that checks its fields. A
configuration names a class by its registered name (``kind: clipped_mean``) or by its path
(``_target_: dpbench.estimators.ClippedMean``). Only registered classes are found, so reading a
configuration never imports or calls anything.
"""

from __future__ import annotations

import inspect
import re
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
from pydantic.dataclasses import rebuild_dataclass

from dpbench.app import load_kinds
from dpbench.errors import (
    MAX_ENTRIES,
    MAX_QUOTED_CHARACTERS,
    ConfigError,
    ErrorCollector,
    check_instance,
    choose_from,
    describe_value,
)

__all__ = [
    "LABEL",
    "MAX_RECORDS",
    "ConfigError",
    "Count",
    "Deviation",
    "Label",
    "MomentOrder",
    "MomentScale",
    "Nested",
    "Probability",
    "Radius",
    "Registered",
    "Trials",
    "as_config_error",
    "check_label",
    "check_number",
    "choose_kind",
    "from_mapping",
    "labelled_entries",
    "nested_entry",
    "snake",
    "validated",
    "validated_positional",
]  # fmt: skip

T = TypeVar("T")
# MomentOrder: order k of a bounded moment. Radius: bound R on the absolute value of a mean.
MomentOrder = Annotated[float, Field(ge=2)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Radius = Annotated[float, Field(ge=0, le=1e300)]
# Assumed scales of the records. Each has to be given; its description completes the error message.
Deviation = Annotated[
    float,
    Field(
        gt=0,
        le=1e300,
        description="standard deviation of a record, in the unit of the data; "
        "state it from public knowledge",
    ),
]
MomentScale = Annotated[
    float,
    Field(
        ge=1e-100,
        le=1e100,
        description="E|X - mean|^k is at most scale^k, in the unit of the data; "
        "state it from public knowledge",
    ),
]
# Largest n, which only datasets held as counts reach.
MAX_RECORDS = 10**15
Count = Annotated[int, Field(ge=1, le=MAX_RECORDS)]
MAX_TRIALS = 10_000_000
Trials = Annotated[int, Field(ge=1, le=MAX_TRIALS)]
# Labels stand in tables, legends and file names, so they must be plain text.
LABEL = r"^[A-Za-z0-9][A-Za-z0-9_.=+-]{0,99}$"


def check_label(name: Any) -> str:
    """Return `name` as text; raise ValueError if it is not valid as a label of a configuration.

    A label has up to 100 letters, digits and ``_.=+-``, and begins with a letter or digit.
    """
    if name is None or isinstance(name, bool):
        raise ValueError(f"{name}: a label is text; put it in quotes")
    text = str(name)
    if not re.fullmatch(LABEL, text):
        allowed = "up to 100 letters, digits and _ . = + -, a letter or digit first"
        raise ValueError(f"{_quote_value(text)}: a label has {allowed}")
    return text


def check_number(entries: Mapping[Any, Any]) -> None:
    """Raise ValueError if a section of a configuration has more than `MAX_ENTRIES` entries."""
    if len(entries) > MAX_ENTRIES:
        raise ValueError(f"{len(entries):,} entries; write at most {MAX_ENTRIES:,}")


Label = Annotated[str, AfterValidator(check_label), Field(json_schema_extra={"pattern": LABEL})]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def validated(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass that raises ConfigError for invalid fields."""
    return _make_dataclass(cls, kw_only=True)


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def validated_positional(cls: type[T]) -> type[T]:
    """Make `cls` a dataclass as `validated` does, but allow positional arguments."""
    return _make_dataclass(cls, kw_only=False)


def _make_dataclass(cls: type[T], *, kw_only: bool) -> type[T]:
    # Validators of most classes are never used, and take a fifth of the time of all imports. Those
    # of plug-ins are built at once, because a field of an unusable type is an error of its import.
    deferred = cls.__module__.startswith("dpbench.")
    config = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=deferred)
    decorate: Any = pydantic_dataclass(frozen=True, kw_only=kw_only, config=config)
    checked_class: type[T] = decorate(cls)
    _shorten_validation_errors(checked_class)
    if issubclass(checked_class, Registered):
        checked_class._register()
    return checked_class


def _shorten_validation_errors(cls: Any) -> None:
    """Make the constructor of `cls` raise ConfigError with one line, not pydantic's errors."""
    checked_init = cls.__init__

    @wraps(checked_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not cls.__pydantic_complete__:
            rebuild_dataclass(cls)
            cls.__init__ = init  # pydantic has replaced it
        try:
            checked_init(self, *args, **kwargs)
        except ValidationError as error:
            raise ConfigError(*_describe_errors(error, "", cls)) from None

    cls.__init__ = init


@contextmanager
def as_config_error(where: str) -> Iterator[None]:
    """Turn numerical errors in a ``with`` block into a ConfigError that names the key `where`.

    The block must compute with numbers of the configuration only, because the message blames the
    configuration.
    """
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            yield
    except ConfigError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error


UNKNOWN_KEY_TYPES = {"unexpected_keyword_argument", "extra_forbidden"}
MISSING_KEY_TYPES = {"missing", "missing_argument"}
POSITIONAL = "unexpected_positional_argument"


def _describe_errors(error: ValidationError, where: str, cls: type[Any]) -> list[str]:
    """Describe a validation error: a line ``key: value: what is allowed`` for each field.

    Unknown keys come first. If there are any, missing keys are not told, because an unknown key may
    be a missing one, misspelt. A field of several possible types has a problem with each of
    them, of which the first is told.
    """
    problems = sorted(
        error.errors(), key=lambda problem: problem["type"] not in {*UNKNOWN_KEY_TYPES, POSITIONAL}
    )
    if problems[0]["type"] in {*UNKNOWN_KEY_TYPES, POSITIONAL}:
        problems = [one for one in problems if one["type"] not in MISSING_KEY_TYPES]
    by_depth = sorted(problems, key=lambda one: -len(one["loc"]))
    first_of_field = {one["loc"][:1]: one for one in reversed(by_depth)}
    return [
        line
        for one in problems
        if first_of_field[one["loc"][:1]] is one
        for line in _describe_problem(one, where, cls)
    ]


def _describe_problem(first: Any, where: str, cls: type[Any]) -> list[str]:
    """Describe a problem that pydantic found: a line, or several of an entry inside."""
    steps, names = [str(step) for step in first["loc"]], [field.name for field in fields(cls)]
    unknown = first["type"] in UNKNOWN_KEY_TYPES
    if first["type"] == POSITIONAL:
        return [f"{cls.__name__}: {_quote_value(first['input'])}: name it, of {', '.join(names)}"]
    if first["loc"] and isinstance(first["loc"][0], int):  # the argument has no name in the call
        steps[0] = names[first["loc"][0]]
    last = [steps.pop()] if unknown else []  # the user's spelling
    # Steps of pydantic into a union have brackets or a class name, so they are not keys.
    path = [step for step in steps if re.fullmatch(r"[a-z0-9_]+", step)] + last
    key = _join_keys(where, *path) or cls.__name__
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # its lines begin with the inner key
        return [f"{key}.{line}" for line in inner.lines]
    if first["type"] in MISSING_KEY_TYPES:
        return [f"{key}: this key is required{_describe_field(cls, path[-1])}"]
    if unknown:
        advice = _advise_entry(cls, last[0]) or f"; {choose_from(last[0], names)}"
        return [f"{key}: no such key{advice}"]
    value = first["input"]
    if first["type"] in {"list_type", "tuple_type"} and isinstance(value, str | int | float):
        wanted = _list_of_ends(value, "[list]" in steps) or f"[{value}]"
        return [f"{key}: {_quote_value(value)}: expected a list: {wanted}"]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] in {"bool_parsing", "bool_type"}:
        message = "input should be true or false"
    for limit in first.get("ctx", {}).values():  # pydantic writes limits without exponent
        if isinstance(limit, float):
            number = repr(limit).removesuffix(".0")
            message = re.sub(r" \S+$", f" {number}", message)
    message = message[:1].lower() + message[1:]
    hidden = isinstance(value, Mapping) or not first["loc"]  # the whole configuration
    shown = _quote_value(value) if isinstance(value, list) else describe_value(value)
    return [f"{key}: {message}" if hidden else f"{key}: {shown}: {message}"]


def _list_of_ends(value: Any, has_grid: bool) -> str:
    """Return the ends of a text such as 1e4..1e6 as a list, or grid if that is allowed; else ""."""
    number = r"(\d[\d.]*(?:e\+?\d+)?)"
    ends = re.fullmatch(rf"{number} *(?:\.\.+|:|-|to) *{number}", str(value))
    if ends is None:
        return ""
    low, high = (end.strip(".") for end in ends.groups())
    grid = f", or a grid: '{{low: {low}, high: {high}, points: 8}}'" if has_grid else ""
    return f"[{low},{high}]{grid}"


def _describe_field(cls: type[Any], name: str) -> str:
    """Return ": " and the description of a field, or an empty text if it has none."""
    field = cls.__pydantic_fields__.get(name)
    return f": {field.description}" if field is not None and field.description else ""


def _advise_entry(cls: type[Any], name: str) -> str:
    """Return " here; write FIELD.LABEL.NAME" if entries of a field have this key, else ""."""
    for field, info in cls.__pydantic_fields__.items():
        for nested in (one for one in info.metadata if isinstance(one, Nested)):
            entries = nested.of.values() if isinstance(nested.of, Mapping) else ()
            if any(name == one.name for entry in entries for one in fields(entry)):
                return f" here; write {field}.{'LABEL.' if nested.by_label else ''}{name}"
    return ""


def _quote_value(value: Any) -> str:
    """Return the repr of a value, cut to `MAX_QUOTED_CHARACTERS` (200) characters."""
    text = repr(value)
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}..."


def _join_keys(*keys: str) -> str:
    return ".".join(key for key in keys if key)


def from_mapping(cls: type[T], spec: Any, where: str) -> T:
    """Build an instance of a validated class from a mapping of its fields.

    An instance in place of the mapping is returned unchanged. `where` is the path of `spec` in the
    configuration, for messages. A ConfigError is raised if `spec` is not a mapping, or a key is
    missing, unknown or invalid.
    """
    if isinstance(spec, cls):
        return spec
    if not isinstance(spec, Mapping):
        check_instance(where, spec, Mapping | cls, "a mapping", "{KEY: VALUE}")
    for field in fields(cls):  # type: ignore[arg-type]
        entry = spec.get(field.name)
        if isinstance(entry, bool) and "bool" not in str(field.type):  # true would pass for 1
            raise ConfigError(f"{_join_keys(where, field.name)}: {entry}: not a number or text")
    try:
        return cls(**{str(key): value for key, value in spec.items()})
    except (ConfigError, ValidationError) as error:
        cause = error if isinstance(error, ValidationError) else error.__context__
        assert isinstance(cause, ValidationError)
        raise ConfigError(*_describe_errors(cause, where, cls)) from None


def snake(name: str) -> str:
    """Return the name of a class in snake case, such as ``clipped_mean`` for ClippedMean."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class Nested:
    """Description of a configuration field whose value is an object or a mapping of objects.

    Each object is called an entry, and has keys of its own. A `Nested` is attached to the type of
    the field as metadata, and contains the validator that builds the entries. The command line's
    help, the schema and the suggestions for misspelt keys are derived from it.
    """

    # Possible classes of an entry: registries, or classes by name.
    of: tuple[type[Any], ...] | Mapping[str, type[Any]]
    check: Any  # Pydantic validator that builds the entries.
    by_label: bool = False  # True if the field maps labels to entries; else it holds one entry.
    # Heading of an entry's keys in the help; {} stands for the name of the class in `of`.
    title: str = ""
    # Key of the entry whose value chooses the class; and a mapping from each name in `of` to the
    # values that choose the class with this name.
    choice: tuple[str, Mapping[str, Sequence[str]]] | None = None
    # True if a list of values for a parameter stands for one entry per value.
    variants: bool = False
    optional: tuple[str, ...] = ()  # Keys that an entry can omit although its class requires them.
    listed: bool = False  # True if the field may also be a list of entries without labels.

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.check.__get_pydantic_core_schema__(source, handler)

    def find(self, entry: Mapping[str, Any]) -> type[Any] | None:
        """Return the class that the keys of an entry choose, or None if they choose no class."""
        if isinstance(self.of, tuple):
            return next(filter(None, (registry.find(entry) for registry in self.of)), None)
        if self.choice is None:
            return next(iter(self.of.values()))
        key, values = self.choice
        return next(
            (candidate for name, candidate in self.of.items() if entry.get(key) in values[name]),
            None,
        )


def nested_entry(cls: type[Any], title: str = "") -> Any:
    """Declare a configuration field with one entry, an instance of `cls` built from a mapping.

    `title` is the heading of the entry's keys in the help.
    """

    def build(spec: Any) -> Any:
        return from_mapping(cls, spec, "") if isinstance(spec, Mapping) else spec

    return Nested(of={"": cls}, check=BeforeValidator(build), title=title)


def labelled_entries(
    of: type[Any] | Mapping[str, type[Any]],
    make: Callable[[Any, str], Any] | None = None,
    least: int = 0,
    **metadata: Any,
) -> Any:
    """Declare a configuration field that maps labels to entries, objects built from mappings.

    `of` is the class of the entries, or their possible classes keyed by name. `make` builds an
    entry from its configuration and its label; by default `from_mapping` builds an instance of
    `of`. `least` is the smallest number of entries. The metadata are other parameters of `Nested`.
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
        check_number(entries)
        errors, built = ErrorCollector(), dict[str, Any]()
        for name, entry in entries.items():
            label = check_label(name)
            with errors.step():
                built[label] = make(entry, str(name))
        errors.raise_all()
        return built

    return Nested(of=classes, check=PlainValidator(build), by_label=True, **metadata)


def _require_validated(kind: type[T], where: str) -> type[T]:
    """Return the class `kind`; raise ConfigError unless the decorator `validated` was applied.

    Other classes are refused, because the name of a random stream lists the fields that
    `validated` declares.
    """
    if "__pydantic_fields__" not in vars(kind):
        raise ConfigError(
            f"{where}: {kind.__module__}.{kind.__name__} does not check its parameters; "
            "write @validated above the class"
        )
    return kind


def choose_kind(word: str, kinds: Mapping[str, type[Any]]) -> str:
    """Return "did you mean X? choose from ..." for an unknown kind, as `choose_from` does.

    A kind whose summary has the word in parentheses is meant: "Gaussian (normal) distribution".
    """
    summaries = {
        name: (inspect.getdoc(kind) or "").partition("\n")[0] for name, kind in kinds.items()
    }
    named = (name for name, text in summaries.items() if f"({word})" in text.lower())
    return choose_from(next(named, word), sorted(kinds))


class Registered:
    """Base class of the classes that a configuration can name.

    A direct subclass of `Registered` starts a registry, a table of classes keyed by name. Every
    public class derived from this subclass is registered under its name in snake case, or under its
    class argument `kind`.
    """

    _registry: ClassVar[dict[str, type[Any]]]
    _kind: ClassVar[str | None]

    def __init_subclass__(cls, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Registered in cls.__bases__:
            cls._registry = {}
        # A class without a body may be a stub that unpickling fills later or discards.
        whole = any(not name.startswith("__") for name in vars(cls))
        cls._kind = kind
        if whole:
            cls._register()

    @classmethod
    def _register(cls) -> None:
        """Register this class; raise ConfigError if a class of another module has its name."""
        if Registered in cls.__bases__ or cls.__name__.startswith("_"):
            return
        name = cls._kind or snake(cls.__name__)
        registered = cls._registry.get(name)
        if registered is not None and registered.__module__ != cls.__module__:
            raise ConfigError(
                f"{cls.__module__}.{cls.__name__}: the name {name!r} is taken by "
                f"{registered.__module__}.{registered.__name__}; write class {cls.__name__}(..., "
                f"kind='another_name')"
            )
        cls._registry[name] = cls

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """Return the registered classes without abstract methods, keyed by name."""
        load_kinds()  # those of applications
        return {name: kind for name, kind in cls._registry.items() if not inspect.isabstract(kind)}

    @classmethod
    def kind_name(cls) -> str:
        """Return the name of this class in configurations."""
        return next(name for name, kind in cls._registry.items() if kind is cls)

    @classmethod
    def find(cls, spec: Mapping[str, Any], *, whole: bool = True) -> type[Self] | None:
        """Return the registered class that a specification names, without importing anything.

        A key ``kind`` or ``_target_`` names the class. If `whole` is True, only classes without
        abstract methods are considered. If False, the abstract classes that packages other than
        dpbench define are considered, too. None is returned if no registered class has the name.
        """
        candidates = cls.kinds()
        if not whole:  # dpbench's abstract classes are base classes
            others = cls._registry.items()
            candidates |= {
                name: kind for name, kind in others if not kind.__module__.startswith("dpbench.")
            }
        if "_target_" not in spec:
            return candidates.get(str(spec.get("kind")))
        module, _, name = str(spec["_target_"]).rpartition(".")
        for candidate in candidates.values():
            home = candidate.__module__
            if name == candidate.__name__ and module in {home, home.rpartition(".")[0]}:
                return candidate
        return None

    @classmethod
    def lookup(cls, spec: Mapping[str, Any], where: str) -> type[Self]:
        """Return the registered class that a specification names.

        `where` is the path of `spec` in the configuration, for messages. A ConfigError is raised if
        `spec` names no class, or a class that is abstract or not validated.
        """
        if not isinstance(spec, Mapping):
            if isinstance(spec, type):
                check_instance(where, spec, cls, "a mapping", "{'kind': NAME}")
            example = f", as {{kind: {spec}}}" if isinstance(spec, str) else ""
            shown = describe_value(spec)
            raise ConfigError(f"{where}: {shown}: expected a mapping with a key 'kind'{example}")
        kind = cls.find(spec)
        if kind is not None:
            return _require_validated(kind, where)
        if part := cls.find(spec, whole=False):
            missing = ", ".join(sorted(getattr(part, "__abstractmethods__", ())))
            key = next(key for key in ("_target_", "kind") if key in spec)
            raise ConfigError(
                f"{_join_keys(where, key)}: {spec[key]!r}: {part.__module__}.{part.__name__} "
                f"does not define {missing}"
            )
        choices = sorted(cls.kinds())
        if "_target_" in spec:
            name = str(spec["_target_"]).rpartition(".")[2]
            near = choose_from(name, {candidate.__name__ for candidate in cls.kinds().values()})
            suggestion = near.rpartition("choose from")[0]
            raise ConfigError(
                f"{_join_keys(where, '_target_')}: {spec['_target_']!r}: refused; {suggestion}only "
                f"classes of dpbench and of listed plugins may be named: {', '.join(choices)}"
            )
        key = _join_keys(where, "kind")
        if "kind" not in spec:
            raise ConfigError(f"{key}: this key is required; choose from {', '.join(choices)}")
        word = str(spec["kind"])
        search = f"; to search descriptions, type --help kind {word}" if word.isidentifier() else ""
        raise ConfigError(f"{key}: {spec['kind']!r}: {choose_kind(word, cls.kinds())}{search}")

    @classmethod
    def build(cls, spec: Any, where: str) -> Self:
        """Build the object that a specification describes.

        The specification has ``kind`` or ``_target_``, and parameters; an instance of the class is
        returned unchanged. `where` is the path of `spec` in the configuration, for messages. A
        ConfigError is raised if a name or a parameter is invalid.
        """
        if isinstance(spec, cls):
            _require_validated(type(spec), where)
            return spec
        kind = cls.lookup(spec, where)
        parameters = {key: value for key, value in spec.items() if key not in {"kind", "_target_"}}
        return from_mapping(kind, parameters, where)
