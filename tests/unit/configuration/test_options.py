"""Options of the processes: all faults at once, and verbs pass on what the user wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kajitori.configuration.options.nodes import AgentOptions, NodeOptions, SimOptions
from kajitori.configuration.options.own_cluster import DemoOptions, UpOptions
from kajitori.configuration.options.parts import ControllerOptions, RelayOptions, ServerOptions
from kajitori.configuration.web_limits import WebLimits
from kajitori.errors import InvalidInput

HERE = Path("/data")

FAULTS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "ports and numbers": (
        lambda: UpOptions(data=HERE, port=70000, kube_port=-1, nodes=-1, gpus=-2),
        {"--port", "--kube-port", "--nodes", "--gpus"},
    ),
    "files": (
        lambda: UpOptions(data=HERE, policy=Path("/no/policy"), kubeconfig=Path("/no/config"), networks=Path("/no")),
        {"--policy", "--kubeconfig", "--networks"},
    ),
    "a server's files": (
        lambda: ServerOptions(policy=Path("/no"), networks=Path("/no")),
        {"--policy", "--networks"},
    ),
    "namespaces": (lambda: UpOptions(data=HERE, namespace="Bad_Name", port=-1), {"--namespace", "--port"}),
    "what an agent is told": (
        lambda: AgentOptions(data=HERE, relay=("relay:8601",), report=("ftp://x",), report_token=Path("/no")),
        {"--relay", "--report", "--report-token", "--node"},
    ),
    "an agent that shows nobody who it is": (
        lambda: AgentOptions(data=HERE, pods=HERE, node="n1", report=("https://x",)),
        {"--report"},
    ),
    "agents that show nothing": (lambda: RelayOptions(host="0.0.0.0"), {"--host"}),
    "agents' account": (lambda: RelayOptions(agent_account="kajitori"), {"--agent-account"}),
    "one word and tokens": (
        lambda: RelayOptions(agent_account="kajitori/kajitori-agent", token_file=Path(__file__)),
        {"--token-file"},
    ),
    "a server's agents": (lambda: ServerOptions(agent_account="a/b/c"), {"--agent-account"}),
    "tokens over plain HTTP to other machines": (lambda: ServerOptions(host="0.0.0.0", port=-1), {"--host", "--port"}),
    "agents' tokens over plain HTTP": (
        lambda: RelayOptions(host="10.0.0.1", agent_account="kajitori/kajitori-agent"),
        {"--host"},
    ),
    "an agent's token over plain HTTP": (
        lambda: AgentOptions(
            data=HERE,
            relay=("http://relay:8601", "https://other:8601"),
            relay_token=Path(__file__),
            report=("http://server:8600",),
            report_token=Path(__file__),
            node="n1",
        ),
        {"--relay", "--report"},
    ),
    "a server's limits": (
        lambda: ServerOptions(limit=("conections=3", "header-seconds=0", "body-bytes=1.5"), port=-1),
        {"--limit", "--port"},
    ),
    "limits of kaji up": (lambda: UpOptions(data=HERE, limit=("connections",), port=-1), {"--limit", "--port"}),
    "a history's password": (
        lambda: ServerOptions(history="postgresql://kaji:secret@db/history", history_password_file=Path("/no")),
        {"--history", "--history-password-file"},
    ),
    "a history's password in an option": (
        lambda: ControllerOptions(history="postgresql://db/history?password=secret"),
        {"--history"},
    ),
    "a history's file": (lambda: ControllerOptions(history="sqlite://history.db"), {"--history"}),
    "a history's database": (lambda: ControllerOptions(history="mysql://db/history"), {"--history"}),
    "a server's namespace": (lambda: ServerOptions(namespace=""), {"--namespace"}),
    "a controller's namespace": (lambda: ControllerOptions(namespace="a.b"), {"--namespace"}),
    "no nodes at all": (lambda: UpOptions(data=HERE, kubelet=False), {"--no-kubelet"}),
    "simulated nodes in an existing cluster": (
        lambda: UpOptions(data=HERE, kubeconfig=Path(__file__), nodes=3),
        {"--kubeconfig"},
    ),
    "a context of nothing": (lambda: UpOptions(data=HERE, context="x"), {"--context"}),
    "a demo that is too small": (lambda: DemoOptions(nodes=1), {"--nodes"}),
    "half of TLS": (lambda: ServerOptions(certificate=Path(__file__)), {"--tls-cert"}),
    "a controller": (
        lambda: ControllerOptions(kubeconfig=Path("/no"), policy=Path("/no")),
        {"--kubeconfig", "--policy"},
    ),
    "a node": (
        lambda: NodeOptions(
            data=HERE,
            labels=("a",),
            taints=("b",),
            cpus="x",
            memory="-1",
            gpus=-1,
            pod_network="mine",
            max_pods=-1,
            max_processes=-1,
        ),
        {"--label", "--taint", "--cpus", "--memory", "--gpus", "--pod-network", "--max-pods", "--max-processes"},
    ),
    "a range of a node whose Pods have none": (
        lambda: NodeOptions(data=HERE, pod_cidr="10.9.0.0/24"),
        {"--pod-cidr"},
    ),
    "a range that is none": (
        lambda: NodeOptions(data=HERE, pod_network="namespace", pod_cidr="10.9.0.1/24"),
        {"--pod-cidr"},
    ),
    "a range of the other family": (
        lambda: NodeOptions(data=HERE, pod_network="namespace", pod_cidr="fd00::/64"),
        {"--pod-cidr"},
    ),
    "a range for nobody": (
        lambda: NodeOptions(data=HERE, pod_network="namespace", pod_cidr="127.0.0.0/24"),
        {"--pod-cidr"},
    ),
    "a range without room": (
        lambda: NodeOptions(data=HERE, pod_network="namespace", pod_cidr="10.9.0.0/30"),
        {"--pod-cidr"},
    ),
    "a cluster's range that is none": (
        lambda: UpOptions(data=HERE, cluster_cidr="x", port=-1),
        {"--cluster-cidr", "--port"},
    ),
    "nodes' ranges larger than the cluster's": (
        lambda: UpOptions(data=HERE, cluster_cidr="10.9.0.0/24", node_cidr_mask_size=23),
        {"--node-cidr-mask-size"},
    ),
    "too many ranges": (
        lambda: UpOptions(data=HERE, cluster_cidr="10.0.0.0/8", node_cidr_mask_size=25),
        {"--node-cidr-mask-size"},
    ),
    "ranges in an existing cluster": (
        lambda: UpOptions(data=HERE, kubeconfig=Path(__file__), cluster_cidr="10.9.0.0/16"),
        {"--kubeconfig"},
    ),
    "addresses of a machine that is no node": (
        lambda: UpOptions(data=HERE, kubeconfig=Path(__file__), pod_network="namespace"),
        {"--pod-network"},
    ),
    "a Pod network of kaji up": (lambda: UpOptions(data=HERE, pod_network="mine"), {"--pod-network"}),
    "simulated nodes": (
        lambda: SimOptions(nodes=0, gpu_type=("h100",), first=-1, heartbeat_seconds=-1.0, cpus="x"),
        {"--nodes", "--gpu-type", "--first", "--heartbeat", "--cpus"},
    ),
}


@pytest.mark.parametrize(("make", "fields"), FAULTS.values(), ids=FAULTS.keys())
def test_all_faults_of_a_processes_options_are_named_at_once(make: Callable[[], Any], fields: set[str]) -> None:
    """By option, each with a remedy."""
    with pytest.raises(InvalidInput) as caught:
        make()
    assert {fault.field for fault in caught.value.faults} == fields
    assert all(fault.hint for fault in caught.value.faults)


def test_only_required_options_have_to_be_given() -> None:
    assert UpOptions(data=HERE).kubelet
    assert DemoOptions().nodes == 16
    assert ServerOptions().host == "127.0.0.1"
    assert ControllerOptions().namespace == "kajitori"
    assert NodeOptions(data=HERE).pod_network == "host"
    assert SimOptions(nodes=7500).heartbeat_seconds == 10.0


def test_plain_http_needs_an_option_or_a_local_address() -> None:
    ServerOptions(host="0.0.0.0", insecure_http=True)
    ServerOptions(host="::1")
    ServerOptions(host="0.0.0.0", certificate=Path(__file__), key=Path(__file__))
    RelayOptions(host="0.0.0.0", agent_account="kajitori/kajitori-agent", insecure_http=True)
    AgentOptions(data=HERE, relay=("http://relay:8601",), node="n1")  # the URL does not contain a token
    report = {"report": ("http://server:8600",), "report_token": Path(__file__)}
    AgentOptions(data=HERE, pods=HERE, node="n1", insecure_http=True, **report)  # type: ignore[arg-type]


def test_single_limits_can_be_changed() -> None:
    """The others keep their values. All misspelt names are reported at once, each with the right one."""
    limits = WebLimits.parse(["header-seconds=3", "connections-per-address=0"])
    assert limits == WebLimits(header_seconds=3.0, connections_per_address=0)
    with pytest.raises(InvalidInput) as caught:
        WebLimits.parse(["conections=3", "unauthenticated=-1"])
    assert [("connections" in fault.hint, fault.value) for fault in caught.value.faults] == [
        (True, "conections=3"),
        (False, "unauthenticated=-1"),
    ]
