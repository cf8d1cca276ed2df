"""Moves notices from the status of runs into outboxes, and delivers these.

A notice leaves the run's status once the outboxes of all recipients hold its message. A request to a channel is stored
before it is sent and removed after it was taken, so a controller that is killed loses nothing. The next leader
repeats at most the requests that were under way, with the same ids.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.message_secrets import recipient_in
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.messages.followed_channels import FollowedChannels
from kajitori.controllers.messages.sending_process import SendingProcess
from kajitori.controllers.messages.stored_outbox import StoredOutbox
from kajitori.controllers.workqueue import Key
from kajitori.core.messages import outbox as post
from kajitori.core.messages.channels import Channel, Recipient, chosen, recipients_of
from kajitori.core.messages.composing import composed, test_message
from kajitori.core.messages.outbox import Message, Request
from kajitori.core.spec.notify import Kind, Notify
from kajitori.core.spec.status import Notice, RunStatus
from kajitori.core.words import names
from kajitori.core.words.backoff import Backoff
from kajitori.core.words.times import format_time
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS, Resource
from kajitori.messages.sender import Delivery
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.3
"""Pause before notices are taken, so that the notices of many runs need one write."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Longest pause before an outbox that could not be written is tried again."""
LOG_SECONDS = 5.0
TEST_SECONDS = 600.0
"""Age from which a test of a channel is not sent any more."""
MOST_OUTPUTS = 10
"""If more runs than this fail at once, no output is read: their digest shows none."""
_LOG_BYTES = 64 * 1024


class _NotifySpec(msgspec.Struct):
    """The part of a spec that chooses channels and kinds of messages."""

    notify: dict[str, list[str] | None] | None = None


