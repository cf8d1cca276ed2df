"""Leader election: only one of several controllers writes (rule 3), and it knows from its own clock until when.

The leader holds a Lease object. It renews it from its own thread over its own connection, so that a busy event loop or
a throttled client does not lose the lead. Before each write it checks its monotonic clock, and no request may outlive
the deadline. A follower takes over after it saw the Lease unchanged for the whole duration by its own clock; timestamps
of other machines are not trusted. The leader's deadline is earlier than that, so two controllers never lead at the same
time, even if the leader was suspended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from kajitori.core.leadership import LEASE_NAME, Election, LeaseTimings
from kajitori.errors import AlreadyExists, Conflict, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.clock import steady_seconds
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.retry import RetryPolicy
from kajitori.kube.resources import LEASES

log = logging.getLogger(__name__)

REQUEST_SHARE = 0.4
"""Largest share of the leader's time that one renewal may take, so that there is time for a second attempt."""


class NotLeading(Conflict):
    """This controller does not lead, so it must not write."""

    code = "NotLeading"


class Leadership:
    """A candidate for the lead. `lead` runs the given work while this candidate leads; the client that the work uses
    asks `permit` before each write."""

    def __init__(
        self,
        config: KubeConfig,
        namespace: str,
        identity: str,
        *,
        terms: LeaseTimings | None = None,
        clock: Callable[[], float] = steady_seconds,
    ) -> None:
        self._config = config
        self._namespace = namespace
        self._terms = terms or LeaseTimings()
        self._clock = clock
        self._election = Election(identity, self._terms)
        self._deadline = 0.0
        self._ending = threading.Event()
        self._bug: Exception | None = None
        """The exception that ended the thread that renews the Lease."""

    def permit(self) -> float:
        """Return how many seconds a write that begins now may take. Raises NotLeading if no time is left."""
        left = self._deadline - self._clock()
        if left <= 0:
            raise NotLeading("this controller does not lead; what it was about to write is left to the leader")
        return left

    @property
    def leads(self) -> bool:
        """Whether this candidate leads now."""
        return self._clock() < self._deadline

    async def lead(self, work: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
        """Do the work whenever this candidate leads, until `stop` is set. The work is cancelled if the lead is lost."""
        self._ending.clear()
        self._bug = None
        thread = threading.Thread(target=self._campaign_in_thread, name="leadership", daemon=True)
        thread.start()
        try:
            while not stop.is_set():
                if self._bug is not None:
                    raise self._bug  # nothing renews the Lease any more, so the process has to be started again
                if not self.leads:
                    await _pause(stop, 0.1)
                    continue
                log.info("%s leads", self._election.identity)
                await self._lead_one_term(work, stop)
                if not stop.is_set():
                    log.warning("%s leads no more", self._election.identity)
        finally:
            self._ending.set()
            await asyncio.to_thread(thread.join, self._terms.lead_seconds)

    async def _lead_one_term(self, work: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
        over = asyncio.Event()
        task = asyncio.ensure_future(work(over))
        try:
            while not stop.is_set() and not task.done() and self._clock() < self._deadline:
                await _pause(stop, 0.2)
            if stop.is_set():
                over.set()
                await asyncio.wait({task}, timeout=max(0.0, self._deadline - self._clock()))
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # ------------------------------------------------------------------------------------------ in the thread

    def _campaign_in_thread(self) -> None:
        try:
            asyncio.run(self._campaign())
        except Exception as bug:
            self._bug = bug

    async def _campaign(self) -> None:
        """Take and renew the Lease until the end, then release it, so that a follower need not wait."""
        terms = self._terms
        retry = RetryPolicy(attempts=1)
        timeout = terms.lead_seconds * REQUEST_SHARE
        async with KubeClient(self._config, retry=retry, timeout_seconds=timeout) as client:
            while not self._ending.is_set():
                began, renewed = self._clock(), False
                try:
                    renewed = await self._take_lease(client)
                    if renewed:
                        self._deadline = began + terms.lead_seconds
                except (Conflict, AlreadyExists):
                    log.debug("another candidate has taken the Lease")
                except KajitoriError as error:
                    log.warning("the Lease was not renewed: %s", error)
                pause = self._election.pause_seconds(self._clock(), renewed=renewed)
                await asyncio.to_thread(self._ending.wait, pause)
            if self._clock() < self._deadline:
                self._deadline = 0.0
                try:
                    await self._give_back(client)
                except KajitoriError as error:  # it expires by itself
                    log.warning("the Lease was not released: %s", error)

    async def _take_lease(self, client: KubeClient) -> bool:
        """Read the Lease once, and write it if it is free or held by this candidate. Return whether it was written."""
        try:
            lease = await client.get(LEASES, LEASE_NAME, self._namespace)
        except NotFound:
            await client.create(LEASES, self._lease_body({"spec": {}}), self._namespace)
            return True
        holder = lease.get("spec", {}).get("holderIdentity") or ""
        self._election.observe(holder, lease["metadata"]["resourceVersion"], self._clock())
        if not self._election.may_take(self._clock()):
            return False
        written = await client.replace(LEASES, self._lease_body(lease))
        self._election.observe(self._election.identity, written["metadata"]["resourceVersion"], self._clock())
        return True

    async def _give_back(self, client: KubeClient) -> None:
        lease = await client.get(LEASES, LEASE_NAME, self._namespace)
        if lease["spec"].get("holderIdentity") == self._election.identity:
            lease["spec"]["holderIdentity"] = ""
            await client.replace(LEASES, lease)

    def _lease_body(self, found: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = found["spec"]
        taken = spec.get("holderIdentity") != self._election.identity
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": found.get("metadata") or {"name": LEASE_NAME, "namespace": self._namespace},
            "spec": {
                **spec,
                "holderIdentity": self._election.identity,
                "leaseDurationSeconds": max(1, round(self._terms.lease_seconds)),
                "acquireTime": now if taken else spec.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": spec.get("leaseTransitions", 0) + (1 if taken and spec else 0),
            },
        }


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
