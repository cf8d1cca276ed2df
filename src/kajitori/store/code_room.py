"""How much room a namespace's code may take in the store, all archives together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing

from kajitori.codepack.packing import shown_size
from kajitori.errors import TooLarge
from kajitori.store.blobs import Blobs

FRESH_SECONDS = 60.0
"""How long is believed what was counted; what this server stores meanwhile is added."""

_NAMED_ARCHIVES = 5
_NAMED_RUNS = 3
_DIGITS = 12


class NamespaceFull(TooLarge):
    """A namespace's code takes all that it may."""

    def __init__(
        self,
        namespace: str,
        used_bytes: int,
        limit_bytes: int,
        largest: Sequence[tuple[str, int]],
        runs: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`largest` are digests and bytes; `runs`, where they are known, the names of those that refer to a digest."""
        self._facts = namespace, used_bytes, limit_bytes, largest
        named = ", ".join(_named(digest, size_bytes, runs) for digest, size_bytes in largest)
        super().__init__(
            f"there is no room for more code in namespace {namespace}: it takes {shown_size(used_bytes)} (compressed), "
            f"{shown_size(limit_bytes)} are allowed. The largest: {named or 'none'}",
            hint="remove runs that are not needed any more (kaji rm): code that no run refers to goes within two days",
        )

    def with_runs(self, runs: Mapping[str, Collection[str]]) -> NamespaceFull:
        """The same, with the names of the runs that keep the largest archives."""
        return NamespaceFull(*self._facts, runs)


class Rooms:
    """Of all namespaces. Several servers may each store a little more than is allowed before they notice."""

    def __init__(
        self,
        blobs: Blobs,
        root: str,
        limit_bytes: Callable[[], int | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Under `root` in the store lie namespaces, and in each its archives by the digits of their digests."""
        self._blobs = blobs
        self._root = root
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._known: dict[str, tuple[float, int]] = {}

    async def take(self, namespace: str, size_bytes: int) -> None:
        """Counts so many bytes as stored. Raises NamespaceFull where there is no room for them."""
        limit = self._limit_bytes()
        if limit is None:
            return
        at, used = self._known.get(namespace, (-FRESH_SECONDS, 0))
        if self._clock() - at >= FRESH_SECONDS or used + size_bytes > limit:
            at, held = self._clock(), await self._count(namespace)
            used = held.total()
            if used + size_bytes > limit:
                self._known[namespace] = at, used
                raise NamespaceFull(namespace, used, limit, held.most_common(_NAMED_ARCHIVES))
        self._known[namespace] = at, used + size_bytes

    async def _count(self, namespace: str) -> Counter[str]:
        held: Counter[str] = Counter()
        async with aclosing(self._blobs.under(f"{self._root}/{namespace}")) as blobs:
            async for blob in blobs:
                held[f"sha256:{blob.key.split('/')[2]}"] += blob.size_bytes
        return held


def _named(digest: str, size_bytes: int, runs: Mapping[str, Collection[str]] | None) -> str:
    said = f"{digest[: len('sha256:') + _DIGITS]}… ({shown_size(size_bytes)}"
    if runs is None:
        return f"{said})"
    users = sorted(runs.get(digest, ()))
    more = f" and {len(users) - _NAMED_RUNS} more" if len(users) > _NAMED_RUNS else ""
    return f"{said}, {'of ' + ', '.join(users[:_NAMED_RUNS]) + more if users else 'of no run'})"
