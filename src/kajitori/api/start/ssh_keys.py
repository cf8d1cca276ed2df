"""SSH keys of an attempt in OpenSSH's format, with which its members log in to each other."""

from __future__ import annotations

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


class AttemptKeys(msgspec.Struct, rename="camel"):
    """Ed25519 key pairs: every member's sshd accepts the client's key and shows the host's key."""

    client_key: str
    client_public_key: str
    host_key: str
    host_public_key: str


def attempt_keys(client_secret: bytes, host_secret: bytes) -> AttemptKeys:
    """Return the key pairs whose private keys are these two secrets of 32 bytes."""
    return AttemptKeys(*_pair(client_secret), *_pair(host_secret))


def _pair(secret: bytes) -> tuple[str, str]:
    key = Ed25519PrivateKey.from_private_bytes(secret)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private.decode(), key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
