"""The key that signs tickets and members: in a Secret that the leader creates once and every Web API reads."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from kajitori.core.naming import names
from kajitori.core.pods.tickets import KEY_BYTES, Ticket, derive, is_well_formed, verify
from kajitori.errors import AlreadyExists, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SECRETS

log = logging.getLogger(__name__)

REREAD_SECONDS = 3.0
"""Shortest interval between two reads of the Secret, however many tickets with unknown signatures arrive."""

FOLLOW_SECONDS = 600.0
"""Longest interval between two reads of the Secret, which changes only if it was lost."""

UNKNOWN_SECONDS = 15.0
"""Interval between two reads while there is no Secret: the first leader creates it."""

_FIELD = "key"


class SigningKey:
    """The signing key, for the creator of Pods."""

    def __init__(self, client: KubeClient, namespace: str, tell: Callable[[bytes], None]) -> None:
        """`tell` is called with the key after every read."""
        self._client = client
        self._namespace = namespace
        self._tell = tell
        self.last: bytes | None = None
        """The key that was read last; None before the first."""

    async def read(self) -> bytes:
        """Return the current key. Raises the API server's error if the Secret may not be read or created."""
        self.last = await ensure_ticket_key(self._client, self._namespace)
        self._tell(self.last)
        return self.last


async def ensure_ticket_key(client: KubeClient, namespace: str) -> bytes:
    """Return the key from the Secret, which is created if there is none."""
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
    except AlreadyExists:  # another process was faster
        return await _read(client, namespace)


class TicketReader:
    """Verifies tickets. After an unknown signature the Secret is read again, since the key may have changed."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[bytes], None] = lambda key: None,
    ) -> None:
        """`tell` is called with the key after every read."""
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._tell = tell
        self._key: bytes | None = None
        self._may_read_at = 0.0
        self._reading = asyncio.Lock()

    async def read(self, text: str) -> Ticket | None:
        """Return the ticket, or None if it is not signed with the current key.

        Raises Unavailable if that cannot be decided yet.
        """
        ticket = self._verified(text)
        if ticket is not None or not is_well_formed(text):
            return ticket
        async with self._reading:
            ticket = self._verified(text)  # another request has read the key meanwhile
            if ticket is not None:
                return ticket
            if self._clock() < self._may_read_at:
                raise Unavailable("the key of tickets was read a moment ago; this ticket was signed with another one")
            self._may_read_at = self._clock() + REREAD_SECONDS
            await self._read()
        return self._verified(text)

    async def follow(self) -> None:
        """Read the key at intervals until cancelled: members that lost their owner are recognized by it."""
        while True:
            try:
                await self._read()
            except KajitoriError as error:
                log.debug("the key of tickets can't be read: %s", error)
            await asyncio.sleep(UNKNOWN_SECONDS if self._key is None else FOLLOW_SECONDS)

    async def _read(self) -> None:
        try:
            self._key = await _read(self._client, self._namespace)
        except NotFound:
            self._key = None
        else:
            self._tell(self._key)

    def derive(self, ticket: Ticket, purpose: str) -> bytes:
        """Return a secret of 32 bytes for the ticket's attempt. Raises Unavailable if the key is gone meanwhile."""
        if self._key is None:
            raise Unavailable("the key of tickets is not known")
        return derive(ticket, self._key, purpose)

    def notebook_token(self, namespace: str, run: str, run_uid: str, attempt: int) -> str:
        """Return the token of an attempt of a notebook. It is stored nowhere. Raises Unavailable without the key."""
        return self.derive(Ticket(namespace, run, run_uid, attempt, 1), "notebook").hex()

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
