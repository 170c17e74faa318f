"""``model`` to JSON and back. Standard library only.

Members of a union carry their class name in ``type``. Fields that a file has and this version does not know are
ignored; fields that this version has and the file lacks take their default: older runs stay readable.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar, Union

T = TypeVar("T")


class DecodeError(ValueError):
    """The JSON does not have the shape of the wanted type."""


def to_plain(value: object) -> Any:
    """Dataclasses, tuples and dicts to what ``json`` can write."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    return value


def encode_line(event: object) -> str:
    """One event as one line of JSON, tagged with its type."""
    return json.dumps({"type": type(event).__name__, **to_plain(event)}, separators=(",", ":"), default=str)


def decode_line(union: Any, line: str) -> Any:
    """The inverse of ``encode_line``; ``union`` is the union of the types that may come.

    Raises ``DecodeError`` where the line is not JSON (a process killed while writing leaves half a line) or has
    an unknown type.
    """
    plain = _parse(line)
    if not isinstance(plain, dict):
        raise DecodeError("not an object")
    for kind in typing.get_args(union):
        if kind.__name__ == plain.get("type"):
            return from_plain(kind, plain)
    raise DecodeError(f"unknown type {plain.get('type')!r}")


def from_plain(kind: Any, plain: Any) -> Any:
    """Build ``kind`` from parsed JSON. Raises ``DecodeError`` where it does not fit."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if plain is None and type(None) in args:
            return None
        return _first_that_fits([a for a in args if a is not type(None)], plain)
    if origin is typing.Literal:
        if plain not in args:
            raise DecodeError(f"{plain!r} is none of {args}")
        return plain
    if origin is tuple:
        if not isinstance(plain, list):
            raise DecodeError(f"a list was expected, not {plain!r}")
        return tuple(from_plain(args[0], v) for v in plain)
    if origin is dict:
        if not isinstance(plain, dict):
            raise DecodeError(f"an object was expected, not {plain!r}")
        return {k: from_plain(args[1], v) for k, v in plain.items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind), plain)
    return _scalar(kind, plain)


def dumps(value: object) -> str:
    """A whole file: indented JSON."""
    return json.dumps(to_plain(value), indent=1, default=str) + "\n"


def loads(kind: type[T], text: str) -> T:
    """The inverse of ``dumps``. Raises ``DecodeError``."""
    return typing.cast(T, from_plain(kind, _parse(text)))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def _scalar(kind: Any, plain: Any) -> Any:
    if kind is float and isinstance(plain, (int, float)) and not isinstance(plain, bool):
        try:
            return float(plain)
        except OverflowError as error:
            raise DecodeError(str(error)) from error
    if kind is Any or (isinstance(kind, type) and isinstance(plain, kind)):
        if kind is int and isinstance(plain, bool):
            raise DecodeError("a number was expected")
        return plain
    raise DecodeError(f"{plain!r} is no {kind}")


def _dataclass(kind: type, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise DecodeError(f"{kind.__name__}: an object was expected, not {plain!r}")
    hints = _hints(kind)
    try:
        return kind(**{n: from_plain(hints[n], plain[n]) for n in _names(kind) if n in plain})
    except TypeError as error:
        raise DecodeError(f"{kind.__name__}: {error}") from error


def _first_that_fits(kinds: list[Any], plain: Any) -> Any:
    for kind in kinds:
        try:
            return from_plain(kind, plain)
        except DecodeError:
            continue
    raise DecodeError(f"{plain!r} fits none of {kinds}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))
