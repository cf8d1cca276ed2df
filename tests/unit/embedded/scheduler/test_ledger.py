"""The scheduler's decisions, and that it counts each Pod exactly once."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kajitori.embedded.objects import Node, Pod
from kajitori.embedded.scheduler.ledger import NO_STORAGE, Decision, Ledger, Storage


def node(name: str, cpu: int = 4, **spec: Any) -> Node:
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": str(cpu), "pods": "10"}, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)


def pod(name: str, cpu: int = 1, uid: str = "", deleting: bool = False, phase: str = "Pending", **spec: Any) -> Pod:
    meta = {"name": name, "namespace": "d", "uid": uid or name, "deletionTimestamp": "2026" if deleting else ""}
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    document = {"metadata": meta, "spec": {"containers": containers, **spec}, "status": {"phase": phase}}
    return msgspec.convert(document, Pod)


def see(ledger: Ledger, *pods: Pod) -> None:
    for pod in pods:
        ledger.see_pod(pod.key, pod)


def decide(ledger: Ledger) -> list[Decision]:
    return ledger.decide(lambda _: NO_STORAGE)


def places(ledger: Ledger) -> dict[str, str]:
    return {d.pod.metadata.name: d.choice.node for d in decide(ledger)}


def test_a_decision_counts_at_once_and_is_not_repeated() -> None:
    """The second Pod sees what the first one took, and no Pod is decided twice."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a"), pod("b"))
    assert places(ledger) == {"a": "n", "b": ""}
    assert places(ledger) == {}


def test_high_priority_goes_first() -> None:
    """Whatever the order of arrival."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a"), pod("z", priority=100))
    assert places(ledger) == {"z": "n", "a": ""}


def test_a_pod_that_did_not_fit_is_retried_after_a_helpful_change() -> None:
    """After an ended Pod, a new node or an uncordon, but not after a mere heartbeat."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a", nodeName="n"), pod("b"))
    assert places(ledger) == {"b": ""}
    ledger.see_node("n", node("n", cpu=1))
    assert places(ledger) == {}
    see(ledger, pod("a", nodeName="n", phase="Succeeded"))
    assert places(ledger) == {"b": "n"}
    see(ledger, pod("c"))
    assert places(ledger) == {"c": ""}
    ledger.see_node("m", node("m", unschedulable=True))
    assert places(ledger) == {"c": ""}
    ledger.see_node("m", node("m"))
    assert places(ledger) == {"c": "m"}


def test_a_failed_decision_is_undone() -> None:
    """The resources are free again, and the Pod is decided again."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a"))
    assert places(ledger) == {"a": "n"}
    ledger.undo(pod("a"))
    assert places(ledger) == {"a": "n"}


def test_a_failed_decision_does_not_affect_a_later_pod_of_that_name() -> None:
    """The later Pod keeps its node."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a", uid="1"))
    assert places(ledger) == {"a": "n"}
    ledger.see_pod(("d", "a"), None)
    see(ledger, pod("a", uid="2"), pod("b"))
    assert places(ledger) == {"a": "n", "b": ""}
    ledger.undo(pod("a", uid="1"))
    assert "a" not in places(ledger)


