"""Pools of addresses and their use."""

from __future__ import annotations

from kajitori.core.network.registry.parsing import parse_networks
from kajitori.core.network.use.nodes import NodeUse
from kajitori.core.network.use.pools import pools_of

NETWORKS = parse_networks(
    {
        "clusters": [
            {"name": "lyon", "nodes": ["10.18.0.0/24"], "pods": ["10.48.0.0/16"]},
            {"name": "oslo", "nodes": ["10.19.0.0/24"], "pods": ["10.49.0.0/24", "fd00:1::/48"]},
        ]
    }
)


def test_ranges_of_nodes_use_up_the_range_for_pods() -> None:
    """Ranges of clusters elsewhere are not shown, since nothing of theirs is in use here."""
    nodes = [NodeUse("a", ("10.48.0.0/24",), 110, 20), NodeUse("b", ("10.48.1.0/24",), 110, 30)]
    found = pools_of(NETWORKS, nodes, ["10.18.0.4", "10.18.0.5", "host-name"], [])
    assert [(pool.name, pool.cluster, pool.used, pool.capacity, pool.unit) for pool in found] == [
        ("nodes 10.18.0.0/24", "lyon", 2, 256, "addresses"),
        ("pods 10.48.0.0/16", "lyon", 2, 256, "node ranges"),
        ("own ranges", "", 50, 506, "addresses"),
    ]


def test_pods_with_single_addresses_are_counted_one_by_one() -> None:
    nodes = [NodeUse("a", (), 110, 2)]
    found = pools_of(NETWORKS, nodes, [], ["10.49.0.7", "10.49.0.8", "fd00:1::7"])
    assert [(pool.name, pool.used, pool.capacity) for pool in found] == [("pods 10.49.0.0/24", 2, 256)]
