"""`kaji network`: tables and documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks, nft
from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

VIEW = {
    "path": "/etc/kajitori/networks.yaml",
    "version": 1,
    "networks": {},
    "ranges": [
        {"cidr": "10.200.0.0/16", "kind": "researchers"},
        {"cidr": "10.1.0.0/16", "kind": "nodes", "cluster": "alpha", "via": ["10.255.0.11"]},
        {"cidr": "fd00:1::/64", "kind": "pods", "cluster": "alpha"},
        {
            "cidr": "10.96.0.0/24",
            "kind": "services",
            "cluster": "alpha",
            "public": "10.132.0.0/24",
            "via": ["10.255.0.9"],
            "natHost": "nat",
        },
        {"cidr": "10.97.0.0/24", "kind": "services", "cluster": "beta"},
    ],
    "faults": [],
    "findings": [{"code": "WellKnown", "message": "10.96.0.0/24 is kubeadm's", "field": "clusters[0].services[0]"}],
}


def test_network_forecast_tells_dates_and_what_is_not_known() -> None:
    pool = {
        "kind": "pods",
        "cidr": "10.48.0.0/16",
        "cluster": "lyon",
        "unit": "node ranges",
        "used": 56,
        "capacity": 256,
    }
    grows = {"state": "runs out", "daysKnown": 20, "perDay": 2.0, "at": "2027-03-01T00:00:00Z"}
    known = {"earliest": "2027-02-01T00:00:00Z", "latest": "2027-04-01T00:00:00Z"}
    short = {"kind": "own ranges", "cidr": "", "cluster": "", "unit": "addresses", "used": 7, "capacity": 2540}
    items = [pool | grows | known, short | {"state": "too little history", "daysKnown": 3}]
    result = invoke(FakeWebApi(answers={"GET /v1/networks/forecast": {"items": items}}), "network", "forecast")
    assert [" ".join(row.split()) for row in result.stdout.splitlines()] == [
        "RANGE OF USED A DAY RUNS OUT 95 %",
        "10.48.0.0/16 pods 56 of 256 node ranges +2.0 2027-03-01 2027-02-01 to 2027-04-01",
        "all nodes own ranges 7 of 2,540 not known yet: 3 of 14 days recorded",
    ]


def test_network_ls_lists_each_range_and_the_way_to_it() -> None:
    """Findings are on stderr."""
    result = invoke(FakeWebApi(answers={"GET /v1/networks": VIEW}), "network", "ls")
    assert result.stdout.splitlines() == [
        "CLUSTER   WHAT          RANGE           ADDRESSES   FROM OUTSIDE    THROUGH",
        "-         researchers   10.200.0.0/16      65,536   as it is",
        "alpha     nodes         10.1.0.0/16        65,536   as it is        10.255.0.11",
        "alpha     pods          fd00:1::/64          2^64   as it is",
        "alpha     services      10.96.0.0/24          256   10.132.0.0/24   nat (10.255.0.9)",
        "beta      services      10.97.0.0/24          256   not reached",
    ]
    assert "note: 10.96.0.0/24 is kubeadm's" in result.stderr


def test_network_ls_finds_the_range_of_an_address() -> None:
    """By its address inside the cluster, and by the one that represents it outside."""
    for address in ("10.96.0.7", "10.132.0.7"):
        result = invoke(FakeWebApi(answers={"GET /v1/networks": VIEW}), "network", "ls", address, "-o", "json")
        assert [found["cidr"] for found in json.loads(result.stdout)["ranges"]] == ["10.96.0.0/24"]
    unknown = invoke(FakeWebApi(answers={"GET /v1/networks": VIEW}), "network", "ls", "10.9.9.9")
    assert unknown.stdout == "10.9.9.9 is in no range of /etc/kajitori/networks.yaml.\n"
    wrong = invoke(FakeWebApi(answers={"GET /v1/networks": VIEW}), "network", "ls", "alpha")
    assert wrong.exit_code == 2
    assert "'alpha' is not an address" in wrong.stderr


def test_a_faulty_registry_is_reported_with_the_older_one_in_force() -> None:
    faulty = VIEW | {"faults": [{"field": "clusters[0].pods", "message": "too small"}]}
    result = invoke(FakeWebApi(answers={"GET /v1/networks": faulty}), "network", "ls")
    assert (
        "networks.yaml is faulty; this older registry stays in force:\n  clusters[0].pods: too small" in result.stderr
    )
    empty = {"path": "", "version": 1, "networks": {}, "ranges": [], "faults": [], "findings": []}
    assert "without --networks" in invoke(FakeWebApi(answers={"GET /v1/networks": empty}), "network", "ls").stdout


def test_network_validate_needs_no_server(tmp_path: Path) -> None:
    """Every fault has its line and leads to exit code 2; findings are no faults."""
    path = tmp_path / "networks.yaml"
    path.write_text("clusters:\n- {name: alpha, nodes: [10.1.0.0/16], pods: [172.17.0.0/16]}\n")
    good = invoke(FakeWebApi(), "network", "validate", str(path))
    assert good.exit_code == 0
    assert good.stdout == f"{path} is a registry without faults.\n"
    assert "note: clusters[0].pods[0]: 172.17.0.0/16 (Pods of alpha) overlaps 172.17.0.0/16: docker's" in good.stderr
    path.write_text("clusters:\n- {name: alpha, nodes: [10.1.0.0/16], pods: [10.1.0.0/24]}\n- {name: alpha}\n")
    bad = invoke(FakeWebApi(), "network", "validate", str(path))
    assert bad.exit_code == 2
    assert "clusters[0].pods[0] (line 2)" in bad.stderr
    assert "clusters[1].name (line 3)" in bad.stderr
    assert invoke(FakeWebApi(), "network", "validate", str(tmp_path / "no")).exit_code == 2


NETWORKS = """
natHosts: [{name: nat, addresses: [10.255.0.9]}]
clusters:
- {name: alpha, nodes: [10.1.0.0/16], services: [10.96.0.0/24], publicServices: [10.132.0.0/24], natHost: nat}
"""


def test_scripts_for_hub_and_nat_host_are_rendered(tmp_path: Path) -> None:
    """The whole script, or the rules alone. An unknown host is refused with the known ones."""
    path = tmp_path / "networks.yaml"
    path.write_text(NETWORKS)
    hub = invoke(FakeWebApi(), "network", "render", "hub", str(path)).stdout
    assert hub.startswith("#!/bin/sh\n# The hub.")
    assert "ip -4 route replace 10.132.0.0/24 via 10.255.0.9 proto 201" in hub
    rules = invoke(FakeWebApi(), "network", "render", "nat", str(path), "--rules").stdout
    assert rules.startswith("add table inet kajitori_nat\n")
    assert rules.rstrip().endswith("to 10.255.0.9")
    wrong = invoke(FakeWebApi(), "network", "render", "nat", str(path), "--host", "nit")
    assert wrong.exit_code == 2
    assert "there is no NAT host nit" in wrong.stderr


@needs_networks
@pytest.mark.root
@in_a_network_of_its_own
def test_a_nat_host_is_recognised_without_probes(tmp_path: Path) -> None:
    """Its routes to nodes identify it; the routes to translated addresses lead nowhere."""
    path = tmp_path / "networks.yaml"
    path.write_text(NETWORKS)
    ip("link add eth0 type veth peer name peer", "addr add 10.255.0.9/24 dev eth0", "link set eth0 up")
    ip("link set peer up", "route add blackhole 10.132.0.0/24", "route add 10.1.0.0/16 via 10.255.0.1")
    checked = invoke(FakeWebApi(), "network", "check", str(path), "--wait", "0.1")
    assert "By the registry this is the NAT host nat." in checked.stdout, checked.stderr
    assert checked.exit_code == 1
    document = json.loads(invoke(FakeWebApi(), "network", "check", str(path), "--wait", "0.1", "-o", "json").stdout)
    check_output(document, "verbs/network check", complete=True)
    assert (document["from"], document["right"]) == ({"kind": "nat", "name": "nat"}, False)


@needs_networks
@pytest.mark.root
@pytest.mark.parametrize(
    ("meddling", "chain"),
    [
        ("flush chain inet kajitori_hub to-alpha", "to-alpha"),
        ("insert rule inet kajitori_hub guard accept", "guard"),
        ("add chain inet kajitori_hub mine; add rule inet kajitori_hub mine accept", "mine"),
    ],
)
@in_a_network_of_its_own
def test_changed_firewall_rules_are_noticed(tmp_path: Path, meddling: str, chain: str) -> None:
    """The rule that identifies the table is still there."""
    path = tmp_path / "networks.yaml"
    path.write_text("clusters: [{name: alpha, nodes: [10.1.0.0/16]}]")
    rules = invoke(FakeWebApi(), "network", "render", "hub", str(path), "--rules").stdout
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    checked = ("network", "check", str(path), "--from", "hub")
    assert invoke(FakeWebApi(), *checked).exit_code == 0
    nft(meddling)
    wrong = invoke(FakeWebApi(), *checked)
    assert (wrong.exit_code, f"changed by somebody in {chain}" in wrong.stdout) == (1, True)


def test_a_check_without_targets_or_source_is_refused(tmp_path: Path) -> None:
    """The message says what is missing and where to name it."""
    path = tmp_path / "networks.yaml"
    path.write_text("clusters: [{name: alpha, nodes: [10.1.0.0/16]}]")
    unknown = invoke(FakeWebApi(), "network", "check", str(path))
    assert unknown.exit_code == 2
    assert "the registry does not know where this is" in unknown.stderr
    nothing = invoke(FakeWebApi(), "network", "check", str(path), "--from", "researchers")
    assert nothing.exit_code == 2
    assert "nothing to try" in nothing.stderr
    assert "there is no 'alhpa'" in invoke(FakeWebApi(), "network", "check", str(path), "--from", "alhpa").stderr
    assert "at most 60" in invoke(FakeWebApi(), "network", "check", str(path), "--wait", "90").stderr
    empty = {"path": "", "version": 1, "networks": {}, "ranges": [], "faults": [], "findings": []}
    without = invoke(FakeWebApi(answers={"GET /v1/networks": empty}), "network", "check")
    assert "the server has no registry" in without.stderr
