"""Addresses by class: which ranges belong to which, where the ranges of one lie inside those of another."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Classes:
    """Ranges that do not overlap, by class; every other address is in the class `others`."""

    ranges: Mapping[str, tuple[Network, ...]]
    others: str

    @classmethod
    def of(cls, written: Mapping[str, Iterable[Network]], others: str) -> Classes:
        """Classes as people write them, where a range inside another takes its addresses out of it.

        No range may be in two classes.
        """
        everything = [(network, name) for name, networks in written.items() for network in set(networks)]
        ranges: dict[str, tuple[Network, ...]] = {}
        for name in written:
            mine: list[Network] = []
            for network, owner in everything:
                if owner == name:
                    inside = [each for each, other in everything if other != name and is_inside(each, network)]
                    # What a range of mine inside one of another's takes back comes by itself, from that range.
                    mine += without(network, inside)
            ranges[name] = collapsed(mine)
        return cls(ranges, others)

    @property
    def names(self) -> tuple[str, ...]:
        """Every class, the others last."""
        return (*self.ranges, self.others)

    def at(self, address: Address) -> str:
        """The class of an address."""
        for name, networks in self.ranges.items():
            if any(address.version == network.version and address in network for network in networks):
                return name
        return self.others

    def version(self, name: str, version: int) -> tuple[Network, ...]:
        """The ranges of a class that are of IP version 4 or 6."""
        return tuple(network for network in self.ranges[name] if network.version == version)


def is_inside(inner: Network, outer: Network) -> bool:
    """Whether a range is a part of another, and not the whole."""
    return inner.version == outer.version and inner != outer and inner.subnet_of(outer)  # type: ignore[arg-type]


def without(network: Network, holes: Sequence[Network]) -> list[Network]:
    """The parts of a network outside of all holes."""
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
    """The same addresses in as few ranges as can be."""
    found: list[Network] = []
    found += ipaddress.collapse_addresses(each for each in networks if isinstance(each, ipaddress.IPv4Network))
    found += ipaddress.collapse_addresses(each for each in networks if isinstance(each, ipaddress.IPv6Network))
    return tuple(found)
