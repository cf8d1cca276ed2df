"""Conversion between stored objects and answers."""

from __future__ import annotations

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.requests.formats import encode_json
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.store import Record


def dry_run_answer(kind: Kind, obj: Object) -> bytes:
    """Return the answer of a dry run: the object as it would be read back."""
    return encode_plain(kind.decode(kind.as_read_back(kind.encode(obj))))


def store_key(kind: Kind) -> str:
    """Return the key of a kind's objects in the store."""
    stored = kind.stored
    return f"{stored.group}/{stored.plural}"


def encode_stored(kind: Kind, record: Record) -> bytes:
    """Return a stored object in the form of the kind."""
    return record.value if kind.from_stored is None else encode_plain(kind.decode(record.decode()))


def encode_plain(obj: Object) -> bytes:
    """Encode an object as JSON, with kind, apiVersion and metadata first."""
    first = {name: obj[name] for name in ("kind", "apiVersion", "metadata") if name in obj}
    return encode_json({**first, **{name: value for name, value in obj.items() if name not in first}})
