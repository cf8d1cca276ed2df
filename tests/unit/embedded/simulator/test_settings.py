"""Labels and amounts of simulated nodes, and the addresses of their Pods."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.simulator.addresses import NodeAddresses
from kajitori.embedded.simulator.manifest import node, node_status
from kajitori.embedded.simulator.settings import SimSettings
from kajitori.errors import InvalidInput, Unavailable


def test_names_labels_and_addresses_are_derived_from_the_number() -> None:
    """Zone, block and rack by division; a /24 for each node."""
    settings = SimSettings(count=600, prefix="gpu-", gpus=8, gpu_product="NVIDIA-H100", labels={"team": "a"})
    first, last = node(settings, 1), node(settings, 600)
    assert first["metadata"]["name"] == "gpu-00001"
    assert first["metadata"]["labels"]["kajitori.dev/rack"] == "rack-0"
    assert last["metadata"]["labels"]["kajitori.dev/rack"] == "rack-37"
    assert last["metadata"]["labels"]["kajitori.dev/block"] == "block-4"
    assert last["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-0"
    assert last["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100"
    assert last["metadata"]["labels"]["team"] == "a"
    assert last["spec"]["podCIDR"] == "10.2.88.0/24"
    status = node_status(settings, 1, 1234, datetime(2026, 1, 1, tzinfo=UTC))
    assert status["allocatable"]["nvidia.com/gpu"] == "8"
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 1234


def test_all_invalid_settings_are_named_at_once() -> None:
    """Count, GPUs and the number of Pods."""
    with pytest.raises(InvalidInput) as caught:
        SimSettings(count=0, gpus=-1, max_pods=1000)
    assert [fault.field for fault in caught.value.faults] == ["count", "gpus", "max_pods"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=60))
def test_no_two_living_pods_share_an_address(steps: list[tuple[str, bool]]) -> None:
    """A second request returns the same address; a released one may go to another Pod."""
    addresses, held = NodeAddresses(10, 258), dict[str, str]()
    for uid, takes in steps:
        if takes:
            address = addresses.take(uid)
            assert held.setdefault(uid, address) == address
            assert address.startswith("10.1.2.")
        else:
            addresses.release(uid)
            held.pop(uid, None)
        assert len(set(held.values())) == len(held)


def test_a_pod_keeps_its_address_over_a_restart() -> None:
    """After a restart of the simulator, unless another Pod has taken the address meanwhile."""
    addresses = NodeAddresses(10, 1)
    assert addresses.take("a", "10.0.1.77") == "10.0.1.77"
    assert addresses.take("b", "10.0.1.77") == "10.0.1.78"
    assert addresses.take("c", "192.168.0.1") == "10.0.1.79"


def test_a_node_without_free_addresses_is_an_error() -> None:
    """There are 254."""
    addresses = NodeAddresses(10, 1)
    for i in range(254):
        addresses.take(str(i))
    with pytest.raises(Unavailable, match=r"10\.0\.1"):
        addresses.take("one more")
