"""Delivers outboxes: each in a task of its own, until it is empty.

A request to a channel is stored before it is sent and removed after it was taken, so a controller that is killed loses
nothing. The next leader repeats at most the requests that were under way, with the same ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from kajitori.cluster.view import ClusterView
from kajitori.controllers.messages.followed_channels import FollowedChannels
from kajitori.controllers.messages.sending_process import SendingProcess
from kajitori.controllers.messages.stored_outbox import StoredOutbox
from kajitori.core.backoff import Backoff
from kajitori.core.messages import outbox as post
from kajitori.core.messages.channels import Channel, Recipient
from kajitori.core.messages.outbox import Request
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.messages.sender import Delivery
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Pauses before an outbox that could not be read or written is tried again."""


class OutboxDelivery:
    """Sends what is in the outboxes of all recipients."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        namespace: str,
        channels: FollowedChannels,
        sending_process: SendingProcess,
        *,
        metrics: ControllerMetrics,
        clock: Callable[[], float],
    ) -> None:
        """`namespace` holds the outboxes."""
        self._client, self._view, self._namespace = client, view, namespace
        self._channels, self._sending_process = channels, sending_process
        self._metrics, self._clock = metrics, clock
        self._outboxes: dict[Recipient, StoredOutbox] = {}
        self.tasks: dict[Recipient, asyncio.Task[None]] = {}
        """The running deliveries."""

    def forget(self) -> None:
        """Forget all outboxes, which another leader may have changed since."""
        self._outboxes.clear()

    def note_channels(self, recipient: Recipient) -> None:
        """Look at an outbox again after the channels of its recipient have changed."""
        if recipient in self._outboxes:
            self._outboxes[recipient].wake.set()

    async def close(self) -> None:
        """Cancel all deliveries; the next leader repeats them."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self._sending_process.close()

    def outbox_of(self, recipient: Recipient) -> StoredOutbox:
        """Return the outbox of a recipient."""
        if recipient not in self._outboxes:
            self._outboxes[recipient] = StoredOutbox(self._client, self._namespace, recipient)
        return self._outboxes[recipient]

    def start(self, stored: StoredOutbox) -> None:
        """Start a task that delivers the outbox until it is empty, unless one runs already."""
        stored.wake.set()
        task = self.tasks.get(stored.recipient)
        if (task is None or task.done()) and not stored.outbox.is_empty:
            self.tasks[stored.recipient] = asyncio.create_task(self._deliver_all(stored))

    async def _deliver_all(self, stored: StoredOutbox) -> None:
        """Deliver the messages in an outbox until it is empty."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while not stored.outbox.is_empty:
            stored.wake.clear()
            try:
                channels = self._channels.channels(stored.recipient)
                requests = await self.store_due_requests(stored, channels)
                if requests:
                    await self.send_requests(stored, requests, channels)
                backoff.reset()
            except KajitoriError as error:
                log.warning("the outbox of %s can't be written: %s", stored.recipient.name, error.message)
                await asyncio.sleep(backoff.next_seconds())
            except Exception:  # a fault in one message must not hold up its recipient for good
                log.exception("messages to %s are tried again", stored.recipient.name)
                await asyncio.sleep(LONGEST_PAUSE_SECONDS)
            if not stored.outbox.is_empty:
                await self._wait_until_due(stored)
        self.count_waiting()

    async def store_due_requests(
        self, stored: StoredOutbox, channels: Mapping[str, Channel]
    ) -> Sequence[tuple[str, Request]]:
        """Store the requests that are due to channels, and return them with the channels' names."""
        if not self._may_send:
            return ()
        async with stored.lock:
            outbox, found = post.without_channels(stored.outbox, channels), []
            for name in channels:
                outbox, request = post.begun(outbox, name, self._clock())
                if request is not None:
                    found.append((name, request))
            await stored.store(outbox)
        return found

    async def send_requests(
        self, stored: StoredOutbox, requests: Sequence[tuple[str, Request]], channels: Mapping[str, Channel]
    ) -> None:
        """Send the requests at the same time, and store their receipts."""
        deliveries = []
        for name, request in requests:
            kind, title, body = post.described(stored.outbox, request, stored.outbox.state(name).dropped)
            first = next((one for one in stored.outbox.messages if one.id == request.messages[0]), None)
            alone = first if first is not None and len(request.messages) == 1 else None
            deliveries.append(
                Delivery(
                    number=0,
                    id=request.id,
                    url=channels[name].url,
                    key=channels[name].key,
                    kind=kind,
                    title=title,
                    body=body,
                    namespace=alone.namespace if alone else "",
                    run=alone.run if alone else "",
                )
            )
        receipts = await asyncio.gather(*(self._sending_process.send(delivery) for delivery in deliveries))
        async with stored.lock:
            outbox = stored.outbox
            for (name, request), receipt in zip(requests, receipts, strict=True):
                if not receipt.error:
                    outbox, outcome = post.delivered(outbox, name, self._clock()), "delivered"
                else:
                    outbox = post.refused(outbox, name, receipt.error, self._clock(), for_good=receipt.for_good)
                    outcome = "failed" if outbox.state(name).request is not None else "given-up"
                    where = f"channel {name} of {stored.recipient.kind} {stored.recipient.name}"
                    log.info("message %s did not reach %s: %s", request.id, where, receipt.error)
                self._metrics.messages.labels(outcome).inc()
            await self._store_receipts(stored, outbox)

    async def _store_receipts(self, stored: StoredOutbox, outbox: post.Outbox) -> None:
        """Store which messages were delivered. Nothing else is sent until that succeeds; else messages would be sent
        twice."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                await stored.store(outbox)
                return
            except KajitoriError as error:
                log.warning("deliveries to %s are not recorded yet: %s", stored.recipient.name, error.message)
                await asyncio.sleep(backoff.next_seconds())

    async def _wait_until_due(self, stored: StoredOutbox) -> None:
        """Wait until a request is due or a message was added."""
        channels = self._channels.channels(stored.recipient)
        due = [at for name in channels if (at := post.due_at(stored.outbox, name)) is not None]
        seconds = max(0.05, min(due) - self._clock()) if due and self._may_send else LONGEST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(min(seconds, LONGEST_PAUSE_SECONDS)):
                await stored.wake.wait()
        except TimeoutError:
            return

    @property
    def _may_send(self) -> bool:
        return self._channels.is_known and self._view.policy.notifications.enabled

    def count_waiting(self) -> None:
        """Update the metric of messages that are not delivered."""
        self._metrics.messages_waiting.set(sum(len(stored.outbox.messages) for stored in self._outboxes.values()))
