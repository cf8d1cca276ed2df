"""`kaji plan network`: tables, documents, and wrong arguments."""

from __future__ import annotations

import json

import pytest
from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

WANTED = ("plan", "network", "--nodes", "7500", "--pods-per-node", "30")


def test_each_kind_of_network_has_a_line_with_its_limit() -> None:
    """No server is needed; each limit is named with its source."""
    result = invoke(FakeWebApi(), *WANTED, "--growth", "2x/year", "-o", "wide")
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line[:1].isalpha()}
    assert lines["azure-routes"][1:6] == ["no", "400", "too", "small", "now"]
    assert lines["azure-blocks"][1:5] == ["yes", "21,845", "19", "months"]
    assert "azure-routes: Azure, a route for each node; stops at 400 nodes (400 user-defined routes" in result.stdout
    assert "each node takes a route; the number of routes is the limit" in result.stdout
    assert "https://www.rfc-editor.org/rfc/rfc7348" in result.stdout


@pytest.mark.parametrize(
    ("nodes", "growth", "expected"),
    [
        (401, "+1/month", "too small now"),
        (400, "+1/month", "full at once"),
        (400, "2x/year", "full at once"),
        (399, "+9000/month", "full at once"),
        (399, "+10/month", "3 days"),
        (390, "+20/month", "2 weeks"),
        (390, "+5/month", "2 months"),
        (390, "+1/year", "10.0 years"),
    ],
)
def test_the_time_until_a_network_is_full_is_given_in_words(nodes: int, growth: str, expected: str) -> None:
    """Azure allows 400 routes, one a node; "0 weeks" would be no time."""
    result = invoke(FakeWebApi(), "plan", "network", "--nodes", str(nodes), "--pods-per-node", "30", "--growth", growth)
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("azure-routes ")]
    assert line.partition(" 400 ")[2].strip().startswith(expected), line


def test_plans_are_available_as_json() -> None:
    document = json.loads(invoke(FakeWebApi(), *WANTED, "--compare", "-o", "json").stdout)
    kinds = {item["kind"]: item for item in document["kinds"]}
    assert kinds["gcp-routes"]["carries"] == "no"
    assert kinds["gcp-routes"]["stops"][0]["limit"]["value"] == 300
    compared = {item["kind"]: item["nodes"] for item in document["comparison"]}
    assert compared["overlay-vxlan"] == {**dict.fromkeys(compared["overlay-vxlan"], "yes"), "100000": "no"}


@pytest.mark.parametrize(
    ("family", "ranges"),
    [
        ("ipv4", ("--pod-prefix", "16")),
        ("ipv6", ("--pod-prefix6", "56")),
        ("dual", ("--pod-prefix", "16", "--pod-prefix6", "56")),
    ],
)
def test_plans_as_json_fit_their_schema(family: str, ranges: tuple[str, ...]) -> None:
    """All fields are documented, also those of ranges that are there, of growth, and of a cluster's nodes."""
    node = {"name": "a", "podCidrs": ["10.1.0.0/24"], "addresses": 254, "mostPods": 110, "pods": 3, "runsOut": ""}
    api = FakeWebApi(answers={"GET /v1/networks/use": {"items": [node]}})
    there = ("--from-cluster", *ranges, "--growth", "2x/year", "--compare")
    result = invoke(api, *WANTED, "--ip-family", family, *there, "-o", "json")
    document = json.loads(result.stdout)
    check_output(document, "verbs/plan network", complete=True)
    assert document["cluster"] == [node] and document["comparison"]


def test_zero_pods_per_node_are_refused() -> None:
    result = invoke(FakeWebApi(), "plan", "network", "--nodes", "7500", "--pods-per-node", "0")
    assert (result.exit_code, "--pods-per-node: 0 is out of range" in result.stderr) == (2, True)
    assert "9 nodes with 1 Pod each" in invoke(FakeWebApi(), *WANTED[:2], "--nodes", "9", "--pods-per-node", "1").stdout


def test_compare_shows_which_kinds_carry_how_many_nodes() -> None:
    lines = invoke(FakeWebApi(), *WANTED, "--compare").stdout.splitlines()
    assert lines[2].split()[1:] == ["250", "1,000", "2,500", "5,000", "7,500", "15,000", "30,000", "65,000", "100,000"]
    assert next(line for line in lines if line.startswith("azure-overlay")).split()[1:6] == ["yes"] * 4 + ["no"]