def test_pods_of_other_schedulers_and_gated_or_dying_ones_are_left_alone() -> None:
    """Other schedulers place them."""
    ledger = Ledger()
    ledger.see_node("n", node("n"))
    see(ledger, pod("a", schedulerName="other"), pod("b", schedulingGates=[{"name": "g"}]), pod("c", deleting=True))
    assert places(ledger) == {}


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    """The resources of the deleted Pod are released, though no event reported its deletion."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=4))
    see(ledger, pod("a", cpu=4, uid="1", nodeName="n"))
    see(ledger, pod("a", cpu=2, uid="2", nodeName="n"), pod("b", cpu=2))
    assert places(ledger) == {"b": "n"}
    see(ledger, pod("a", cpu=1, uid="3"), pod("b", cpu=3, uid="4"))
    assert places(ledger) == {"a": "n", "b": "n"}


def test_claims_are_waited_for() -> None:
    """A claim that needs a node gets the chosen one; the Pod counts there only once the claim is bound."""
    ledger = Ledger()
    ledger.see_node("n", node("n", cpu=1))
    see(ledger, pod("a"))
    (waits,) = ledger.decide(lambda _: Storage(waits_for='persistentvolumeclaim "x" not found'))
    assert waits.choice.message == '0/1 nodes are available: persistentvolumeclaim "x" not found.'
    ledger.note_change()
    (selects,) = ledger.decide(lambda _: Storage(to_select=("x",)))
    assert (selects.choice.node, selects.to_select) == ("n", ("x",))
    ledger.note_change()
    assert places(ledger) == {"a": "n"}


def simulated(name: str, cpu: int = 4) -> Node:
    document = msgspec.to_builtins(node(name, cpu))
    document["metadata"]["labels"] = {"sim.kajitori.dev/pool": "sim"}
    document["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    return msgspec.convert(document, Node)


def test_a_plain_pod_prefers_a_real_node() -> None:
    """Even among hundreds of emptier simulated nodes; if the real one is full, it takes a simulated one."""
    ledger = Ledger()
    ledger.see_node("z", node("z", cpu=2))
    for number in range(300):
        ledger.see_node(f"a-{number}", simulated(f"a-{number}"))
    see(ledger, pod("first"))
    assert places(ledger) == {"first": "z"}
    see(ledger, pod("second"))
    assert places(ledger) == {"second": "z"}
    see(ledger, pod("third"))
    assert places(ledger)["third"].startswith("a-")


def test_gpus_and_stated_preferences_are_placed_as_before() -> None:
    """A Pod that asks for a device gets it from a simulated node; one that prefers simulated nodes gets one."""
    ledger = Ledger()
    ledger.see_node("z", node("z"))
    ledger.see_node("a", simulated("a"))
    resources = {"requests": {"nvidia.com/gpu": "1"}}
    see(ledger, pod("gpu", containers=[{"name": "c", "resources": resources}]))
    expression = {"key": "sim.kajitori.dev/pool", "operator": "Exists"}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    node_affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    see(ledger, pod("picky", affinity={"nodeAffinity": node_affinity}))
    assert places(ledger) == {"gpu": "a", "picky": "a"}


class Bookkeeping(RuleBasedStateMachine):
    """In any order of events, usage is exactly that of the placed Pods."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()

    names = st.sampled_from(["a", "b", "c", "d"])
    node_names = st.sampled_from(["n", "m"])

    @rule(name=node_names, cpu=st.integers(1, 4))
    def node_comes(self, name: str, cpu: int) -> None:
        self.ledger.see_node(name, node(name, cpu))

    @rule(name=node_names)
    def node_goes(self, name: str) -> None:
        self.ledger.see_node(name, None)

    @rule(name=names, cpu=st.integers(0, 3), uid=st.sampled_from(["1", "2"]))
    def pod_waits(self, name: str, cpu: int, uid: str) -> None:
        self.ledger.see_pod(("d", name), pod(name, cpu, uid))

    @rule(name=names, cpu=st.integers(0, 3), uid=st.sampled_from(["1", "2"]), on=node_names, done=st.booleans())
    def pod_is_bound(self, name: str, cpu: int, uid: str, on: str, done: bool) -> None:
        phase = "Succeeded" if done else "Running"
        self.ledger.see_pod(("d", name), pod(name, cpu, uid, phase=phase, nodeName=on))

    @rule(name=names)
    def pod_goes(self, name: str) -> None:
        self.ledger.see_pod(("d", name), None)

    @rule(fails=st.booleans())
    def decisions(self, fails: bool) -> None:
        for decision in decide(self.ledger):
            if decision.choice.node and fails:
                self.ledger.undo(decision.pod)

    @invariant()
    def use_is_that_of_the_placed(self) -> None:
        for name, state in self.ledger.nodes.items():
            there = [p for p in self.ledger.placed.values() if p.node == name]
            assert state.pods == len(there)
            assert state.used.get("cpu", 0) == sum(dict(p.demand.amounts).get("cpu", 0) for p in there)
            assert not any(state.ports.values())


Bookkeeping.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestBookkeeping = Bookkeeping.TestCase
