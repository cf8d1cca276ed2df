"""Ranges of Pod addresses for nodes, parts of the cluster's network: which node has which, and which is next."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, ip_network


class NodeRanges:
    """Decides from what nodes and Pods report alone. A range is known by its number in the cluster's network."""

    def __init__(self, cluster: IPv4Network, node_prefix: int) -> None:
        """`node_prefix` is the prefix length of each node's range: 24 for 256 addresses."""
        self.cluster = cluster
        self.node_prefix = node_prefix
        self.count = 1 << (node_prefix - cluster.prefixlen)
        self._shift = 32 - node_prefix
        self._held: dict[str, range] = {}
        self._holders: defaultdict[int, set[str]] = defaultdict(set)
        self._next = 0

    def record(self, node: str, cidrs: Iterable[str]) -> None:
        """Record a node's ranges, even if another program gave them: all their addresses are taken, even if they have
        another size."""
        self.forget(node)
        for cidr in cidrs:
            with contextlib.suppress(ValueError):
                network = ip_network(cidr, strict=False)
                if isinstance(network, IPv4Network):
                    self._held[node] = self._range_numbers(network)
        for number in self._held.get(node, ()):
            self._holders[number].add(node)

    def forget(self, node: str) -> None:
        """Record that a node no longer has a range."""
        for number in self._held.pop(node, ()):
            self._holders[number].discard(node)
            if not self._holders[number]:
                del self._holders[number]

    def sharing(self, node: str) -> set[str]:
        """Return the other nodes that share addresses with this one."""
        return {other for number in self._held.get(node, ()) for other in self._holders[number]} - {node}

    def in_use(self, addresses: Iterable[tuple[str, str]]) -> dict[int, set[str]]:
        """Return the ranges that no node has but in which Pods still have addresses, with the nodes of these Pods.

        `addresses` are (node, address) of all Pods.
        """
        used: dict[int, set[str]] = {}
        for node, text in addresses:
            with contextlib.suppress(ValueError):
                address = IPv4Address(text)
                number = self._range_number(int(address))
                if address in self.cluster and number not in self._holders:
                    used.setdefault(number, set()).add(node)
        return used

    def give(self, node: str, in_use: Mapping[int, Collection[str]]) -> IPv4Network | None:
        """Give the node a range that no other node has; return None if none is left.

        A range with addresses of living Pods goes only to the node of these Pods, which had it before its Node was
        deleted and created again. Otherwise the next range after the last is used, so that a released range rests for a
        while.
        """
        own = [number for number, nodes in in_use.items() if set(nodes) == {node} and number not in self._holders]
        numbers = ((self._next + step) % self.count for step in range(self.count))
        found = next((n for n in numbers if n not in self._holders and n not in in_use), None)
        if own:
            found = min(own)
        elif found is not None:
            self._next = found + 1
        if found is None:
            return None
        given = IPv4Network((int(self.cluster.network_address) + (found << self._shift), self.node_prefix))
        self.record(node, (str(given),))
        return given

    def _range_numbers(self, network: IPv4Network) -> range:
        first, last = (
            self._range_number(int(network.network_address)),
            self._range_number(int(network.broadcast_address)),
        )
        return range(max(0, first), min(self.count, last + 1))

    def _range_number(self, address: int) -> int:
        return (address - int(self.cluster.network_address)) >> self._shift
