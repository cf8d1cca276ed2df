"""Writes what happens to nodes into the audit trail: decisions about their health, cordons and drains."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from datetime import datetime

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.nodes.recording import Cordon, change_of_cordon, decisions_about
from kajitori.core.naming import names
from kajitori.core.usage.records import AuditEntry
from kajitori.errors import KajitoriError
from kajitori.history.store import History
from kajitori.kube.resources import NODES, Resource

log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
PAUSE_SECONDS = 15.0
TOGETHER = 1_000
MOST_WAITING = 20_000
"""Entries that wait for the database; beyond that the oldest go to the log instead."""


class NodeAudit:
    """Follows the Nodes in the mirror. Nothing waits for it."""

    def __init__(self, history: History, mirror: Mirror, now: Callable[[], datetime]) -> None:
        self._history = history
        self._mirror = mirror
        self._now = now
        self._known: dict[str, Cordon] = {}
        self._trails: dict[str, str] = {}
        """The recorded trail of each node."""
        self._waiting: dict[str, AuditEntry] = {}
        self._wake = asyncio.Event()

    async def follow(self) -> None:
        """Record what happens from now on, until cancelled. Decisions of earlier controllers are recorded, too; a
        cordon that changed while no controller ran is not."""
        unsubscribe = self._mirror.on_change(self._note)
        try:
            await self._mirror.wait_synced()
            for name in list(self._mirror.nodes):
                self._look_at(name)
            while True:
                await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)
                self._wake.clear()
                await self._write_entries()
        finally:
            unsubscribe()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == NODES and self._mirror.synced:
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        node = self._mirror.nodes.get(name)
        if node is None:
            self._known.pop(name, None)
            self._trails.pop(name, None)
            return
        after = Cordon.of(node)
        before = self._known.get(name, after)
        self._known[name] = after
        found = change_of_cordon(name, before, after, self._now())
        entries = [found] if found is not None else []
        trail = node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")
        if trail != self._trails.get(name, ""):
            self._trails[name] = trail
            entries += decisions_about(node)
        if entries:
            self._waiting |= {entry.key: entry for entry in entries}
            self._wake.set()

    async def _write_entries(self) -> None:
        """Write the waiting entries. After a failure they are written later."""
        while self._waiting:
            part = list(itertools.islice(self._waiting.values(), TOGETHER))
            try:
                await self._history.note(part)
            except KajitoriError as error:
                self._drop_oldest()
                log.info("%d entries about nodes wait for the audit trail: %s", len(self._waiting), error)
                self._wake.set()
                await asyncio.sleep(PAUSE_SECONDS)
                return
            for entry in part:
                self._waiting.pop(entry.key, None)

    def _drop_oldest(self) -> None:
        while len(self._waiting) > MOST_WAITING:
            entry = self._waiting.pop(next(iter(self._waiting)))
            log.error(
                "the audit trail can't be written, and has no more room for: %s of %s", entry.action, entry.object
            )
