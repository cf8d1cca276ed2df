"""The key that tickets are signed with: in a Secret, made once by whoever leads, read by every Web API."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import time
from collections.abc import Callable
from typing import Any

from kajitori.core import names
from kajitori.core.tickets import KEY_BYTES, Ticket, derive, is_well_formed, verify
from kajitori.errors import AlreadyExists, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS

REREAD_SECONDS = 3.0
"""However many tickets are shown that nobody signed, the Secret is read again at most this often."""

_FIELD = "key"


async def ensure_ticket_key(client: KubeClient, namespace: str) -> bytes:
    """The key, for whoever makes Pods: read from the Secret, which is made where there is none."""
    try:
        return await _read(client, namespace)
    except NotFound:
        pass
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": SECRETS.kind,
        "metadata": {
            "name": names.TICKETS_SECRET,
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "type": "Opaque",
        "data": {_FIELD: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()},
    }
    try:
        return _key_in(await client.create(SECRETS, body, namespace))
    except AlreadyExists:  # somebody else was quicker
        return await _read(client, namespace)


class TicketReader:
    """Tells good tickets from others. The Secret is read when a signature is not known: the key may be a new one."""

    def __init__(self, client: KubeClient, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._key: bytes | None = None
        self._may_read_at = 0.0
        self._reading = asyncio.Lock()

    async def read(self, text: str) -> Ticket | None:
        """The ticket, or None where nobody signed it with the key that counts now.

        Raises Unavailable where it cannot be told yet.
        """
        ticket = self._verified(text)
        if ticket is not None or not is_well_formed(text):
            return ticket
        async with self._reading:
            ticket = self._verified(text)  # whoever waited for the same key has it now
            if ticket is not None:
                return ticket
            if self._clock() < self._may_read_at:
                raise Unavailable("the key of tickets was read a moment ago; this ticket was signed with another one")
            self._may_read_at = self._clock() + REREAD_SECONDS
            try:
                self._key = await _read(self._client, self._namespace)
            except NotFound:
                self._key = None
        return self._verified(text)

    def derive(self, ticket: Ticket, purpose: str) -> bytes:
        """A secret of 32 bytes of the ticket's attempt. Raises Unavailable where the key is gone meanwhile."""
        if self._key is None:
            raise Unavailable("the key of tickets is not known")
        return derive(ticket, self._key, purpose)

    def _verified(self, text: str) -> Ticket | None:
        return verify(text, self._key) if self._key is not None else None


async def _read(client: KubeClient, namespace: str) -> bytes:
    return _key_in(await client.get(SECRETS, names.TICKETS_SECRET, namespace))


def _key_in(secret: dict[str, Any]) -> bytes:
    try:
        key = base64.b64decode((secret.get("data") or {}).get(_FIELD, ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < KEY_BYTES:
        meta = secret["metadata"]
        raise Unavailable(
            f"the Secret {meta['namespace']}/{meta['name']} holds no key of {KEY_BYTES} bytes under {_FIELD!r}",
            hint="delete it: the controller makes another one",
        )
    return key
