"""Addresses and certificates of `kaji up`'s Web API: plain HTTP at loopback addresses, else TLS."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import psutil

from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.core.kubernetes.texts import http_url, is_loopback
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, issue_web

_OUTSIDE_ADDRESS = ("192.0.2.1", 9)
"""An address of TEST-NET-1 (RFC 5737), by which the system shows the own address that it would use. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The address of the Web API, its certificate and the authority that signed it; no certificate for plain HTTP."""

    host: str
    """The address that the server listens on."""
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the server."""
        return not is_loopback(self.host)

    def local_url(self, port: int) -> str:
        """Return the URL for commands on this machine."""
        return self._url_at("127.0.0.1" if _is_any(self.host) else self.host, port)

    def public_url(self, port: int) -> str:
        """Return the URL for members of runs, and for users on other machines if the server is open to them."""
        return self._url_at(own_address() if _is_any(self.host) else self.host, port)

    def authorities(self) -> str | None:
        """Return the authority's certificate as PEM; None for plain HTTP."""
        return self.ca.read_text() if self.ca is not None else None

    def _url_at(self, host: str, port: int) -> str:
        return http_url(host, port, tls=self.certificate is not None)


def serving_of(options: UpOptions, certificates: Certificates | None) -> Serving:
    """Return address, certificate and authority for serving at the host of these options.

    `certificates` are those of the embedded cluster. With an existing cluster they are None, and the data folder gets
    its own authority.
    """
    if is_loopback(options.host) or options.insecure_http:
        return Serving(options.host)
    made = certificates or ensure_certificates(options.data / "pki")
    names = tuple(
        dict.fromkeys((*_listen_addresses(options.host), socket.gethostname(), "localhost", "127.0.0.1", "::1"))
    )
    certificate, key = issue_web(made, options.data / "web", names)
    return Serving(options.host, certificate, key, made.ca)


def own_address() -> str:
    """Return this machine's address on the network; the loopback address without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_OUTSIDE_ADDRESS)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _listen_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of a server that listens at `host`: all of this machine's for an unspecified address."""
    if not _is_any(host):
        return (host,)
    found = (entry.address for interface in psutil.net_if_addrs().values() for entry in interface)
    return (own_address(), *(address for address in found if _is_address(address)))


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address that is valid beyond one link. Network cards also list hardware
    addresses."""
    try:
        return not ip_address(text).is_link_local
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
