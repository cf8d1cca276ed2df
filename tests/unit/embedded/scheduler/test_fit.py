"""The node on which a Pod fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.objects import Node, Pod
from kajitori.embedded.scheduler.fit import Demand, NodeState, choose_node, demand_of, requests


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "d"}, "spec": spec}, Pod)


def demand_for(resources: dict[str, Any] | None = None, **spec: Any) -> Demand:
    containers = [{"name": "main", "resources": {"requests": resources or {}}}]
    return demand_of(pod(containers=containers, **spec))


def node(
    name: str = "n1",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    ready: str = "True",
    unschedulable: bool = False,
    cpu: str = "8",
    gpus: int = 0,
    pods: str = "110",
) -> NodeState:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": pods, "nvidia.com/gpu": str(gpus)}
    document = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return NodeState.of(msgspec.convert(document, Node))


def cluster(*nodes: NodeState) -> dict[str, NodeState]:
    return {n.name: n for n in nodes}


def pinned(*names: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = [{"matchFields": [field]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_a_pinned_pod_is_placed_only_on_its_node() -> None:
    """Affinity on metadata.name limits the candidates; a full node is refused with both counts."""
    nodes = cluster(node("n1"), node("n2"), node("n3"))
    demand = demand_for({"cpu": "8"}, affinity=pinned("n2"))
    assert demand.pinned_to == frozenset({"n2"})
    assert choose_node(demand, nodes).node == "n2"
    nodes["n2"].take(demand)
    refused = choose_node(demand, nodes)
    assert refused.node == ""
    assert refused.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
    )


def test_a_pod_pinned_to_a_missing_node_waits() -> None:
    """The message counts all existing nodes."""
    refused = choose_node(demand_for(affinity=pinned("gone")), cluster(node("n1")))
    assert refused.message == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    assert choose_node(demand_for(), {}).message == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("operator", "values", "labels", "fits"),
    [
        ("In", ["a", "b"], {"k": "b"}, True),
        ("In", ["a"], {}, False),
        ("NotIn", ["a"], {"k": "b"}, True),
        ("NotIn", ["a"], {}, True),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("Exists", [], {"k": ""}, True),
        ("Exists", [], {}, False),
        ("DoesNotExist", [], {}, True),
        ("DoesNotExist", [], {"k": "x"}, False),
        ("Gt", ["7"], {"k": "8"}, True),
        ("Gt", ["8"], {"k": "8"}, False),
        ("Lt", ["8"], {"k": "7"}, True),
        ("Lt", ["8"], {"k": "many"}, False),
        ("Gt", ["8"], {}, False),
    ],
)
def test_every_operator_of_node_affinity(operator: str, values: list[str], labels: dict[str, str], fits: bool) -> None:
    """In, NotIn, Exists, DoesNotExist, Gt and Lt mean what Kubernetes says."""
    choice = choose_node(demand_for(affinity=affinity("k", operator, *values)), cluster(node(labels=labels)))
    assert bool(choice.node) is fits


def test_an_empty_term_matches_nothing() -> None:
    """As Kubernetes documents it: a null or empty node selector term matches no objects."""
    nothing: dict[str, Any] = {"nodeSelectorTerms": [{}]}
    rule = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nothing}}
    assert not choose_node(demand_for(affinity=rule), cluster(node())).node


def test_preferred_affinity_decides_among_nodes_that_fit() -> None:
    """The larger weight wins, even over an emptier node."""
    wish = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": wish}]}
    }
    nodes = cluster(node("n1"), node("n2", {"disk": "ssd"}))
    nodes["n2"].take(demand_for({"cpu": "4"}))
    assert choose_node(demand_for(affinity=preferred), nodes).node == "n2"
    assert choose_node(demand_for(), nodes).node == "n1"


def test_taints_need_a_toleration() -> None:
    """NoSchedule and NoExecute keep Pods away, PreferNoSchedule only if there is another node."""
    gpu = node("gpu", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    assert choose_node(demand_for(), cluster(gpu)).message == (
        "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}."
    )
    tolerant = demand_for(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    assert choose_node(tolerant, cluster(gpu)).node == "gpu"
    soft = node("a", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    assert choose_node(demand_for(), cluster(soft, node("b"))).node == "b"
    assert choose_node(demand_for(), cluster(soft)).node == "a"


def test_a_node_that_is_not_ready_or_cordoned_needs_tolerations() -> None:
    """Even before the taints are written."""
    for bad in (node(ready="Unknown"), node(unschedulable=True)):
        assert not choose_node(demand_for(), cluster(bad)).node
        assert choose_node(demand_for(tolerations=[{"operator": "Exists"}]), cluster(bad)).node == "n1"


def test_every_missing_resource_is_named() -> None:
    """The message adds up the reasons of all nodes."""
    nodes = cluster(node("n1", gpus=8), node("n2", pods="0"))
    message = choose_node(demand_for({"nvidia.com/gpu": "16", "cpu": "9"}), nodes).message
    assert message == "0/2 nodes are available: 1 Too many pods, 2 Insufficient cpu, 2 Insufficient nvidia.com/gpu."


def test_host_ports_collide() -> None:
    """The same port on the same or on any address; another protocol is another port."""

    def port(number: int, protocol: str = "TCP", ip: str = "") -> Demand:
        ports = [{"containerPort": 1, "hostPort": number, "protocol": protocol, "hostIP": ip}]
        return demand_of(pod(containers=[{"name": "main", "ports": ports}]))

    nodes = cluster(node())
    nodes["n1"].take(port(80, ip="10.0.0.1"))
    assert not choose_node(port(80), nodes).node
    assert choose_node(port(80, ip="10.0.0.2"), nodes).node
    assert choose_node(port(80, "UDP"), nodes).node
    nodes["n1"].release(port(80, ip="10.0.0.1"))
    assert choose_node(port(80), nodes).node


def test_unsupported_required_rules_are_refused_by_name() -> None:
    """They must not be broken silently."""
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}}
    spread = [{"whenUnsatisfiable": "DoNotSchedule"}]
    message = choose_node(demand_for(affinity=rule, topologySpreadConstraints=spread), cluster(node())).message
    assert "podAntiAffinity" in message
    assert "topologySpreadConstraints" in message


def test_a_pods_request_is_the_larger_of_its_start_and_its_run() -> None:
    """Init containers run one by one, beside those that always restart; the overhead is added."""

    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    init = [container("3"), container("1", restartPolicy="Always"), container("4")]
    spec = pod(containers=[container("1"), container("500m")], initContainers=init, overhead={"cpu": "100m"}).spec
    assert requests(spec) == {"cpu": 5100}
    assert requests(pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "2"}}}]).spec) == {"cpu": 2000}


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), max_size=30),
)
def test_no_node_is_ever_overcommitted(sizes: list[tuple[int, int]], wishes: list[tuple[int, int]]) -> None:
    """In any order of events, usage never exceeds capacity, and a refusal is true of every node."""
    nodes = cluster(*(node(f"n{i}", cpu=str(cpu), gpus=gpus) for i, (cpu, gpus) in enumerate(sizes)))
    for cpu, gpus in wishes:
        demand = demand_for({"cpu": str(cpu), "nvidia.com/gpu": str(gpus)})
        choice = choose_node(demand, nodes)
        if choice.node:
            nodes[choice.node].take(demand)
        else:
            assert choice.message.startswith(f"0/{len(nodes)} nodes are available: ")
            for state in nodes.values():
                cpu_free = state.allocatable["cpu"] - state.used.get("cpu", 0)
                gpus_free = state.allocatable["nvidia.com/gpu"] - state.used.get("nvidia.com/gpu", 0)
                assert cpu_free < cpu * 1000 or gpus_free < gpus
    for state in nodes.values():
        assert all(quantity <= state.allocatable[resource] for resource, quantity in state.used.items())
