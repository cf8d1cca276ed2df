"""Allowed destinations of messages: by default never the cluster's own addresses."""

from __future__ import annotations

import pytest

from kajitori.cluster.objects import Node, NodeAddress, NodeSpec, NodeStatus
from kajitori.controllers.messages.sending_process import delivery_rules
from kajitori.core.policy.notifications import Notifications
from kajitori.kube.metadata import ObjectMeta


def test_public_addresses_of_the_cluster_are_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Private ones are denied without being named, so that the rules stay small on a large cluster."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "8.8.4.4")
    addresses = ("10.1.2.3", "93.184.216.34", "gpu-1")
    node = Node(
        metadata=ObjectMeta(name="gpu-1"),
        spec=NodeSpec(pod_cidrs=("10.244.0.0/24", "2606:2800:220:1::/64")),
        status=NodeStatus(addresses=tuple(NodeAddress("InternalIP", address) for address in addresses)),
    )
    policy = Notifications.model_validate(
        {
            "schemes": ["slack"],
            "networks": ["10.9.8.7"],
            "deniedNetworks": ["8.8.8.0/24"],
            "proxy": "http://proxy:3128",
            "noProxy": ["*.example.org"],
        }
    )
    rules = delivery_rules(policy, [node], "https://1.1.1.1:6443")
    assert (rules.schemes, rules.networks) == (("slack",), ("10.9.8.7/32",))
    assert (rules.proxy, rules.no_proxy) == ("http://proxy:3128", ("*.example.org",))
    assert set(rules.denied) == {"8.8.8.0/24", "93.184.216.34", "2606:2800:220:1::/64", "1.1.1.1", "8.8.4.4"}
    assert delivery_rules(policy, [node], "https://kube.example.org").denied
