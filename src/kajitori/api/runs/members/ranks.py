"""The members that a caller names, by rank or by index in a sweep."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.spec.array import Array, parse_array
from kajitori.errors import InvalidInput

MAX_RANKS = 256
"""Largest number of logs that one answer merges; each is a connection to the API server."""


def ranks_of(run: RunObject, ranks: Sequence[int], *, all_ranks: bool = False) -> list[int]:
    """Return the members that a caller names: ranks, or indices of a sweep. By default the first.

    Raises InvalidInput for members that the run does not have, and for `all_ranks` if there are more than MAX_RANKS.
    """
    array = array_of(run)
    if array is not None:
        return _indices(run, ranks, array, all_ranks=all_ranks)
    spec = msgspec.json.decode(run.spec)
    replicas = spec.get("replicas", 1) if isinstance(spec, dict) else 1
    replicas = replicas if isinstance(replicas, int) and replicas > 0 else 1
    if not all_ranks:
        wanted = list(dict.fromkeys(ranks or [0]))
        missing = [rank for rank in wanted if rank >= replicas]
        if missing:
            members = f"{replicas} member{'s' if replicas > 1 else ''}"
            hint = f"ranks are 0 to {replicas - 1}" if replicas > 1 else "its only rank is 0"
            value = compress_ranks(sorted(missing))
            raise InvalidInput.one("rank", f"{run.metadata.name} has {members}", value=value, hint=hint)
        return wanted
    if replicas > MAX_RANKS:
        message = f"{run.metadata.name} has {replicas} members; at most {MAX_RANKS} logs are merged into one"
        raise InvalidInput.one("allRanks", message, value="true", hint="name ranks: rank=0&rank=1")
    return list(range(replicas))


def _indices(run: RunObject, indices: Sequence[int], array: Array, *, all_ranks: bool) -> list[int]:
    """Return the indices of a sweep's members that the query names; by default the first."""
    if all_ranks:
        if len(array.indices) > MAX_RANKS:
            message = (
                f"{run.metadata.name} has {len(array.indices)} members; at most {MAX_RANKS} logs are merged into one"
            )
            raise InvalidInput.one("allRanks", message, value="true", hint="name indices: rank=0&rank=1")
        return list(array.indices)
    wanted = list(dict.fromkeys(indices or array.indices[:1]))
    missing = sorted(set(wanted) - set(array.indices))
    if missing:
        indices_text = compress_ranks(array.indices)
        hint = f"its indices are {indices_text if len(indices_text) < 200 else indices_text[:200] + '…'}"
        value = compress_ranks(missing)
        message = f"{run.metadata.name} has no member{'s' if len(missing) > 1 else ''} {value}"
        raise InvalidInput.one("rank", message, value=value, hint=hint)
    return wanted


def array_of(run: RunObject) -> Array | None:
    """Return the sweep's array from the run's spec; None if the run is no sweep or its array is invalid."""
    spec = msgspec.json.decode(run.spec)
    text = spec.get("array") if isinstance(spec, dict) else None
    try:
        return parse_array(text) if isinstance(text, str) else None
    except ValueError:
        return None
