"""Classes of addresses in the policy file, and the class of an address."""

from __future__ import annotations

import ipaddress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.policy.file import default_policy, parse_policy
from kajitori.core.traffic.address_classes import Classes, Network
from kajitori.errors import InvalidInput


@pytest.mark.parametrize(
    ("traffic", "field", "message", "hint"),
    [
        ({"classes": {"in": ["10.0.0.0"]}}, "traffic.classes.in[0]", "'10.0.0.0' is not the canonical", "10.0.0.0/32"),
        ({"classes": {"in": ["10.0.0.1/8"]}}, "traffic.classes.in[0]", "is not the canonical form", "write 10.0.0.0/8"),
        ({"classes": {"in": ["ten"]}}, "traffic.classes.in[0]", "'ten' is not a range", "for example 10.0.0.0/8"),
        ({"classes": {"in": []}}, "traffic.classes.in", "must not be empty", ""),
        ({"classes": {"In": ["10.0.0.0/8"]}}, "traffic.classes.In", "'In' is not a valid name", "lower-case"),
        ({"classes": {"x" * 33: ["::/8"]}}, f"traffic.classes.{'x' * 33}", "too long", "at most 32"),
        (
            {"classes": {"a": ["10.0.0.0/8"], "b": ["10.0.0.0/8"]}},
            "traffic.classes",
            "10.0.0.0/8 is in both a and b",
            "one of them",
        ),
        ({"classes": {"internet": ["10.0.0.0/8"]}}, "traffic", "internet is the class of all other", "another name"),
        ({"classes": {"a": [f"10.0.{n // 256}.{n % 256}/32" for n in range(1001)]}}, "traffic.classes", "1001", ""),
        ({"every": "0s"}, "traffic.every", "not above zero", "for example 8h"),
        ({"engine": "ebpf"}, "traffic.engine", "'ebpf' is not one of", ""),
    ],
)
def test_faults_of_traffic_classes_name_field_value_and_hint(
    traffic: dict[str, Any], field: str, message: str, hint: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_policy({"traffic": traffic})
    fault = caught.value.faults[0]
    assert fault.field == field
    assert message in fault.message
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("address", "name"),
    [
        *(("10.1.2.3", "internal"), ("172.31.0.1", "internal"), ("192.168.1.1", "internal"), ("fd00::1", "internal")),
        *(("172.32.0.1", "internet"), ("8.8.8.8", "internet"), ("2001:4860:4860::8888", "internet")),
    ],
)
def test_by_default_there_are_private_addresses_and_the_internet(address: str, name: str) -> None:
    assert default_policy().traffic.address_classes.at(ipaddress.ip_address(address)) == name


def test_a_nested_range_takes_its_addresses_from_the_outer_one() -> None:
    """A range inside that one may return some to the first class."""
    ranges = {"internal": ["10.0.0.0/8", "10.9.9.0/24"], "storage": ["10.9.0.0/16", "fd09::/16"]}
    classes = parse_policy({"traffic": {"classes": ranges, "others": "world"}}).traffic.address_classes
    seen = {text: classes.at(ipaddress.ip_address(text)) for text in ("10.8.0.1", "10.9.0.1", "10.9.9.1", "fd09::1")}
    assert seen == {"10.8.0.1": "internal", "10.9.0.1": "storage", "10.9.9.1": "internal", "fd09::1": "storage"}
    assert classes.at(ipaddress.ip_address("11.0.0.1")) == "world"
    assert classes.names == ("internal", "storage", "world")


_SMALL = st.builds(
    lambda start, length: ipaddress.ip_network((start << 24, length), strict=False),
    st.integers(0, 255),
    st.integers(0, 8),
) | st.builds(
    lambda start, length: ipaddress.ip_network((start << 120, length), strict=False),
    st.integers(0, 255),
    st.integers(0, 8),
)


@given(st.dictionaries(_SMALL, st.sampled_from(["a", "b", "c"]), max_size=12))
def test_the_longest_prefix_wins(owners: dict[Network, str]) -> None:
    """Every address is in the class of the smallest range around it, and flattened ranges of different classes never
    overlap."""
    written = {name: [network for network, owner in owners.items() if owner == name] for name in ("a", "b", "c")}
    classes = Classes.of(written, "others")
    edges = {int(network[0]) for network in owners} | {int(network[-1]) for network in owners}
    for edge in {edge >> (24 if edge < 2**32 else 120) for edge in edges} | {0}:
        for address in (ipaddress.IPv4Address((edge << 24) + 5), ipaddress.IPv6Address((edge << 120) + 5)):
            around = [network for network in owners if network.version == address.version and address in network]
            wanted = owners[max(around, key=lambda network: network.prefixlen)] if around else "others"
            assert classes.at(address) == wanted
    found = [network for networks in classes.ranges.values() for network in networks]
    for version in (4, 6):
        ordered = sorted(
            (network for network in found if network.version == version), key=lambda network: int(network[0])
        )
        for left, right in pairwise(ordered):
            assert int(left[-1]) < int(right[0])
