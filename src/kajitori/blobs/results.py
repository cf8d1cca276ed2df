"""Results of members of sweeps: a small record of how each member ended, kept while its run exists."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta

from kajitori.blobs import calls
from kajitori.blobs.calls import CallLogs
from kajitori.blobs.run_blobs import collect_runs, forget_run
from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.gang.sweeps.results import MemberResult, decode, encode

PREFIX = "results"
NEW_RUN = timedelta(hours=1)
MAX_RECORD_BYTES = 64 * 1024
"""Larger records can't be valid: a result has at most 4096 bytes, a message fewer."""
MAX_REMEMBERED_BYTES = 32 << 20
"""Memory for records that were read. A store takes seconds to read the 10,000 records of a large sweep."""
MAX_REMEMBERED_RUNS = 1000
_OVERHEAD_BYTES = 120
"""Memory that a remembered record takes beside its content."""


class KeptResults:
    """Records in a store of blobs, one per index of a member. A later end of the member replaces an earlier one."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.calls = CallLogs(blobs)
        """The calls of functions and their outcomes, in the same store; they are removed with the results."""
        self._remembered: OrderedDict[tuple[str, int], dict[int, bytes]] = OrderedDict()
        """Settled records by their index, for each UID and number of resumes of a run; the last used ones come last."""
        self._remembered_bytes = 0

    async def keep(self, namespace: str, run_uid: str, result: MemberResult) -> None:
        """Store how a member ended."""
        await self._blobs.put(_blob_key(namespace, run_uid, result.index), encode(result))

    async def read(self, namespace: str, run_uid: str, indices: Iterable[int]) -> dict[int, MemberResult]:
        """Return the stored results of these members."""
        return _decoded_results(await self._read_records(namespace, run_uid, indices))

    async def read_settled(
        self, namespace: str, run_uid: str, resumes: int, indices: Collection[int]
    ) -> dict[int, MemberResult]:
        """Return the records of these members, which do not change until the run is resumed.

        A record is read from the store only once while there is memory for it.
        """
        known = self._remembered.setdefault((run_uid, resumes), {})
        self._remembered.move_to_end((run_uid, resumes))
        read = await self._read_records(namespace, run_uid, [index for index in indices if index not in known])
        found = {index: known[index] for index in indices if index in known} | read
        if self._remembered.get((run_uid, resumes)) is known:  # otherwise another reader has taken the memory
            self._remembered_bytes += sum(_record_bytes(read[index]) for index in read.keys() - known.keys())
            known |= read
        while self._remembered_bytes > MAX_REMEMBERED_BYTES or len(self._remembered) > MAX_REMEMBERED_RUNS:
            _, dropped = self._remembered.popitem(last=False)
            self._remembered_bytes -= sum(map(_record_bytes, dropped.values()))
        return _decoded_results(found)

    async def _read_records(self, namespace: str, run_uid: str, indices: Iterable[int]) -> dict[int, bytes]:
        keys = {_blob_key(namespace, run_uid, index): index for index in indices}
        found = await self._blobs.read_many(list(keys), limit_bytes=MAX_RECORD_BYTES)
        return {keys[key]: record for key, record in found.items()}

    async def succeeded(self, namespace: str, run_uid: str) -> set[int]:
        """Return the members of a run that are known to have succeeded."""
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            indices = [int(name) async for blob in blobs if (name := blob.key.rpartition("/")[2]).isdecimal()]
        found = await self.read(namespace, run_uid, indices)
        return {index for index, result in found.items() if result.state == "Succeeded"}

    async def forget(self, namespace: str, run_uid: str) -> None:
        """Remove what was kept of a run."""
        await forget_run(self._blobs, PREFIX, namespace, run_uid)
        await forget_run(self._blobs, calls.PREFIX, namespace, run_uid)

    async def collect(self, runs: Collection[str], *, least_age: timedelta = NEW_RUN) -> int:
        """Remove records that belong to no run in `runs` (UIDs); return their number. Records younger than `least_age`
        are kept, since their run may be new."""
        removed = await collect_runs(self._blobs, PREFIX, runs, least_age=least_age)
        return removed + await collect_runs(self._blobs, calls.PREFIX, runs, least_age=least_age)


def _blob_key(namespace: str, run_uid: str, index: int) -> str:
    return f"{PREFIX}/{namespace}/{run_uid}/{index}"


def _decoded_results(records: Mapping[int, bytes]) -> dict[int, MemberResult]:
    """Return the records that can be decoded."""
    found = {}
    for index, record in records.items():
        with suppress(ValueError):
            found[index] = decode(record)
    return found


def _record_bytes(record: bytes) -> int:
    return len(record) + _OVERHEAD_BYTES
