"""How `kaji up` serves the Web API: plain HTTP at loopback addresses, else TLS with a certificate of its own."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import psutil

from kajitori.configuration.settings import UpOptions
from kajitori.core.words.texts import is_loopback
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, issue_web

_SOMEWHERE_ELSE = ("192.0.2.1", 9)
"""RFC 5737, TEST-NET-1: only asked which of this machine's addresses would be used. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The certificate that the Web API shows, and who vouches for it; None of them for plain HTTP."""

    host: str
    """Where it listens."""
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    @property
    def is_open(self) -> bool:
        """Whether other machines reach it."""
        return not is_loopback(self.host)

    def local_url(self, port: int) -> str:
        """Where commands on this machine reach it."""
        return self._url("127.0.0.1" if _is_any(self.host) else self.host, port)

    def public_url(self, port: int) -> str:
        """Where members of runs reach it, and people if it is open."""
        return self._url(own_address() if _is_any(self.host) else self.host, port)

    def authorities(self) -> str | None:
        """The certificate of who vouches for it, as PEM."""
        return self.ca.read_text() if self.ca is not None else None

    def _url(self, host: str, port: int) -> str:
        scheme = "https" if self.certificate is not None else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def serving_of(options: UpOptions, certificates: Certificates | None) -> Serving:
    """How to serve at the host of these options. `certificates` are those of the embedded cluster; None: of an existing
    one, for which the data folder gets an authority of its own."""
    if is_loopback(options.host) or options.insecure_http:
        return Serving(options.host)
    made = certificates or ensure_certificates(options.data / "pki")
    names = tuple(dict.fromkeys((*_addresses(options.host), socket.gethostname(), "localhost", "127.0.0.1", "::1")))
    certificate, key = issue_web(made, options.data / "web", names)
    return Serving(options.host, certificate, key, made.ca)


def own_address() -> str:
    """The address by which this machine speaks to others; that of loopback if it speaks to none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_SOMEWHERE_ELSE)
            return str(asking.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _addresses(host: str) -> tuple[str, ...]:
    """Names of the server that listens at `host`: all addresses of this machine if it listens at all of them."""
    if not _is_any(host):
        return (host,)
    found = (each.address for card in psutil.net_if_addrs().values() for each in card)
    return (own_address(), *(address for address in found if _is_address(address)))


def _is_address(text: str) -> bool:
    """Not a card's own address, nor one of IPv6 that is good on one link alone."""
    try:
        return not ip_address(text).is_link_local
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
