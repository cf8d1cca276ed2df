"""The address registry over the Web API."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import node, pod, run

from kajitori.configuration.networks_file import NetworksFile

GOOD = b"""
researchers: [10.200.0.0/16]
natHosts: [{name: nat, addresses: [10.255.0.9]}]
clusters:
- {name: alpha, nodes: [10.1.0.0/16], pods: [10.16.0.0/13], services: [10.96.0.0/16], publicServices: [10.132.0.0/16],
   natHost: nat, gateways: [10.255.0.11]}
"""


@pytest.mark.usefixtures("changes_count_at_once")
async def test_address_ranges_are_listed_with_their_cluster_and_gateway(world: World, tmp_path: Path) -> None:
    """Doubtful ranges are findings. A faulty file is reported, and the old one stays in force."""
    empty = (await world.http.get("/v1/networks")).json()
    assert (empty["path"], empty["ranges"]) == ("", [])
    path = tmp_path / "networks.yaml"
    path.write_bytes(GOOD)
    world.change("traffic", networks=NetworksFile(path))
    view = (await world.http.get("/v1/networks")).json()
    assert view["ranges"] == [
        {"cidr": "10.200.0.0/16", "kind": "researchers"},
        {"cidr": "10.1.0.0/16", "kind": "nodes", "cluster": "alpha", "via": ["10.255.0.11"]},
        {"cidr": "10.16.0.0/13", "kind": "pods", "cluster": "alpha", "via": ["10.255.0.11"]},
        {
            "cidr": "10.96.0.0/16",
            "kind": "services",
            "cluster": "alpha",
            "public": "10.132.0.0/16",
            "via": ["10.255.0.9"],
            "natHost": "nat",
        },
    ]
    assert [finding["code"] for finding in view["findings"]] == ["WellKnown"]
    path.write_bytes(GOOD.replace(b"10.16.0.0/13", b"10.1.0.0/24"))
    faulty = (await world.http.get("/v1/networks")).json()
    assert faulty["ranges"] == view["ranges"]
    assert [fault["code"] for fault in faulty["faults"]] == ["Overlap"]


async def test_checking_a_registry_changes_nothing(world: World) -> None:
    good = await world.http.post("/v1/networks/check", content=GOOD)
    assert good.json()["networks"]["clusters"][0]["name"] == "alpha"
    bad = await world.http.post("/v1/networks/check", content=GOOD.replace(b"natHost: nat,", b"natHost: not,"))
    assert bad.status_code == 422
    assert [fault["field"] for fault in bad.json()["faults"]] == ["clusters[0].natHost (line 6)"]
    assert (await world.http.get("/v1/networks")).json()["ranges"] == []


async def test_the_registry_needs_credentials(world: World) -> None:
    assert (await world.http.get("/v1/networks", headers={"Authorization": ""})).status_code == 401


async def test_pod_addresses_in_use_are_counted_by_node(world: World) -> None:
    """Only Pods with addresses of their own count. A node with too few addresses for its Pods is named."""
    small = node("small")
    small["spec"]["podCIDRs"] = ["10.16.0.0/26"]
    small["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.7"}]
    world.kubernetes.put("nodes", small)
    made = world.kubernetes.put("runs", run("bert"))
    for rank, address in enumerate(("10.16.0.2", "10.16.0.3", "10.0.0.7")):
        member = pod(made, node="small", rank=rank)
        member["status"]["podIP"] = address
        world.kubernetes.put("pods", member)
    await world.caught_up()
    items = {item["name"]: item for item in (await world.http.get("/v1/networks/use")).json()["items"]}
    assert items["small"] == {
        "name": "small",
        "podCidrs": ["10.16.0.0/26"],
        "addresses": 61,
        "mostPods": 110,
        "pods": 2,
        "runsOut": "its kubelet admits 110 Pods, but 10.16.0.0/26 has 61 addresses for them",
    }
    assert (items["n1"]["addresses"], items["n1"]["runsOut"]) == (None, "")


async def test_addresses_of_a_node_with_ipv6_are_counted(world: World) -> None:
    """With both families the smaller range counts. A number too large for JSON readers is limited."""
    for name, cidrs in (("six", ["fd00:1::/56"]), ("both", ["fd00:2::/64", "10.16.0.0/26"])):
        made = node(name)
        made["spec"]["podCIDRs"] = cidrs
        world.kubernetes.put("nodes", made)
    await world.caught_up()
    items = {item["name"]: item for item in (await world.http.get("/v1/networks/use")).json()["items"]}
    assert (items["six"]["addresses"], items["six"]["runsOut"]) == (2**32, "")
    assert items["both"]["addresses"] == 61
    assert "admits 110 Pods" in items["both"]["runsOut"]
