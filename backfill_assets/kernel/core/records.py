"""Records as JSON values and back: one codec for the dataclasses that a lake keeps in files and in
the metadata of commits.

The annotations of a record are its form: `json_of` writes its fields in their order, `record_of`
reads them. A release may read what a later one wrote, so that unknown keys are passed over, and
fields with defaults may be missing. Not here: files (`kernel.place.port`), and models of what
people write (`kernel.tables.settings`), which pydantic reads. Pydantic's `TypeAdapter` could read
records, too; but it takes 80 ms of each command to prepare a receipt's, and turns texts into
numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["IF_OTHER", "MISREAD", "UnknownWord", "json_of", "record_of"]

# The metadata of a field whose value is not written where it is the default, so that the text is
# the one of releases that do not know the field.
IF_OTHER: Mapping[str, bool] = {"is written if it is not the default": True}
# What reading a damaged JSON document, and a record from it, may raise.
MISREAD = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
R = TypeVar("R")
Reader = Callable[[Any], Any]


class UnknownWord(ValueError):
    """A text that no member of an enumeration has: a later release may have written it."""


def json_of(value: Any) -> Any:
    """Return JSON values: fields of records by name (or their `to_dict`), days and instants in ISO
    8601, sets sorted, bytes in hexadecimal digits, and what JSON lacks of numbers as `inf`, `-inf`
    and `nan`."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, (list, tuple)):
        return [json_of(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return _values_of(value)
    if isinstance(value, Mapping):
        return {str(json_of(key)): json_of(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(json_of(item) for item in value)
    return _scalar_of(value)


def _values_of(record: Any) -> dict[str, Any]:
    """The values of a record's fields by name, as JSON values."""
    kind: Any = type(record)
    return {
        name: json_of(getattr(record, name))
        for name, field in _fields_of(kind)
        if _is_written(field, record)
    }


@cache
def _fields_of(kind: Any) -> "tuple[tuple[str, Field[Any] | None], ...]":
    """The names of the fields of a class of records; with the field where it is not always
    written."""
    return tuple((f.name, f if f.metadata == IF_OTHER else None) for f in fields(kind))


def _is_written(field: "Field[Any] | None", record: object) -> bool:
    return field is None or getattr(record, field.name) != _default_of(field)


def _default_of(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _scalar_of(value: Any) -> Any:
    """The JSON value of what holds no other values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def record_of(kind: type[R], values: object) -> R:
    """Return the record of this class that `json_of` gave these JSON values for.

    Raises TypeError or ValueError for other values, and UnknownWord for one of an enumeration that
    has no such member.
    """
    asked: Any = kind
    record: R = _reader_of(asked)(values)
    return record


@cache
def _reader_of(kind: Any) -> Reader:
    """The function that reads values of a type; each is made once."""
    parts, origin = get_args(kind), get_origin(kind) or kind
    if origin is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        return _optional_reader(*(_reader_of(part) for part in parts if part is not NoneType))
    if origin is tuple:
        return _tuple_reader(parts)
    if issubclass(origin, frozenset):
        return _set_reader(_reader_of(parts[0]))
    if issubclass(origin, Mapping):
        return _mapping_reader(*map(_reader_of, parts))
    if is_dataclass(origin):
        return _record_reader(origin)
    if issubclass(origin, Enum):
        return _word_reader(origin)
    if issubclass(origin, date):
        return _iso_reader(origin)
    return _number_reader if origin is float else _exact_reader(origin)


def _exact_reader(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return read


def _number_reader(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _iso_reader(kind: type[date]) -> Reader:
    return kind.fromisoformat


def _word_reader(words: type[Enum]) -> Reader:
    """Reads a member of an enumeration; a text that none has is `UnknownWord`."""

    def read(value: Any) -> Enum:
        try:
            return words(value)
        except ValueError as error:
            raise UnknownWord(*error.args) if isinstance(value, str) else error from None

    return read


_read_list, _read_object = _exact_reader(list), _exact_reader(dict)


def _optional_reader(read_value: Reader) -> Reader:
    return lambda value: None if value is None else read_value(value)


def _tuple_reader(parts: tuple[Any, ...]) -> Reader:
    """Reads a tuple whose items have these types, or any number of the first (`T, ...`)."""
    if parts[1:] == (...,):
        read_item = _reader_of(parts[0])
        return lambda values: tuple(map(read_item, _read_list(values)))
    readers = [_reader_of(part) for part in parts]
    return lambda values: tuple(
        read(value) for read, value in zip(readers, _read_list(values), strict=True)
    )


def _set_reader(read_item: Reader) -> Reader:
    return lambda values: frozenset(map(read_item, _read_list(values)))


def _mapping_reader(read_key: Reader, read_value: Reader) -> Reader:
    return lambda values: {
        read_key(key): read_value(value) for key, value in _read_object(values).items()
    }


def _record_reader(kind: Any) -> Reader:
    """Reads a dataclass from an object; passes over keys that are no fields of it, and leaves
    fields without a key at their defaults."""
    hints = get_type_hints(kind)
    readers = {f.name: _reader_of(hints[f.name]) for f in fields(kind)}

    def read(values: Any) -> Any:
        known = _read_object(values)
        return kind(**{name: readers[name](known[name]) for name in known.keys() & readers})

    return read
