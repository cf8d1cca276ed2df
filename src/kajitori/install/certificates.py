"""The installation's own authority and the certificate of its parts, and the Secrets that hold them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kajitori.configuration import x509
from kajitori.install.objects import Object, made
from kajitori.install.settings import CA_SECRET, TLS_SECRET

AUTHORITY_RENEW_DAYS = 400
"""Remaining validity below which there is a new authority: longer than the certificates that it signs are valid."""

_COMMON_NAME = "kajitori"
_END = b"-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class Issued:
    """The authority's certificate and key, and those of the parts; all PEM."""

    authority: bytes
    authority_key: bytes
    trusted: bytes
    """Certificates of all authorities that clients trust: the present one, and the one before while it is valid."""
    certificate: bytes
    key: bytes
    changes: tuple[str, ...] = ()
    """The newly issued parts, with reasons."""


def issue(names: tuple[str, ...], now: datetime, before: Issued | None = None) -> Issued:
    """Return an authority and a certificate for these names. What exists `before` is kept as long as it is good.

    A new authority is only trusted at first. It signs from the next time on, when all clients know it.
    """
    changes = []
    signs, signs_key, trusted, is_new = _authority(now, before)
    if is_new:
        changes.append("a new authority: " + (_authority_fault(before, now)))
    fault = "there was none" if before is None else _leaf_fault(before, names, now, None if is_new else signs)
    if before is None or fault:
        if is_new and before is not None and _authority_left(before, now) > timedelta(days=x509.LEAF_DAYS):
            issuer, issuer_key = x509.load_pair(before.authority, before.authority_key)
        else:
            issuer, issuer_key = signs, signs_key
        key = x509.new_key()
        signed = x509.leaf(key, issuer, issuer_key, now, _COMMON_NAME, names=names)
        certificate, private = x509.certificate_pem(signed), x509.key_pem(key)
        changes.append(f"a new certificate: {fault}")
    else:
        certificate, private = before.certificate, before.key
    return Issued(x509.certificate_pem(signs), x509.key_pem(signs_key), trusted, certificate, private, tuple(changes))


def _authority(now: datetime, before: Issued | None) -> tuple[x509.Certificate, x509.Key, bytes, bool]:
    """Return the authority that signs, its key, all trusted certificates, and whether it is new."""
    if before is not None:
        try:
            kept, key = x509.load_pair(before.authority, before.authority_key)
        except ValueError:
            pass
        else:
            if _authority_left(before, now) > timedelta(days=AUTHORITY_RENEW_DAYS):
                return kept, key, before.trusted or before.authority, False
    new_key = x509.new_key()
    new = x509.authority(new_key, now)
    old = before.trusted or before.authority if before is not None else b""
    return new, new_key, x509.certificate_pem(new) + _still_valid(old, now), True


def _still_valid(bundle: bytes, now: datetime) -> bytes:
    """Return the certificates of a bundle (PEM) that have not ended."""
    found = b""
    for text in bundle.split(_END)[:-1]:
        certificate = x509.load_certificate(text + _END)
        if certificate.not_valid_after_utc > now:
            found += x509.certificate_pem(certificate)
    return found


def _authority_fault(before: Issued | None, now: datetime) -> str:
    if before is None:
        return "there was none"
    return "the one before ends soon" if _authority_left(before, now) else "the one before cannot be used"


def _authority_left(issued: Issued, now: datetime) -> timedelta:
    try:
        return x509.load_pair(issued.authority, issued.authority_key)[0].not_valid_after_utc - now
    except ValueError:
        return timedelta(0)


def _leaf_fault(before: Issued, names: tuple[str, ...], now: datetime, issuer: x509.Certificate | None) -> str:
    try:
        certificate, _ = x509.load_pair(before.certificate, before.key)
    except ValueError as error:
        return str(error)
    return x509.fault_of(certificate, now, issuer=issuer, names=names)


def names_in(certificate: bytes) -> tuple[str, ...]:
    """Return the names and addresses of a certificate (PEM)."""
    return x509.names_of(x509.load_certificate(certificate))


def ends(certificate: bytes) -> datetime:
    """Return when a certificate (PEM) ends. Raises ValueError if it cannot be read."""
    return x509.load_certificate(certificate).not_valid_after_utc


def secrets(issued: Issued, namespace: str, agents_namespace: str = "") -> list[Object]:
    """Return the Secrets of the authority and of the parts. Agents' has the trusted certificates only."""
    found = [
        secret(CA_SECRET, namespace, {"tls.crt": issued.authority, "tls.key": issued.authority_key}),
        secret(
            TLS_SECRET,
            namespace,
            {"tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": issued.trusted},
        ),
    ]
    if agents_namespace:
        found.append(secret(TLS_SECRET, agents_namespace, {"ca.crt": issued.trusted}))
    return found


def issued_in(authority: Mapping[str, str] | None, parts: Mapping[str, str] | None) -> Issued | None:
    """Return what two Secrets' data hold; None if there is no authority."""
    if authority is None:
        return None
    known = {name: base64.b64decode(text) for name, text in (parts or {}).items()}
    signs = {name: base64.b64decode(text) for name, text in authority.items()}
    return Issued(
        signs.get("tls.crt", b""),
        signs.get("tls.key", b""),
        known.get("ca.crt", b""),
        known.get("tls.crt", b""),
        known.get("tls.key", b""),
    )


def secret(name: str, namespace: str, data: Mapping[str, bytes]) -> Object:
    """Return a Secret with these values."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return made("v1", "Secret", name, namespace, type="Opaque", data=encoded)
