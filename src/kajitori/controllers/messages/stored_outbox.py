"""Outboxes in Secrets. Only the leading controller writes them."""

from __future__ import annotations

import asyncio
from typing import Any

from kajitori.cluster.platform.message_secrets import outbox_in, outbox_secret
from kajitori.core.messages.channels import Recipient
from kajitori.core.messages.outbox import Outbox
from kajitori.errors import AlreadyExists, Conflict, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS


class StoredOutbox:
    """The outbox of one recipient, as it is stored."""

    def __init__(self, client: KubeClient, namespace: str, recipient: Recipient) -> None:
        self._client = client
        self._namespace = namespace
        self.recipient = recipient
        self.outbox = Outbox()
        self._version = ""
        self.lock = asyncio.Lock()
        """Held while the outbox is changed and stored."""
        self.wake = asyncio.Event()

    def load(self, secret: dict[str, Any]) -> None:
        """Take over the stored outbox."""
        self.outbox = outbox_in(secret)
        self._version = secret["metadata"]["resourceVersion"]

    async def store(self, outbox: Outbox) -> None:
        """Store the outbox, by compare-and-swap. Raises the API server's error; then the former state holds."""
        if outbox == self.outbox:
            return
        body = outbox_secret(self.recipient, self._namespace, outbox)
        if self._version:
            body["metadata"]["resourceVersion"] = self._version
            try:
                written = await self._client.replace(SECRETS, body, metadata_only=True)
            except NotFound:
                self._version = ""
                raise
            except Conflict:
                await self._read_again()
                raise
        else:
            try:
                written = await self._client.create(SECRETS, body, self._namespace)
            except AlreadyExists:
                await self._read_again()
                raise
        self._version = written["metadata"]["resourceVersion"]
        self.outbox = outbox

    async def _read_again(self) -> None:
        """Read the outbox again, after an edit by another client or a write without an answer."""
        selector = f"metadata.name={self.recipient.outbox}"
        for secret in (await self._client.list(SECRETS, self._namespace, field_selector=selector)).items:
            self.load(secret)
