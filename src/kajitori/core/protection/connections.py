"""Limits on a server's connections: in total, per address, and lower ones for unauthenticated connections.

A server at a limit of unauthenticated connections closes an old one rather than refuse the new one. An honest client
sends its credentials within milliseconds and no longer counts, while an attacker has to keep opening connections.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

YOUNG_SECONDS = 0.5
"""Age below which a connection is closed in favour of another address's only if its own address has more of them."""

IPV6_NETWORK_BITS = 64
"""Prefix length that counts as one IPv6 address, because a client usually has the whole /64."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Maximum numbers of connections; 0 for no limit."""

    in_all: int
    per_address: int
    unauthenticated: int
    unauthenticated_per_address: int


@dataclass(slots=True)
class _Address(Generic[C]):
    connections: int = 0
    unauthenticated: dict[C, float] = field(default_factory=dict)
    """Unauthenticated connections with the time of their arrival, the oldest first."""


class ConnectionTable(Generic[C]):
    """The open connections of one server. Times are seconds of a monotonic clock."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[str, _Address[C]] = {}
        self._of: dict[C, str] = {}
        self._unauthenticated: dict[C, float] = {}

    def __len__(self) -> int:
        return len(self._of)

    @property
    def unauthenticated(self) -> int:
        """Number of unauthenticated connections."""
        return len(self._unauthenticated)

    def admit(self, connection: C, address: str, now: float) -> C | None:
        """Add a new connection, and return the one that has to be closed for it, which may be the new one itself. The
        returned connection is not in the table any more."""
        key = network_of(address)
        bounds, own = self._bounds, self._addresses.get(key, _Address[C]())
        if _has_reached(len(self._of), bounds.in_all) or _has_reached(own.connections, bounds.per_address):
            return connection
        victim: C | None = None
        if _has_reached(len(own.unauthenticated), bounds.unauthenticated_per_address):
            victim = next(iter(own.unauthenticated))
        elif _has_reached(len(self._unauthenticated), bounds.unauthenticated):
            victim = self._most_dispensable(len(own.unauthenticated), now)
            if victim is None:
                return connection
        if victim is not None:
            self.forget(victim)
        own = self._addresses.setdefault(key, own)
        own.connections += 1
        own.unauthenticated[connection] = self._unauthenticated[connection] = now
        self._of[connection] = key
        return victim

    def authenticated(self, connection: C) -> None:
        """Mark a connection as authenticated."""
        if self._unauthenticated.pop(connection, None) is not None:
            del self._addresses[self._of[connection]].unauthenticated[connection]

    def forget(self, connection: C) -> None:
        """Remove a connection that is closed or about to be."""
        self.authenticated(connection)
        key = self._of.pop(connection, None)
        if key is not None:
            own = self._addresses[key]
            own.connections -= 1
            if not own.connections:
                del self._addresses[key]

    def _most_dispensable(self, own: int, now: float) -> C | None:
        """Return the unauthenticated connection to close for a new one, or None. It is the oldest connection of the
        address with most unauthenticated connections, if that address has more than the new connection's address would
        have. Otherwise it is the oldest of all connections, unless that one is young."""
        heaviest = max(self._addresses.values(), key=lambda address: len(address.unauthenticated))
        if len(heaviest.unauthenticated) > own + 1:
            return next(iter(heaviest.unauthenticated))
        oldest, since = next(iter(self._unauthenticated.items()))
        return oldest if now - since >= YOUNG_SECONDS else None


def network_of(address: str) -> str:
    """Return the address under which a connection is counted: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> (128 - IPV6_NETWORK_BITS) << (128 - IPV6_NETWORK_BITS)))


def _has_reached(count: int, bound: int) -> bool:
    return 0 < bound <= count
