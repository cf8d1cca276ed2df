"""The installation's own authority, the certificates of parts and of agents, and the Secrets that hold them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kajitori.configuration import x509
from kajitori.install.parts.objects import Object, made
from kajitori.install.settings import CA_SECRET, TLS_SECRET

AUTHORITY_RENEW_DAYS = 400
"""Remaining validity below which a new authority is made. It is longer than the validity of signed certificates."""

_COMMON_NAME = "kajitori"
_END = b"-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM. Empty if there is none."""

    certificate: bytes = b""
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class Issued:
    """The authority with its key, and the certificates that it signed."""

    authority: Pair
    trusted: bytes
    """Certificates (PEM) of the authorities that clients trust: the present one, and the previous one while it is
    valid."""
    parts: Pair
    """For Web API, controller and relay."""
    agents: Pair = Pair()
    """For the metrics of all agents. It is valid for no other name, because its key is on every node."""
    changes: tuple[str, ...] = ()
    """The newly issued certificates, with reasons."""


def issue(
    names: tuple[str, ...], now: datetime, before: Issued | None = None, *, agents: tuple[str, ...] = ()
) -> Issued:
    """Return an authority, a certificate of the parts for `names` and, if there are agents, one for the names `agents`.
    Certificates of `before` are kept while they are good.

    A new authority is at first only added to the trusted ones. It signs from the next call on, when all clients trust
    it.
    """
    changes = []
    signing = _authority_of(now, before)
    if signing.is_new:
        changes.append("a new authority: " + (_authority_fault(before, now)))
    issuer, issuer_key = signing.certificate, signing.key
    if signing.is_new and before is not None and _authority_left(before, now) > timedelta(days=x509.LEAF_DAYS):
        issuer, issuer_key = x509.load_pair(before.authority.certificate, before.authority.key)

    def renewed(old: Pair, wanted: tuple[str, ...], what: str) -> Pair:
        fault = _leaf_fault(old, wanted, now, None if signing.is_new else signing.certificate)
        if not fault:
            return old
        changes.append(f"{what}: {fault}")
        key = x509.new_key()
        signed = x509.leaf(key, issuer, issuer_key, now, _COMMON_NAME, names=wanted)
        return Pair(x509.certificate_pem(signed), x509.key_pem(key))

    parts = renewed(before.parts if before is not None else Pair(), names, "a new certificate")
    of_agents = before.agents if before is not None else Pair()
    if agents:
        of_agents = renewed(of_agents, agents, "a new certificate of agents")
    authority = Pair(x509.certificate_pem(signing.certificate), x509.key_pem(signing.key))
    return Issued(authority, signing.trusted, parts, of_agents, tuple(changes))


class _Authority(NamedTuple):
    """The authority that signs from now on."""

    certificate: x509.Certificate
    key: x509.Key
    trusted: bytes
    """All certificates that clients trust (PEM)."""
    is_new: bool


def _authority_of(now: datetime, before: Issued | None) -> _Authority:
    """Return the authority of `before` if it is valid for long enough, else a new one."""
    if before is not None:
        try:
            kept, key = x509.load_pair(before.authority.certificate, before.authority.key)
        except ValueError:
            pass
        else:
            if _authority_left(before, now) > timedelta(days=AUTHORITY_RENEW_DAYS):
                return _Authority(kept, key, before.trusted or before.authority.certificate, is_new=False)
    new_key = x509.new_key()
    new = x509.authority(new_key, now)
    old = before.trusted or before.authority.certificate if before is not None else b""
    return _Authority(new, new_key, x509.certificate_pem(new) + _still_valid(old, now), is_new=True)


def _still_valid(bundle: bytes, now: datetime) -> bytes:
    """Return the certificates of a bundle (PEM) that have not expired."""
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
        return x509.load_pair(issued.authority.certificate, issued.authority.key)[0].not_valid_after_utc - now
    except ValueError:
        return timedelta(0)


def _leaf_fault(before: Pair, names: tuple[str, ...], now: datetime, issuer: x509.Certificate | None) -> str:
    """Return the reason for which a certificate has to be replaced; empty if it can be kept."""
    if before == Pair():
        return "there was none"
    try:
        certificate, _ = x509.load_pair(before.certificate, before.key)
    except ValueError as error:
        return str(error)
    return x509.fault_of(certificate, now, issuer=issuer, names=names)


def names_in(certificate: bytes) -> tuple[str, ...]:
    """Return the names and addresses of a certificate (PEM)."""
    return x509.names_of(x509.load_certificate(certificate))


def ends(certificate: bytes) -> datetime:
    """Return the time at which a certificate (PEM) expires. Raises ValueError if it cannot be read."""
    return x509.load_certificate(certificate).not_valid_after_utc


def secrets(issued: Issued, namespace: str, agents_namespace: str = "") -> list[Object]:
    """Return the Secrets of the authority, of the parts and, if they have a namespace, of agents."""
    certified = {namespace: issued.parts}
    if agents_namespace:
        certified[agents_namespace] = issued.agents
    return [
        secret(CA_SECRET, namespace, {"tls.crt": issued.authority.certificate, "tls.key": issued.authority.key}),
        *(
            secret(TLS_SECRET, space, {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": issued.trusted})
            for space, pair in certified.items()
        ),
    ]


def issued_in(
    authority: Mapping[str, str] | None, parts: Mapping[str, str] | None, agents: Mapping[str, str] | None = None
) -> Issued | None:
    """Return the certificates in the data of three Secrets; None if there is no authority."""
    if authority is None:
        return None
    trusted = base64.b64decode((parts or {}).get("ca.crt", ""))
    return Issued(_pair_in(authority), trusted, _pair_in(parts or {}), _pair_in(agents or {}))


def _pair_in(data: Mapping[str, str]) -> Pair:
    return Pair(*(base64.b64decode(data.get(key, "")) for key in ("tls.crt", "tls.key")))


def secret(name: str, namespace: str, data: Mapping[str, bytes]) -> Object:
    """Return a Secret with these values."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return made("v1", "Secret", name, namespace, type="Opaque", data=encoded)
