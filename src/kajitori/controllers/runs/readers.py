"""Pods that read checkpoint folders: created when a user looks at a run's files, deleted when no user has looked for a
while.

`core.pods.reader` decides and says why there is such a Pod. A request is an annotation that the Web API writes on the
Run with the rights of its caller, so a controller that starts anew finds everything in the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.runs.belongings import ensure_of_run
from kajitori.core.formats.times import seconds_since
from kajitori.core.naming import names
from kajitori.core.pods.reader import (
    IDLE_SECONDS,
    ReaderStep,
    mounted_at,
    next_step,
    reader_name,
    reader_node,
    reader_pod,
)
from kajitori.core.pods.resolved import RunIdentity
from kajitori.errors import Conflict, InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import PODS, Resource

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Pause after a failure, and after a reader that ended although it is wanted."""
LOOK_SECONDS = 60.0
"""Longest time between two looks at the open readers."""


class FolderReaders:
    """Creates and deletes readers of checkpoint folders."""

    def __init__(
        self, client: KubeClient, mirror: Mirror, view: ClusterView, events: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._client, self._mirror, self._view = client, mirror, view
        self._events, self._now = events, now
        self._wake = asyncio.Event()
        self._known: set[Key] = set()
        """Runs with the annotation."""

    async def follow(self) -> None:
        """Work until cancelled."""
        await self._mirror.wait_synced()
        end = self._mirror.on_change(self._note)
        try:
            for namespace, name in self._mirror.runs:
                self._note(RUNS, namespace, name)
            while True:
                self._wake.clear()
                waits = [await self._take_next_step(key) for key in sorted(self._known)]
                with suppress(TimeoutError):
                    async with asyncio.timeout(min([LOOK_SECONDS, *waits])):
                        await self._wake.wait()
        finally:
            end()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            run = self._mirror.runs.get((namespace, name))
            if run is not None and names.ANNOTATION_FILES_READ in run.metadata.annotations:
                self._known.add((namespace, name))
                self._wake.set()
        elif resource == PODS and name.endswith("-files"):
            self._wake.set()

    async def _take_next_step(self, key: Key) -> float:
        """Take the next step for one run. Returns the seconds until the next look at it."""
        run = self._mirror.runs.get(key)
        asked_at = run.metadata.annotations.get(names.ANNOTATION_FILES_READ, "") if run is not None else ""
        if run is None or not asked_at or run.metadata.deletion_timestamp:
            self._known.discard(key)  # the garbage collector deletes the Pod of a run that is gone
            return LOOK_SECONDS
        idle_seconds = seconds_since(asked_at, self._now())
        pod = self._mirror.pods.get((key[0], reader_name(key[1])))
        has_ended = pod is not None and (pod.is_finished or bool(pod.metadata.deletion_timestamp))
        step = next_step(
            IDLE_SECONDS if idle_seconds is None else idle_seconds, exists=pod is not None, has_ended=has_ended
        )
        try:
            match step:
                case ReaderStep.CREATE:
                    await self._create_reader(run)
                case ReaderStep.DELETE if pod is not None and not pod.metadata.deletion_timestamp:
                    with suppress(NotFound, Conflict):
                        await self._client.delete(PODS, pod.metadata.name, key[0], uid=pod.metadata.uid)
                case ReaderStep.FORGET:
                    await self._remove_annotation(run, asked_at)
                    self._known.discard(key)
        except KajitoriError as error:
            meta = run.metadata
            about = About(names.KIND, meta.name, meta.uid, meta.namespace, names.API_VERSION)
            self._events.emit(
                about, "Warning", "FilesNotOpened", f"the checkpoint folder can't be opened: {error.message}"
            )
            return RETRY_SECONDS
        if step is ReaderStep.NOTHING and idle_seconds is not None:
            return max(1.0, IDLE_SECONDS - idle_seconds)
        return RETRY_SECONDS

    async def _create_reader(self, run: RunObject) -> None:
        status, policy = run.current_status, self._view.policy
        if policy.start.image is None or status.attempt is None or not mounted_at(status.attempt):
            return  # the Web API refuses such requests in words

        def is_usable(name: str) -> bool:
            node = self._mirror.nodes.get(name)
            return node is not None and node.is_ready

        meta = run.metadata
        node = reader_node(policy, status, is_usable)
        body = reader_pod(RunIdentity(meta.name, meta.namespace), meta.uid, status.attempt, policy.start.image, node)
        await ensure_of_run(self._client, PODS, body, run)

    async def _remove_annotation(self, run: RunObject, asked_at: str) -> None:
        """Remove the annotation, unless a user has asked again meanwhile."""
        path = f"/metadata/annotations/{names.ANNOTATION_FILES_READ.replace('/', '~1')}"
        patch: list[dict[str, Any]] = [{"op": "test", "path": path, "value": asked_at}, {"op": "remove", "path": path}]
        with suppress(NotFound, Conflict, InvalidInput):
            await self._client.patch(RUNS, run.metadata.name, patch, run.metadata.namespace, kind=PatchKind.JSON)
