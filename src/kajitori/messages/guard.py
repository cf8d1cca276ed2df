"""Limits of the sending process, which hold for every service's code and every URL.

An audit hook of the interpreter sees every connection before it is made, with the address that was resolved, so a host
name that changes its address between two look-ups gains nothing. It also sees files and programs. It can't be removed.

With a proxy, the hook sees what each request asks the proxy for. A host's addresses are checked if this process can
look them up; if it cannot, the proxy alone knows them.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from kajitori.messages.proxy import Proxy

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

AUTHORITIES = "REQUESTS_CA_BUNDLE"
"""Variable with the file of authorities that the library requests trusts."""
CERTIFICATE_VARIABLES = (AUTHORITIES, "SSL_CERT_FILE")
"""Variables that name the authorities of a site's own certificates. The process has no others of its parent."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn")
_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
_READABLE = (
    *("/usr/", "/lib", "/opt/", "/dev/null", "/dev/urandom", "/etc/ssl/", "/etc/pki/", "/etc/mime.types"),
    *("/etc/localtime", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
)
"""Beginnings of the paths that may be read: code, certificates, and what looking up a host name needs."""


class Rules(msgspec.Struct, kw_only=True):
    """Allowed destinations: the policy's section `notifications`, and the addresses of the cluster."""

    schemes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Networks to which nothing goes unless `networks` contains the address."""
    proxy: str = ""
    """URL of the HTTP proxy of all HTTP requests; empty without one."""
    no_proxy: tuple[str, ...] = ()
    """Hosts to which requests go directly, as the policy writes them: chat.example.org, *.example.org."""


class Refusal(PermissionError):
    """The policy does not allow it."""


class Guard:
    """The rules of the audit hook, and the connections that it refused, by thread."""

    def __init__(self, rules: Rules) -> None:
        self._hosts = rules.hosts
        self._allowed = [ipaddress.ip_network(text) for text in rules.networks]
        self._denied = [ipaddress.ip_network(text) for text in rules.denied]
        self._readable = (*_READABLE, *(os.path.realpath(path) + "/" for path in {sys.prefix, sys.base_prefix}))
        self._readable += tuple(os.path.realpath(path) for path in sys.path if path)
        self._readable += tuple(os.environ[name] for name in CERTIFICATE_VARIABLES if name in os.environ)
        self._proxy = Proxy(rules.proxy) if rules.proxy else None
        self._refused = threading.local()

    def install(self) -> None:
        """Begin to guard this process. This cannot be undone."""
        sys.addaudithook(self.watch)

    def take_refusal(self) -> str:
        """Return the refusals in this thread since the last call, as text; empty if there were none."""
        found: str = getattr(self._refused, "text", "")
        self._refused.text = ""
        return found

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise Refusal if the interpreter is about to do something that is not allowed."""
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            self._check_peer(*arguments[:2])
        elif event in _LOOKUPS:
            self._check_host(arguments[0])
        elif event == "http.client.send":
            self._check_request(*arguments[:2])
        elif event == "open":
            self._check_file(*arguments[:3])
        elif event in _PROGRAMS or event.startswith("syslog."):
            self._record_refusal(f"{event} is not allowed")

    def _check_peer(self, sock: Any, address: Any) -> None:
        if address is None:  # the socket is connected already
            return
        family = getattr(sock, "family", None)
        if family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
            self._record_refusal("only connections over IP are allowed")
            return
        try:
            found = ipaddress.ip_address(str(address[0]).partition("%")[0])
        except ValueError:
            self._record_refusal(f"the host {str(address[0])[:60]} was not looked up")
            return
        if self._proxy is not None and self._proxy.is_connecting():
            return  # the requests to the proxy are checked instead
        self._check_address(found)

    def _check_address(self, address: Address) -> None:
        if not is_allowed(address, self._allowed, self._denied):
            self._record_refusal(f"the policy's notifications.networks does not allow the address {address}")

    def _check_request(self, connection: Any, data: Any) -> None:
        """Check the target that a request asks the proxy for."""
        proxy = self._proxy
        if proxy is None or not proxy.is_peer_of(connection):
            return
        try:
            asked = proxy.asked(connection, data)
        except ValueError as error:
            self._record_refusal(f"a request to the proxy was not understood: {error}")
            return
        if asked is not None:
            self._check_receiver(*asked)
            proxy.allow(connection)

    def _check_receiver(self, host: str, port: int) -> None:
        self._check_host(host)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            return  # at such sites often only the proxy can look up public names
        for *_, address in found:
            self._check_address(ipaddress.ip_address(str(address[0]).partition("%")[0]))

    def _check_host(self, host: Any) -> None:
        name = (host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")).lower().rstrip(".")
        if self._proxy is not None and name == self._proxy.host:
            return
        if self._hosts and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self._hosts):
            self._record_refusal(f"the policy's notifications.hosts does not allow the host {name[:80]}")

    def _check_file(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int):
            return
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        text = os.path.realpath(os.fsdecode(path))
        if text != os.devnull and (writes or not text.startswith(self._readable)):
            self._record_refusal("messages may not use files")

    def _record_refusal(self, text: str) -> None:
        if not self.take_refusal():
            self._refused.text = text
        raise Refusal(text)


def is_allowed(address: Address, allowed: Iterable[Network], denied: Iterable[Network]) -> bool:
    """Return whether a message may go to this address: to a public one that is not denied, or to an allowed one.

    Addresses that carry another one inside (mapped, NAT64, 6to4, Teredo) count as that one.
    """
    inner = _unwrap_ipv4(address)
    if any(address in network for network in allowed) or any(inner in network for network in allowed):
        return True
    if any(one in network for one in (address, inner) for network in denied):
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def _unwrap_ipv4(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour or address
