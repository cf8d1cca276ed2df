"""What is signed with the key that controller and Web API share: members' tickets, and members themselves.

A ticket is what a member shows the Web API in its first step. It says which start of which run it is for, and follows
from that alone: whoever leads next makes exactly the same Pods (rule 2). It stands in the Pod, where everybody who may
read Pods of the namespace can read it; so the server honours it only while that attempt has members that are starting.

A member's signature says which run a Pod was made for. It holds for one name in one namespace, so a copy on another Pod
proves nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from dataclasses import dataclass

KEY_BYTES = 32

_VERSION = "kaji1"
_MEMBER = f"{_VERSION}-member"
_MEMBER_FORM = re.compile(r"[A-Za-z0-9-]{1,64}\.[A-Za-z0-9_-]{43}", re.ASCII)
_FORM = re.compile(_VERSION + r"\.[A-Za-z0-9_-]{1,4096}\.[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ticket:
    """Which start of which run."""

    namespace: str
    run: str
    run_uid: str
    attempt: int
    world_size: int
    code: str = ""
    """The digest of the run's code, where it has any."""


def sign(ticket: Ticket, key: bytes) -> str:
    """The ticket as text: URL-safe, and fit for an Authorization header."""
    said = [ticket.namespace, ticket.run, ticket.run_uid, ticket.attempt, ticket.world_size, ticket.code]
    payload = _encode(json.dumps(said, separators=(",", ":")).encode())
    return f"{_VERSION}.{payload}.{_signature(payload, key)}"


def derive(ticket: Ticket, key: bytes, purpose: str) -> bytes:
    """A secret of 32 bytes that only holders of the key can tell: the same for the same start of the same run and
    purpose, and for no other. HKDF-Expand with SHA-256, one block (RFC 5869, 2.3)."""
    start = [_VERSION, purpose, ticket.namespace, ticket.run, ticket.run_uid, ticket.attempt]
    return hmac.digest(key, json.dumps(start, separators=(",", ":")).encode() + b"\x01", hashlib.sha256)


def is_well_formed(text: str) -> bool:
    """Whether it may be a ticket, whoever signed it."""
    return _FORM.fullmatch(text) is not None


def verify(text: str, key: bytes) -> Ticket | None:
    """The ticket that this text is, or None where it was not signed with this key."""
    if not is_well_formed(text):
        return None
    _, payload, signature = text.split(".")
    if not hmac.compare_digest(_signature(payload, key), signature):
        return None
    return Ticket(*json.loads(_decode(payload)))


def sign_member(namespace: str, pod: str, run_uid: str, key: bytes) -> str:
    """The signature of a member's Pod. `pod` is its name, which says run, attempt and rank."""
    return f"{run_uid}.{_member_signature(namespace, pod, run_uid, key)}"


def run_of_signed_member(text: str, namespace: str, pod: str, key: bytes) -> str:
    """UID of the run that the Pod of this name was made for; empty if the signature was not made for this Pod."""
    if not _MEMBER_FORM.fullmatch(text):
        return ""
    run_uid, _, signature = text.partition(".")
    expected = _member_signature(namespace, pod, run_uid, key)
    return run_uid if hmac.compare_digest(expected, signature) else ""


def _member_signature(namespace: str, pod: str, run_uid: str, key: bytes) -> str:
    said = json.dumps([_MEMBER, namespace, pod, run_uid], separators=(",", ":"))
    return _encode(hmac.digest(key, said.encode(), hashlib.sha256))


def _signature(payload: str, key: bytes) -> str:
    return _encode(hmac.digest(key, f"{_VERSION}.{payload}".encode(), hashlib.sha256))


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
