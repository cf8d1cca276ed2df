"""Ranges of Pod addresses for nodes, cut from the cluster's: who holds which, and which is given next."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, ip_network


class NodeRanges:
    """All that is decided from is what nodes and Pods say; a range is known by its number in the cluster's."""

    def __init__(self, cluster: IPv4Network, node_prefix: int) -> None:
        """node_prefix: how long each node's range is, 24 for 256 addresses."""
        self.cluster = cluster
        self.node_prefix = node_prefix
        self.count = 1 << (node_prefix - cluster.prefixlen)
        self._shift = 32 - node_prefix
        self._held: dict[str, range] = {}
        self._holders: defaultdict[int, set[str]] = defaultdict(set)
        self._next = 0

    def tell(self, node: str, cidrs: Iterable[str]) -> None:
        """What a node has, whoever gave it: the whole of it is taken, however it was cut."""
        self.forget(node)
        for cidr in cidrs:
            with contextlib.suppress(ValueError):
                network = ip_network(cidr, strict=False)
                if isinstance(network, IPv4Network):
                    self._held[node] = self._numbers(network)
        for number in self._held.get(node, ()):
            self._holders[number].add(node)

    def forget(self, node: str) -> None:
        """It has none any more."""
        for number in self._held.pop(node, ()):
            self._holders[number].discard(node)
            if not self._holders[number]:
                del self._holders[number]

    def sharing(self, node: str) -> set[str]:
        """Other nodes with some of the same addresses."""
        return {other for number in self._held.get(node, ()) for other in self._holders[number]} - {node}

    def in_use(self, addresses: Iterable[tuple[str, str]]) -> dict[int, set[str]]:
        """Ranges of no node that Pods have addresses in all the same, and on which nodes; from (node, address)."""
        used: dict[int, set[str]] = {}
        for node, text in addresses:
            with contextlib.suppress(ValueError):
                address = IPv4Address(text)
                number = self._number(int(address))
                if address in self.cluster and number not in self._holders:
                    used.setdefault(number, set()).add(node)
        return used

    def give(self, node: str, in_use: Mapping[int, Collection[str]]) -> IPv4Network | None:
        """A range that no other node has, from now on this one's; None where there is none left.

        Ranges with addresses of Pods that live are given to nobody but the node that they are on: it had that range
        before its Node was deleted and made again. Else the next one after the last, so that what a node gave back
        rests for a while.
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
        self.tell(node, (str(given),))
        return given

    def _numbers(self, network: IPv4Network) -> range:
        first, last = self._number(int(network.network_address)), self._number(int(network.broadcast_address))
        return range(max(0, first), min(self.count, last + 1))

    def _number(self, address: int) -> int:
        return (address - int(self.cluster.network_address)) >> self._shift
