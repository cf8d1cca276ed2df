"""The channels of people and teams, from the Secrets in the namespace of messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing

import msgspec

from kajitori.cluster.platform.message_secrets import channels_in, recipient_in, tests_in
from kajitori.core.messages.channels import Channel, Recipient, recipients_of
from kajitori.core.naming import names
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta, Wire
from kajitori.kube.resources import SECRETS
from kajitori.kube.watch import Deleted, Synced, watch_if_allowed
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 30.0
NO_CHANNELS: Mapping[str, Channel] = {}


class ChannelSecret(Wire, frozen=True):
    """A Secret with the channels of a recipient."""

    metadata: ObjectMeta
    data: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def recipient(self) -> Recipient:
        """The person or team, as an annotation names them."""
        return recipient_in(self.metadata.annotations)

    @property
    def tests(self) -> dict[str, str]:
        """Tests that were asked for: a token by channel."""
        return tests_in(self.metadata.annotations)

    def channels(self) -> dict[str, Channel]:
        """Return the channels by name. One that can't be read is left out."""
        return channels_in(self.metadata.name, self.data)


class FollowedChannels:
    """Follows the channels of all recipients. A controller without the right to read them sends no messages."""

    def __init__(self, client: KubeClient, namespace: str, on_change: Callable[[Recipient], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._on_change = on_change
        self._secrets: dict[tuple[str, str], ChannelSecret] = {}
        self._channels: dict[Recipient, dict[str, Channel]] = {}
        self.tests: dict[Recipient, dict[str, str]] = {}
        """Tests that were asked for: a token by recipient and channel."""
        self.synced = asyncio.Event()
        """Set once the channels are known, or known to be unreadable."""
        self._failure = LastingFailure(log, "channels can't be read, so no messages are sent: %s")
        self.is_known = False
        """Whether the channels were read. Until then no message may be dropped because its channel is missing."""

    def channels(self, recipient: Recipient) -> Mapping[str, Channel]:
        """Return a recipient's channels by name."""
        return self._channels.get(recipient, NO_CHANNELS)

    def wanted_by_anyone(self, owner: str, namespace: str) -> bool:
        """Whether the run's owner or its team has channels."""
        return bool(self._channels) and any(one in self._channels for one in recipients_of(owner, namespace))

    async def follow(self) -> None:
        """Follow the Secrets until cancelled."""
        while True:
            await self._failure.note_failure_of(self._watch)
            self.synced.set()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _watch(self) -> None:
        """Follow the Secrets until the watch fails or is not allowed."""
        self._secrets.clear()
        selector = f"{names.LABEL_MESSAGES}={names.MESSAGE_CHANNELS}"
        watched = watch_if_allowed(
            self._client, SECRETS, ChannelSecret, self._secrets, namespace=self._namespace, label_selector=selector
        )
        async with aclosing(watched) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self.is_known = True
                    self.synced.set()
                    self._failure.end()
                    continue
                recipient = change.object.recipient
                channels = {} if isinstance(change, Deleted) else change.object.channels()
                tests = {} if isinstance(change, Deleted) else change.object.tests
                if change.object.metadata.name != recipient.secret:
                    log.warning(
                        "Secret %s is ignored: the channels of %s are in another one",
                        change.object.metadata.name,
                        recipient.name,
                    )
                    continue
                self._channels.pop(recipient, None)
                if channels:
                    self._channels[recipient] = channels
                self.tests[recipient] = {name: token for name, token in tests.items() if name in channels}
                self._on_change(recipient)
