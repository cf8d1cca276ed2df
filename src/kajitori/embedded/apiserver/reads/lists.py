"""Lists: consistent snapshots, in pages."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.reads.tables import to_table
from kajitori.embedded.apiserver.requests.answers import encode_stored, store_key
from kajitori.embedded.apiserver.requests.formats import Format, encode_json
from kajitori.embedded.apiserver.requests.options import ListOptions
from kajitori.embedded.apiserver.requests.selection import Selection, selection
from kajitori.embedded.apiserver.requests.target import Target
from kajitori.embedded.apiserver.schemas.nesting import decode_json
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.writes.objects import Objects
from kajitori.embedded.store import Compacted, Record

_SNAPSHOTS_KEPT = 16
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class Lister:
    """Answers list requests, and keeps the snapshots that clients are paging through."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._snapshots: OrderedDict[tuple[str, str, int], list[Record]] = OrderedDict()

    async def page(self, target: Target, options: ListOptions) -> Page:
        """Return the records that answer a list request.

        Raises:
            StatusError: 400, 410, 504.
        """
        chosen = selection(target, options)
        revision, start = self._list_position(target, options)
        if revision == self._objects.store.revision and not start:
            records = self._present_records(target, chosen)
        else:
            records = self._snapshot_at(target, revision)
            if start:
                records = records[bisect_right(records, start, key=lambda record: record.key) :]
        # A list at "any version" is answered as a whole, as from the cache of kube-apiserver.
        limit = 0 if options.resource_version == "0" and not options.continue_token else options.limit
        if not limit:
            found = [record for record in records if chosen.matches(record)] if chosen else records
            await self._objects.durable(revision)
            return Page(found, revision)
        found = []
        rest = 0
        for index, record in enumerate(records):
            if chosen and not chosen.matches(record):
                continue
            found.append(record)
            if len(found) == limit:
                # As with etcd, only the next page shows whether any of the remaining objects is selected.
                rest = len(records) - index - 1
                break
        if not rest:
            await self._objects.durable(revision)
            return Page(found, revision)
        self._keep_snapshot(target, revision)
        token = _continue_token(revision, found[-1].key)
        await self._objects.durable(revision)
        return Page(found, revision, token, None if chosen else rest)

    def _present_records(self, target: Target, chosen: Selection) -> list[Record]:
        store = self._objects.store
        if chosen.name and (target.namespace or not target.kind.resource.namespaced):
            record = store.get(store_key(target.kind), target.namespace, chosen.name)
            return [] if record is None else [record]
        return store.records(store_key(target.kind), target.namespace)

    def _list_position(self, target: Target, options: ListOptions) -> tuple[int, str]:
        """Return the revision to list at, and the key to start after."""
        current = self._objects.store.revision
        if options.continue_token:
            position = _parse_token(options.continue_token)
            if options.resource_version not in ("", "0"):
                raise StatusError.bad_request("specifying resource version is not allowed when using continue")
            return position
        version = options.resource_version
        if version in ("", "0"):
            return current, ""
        if not version.isdecimal():
            raise StatusError.bad_request(f"resourceVersion: {version!r:.100} is not a number")
        asked = int(version)
        if asked > current:
            raise StatusError.future_version(asked, current)
        exact = options.resource_version_match == "Exact" or (options.limit and not options.resource_version_match)
        return (asked if exact else current), ""

    def _snapshot_at(self, target: Target, revision: int) -> list[Record]:
        kept = self._snapshots.get((store_key(target.kind), target.namespace, revision))
        store = self._objects.store
        try:
            if kept is not None:
                # A continue token is valid while the store keeps its revision, even if its snapshot was dropped.
                store.check_kept(store_key(target.kind), revision)
                return kept
            return store.snapshot(store_key(target.kind), target.namespace, revision)
        except Compacted as error:
            raise StatusError.expired(_TOO_OLD) from error

    def _keep_snapshot(self, target: Target, revision: int) -> None:
        key = (store_key(target.kind), target.namespace, revision)
        if key not in self._snapshots:
            self._snapshots[key] = self._snapshot_at(target, revision)
            while len(self._snapshots) > _SNAPSHOTS_KEPT:
                self._snapshots.popitem(last=False)
        self._snapshots.move_to_end(key)


def _continue_token(revision: int, key: str) -> str:
    decoded = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{key}\0"}).encode()
    return base64.urlsafe_b64encode(decoded).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str]:
    try:
        decoded = decode_json(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = decoded["rv"], decoded["start"]
        if decoded["v"] != "meta.k8s.io/v1" or not isinstance(revision, int) or not isinstance(start, str):
            raise ValueError("not a token of this server")
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise StatusError.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    return revision, start.rstrip("\0")


def encode_list(kind: Kind, page: Page, answer: Format, *, include: str = "Metadata") -> bytes:
    """Encode a page in the format of its client."""
    meta: Object = {"resourceVersion": str(page.revision)}
    if page.continue_token or (kind.custom is not None and not answer.shape):
        meta["continue"] = page.continue_token
    if page.continue_token and page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    if answer.shape == "Table":
        table = to_table(kind, [kind.decode(record.decode()) for record in page.records], include=include)
        table["metadata"] = meta
        return answer.write(table)
    if answer.shape:
        items = [partial_metadata(kind.decode(record.decode())) for record in page.records]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return answer.write({**head, "items": items or None})
    head = {"kind": _list_kind(kind), "apiVersion": kind.resource.api_version, "metadata": meta}
    items_of = b",".join(_encoded_items(kind, page.records))
    return answer.rewrite(encode_json(head)[:-1] + b',"items":[' + items_of + b"]}")


def _encoded_items(kind: Kind, records: list[Record]) -> list[bytes]:
    if kind.custom is not None:
        return [encode_stored(kind, record) for record in records]
    # Items of lists of built-in kinds have neither kind nor apiVersion.
    head = f'{{"kind":"{kind.resource.kind}","apiVersion":"{kind.resource.api_version}",'.encode()
    skipped = len(head)
    if kind.from_stored is None:
        return [b"{" + record.value[skipped:] for record in records]
    return [b"{" + encode_stored(kind, record)[skipped:] for record in records]


def _list_kind(kind: Kind) -> str:
    names: Object = (kind.custom or {}).get("spec", {}).get("names", {})
    return str(names.get("listKind") or f"{kind.resource.kind}List")


def partial_metadata(obj: Object) -> Object:
    """Return an object's metadata as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
