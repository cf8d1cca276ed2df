"""Classes of addresses: the ranges of each class. A range may lie inside a larger range of another class."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Classes:
    """Ranges by class, without overlap. Every other address is in the class `others`."""

    ranges: Mapping[str, tuple[Network, ...]]
    others: str

    @classmethod
    def of(cls, written: Mapping[str, Iterable[Network]], others: str) -> Classes:
        """Return the classes as people write them.

        A range inside another takes its addresses out of the larger one. No range may be in two classes.
        """
        everything = [(network, name) for name, networks in written.items() for network in set(networks)]
        ranges: dict[str, tuple[Network, ...]] = {}
        for name in written:
            own: list[Network] = []
            for network, owner in everything:
                if owner == name:
                    inside = [other for other, name_of in everything if name_of != name and is_inside(other, network)]
                    # A range of this class inside such a hole is handled when the loop reaches that range.
                    own += without(network, inside)
            ranges[name] = collapsed(own)
        return cls(ranges, others)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all classes, `others` last."""
        return (*self.ranges, self.others)

    def at(self, address: Address) -> str:
        """Return the class of an address."""
        for name, networks in self.ranges.items():
            if any(address.version == network.version and address in network for network in networks):
                return name
        return self.others

    def version(self, name: str, version: int) -> tuple[Network, ...]:
        """Return the ranges of a class that are of IP version 4 or 6."""
        return tuple(network for network in self.ranges[name] if network.version == version)


def is_inside(inner: Network, outer: Network) -> bool:
    """Return whether a range is a proper part of another."""
    return inner.version == outer.version and inner != outer and inner.subnet_of(outer)  # type: ignore[arg-type]


def without(network: Network, holes: Sequence[Network]) -> list[Network]:
    """Return the parts of a network outside all holes."""
    parts = [network]
    for hole in holes:
        kept: list[Network] = []
        for part in parts:
            if is_inside(hole, part):
                kept += part.address_exclude(hole)  # type: ignore[arg-type]
            elif hole != part and not is_inside(part, hole):
                kept.append(part)
        parts = kept
    return parts


def collapsed(networks: Sequence[Network]) -> tuple[Network, ...]:
    """Return the same addresses in the fewest ranges."""
    found: list[Network] = []
    found += ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv4Network))
    found += ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv6Network))
    return tuple(found)
