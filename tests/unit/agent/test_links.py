"""Which interface of this node leads to a Pod."""

from __future__ import annotations

import subprocess

import pytest
from tests.helpers.networks import in_a_network_of_its_own, ip, needs_networks

from kajitori.agent.links import interface_of


@needs_networks
@pytest.mark.root
@in_a_network_of_its_own
def test_the_nodes_end_of_a_pods_network_is_found_by_its_address() -> None:
    """Where the node has a route to the Pod, or a bridge; what leads elsewhere is no Pod's own."""
    ip(
        "link set lo up",
        "link add v0 up type veth peer name p0",
        "route add 10.9.0.2/32 dev v0",
        "link add br0 up type bridge",
        "address add 10.8.0.1/24 dev br0",
        "link add v1 up master br0 type veth peer name p1",
        "neighbour add 10.8.0.2 lladdr 02:00:00:00:00:02 dev br0",
        "route add 10.7.0.0/24 dev lo",
    )
    subprocess.run(["bridge", "fdb", "add", "02:00:00:00:00:02", "dev", "v1", "master", "static"], check=True)
    assert interface_of(["10.9.0.2"]) == "v0"
    assert interface_of(["10.8.0.2"]) == "v1"
    assert interface_of(["10.8.0.3"]) == "", "nobody has talked to it yet"
    assert interface_of(["10.7.0.2"]) == "", "it leads to the node itself"
    assert interface_of(["10.6.0.2"]) == "", "there is no route"
    assert interface_of(["fd00::1", "10.9.0.2"]) == "v0"
    assert interface_of([]) == ""
