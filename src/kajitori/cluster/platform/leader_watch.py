"""Observes from outside whether a controller is at work, by the Lease that its leader renews."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from kajitori.core.leadership import LEASE_NAME, LOOK_PATIENCE_SECONDS, LeaderState, ObservedLease
from kajitori.errors import KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.clock import steady_seconds
from kajitori.kube.resources import LEASES
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

READ_SECONDS = 2.0
"""Interval between two reads: one request for one object, whatever the size of the cluster."""

ANSWER_SECONDS = 10.0


class LeaderWatch:
    """Reads the controllers' Lease every two seconds, and measures for how long it has been unchanged."""

    def __init__(self, client: KubeClient, namespace: str, *, clock: Callable[[], float] = steady_seconds) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._seen = ObservedLease()
        self._looked_at: float | None = None
        self._failure = LastingFailure(log, "the controllers' Lease can't be read: %s")

    async def follow(self) -> None:
        """Read the Lease until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(READ_SECONDS)

    async def look(self) -> None:
        """Read the Lease once. A failure is kept, and logged if it is a new one."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                lease = await self._client.get(LEASES, LEASE_NAME, self._namespace, type=_Lease)
            self._note(lease.spec.holder_identity or "", lease.metadata.resource_version)
        except NotFound:
            self._note("", "")
        except TimeoutError:
            self._failure.note(f"the API server did not answer within {ANSWER_SECONDS:.0f} s")
        except KajitoriError as error:
            self._failure.note(error.message)

    def state(self) -> LeaderState:
        """Return the state of the Lease. Its age is the age at the last successful read."""
        now, looked_at = self._clock(), self._looked_at
        if looked_at is None or (self._failure.message and now - looked_at > LOOK_PATIENCE_SECONDS):
            return LeaderState(trouble=self._failure.message)
        return LeaderState(self._seen.holder, self._seen.unchanged_seconds(looked_at))

    def _note(self, holder: str, version: str) -> None:
        self._failure.end()
        self._looked_at = self._clock()
        self._seen.observe(holder, version, self._looked_at)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
