"""Search for words in runs of history."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from kajitori.api.streams.run_rows import searched_text
from kajitori.cluster.run_object import RunObject
from kajitori.core.usage.records import RunRecord
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.kube.decoding import decode

MAX_SEARCHED = 2_000
"""Number of runs through which one request looks: their documents are compressed, and no index has their words."""
BATCH = 500
"""Number of runs for which documents are read in one query."""

Place = tuple[int, str]
"""Time of creation and UID."""


class _Spec(msgspec.Struct):
    image: str = ""


def place_of(run: RunRecord) -> Place:
    """Return a run's place in the order of history."""
    return run.created_at, run.uid


async def search_runs(
    history: History, wanted: RunFilter, words: Collection[str], limit: int, after: Place | None
) -> tuple[list[RunRecord], Place | None]:
    """Return the newest runs after a place that have all of these words, at most `limit`, and the place at which the
    search ended; None if it has seen all runs."""
    found: list[RunRecord] = []
    for _ in range(MAX_SEARCHED // BATCH):
        read = await history.runs(wanted, BATCH + 1, after)
        batch = read[:BATCH]
        documents = await history.documents([run.uid for run in batch])
        fitting = await asyncio.to_thread(_fitting, batch, documents, words)
        if len(found) + len(fitting) > limit:
            found += fitting[: limit - len(found)]
            return found, place_of(found[-1])
        found += fitting
        if len(read) == len(batch):
            return found, None
        after = place_of(batch[-1])
        if len(found) == limit:
            break
    return found, after


def _fitting(runs: Sequence[RunRecord], documents: Mapping[str, bytes], words: Collection[str]) -> list[RunRecord]:
    """Return the runs whose documents have all of these words. One that has expired meanwhile has no document."""
    texts = {uid: _text(document) for uid, document in documents.items()}
    return [run for run in runs if run.uid in texts and all(word in texts[run.uid] for word in words)]


def _text(document: bytes) -> str:
    run = decode(document, RunObject)
    try:
        image = msgspec.json.decode(run.spec, type=_Spec).image
    except msgspec.MsgspecError:
        image = ""
    return searched_text(run, image)
