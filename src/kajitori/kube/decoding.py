"""Decodes JSON to objects: fast if Go's types wrote it, and correct for all other writers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from kajitori.kube.errors import ApiError, ServerError, error_from_status

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a collection. `token` is empty on the last page; `first` marks the first page of a collection."""

    items: list[T]
    resource_version: str
    token: str
    first: bool


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _ListOf(msgspec.Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMeta = _ListMeta()


class EventKind(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """One line of a watch, which is about one object."""

    type: EventKind
    object: T


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """Several lines of a watch. `error` is the server's last ERROR event; `resource_version` may be empty."""

    events: list[WatchEvent[T]]
    resource_version: str = ""
    error: ApiError | None = None


class _Name(msgspec.Struct, frozen=True):
    name: Any = ""
    namespace: Any = ""


class _Named(msgspec.Struct):
    """The part of an object that can be read even if the rest can't."""

    metadata: _Name = _Name()


@dataclass(frozen=True, slots=True)
class _UnreadableDeleted:
    """A deleted object that could not be decoded, except for its name and namespace."""

    metadata: _Name


class _Versioned(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder_of(type: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = msgspec.json.Decoder(type)
    return decoder


def decode(document: bytes | msgspec.Raw, type: type[T]) -> T:
    """Decode one object. A null counts as a missing field, as in Go. A type may have a method `repaired` that repairs a
    document with an invalid part.

    Raises ServerError if this is not such an object, which an API server that works does not send.
    """
    try:
        value: T = _decoder_of(type).decode(document)
        return value
    except msgspec.ValidationError:
        return _decode_with_nulls(document, type)
    except msgspec.DecodeError as error:
        raise _garbled_answer(error) from error


def decode_page(document: bytes, type: type[T], *, first: bool = True) -> Page[T]:
    """Decode one page of a list. An object that can't be decoded is left out and logged, so that the others remain
    usable."""
    try:
        page = _decoder_of(_ListOf[type]).decode(document)  # type: ignore[valid-type]
    except msgspec.ValidationError:
        rough = decode(document, _ListOf[msgspec.Raw])
        items = []
        for raw in rough.items or ():
            try:
                items.append(decode(raw.copy(), type))
            except ServerError as error:
                log.warning("left out of a list: %s", error)
        return Page(items, rough.metadata.resource_version, rough.metadata.continue_, first)
    except msgspec.DecodeError as error:
        raise _garbled_answer(error) from error
    return Page(page.items or [], page.metadata.resource_version, page.metadata.continue_, first)


def decode_events(lines: bytes, type: type[T]) -> Block[T]:
    """Decode whole lines of a watch. An object that can't be decoded is left out and logged.

    A deleted object is kept, with its name and namespace only.
    """
    try:
        events = _decoder_of(WatchEvent[type]).decode_lines(lines)  # type: ignore[valid-type]
    except msgspec.MsgspecError:
        return _decode_events_one_by_one(lines, type)
    if any(event.type is EventKind.BOOKMARK or event.type is EventKind.ERROR for event in events):
        return _decode_events_one_by_one(lines, type)
    return Block(events, events[-1].object.metadata.resource_version if events else "")


def _decode_events_one_by_one(lines: bytes, type: type[T]) -> Block[T]:
    """Decode lines with bookmarks, errors or nulls among them, which are not complete objects of the type."""
    events: list[WatchEvent[T]] = []
    version = ""
    for line in lines.splitlines():
        if not line.strip():
            continue
        rough = decode(line, WatchEvent[msgspec.Raw])
        if rough.type is EventKind.ERROR:
            return Block(events, version, error_from_status(decode(rough.object, dict)))
        version = decode(rough.object, _Versioned).metadata.resource_version or version
        if rough.type is EventKind.BOOKMARK:
            continue
        try:
            events.append(WatchEvent(rough.type, decode(rough.object.copy(), type)))
        except ServerError as error:
            named = decode(rough.object, _Named).metadata
            log.warning("left out of a watch: %s/%s: %s", named.namespace, named.name, error)
            if rough.type is EventKind.DELETED:  # the name is enough to forget a deleted object
                gone: Any = _UnreadableDeleted(named)
                events.append(WatchEvent(rough.type, gone))
    return Block(events, version)


def _decode_with_nulls(document: bytes | msgspec.Raw, type: type[T]) -> T:
    try:
        plain = _without_nulls(msgspec.json.decode(document))
        try:
            return _read(plain, type)
        except msgspec.ValidationError as error:
            repaired: Callable[[Any, str], Any] | None = getattr(type, "repaired", None)
            if repaired is None:
                raise
            return _read(repaired(plain, str(error)), type)
    except msgspec.MsgspecError as error:
        raise _garbled_answer(error) from error


def _read(value: Any, type: type[T]) -> T:
    """Decode through JSON again, since parts of the value may be kept as JSON (`msgspec.Raw`)."""
    read: T = _decoder_of(type).decode(msgspec.json.encode(value))
    return read


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


def _garbled_answer(error: Exception) -> ServerError:
    return ServerError(
        f"the API server's answer cannot be understood: {error}",
        status=502,
        reason="Garbled",
        hint="check that the address is that of a Kubernetes API server",
    )
