"""Which connections a server keeps: a bound on all of them, on those of one address, and tighter bounds on those whose
callers have not shown who they are.

A server at a bound on unauthenticated connections closes an old one rather than refuse the new one: an honest caller
shows its credentials within milliseconds and is past the bound, while a hostile one has to keep opening connections.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

YOUNG_SECONDS = 0.5
"""A connection this young is closed for the sake of one from another address only if its own address holds more."""

IPV6_NETWORK_BITS = 64
"""Whoever has one IPv6 address usually has the whole /64 around it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Numbers of connections; 0 is no bound."""

    in_all: int
    per_address: int
    unauthenticated: int
    unauthenticated_per_address: int


@dataclass(slots=True)
class _Address(Generic[C]):
    connections: int = 0
    unauthenticated: dict[C, float] = field(default_factory=dict)
    """Those whose callers have not shown who they are, by the time of their arrival, the oldest first."""


class ConnectionTable(Generic[C]):
    """The open connections of one server. Times are seconds of a clock that does not go back."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[str, _Address[C]] = {}
        self._of: dict[C, str] = {}
        self._unauthenticated: dict[C, float] = {}

    def __len__(self) -> int:
        return len(self._of)

    @property
    def unauthenticated(self) -> int:
        """Number of connections whose callers have not shown who they are."""
        return len(self._unauthenticated)

    def admit(self, connection: C, address: str, now: float) -> C | None:
        """Count a new connection; return the one that has to be closed for it, which may be the new one itself.

        What is returned is forgotten here.
        """
        key = network_of(address)
        bounds, own = self._bounds, self._addresses.get(key, _Address[C]())
        if _reached(len(self._of), bounds.in_all) or _reached(own.connections, bounds.per_address):
            return connection
        victim: C | None = None
        if _reached(len(own.unauthenticated), bounds.unauthenticated_per_address):
            victim = next(iter(own.unauthenticated))
        elif _reached(len(self._unauthenticated), bounds.unauthenticated):
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
        """The caller of this connection has shown who it is."""
        if self._unauthenticated.pop(connection, None) is not None:
            del self._addresses[self._of[connection]].unauthenticated[connection]

    def forget(self, connection: C) -> None:
        """This connection is closed, or about to be."""
        self.authenticated(connection)
        key = self._of.pop(connection, None)
        if key is not None:
            own = self._addresses[key]
            own.connections -= 1
            if not own.connections:
                del self._addresses[key]

    def _most_dispensable(self, own: int, now: float) -> C | None:
        """The oldest connection of the address with most unauthenticated ones, if these are more than the newcomer's
        address would have; else the oldest of all, unless it is young."""
        heaviest = max(self._addresses.values(), key=lambda each: len(each.unauthenticated))
        if len(heaviest.unauthenticated) > own + 1:
            return next(iter(heaviest.unauthenticated))
        oldest, since = next(iter(self._unauthenticated.items()))
        return oldest if now - since >= YOUNG_SECONDS else None


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, and the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> (128 - IPV6_NETWORK_BITS) << (128 - IPV6_NETWORK_BITS)))


def _reached(count: int, bound: int) -> bool:
    return 0 < bound <= count