def test_a_plan_can_begin_with_the_present_nodes() -> None:
    """It shows their number, their Pods, and which of them run out of addresses."""
    good = {"name": "n1", "podCidrs": ["10.16.0.0/24"], "addresses": 253, "mostPods": 110, "pods": 20, "runsOut": ""}
    short = good | {"name": "n2", "podCidrs": ["10.16.1.0/26"], "addresses": 61, "runsOut": "it is too small"}
    native = good | {"name": "n3", "podCidrs": [], "addresses": None}
    api = FakeWebApi(answers={"GET /v1/networks/use": {"items": [good, short, native]}})
    result = invoke(api, "plan", "network", "--from-cluster")
    assert result.stdout.splitlines()[:3] == [
        "There are 3 nodes with 60 Pods that have addresses of their own, and room for 314.",
        "1 node without a range of addresses: Kubernetes does not know how many are left.",
        "  n2: it is too small",
    ]
    assert "3 nodes with 110 Pods each" in result.stdout
    fine = FakeWebApi(answers={"GET /v1/networks/use": {"items": [good]}})
    assert "No node runs out" in invoke(fine, "plan", "network", "--from-cluster", "--nodes", "9").stdout


def test_plans_for_ipv6_and_for_both_families() -> None:
    """They show which kinds support it, the range of each node, and which IPv4 addresses are still needed. Numbers too
    large for JSON readers are left out."""
    result = invoke(FakeWebApi(), *WANTED, "--ip-family", "ipv6", "-o", "wide")
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line[:1].isalpha()}
    assert lines["overlay-vxlan"][1:6] == ["yes", "65,536", "/64", "/64", "/51"]
    assert lines["azure-native"][1:] == ["no", "0", "not", "offered"]
    assert "7,500 nodes with 30 Pods each, IPv6 alone" in result.stdout
    assert "nodes still have 7,500 IPv4 addresses" in result.stdout
    assert "not offered: both families" not in result.stdout
    assert "VXLAN: 70 bytes a packet over IPv6" in result.stdout
    both = invoke(FakeWebApi(), *WANTED, "--ip-family", "dual").stdout
    assert "every Pod also has an IPv4 address" in both
    assert "EACH NODE (6)" in both
    document = json.loads(invoke(FakeWebApi(), *WANTED, "--ip-family", "dual", "-o", "json").stdout)
    kinds = {item["kind"]: item for item in document["kinds"]}
    assert document["ipFamily"] == "dual"
    assert kinds["overlay-vxlan"]["podAddresses"] == 1_920_000
    assert kinds["overlay-vxlan"]["ipv6"]["podPrefixPerNode"] == 64
    assert kinds["aws-prefix"]["stops"][0]["limit"]["value"] == 0


def test_present_nodes_with_both_families_are_planned_with_both() -> None:
    cidrs = ["10.16.0.0/24", "fd00:16::/64"]
    node = {"name": "n1", "podCidrs": cidrs, "addresses": 253, "mostPods": 110, "pods": 20, "runsOut": ""}
    api = FakeWebApi(answers={"GET /v1/networks/use": {"items": [node]}})
    result = invoke(api, "plan", "network", "--from-cluster", "--nodes", "9")
    assert "room for 253 of IPv4, more than anybody counts of IPv6." in result.stdout
    assert "9 nodes with 110 Pods each, IPv4 and IPv6" in result.stdout
    four = invoke(api, "plan", "network", "--from-cluster", "--nodes", "9", "--ip-family", "ipv4").stdout
    assert "9 nodes with 110 Pods each\n" in four
    tight = node | {"podCidrs": ["fd00:16::/120"], "addresses": 254}
    six = FakeWebApi(answers={"GET /v1/networks/use": {"items": [tight]}})
    result = invoke(six, "plan", "network", "--from-cluster")
    assert "room for 254 of IPv6." in result.stdout
    assert "1 node with 110 Pods each, IPv6 alone" in result.stdout


def test_missing_and_invalid_numbers_are_refused() -> None:
    for more, expected in (
        ((), "how many nodes is not said"),
        (("--nodes", "200000"), "200,000 is out of range"),
        (("--nodes", "5", "--growth", "fast"), "'fast' is not a growth rate"),
        (("--nodes", "5", "--pod-prefix6", "48"), "--ip-family is ipv4"),
    ):
        result = invoke(FakeWebApi(), "plan", "network", *more)
        assert result.exit_code == 2
        assert expected in result.stderr
    empty = FakeWebApi(answers={"GET /v1/networks/use": {"items": []}})
    assert "this cluster has no nodes" in invoke(empty, "plan", "network", "--from-cluster").stderr
