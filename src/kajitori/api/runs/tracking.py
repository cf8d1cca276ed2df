"""Follow one run until it has ended or was deleted, even if the mirror does not show it yet."""

from __future__ import annotations

import asyncio
from types import TracebackType

import msgspec

from kajitori.api.context import Api
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.api.runs.changes.compare_and_swap import is_resuming
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.spec.reasons import Phase
from kajitori.errors import NotFound

MIRROR_PATIENCE_SECONDS = 10.0
"""Time for which a new run may be missing in the mirror before the API server is asked for it again."""

MAX_RESTARTS = 100
"""Largest number of restarts that are kept for a slow reader."""


class RunTracker:
    """The latest state of one run, and a wait for the next change. Use it as a context manager.

    With `pods`, changes of its members count as changes, too. With `restarts`, the run's state at each restart is kept
    for `take_restarts`. A later run of the same name is not followed.
    """

    def __init__(self, api: Api, user: User, run: RunObject, *, pods: bool = False, restarts: bool = False) -> None:
        self.run = run
        self.gone = False
        self._api = api
        self._user = user
        self._key = (run.metadata.namespace, run.metadata.name)
        self._seen = False
        self._restarts: dict[tuple[int, int, int], RunObject] = {}
        self._subscription = api.runs.hub.subscribe(
            *self._key, pods=pods, on_change=self._note_restart if restarts else None
        )
        self.event = self._subscription.event

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or was deleted."""
        return self.gone or phase_of(self.run).is_final

    def look(self) -> RunObject:
        """Return the current run, or its last state if it was deleted."""
        current = self._api.mirror.runs.get(self._key)
        if current is not None and current.metadata.uid == self.run.metadata.uid:
            self.run, self._seen = current, True
        elif self._seen or (
            current is not None and current.metadata.creation_timestamp > self.run.metadata.creation_timestamp
        ):
            self.gone = True
        return self.run

    def take_restarts(self) -> list[RunObject]:
        """Return the run's state, with its reason, at each restart since the last call, even a very short one. If a
        user has restarted the run, it is the state at its end."""
        taken = list(self._restarts.values())
        self._restarts.clear()
        return taken

    def _note_restart(self) -> None:
        run = self._api.mirror.runs.get(self._key)
        if run is None or run.status is None or run.metadata.uid != self.run.metadata.uid:
            return
        if (phase_of(run) is Phase.RESTARTING or _is_queued_next(run)) and len(self._restarts) < MAX_RESTARTS:
            status = run.status
            self._restarts.setdefault((status.resumes, status.restarts, status.interruptions), run)

    async def changed(self, timeout_seconds: float) -> bool:
        """Wait for a change. Returns False after the timeout."""
        if self._seen or self.gone:
            return await self._subscription.changed(timeout_seconds)
        if not await self._subscription.changed(min(timeout_seconds, MIRROR_PATIENCE_SECONDS)):
            try:
                self.run = await self._user.client.get(RUNS, self._key[1], self._key[0], type=RunObject)
            except NotFound:
                self.gone = True
        return True

    async def phase_changed(self, timeout_seconds: float) -> bool:
        """Wait until the run comes to another phase or is deleted, for at most this time. Returns whether anything has
        changed meanwhile."""
        phase, clock = phase_of(self.run), asyncio.get_running_loop().time
        until, is_changed = clock() + timeout_seconds, False
        while (left := until - clock()) > 0 and not self.gone and phase_of(self.run) is phase:
            if await self._subscription.changed(left):
                is_changed = True
                self.look()
        return is_changed

    def __enter__(self) -> RunTracker:
        self._subscription.__enter__()
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.__exit__(kind, error, trace)


def _is_queued_next(run: RunObject) -> bool:
    """Whether the run has ended and a user has started it again, so that it is queued in a moment."""
    if not phase_of(run).is_final:
        return False
    spec = msgspec.json.decode(run.spec)
    return isinstance(spec, dict) and is_resuming(run, spec)
