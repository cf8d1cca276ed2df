"""Networks of runs: who finds whom by which name."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.naming import names
from kajitori.core.pods.networks import (
    UNKNOWN_DNS,
    Address,
    ClusterDns,
    dns_settings,
    has_own_service,
    network_service,
    network_slices,
    reachable_ranks,
    read_cluster_dns,
)
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import RunSpec

NETWORK = [{"name": "shop_default", "aliases": ["db"]}]


def spec(**fields: Any) -> RunSpec:
    return parse_spec({"image": "x", "command": ["x"], **fields})


def test_the_dns_of_a_cluster_is_read_from_a_pods_own_settings() -> None:
    pod = "search kajitori.svc.k8s.lab svc.k8s.lab k8s.lab lab.example\nnameserver 10.96.0.10\noptions ndots:5\n"
    assert read_cluster_dns(pod) == ClusterDns(("10.96.0.10",), "k8s.lab", ("lab.example",))
    assert read_cluster_dns("nameserver 192.168.0.1\nsearch lab.example\n") == UNKNOWN_DNS


def test_a_pod_searches_its_networks_before_everything_else() -> None:
    """With Kubernetes' own order a run named db of the namespace would answer for the db of each project."""
    service = names.network_service("shop_default")
    settings = dns_settings(spec(networks=NETWORK), "lab", ClusterDns(("10.96.0.10",), "k8s.lab", ("lab.example",)))
    assert settings == {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.96.0.10"],
            "searches": [f"{service}.lab.svc.k8s.lab", "lab.svc.k8s.lab", "svc.k8s.lab", "k8s.lab", "lab.example"],
            "options": [{"name": "ndots", "value": "5"}],
        },
    }
    searches = [f"{service}.lab.svc.cluster.local"]
    assert dns_settings(spec(networks=NETWORK), "lab", UNKNOWN_DNS) == {"dnsConfig": {"searches": searches}}
    assert dns_settings(spec(), "lab", UNKNOWN_DNS) == {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"array": "0-9"}, False),
        ({"networks": NETWORK}, False),
        ({"networks": NETWORK, "replicas": 2}, True),
        ({"networks": NETWORK, "type": "service", "replicas": 2}, False),
        ({"networks": NETWORK, "launcher": "torchrun"}, True),
    ],
)
def test_outside_of_its_networks_only_a_gang_is_found(fields: dict[str, Any], expected: bool) -> None:
    assert has_own_service(spec(**fields)) is expected


def test_names_lead_to_rank_0_of_a_gang_and_to_all_members_of_a_service() -> None:
    assert list(reachable_ranks(spec(replicas=3))) == [0]
    assert list(reachable_ranks(spec(replicas=3, type="service"))) == [0, 1, 2]
    assert list(reachable_ranks(spec(array="0-9"))) == []


def test_each_name_of_a_run_is_a_host_name_of_its_endpoints() -> None:
    """One slice for each network and family of addresses. No Service of a run has the name of a network's Service."""
    addresses = [Address("10.0.0.1", "a-1-0", "p0", "n"), Address("fd00::1", "a-1-1", "p1", "")]
    found = network_slices(spec(networks=NETWORK).networks, addresses, run_name="a", namespace="lab", run_uid="u")
    assert [one["addressType"] for one in found.values()] == ["IPv4", "IPv6"]
    four, six = found.values()
    assert [(one["hostname"], one["addresses"]) for one in four["endpoints"]] == [
        ("a", ["10.0.0.1"]),
        ("db", ["10.0.0.1"]),
    ]
    assert "nodeName" not in six["endpoints"][0]
    assert four["metadata"]["ownerReferences"][0]["uid"] == "u"
    service = network_service("shop_default", run_name="a", namespace="lab", run_uid="u")["metadata"]
    assert four["metadata"]["labels"]["kubernetes.io/service-name"] == service["name"]
    assert names.RUN_NAME_MAX_LENGTH < len(service["name"]) <= 63
    assert network_slices(spec(networks=NETWORK).networks, [], run_name="a", namespace="lab", run_uid="u") == {}
