"""Moves notices from the status of runs into outboxes, whose messages `delivery` sends.

A notice leaves the run's status once the outboxes of all recipients hold its message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.message_secrets import recipient_in
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.messages.delivery import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, OutboxDelivery
from kajitori.controllers.messages.failure_output import FailureOutput
from kajitori.controllers.messages.followed_channels import FollowedChannels
from kajitori.controllers.messages.sending_process import SendingProcess
from kajitori.controllers.workqueue import Key
from kajitori.core.backoff import Backoff
from kajitori.core.formats.times import format_time
from kajitori.core.messages import outbox as post
from kajitori.core.messages.channels import Recipient, chosen, recipients_of
from kajitori.core.messages.composing import composed, test_message
from kajitori.core.messages.outbox import Message
from kajitori.core.naming import names
from kajitori.core.spec.notify import Kind, Notify
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.notices import Notice
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS, Resource
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.3
"""Pause before notices are taken, so that the notices of many runs need one write."""
TEST_SECONDS = 600.0
"""Age from which a test of a channel is not sent any more."""


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
        self._wake_run = wake
        self.followed_channels = FollowedChannels(client, namespace, self._note_channels)
        self.delivery = OutboxDelivery(
            client, view, namespace, self.followed_channels, sending_process, metrics=metrics, clock=clock
        )
        self._output = FailureOutput(client, view, kept_logs)
        self._loaded = False
        self._changed: dict[Key, None] = {}
        self._taken: dict[str, set[str]] = {}
        """By UID of the run: ids of notices that outboxes hold and the status still shows."""
        self._wake = asyncio.Event()
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
        self.delivery.forget()
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
            following.cancel()
            await self.delivery.close()
            await asyncio.gather(following, return_exceptions=True)

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
                stored = self.delivery.outbox_of(recipient)
                stored.load(secret)
                self.delivery.start(stored)
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
        self.delivery.note_channels(recipient)

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
            ends = await self._output.ends_of_output([run for _, run, notices in moved if _has_failed(notices)])
            for _, run, notices in moved:
                for notice in notices:
                    for recipient, message in self._messages_about(run, notice, ends.get(run.metadata.uid, "")):
                        by_recipient[recipient].append(message)
            for recipient, messages in by_recipient.items():
                stored = self.delivery.outbox_of(recipient)
                async with stored.lock:
                    await stored.store(post.added(stored.outbox, messages))
                self.delivery.start(stored)
        except BaseException:
            self._changed = dict.fromkeys(keys) | self._changed
            raise
        for key, run, notices in moved:
            self._taken.setdefault(run.metadata.uid, set()).update(notice.id for notice in notices)
            self._wake_run(key)
        self.delivery.count_waiting()

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
            stored = self.delivery.outbox_of(recipient)
            async with stored.lock:
                messages = [test_message(recipient, channel, token, at) for channel, token in new.items()]
                await stored.store(post.added(stored.outbox, messages))
            self._tested.update(new.values())
            self.delivery.start(stored)

    def _is_recent(self, token: str) -> bool:
        """Whether a test message was asked for recently, judged by its token. An earlier leader has sent older ones."""
        seconds = token.partition("-")[0]
        return seconds.isdigit() and self._mirror.now().timestamp() - int(seconds) < TEST_SECONDS


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
