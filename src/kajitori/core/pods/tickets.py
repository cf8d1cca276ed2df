"""Tickets and signatures of members, made with the key that controller and Web API share.

A member presents its ticket to the Web API in its first step. A ticket names an attempt of a run and depends on nothing
else, so that a new leader builds exactly the same Pods (rule 2). Users who may read Pods of the namespace can read it;
the server therefore accepts it only while members of that attempt are starting.

A member's signature proves which run a Pod was created for. It is valid for one Pod name in one namespace, so a copy of
it in another Pod proves nothing.
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
    """An attempt of a run."""

    namespace: str
    run: str
    run_uid: str
    attempt: int
    world_size: int
    code: str = ""
    """Digest of the run's code; empty if it has none."""
    files: str = ""
    """Digest of the archive with the run's files; empty if it has none."""


def sign(ticket: Ticket, key: bytes) -> str:
    """Return the signed ticket as text that is URL-safe and valid in an Authorization header."""
    fields = [ticket.namespace, ticket.run, ticket.run_uid, ticket.attempt, ticket.world_size, ticket.code]
    fields += [ticket.files] if ticket.files else []
    payload = _encode(json.dumps(fields, separators=(",", ":")).encode())
    return f"{_VERSION}.{payload}.{_signature(payload, key)}"


def derive(ticket: Ticket, key: bytes, purpose: str) -> bytes:
    """Return a secret of 32 bytes for an attempt of a run and a purpose, which only holders of the key can compute.
    HKDF-Expand with SHA-256, one block (RFC 5869, 2.3)."""
    info = [_VERSION, purpose, ticket.namespace, ticket.run, ticket.run_uid, ticket.attempt]
    return hmac.digest(key, json.dumps(info, separators=(",", ":")).encode() + b"\x01", hashlib.sha256)


def is_well_formed(text: str) -> bool:
    """Whether a text has the form of a ticket. Its signature is not checked."""
    return _FORM.fullmatch(text) is not None


def verify(text: str, key: bytes) -> Ticket | None:
    """Return the ticket in this text, or None if it was not signed with this key."""
    if not is_well_formed(text):
        return None
    _, payload, signature = text.split(".")
    if not hmac.compare_digest(_signature(payload, key), signature):
        return None
    return Ticket(*json.loads(_decode(payload)))


def sign_member(namespace: str, pod: str, run_uid: str, key: bytes) -> str:
    """Return the signature of a member's Pod. `pod` is its name, which contains run, attempt and rank."""
    return f"{run_uid}.{_member_signature(namespace, pod, run_uid, key)}"


def run_of_signed_member(text: str, namespace: str, pod: str, key: bytes) -> str:
    """Return the UID of the run that this Pod was created for; empty if the signature is not valid for this Pod."""
    if not _MEMBER_FORM.fullmatch(text):
        return ""
    run_uid, _, signature = text.partition(".")
    expected = _member_signature(namespace, pod, run_uid, key)
    return run_uid if hmac.compare_digest(expected, signature) else ""


def _member_signature(namespace: str, pod: str, run_uid: str, key: bytes) -> str:
    message = json.dumps([_MEMBER, namespace, pod, run_uid], separators=(",", ":"))
    return _encode(hmac.digest(key, message.encode(), hashlib.sha256))


def _signature(payload: str, key: bytes) -> str:
    return _encode(hmac.digest(key, f"{_VERSION}.{payload}".encode(), hashlib.sha256))


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