class MessageDispatcher:
    """Takes notices from statuses, stores messages in outboxes, and sends them."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        view: ClusterView,
        namespace: str,
        sending_process: SendingProcess,
        *,
        kept_logs: KeptLogs | None,
        wake: Callable[[Key], None],
        metrics: ControllerMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`namespace` holds channels and outboxes; `wake` has a run reconciled."""
        self._client, self._mirror, self._view, self._namespace = client, mirror, view, namespace
        self._sending_process, self._kept_logs, self._wake_run = sending_process, kept_logs, wake
        self._metrics, self._clock = metrics, clock
        self.followed_channels = FollowedChannels(client, namespace, self._note_channels)
        self._outboxes: dict[Recipient, StoredOutbox] = {}
        self._loaded = False
        self._changed: dict[Key, None] = {}
        self._taken: dict[str, set[str]] = {}
        """By UID of the run: ids of notices that outboxes hold and the status still shows."""
        self._wake = asyncio.Event()
        self._delivering: dict[Recipient, asyncio.Task[None]] = {}
        self._tested: set[str] = set()

    # ------------------------------------------------------------------------------------------ for the reconciler

    def is_wanted(self, run: RunObject) -> bool:
        """Whether messages are on, and the run's owner or its team has channels."""
        enabled = self._view.policy.notifications.enabled
        return enabled and self.followed_channels.wanted_by_anyone(run.owner, run.metadata.namespace)

    def taken(self, run: RunObject) -> set[str]:
        """Return the ids of the run's notices that outboxes hold."""
        return self._taken.get(run.metadata.uid, set())

    def has_all(self, run: RunObject, status: RunStatus) -> bool:
        """Whether outboxes hold every notice of a run whose object is about to be deleted."""
        waiting = status.notices.waiting if status.notices is not None else ()
        return all(notice.id in self.taken(run) for notice in waiting)

    # ------------------------------------------------------------------------------------------ life

    async def follow(self) -> None:
        """Work until cancelled."""
        self._loaded = False
        self._outboxes.clear()
        unsubscribe = self._mirror.on_change(self._note)
        following = asyncio.create_task(self.followed_channels.follow())
        try:
            await self._mirror.wait_synced()
            await self.followed_channels.synced.wait()
            self._changed |= {key: None for key, run in self._mirror.runs.items() if _waiting_notices(run)}
            for key, run in self._mirror.runs.items():  # they were reconciled before the channels were known
                if self.is_wanted(run):
                    self._wake_run(key)
            self._wake.set()
            await self._take_over_forever()
        finally:
            unsubscribe()
            tasks = [following, *self._delivering.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._sending_process.close()

    async def _take_over_forever(self) -> None:
        """Take new notices and tests over into the outboxes, whenever there are any, until cancelled."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            try:
                await self._load_outboxes()
                await self._take_notices()
                await self._take_tests()
                backoff.reset()
            except KajitoriError as error:
                log.warning("messages wait in the status of their runs: %s", error.message)
                self._wake.set()
                await asyncio.sleep(backoff.next_seconds())

    async def _load_outboxes(self) -> None:
        """Read all outboxes that the last leader stored."""
        if self._loaded:
            return
        selector = f"{names.LABEL_MESSAGES}={names.MESSAGE_OUTBOX}"
        for secret in (await self._client.list(SECRETS, self._namespace, label_selector=selector)).items:
            recipient = recipient_in(secret["metadata"].get("annotations") or {})
            if secret["metadata"]["name"] == recipient.outbox:
                stored = self._stored_outbox(recipient)
                stored.load(secret)
                self._start_delivery(stored)
        self._loaded = True

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource != RUNS:
            return
        run = self._mirror.runs.get((namespace, name))
        if run is not None and _waiting_notices(run):
            self._changed[namespace, name] = None
            self._wake.set()
        elif run is not None:
            self._taken.pop(run.metadata.uid, None)

    def _note_channels(self, recipient: Recipient) -> None:
        self._wake.set()
        if recipient in self._outboxes:
            self._outboxes[recipient].wake.set()

    # ------------------------------------------------------------------------------------------ taking over

    async def _take_notices(self) -> None:
        """Move the notices of all runs that changed into outboxes: one write per recipient, however many there are."""
        keys, self._changed = list(self._changed), {}
        by_recipient: defaultdict[Recipient, list[Message]] = defaultdict(list)
        moved: list[tuple[Key, RunObject, list[Notice]]] = []
        try:
            for key in keys:
                run = self._mirror.runs.get(key)
                notices = (
                    [notice for notice in _waiting_notices(run) if notice.id not in self.taken(run)] if run else []
                )
                if run is None or not notices:
                    continue
                moved.append((key, run, notices))
            ends = await self._ends_of_output([run for _, run, notices in moved if _has_failed(notices)])
            for _, run, notices in moved:
                for notice in notices:
                    for recipient, message in self._messages_about(run, notice, ends.get(run.metadata.uid, "")):
                        by_recipient[recipient].append(message)
            for recipient, messages in by_recipient.items():
                stored = self._stored_outbox(recipient)
                async with stored.lock:
                    await stored.store(post.added(stored.outbox, messages))
                self._start_delivery(stored)
        except BaseException:
            self._changed = dict.fromkeys(keys) | self._changed
            raise
        for key, run, notices in moved:
            self._taken.setdefault(run.metadata.uid, set()).update(notice.id for notice in notices)
            self._wake_run(key)
        self._count_waiting()

    async def _ends_of_output(self, runs: Sequence[RunObject]) -> dict[str, str]:
        """Return the last lines of output by UID of the run. If many runs failed at once, a digest lists them without
        output, so nothing is read."""
        if len(runs) > MOST_OUTPUTS:
            return {}
        ends = await asyncio.gather(*map(self._last_lines, runs))
        return {run.metadata.uid: end for run, end in zip(runs, ends, strict=True)}

    def _messages_about(self, run: RunObject, notice: Notice, end_of_output: str) -> list[tuple[Recipient, Message]]:
        """Return the message about a notice for each recipient that gets it."""
        meta, status = run.metadata, run.current_status
        notify = _notify_of(run)
        recipients = [
            (recipient, channels)
            for recipient in recipients_of(run.owner, meta.namespace)
            if (channels := chosen(recipient, self.followed_channels.channels(recipient), notice.kind, notify))
        ]
        return [
            (
                recipient,
                composed(
                    notice,
                    namespace=meta.namespace,
                    run=meta.name,
                    uid=meta.uid,
                    status=status,
                    channels=channels,
                    last_lines=end_of_output,
                ),
            )
            for recipient, channels in recipients
        ]

    async def _last_lines(self, run: RunObject) -> str:
        """Return the end of the output of the member that failed first; empty if it cannot be read at once."""
        lines, status, meta = self._view.policy.notifications.log_lines, run.current_status, run.metadata
        if not lines or not status.attempts:
            return ""
        worst = min((one for one in status.notable if one.exit_code), key=lambda one: one.since, default=None)
        rank, attempt = (worst.rank, worst.attempt or status.attempts) if worst is not None else (0, status.attempts)
        pod = names.pod_name(meta.name, attempt, rank)
        for read in (
            partial(self._output_of_pod, meta.namespace, pod, lines),
            partial(self._kept_output, run, attempt, rank),
        ):
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    content = await read()
            except (KajitoriError, TimeoutError):
                continue
            if content:
                text = content[-_LOG_BYTES:].decode(errors="replace")
                return "\n".join(_without_time(line) for line in text.splitlines()[-lines:])
        return ""

    async def _output_of_pod(self, namespace: str, pod: str, lines: int) -> bytes:
        stream = await self._client.open_log(
            namespace, pod, container=names.MEMBER_CONTAINER, follow=False, tail_lines=lines, timestamps=True
        )
        async with stream, aclosing(aiter(stream)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def _kept_output(self, run: RunObject, attempt: int, rank: int) -> bytes:
        if self._kept_logs is None:
            return b""
        name = MemberLogName(run.metadata.namespace, run.metadata.uid, attempt, rank)
        async with aclosing(self._kept_logs.read(name)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def _take_tests(self) -> None:
        """Put the test messages that users asked for into outboxes, each once."""
        for recipient, tests in list(self.followed_channels.tests.items()):
            new = {
                channel: token
                for channel, token in tests.items()
                if token not in self._tested and self._is_recent(token)
            }
            if not new:
                continue
            at = format_time(self._mirror.now())
            stored = self._stored_outbox(recipient)
            async with stored.lock:
                messages = [test_message(recipient, channel, token, at) for channel, token in new.items()]
                await stored.store(post.added(stored.outbox, messages))
            self._tested.update(new.values())
            self._start_delivery(stored)

    def _is_recent(self, token: str) -> bool:
        """Whether a test message was asked for recently, judged by its token. An earlier leader has sent older ones."""
        seconds = token.partition("-")[0]
        return seconds.isdigit() and self._mirror.now().timestamp() - int(seconds) < TEST_SECONDS

    # ------------------------------------------------------------------------------------------ delivering

    def _stored_outbox(self, recipient: Recipient) -> StoredOutbox:
        if recipient not in self._outboxes:
            self._outboxes[recipient] = StoredOutbox(self._client, self._namespace, recipient)
        return self._outboxes[recipient]

    def _start_delivery(self, stored: StoredOutbox) -> None:
        """Start a task that delivers the outbox until it is empty, unless one runs already."""
        stored.wake.set()
        task = self._delivering.get(stored.recipient)
        if (task is None or task.done()) and not stored.outbox.is_empty:
            self._delivering[stored.recipient] = asyncio.create_task(self._deliver_all(stored))

    async def _deliver_all(self, stored: StoredOutbox) -> None:
        """Deliver the messages in an outbox until it is empty."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while not stored.outbox.is_empty:
            stored.wake.clear()
            try:
                channels = self.followed_channels.channels(stored.recipient)
                requests = await self._store_due_requests(stored, channels)
                if requests:
                    await self._send_requests(stored, requests, channels)
                backoff.reset()
            except KajitoriError as error:
                log.warning("the outbox of %s can't be written: %s", stored.recipient.name, error.message)
                await asyncio.sleep(backoff.next_seconds())
            except Exception:  # a fault in one message must not hold up its recipient for good
                log.exception("messages to %s are tried again", stored.recipient.name)
                await asyncio.sleep(LONGEST_PAUSE_SECONDS)
            if not stored.outbox.is_empty:
                await self._wait_until_due(stored)
        self._count_waiting()

    async def _store_due_requests(
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

    async def _send_requests(
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
        channels = self.followed_channels.channels(stored.recipient)
        due = [at for name in channels if (at := post.due_at(stored.outbox, name)) is not None]
        seconds = max(0.05, min(due) - self._clock()) if due and self._may_send else LONGEST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(min(seconds, LONGEST_PAUSE_SECONDS)):
                await stored.wake.wait()
        except TimeoutError:
            return

    @property
    def _may_send(self) -> bool:
        return self.followed_channels.is_known and self._view.policy.notifications.enabled

    def _count_waiting(self) -> None:
        self._metrics.messages_waiting.set(sum(len(stored.outbox.messages) for stored in self._outboxes.values()))


def _waiting_notices(run: RunObject) -> tuple[Notice, ...]:
    """Return the notices in a run's status."""
    return run.status.notices.waiting if run.status is not None and run.status.notices is not None else ()


def _has_failed(notices: Sequence[Notice]) -> bool:
    return any(notice.kind == Kind.FAILED for notice in notices)


def _notify_of(run: RunObject) -> Notify | None:
    try:
        notify = msgspec.json.decode(run.spec, type=_NotifySpec).notify
    except msgspec.DecodeError:
        return None
    if notify is None:
        return None
    return Notify.model_construct(channels=notify.get("channels") or [], kinds=notify.get("kinds"))


def _without_time(line: str) -> str:
    """Return a line of a log without the time that a kubelet writes before it."""
    return line.partition(" ")[2]
