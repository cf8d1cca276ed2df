"""Agents' reports of traffic, in a store of blobs that several servers share.

Each server reads the reports that others stored, and stores those that are missing. If two servers write at once, one
overwrites the other's reports for a moment; both read again and store what is missing, and reports only grow. Nodes are
spread over a few blobs, `traffic/NUMBER`, each written as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime

import msgspec
import zstandard

from kajitori.blobs.stores.blobs import Blob, Blobs
from kajitori.core.traffic.cluster_traffic import ClusterTraffic, NodeLife, decode_node
from kajitori.errors import KajitoriError, NotFound, Unavailable

log = logging.getLogger(__name__)

PREFIX = "traffic"
SHARDS = 16
_MAX_BYTES = 256 << 20
_NODES_PER_TURN = 100
"""Number of nodes that are added to the sums before other tasks get their turn."""

SYNC_SECONDS = 60.0
_LAST_SYNC_SECONDS = 2.0

_Shard = dict[NodeLife, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, str, bytes]]).decode


class TrafficBlobs:
    """Exchanges the records of nodes with other servers through the store."""

    def __init__(self, blobs: Blobs, traffic: ClusterTraffic) -> None:
        self._blobs = blobs
        self._traffic = traffic
        self._seen: dict[int, tuple[Blob, _Shard]] = {}
        """Blobs as they were last read. A blob is left out if this server knows more than it contains."""

    async def sync(self, now: float) -> None:
        """Add the stored records to the traffic of this server, and store the records that it has. After an error of
        the store, call it again; nothing is lost."""
        listed: dict[str, Blob] = {}
        async with aclosing(self._blobs.under(PREFIX)) as found:
            async for blob in found:
                listed[blob.key] = blob
        for number in range(SHARDS):
            await self._take(number, listed.get(_shard_key(number)), now)
        self._traffic.forget_old(now)
        held: defaultdict[int, _Shard] = defaultdict(dict)
        for key, record in self._traffic.records().items():
            held[_shard_of(key[0])][key] = record
        for number, shard in held.items():
            _, stored = self._seen.get(number, (None, {}))
            if any(stored.get(key) != record for key, record in shard.items()):
                await self._blobs.put(_shard_key(number), await asyncio.to_thread(_pack, shard))
                self._seen.pop(number, None)  # another server may have written at the same time, so it is read again

    async def _take(self, number: int, blob: Blob | None, now: float) -> None:
        if blob is None:
            self._seen.pop(number, None)
            return
        last = self._seen.get(number)
        if last is not None and last[0] == blob:
            return
        try:
            content = await self._blobs.read(blob.key, limit_bytes=_MAX_BYTES)
            shard = await asyncio.to_thread(_unpack, content)
        except NotFound:
            return
        known = self._traffic.records()
        for count, (key, record) in enumerate(shard.items()):
            if known.get(key) != record:
                self._traffic.add(decode_node(record), now)
            if count % _NODES_PER_TURN == _NODES_PER_TURN - 1:
                await asyncio.sleep(0)
        self._seen[number] = blob, {key: _shared_record(known.get(key), record) for key, record in shard.items()}


def _shared_record(held: bytes | None, record: bytes) -> bytes:
    """Return the record; if it is known already, return the known object, to save memory."""
    return held if held == record else record


def _shard_key(number: int) -> str:
    return f"{PREFIX}/{number:02}"


def _shard_of(node: str) -> int:
    return zlib.crc32(node.encode()) % SHARDS


def _pack(shard: _Shard) -> bytes:
    rows = [(node, life, record) for (node, life), record in sorted(shard.items())]
    return zstandard.ZstdCompressor(level=3).compress(_encode(rows))


def _unpack(content: bytes) -> _Shard:
    try:
        rows = _decode(zstandard.ZstdDecompressor().decompress(content, max_output_size=_MAX_BYTES))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        hint = f"delete what is under {PREFIX}/ there: agents report again what they know"
        raise Unavailable(f"what is stored of traffic can't be read: {error}", hint=hint) from error
    return {(node, life): record for node, life, record in rows}


class TrafficKeeper:
    """The traffic of the cluster as one server knows it, and its synchronisation with the store."""

    def __init__(self, blobs: Blobs | None, now: Callable[[], datetime]) -> None:
        self._now = now
        self.traffic = ClusterTraffic(now().timestamp())
        self._store = TrafficBlobs(blobs, self.traffic) if blobs is not None else None

    @property
    def kept(self) -> bool:
        """Whether the agents' reports outlive this process."""
        return self._store is not None

    async def sync(self) -> None:
        """Load reports that other servers received, and store our own. Raises the errors of the blob store."""
        now = self._now().timestamp()
        if self._store is not None:
            await self._store.sync(now)
        else:
            self.traffic.forget_old(now)

    async def run(self) -> None:
        """Call `sync` periodically until cancelled, and once more then."""
        try:
            while True:
                try:
                    await self.sync()
                except KajitoriError as error:
                    log.error("cannot store traffic now; agents will report it again: %s", error)
                await asyncio.sleep(SYNC_SECONDS * random.uniform(0.5, 1.0))  # not all servers at once
        finally:
            with contextlib.suppress(KajitoriError, TimeoutError):
                async with asyncio.timeout(_LAST_SYNC_SECONDS):
                    await self.sync()
