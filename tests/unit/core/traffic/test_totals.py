"""Exact totals for runs, users and namespaces, whatever happens to the agent, Pods and counters."""

from __future__ import annotations

from collections import Counter as Multiset
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from kajitori.core.traffic.totals import (
    HOST,
    MAX_NAME_LENGTH,
    MAX_RUNS,
    MAX_USERS,
    OTHERS,
    Count,
    Counter,
    CounterName,
    Kind,
    Ledger,
    Lost,
    Pod,
    RunAccount,
    read_counter_name,
    with_pods,
    with_reading,
    without_ended_pods,
    without_old_runs,
)

IN = Kind("internal", "in")
BERT = Pod(uid="u1", namespace="vision", name="bert-1-0", run="bert", run_uid="r1", user="ada")


def reading(*entries: tuple[str, str, int]) -> dict[str, Counter]:
    """Return counters from (UID, identity, bytes), with one packet per byte."""
    return {str(CounterName(uid, 7, IN)): Counter(identity, Count(size, size)) for uid, identity, size in entries}


def test_a_reading_is_added_once() -> None:
    """Pod, run, user and namespace get the growth since the last reading."""
    ledger = with_pods(Ledger(), [BERT])
    for size in (100, 100, 250):
        ledger, lost = with_reading(ledger, reading(("u1", "a", size)), 0.0)
        assert lost == Lost()
    wanted = {"internal.in": Count(250, 250)}
    assert ledger.pods["u1"].totals == ledger.runs["r1"].totals == wanted
    assert ledger.users["ada"] == ledger.namespaces["vision"] == wanted


def test_a_pods_user_may_become_known_later() -> None:
    """The user gets the Pod's earlier traffic, once, and keeps it when its Run is no longer seen."""
    nobodys = msgspec.structs.replace(BERT, user="")
    ledger = Ledger()
    for pod, size in ((nobodys, 100), (BERT, 150), (BERT, 150), (nobodys, 175)):
        ledger, _ = with_reading(with_pods(ledger, [pod]), reading(("u1", "a", size)), 0.0)
    assert ledger.users == {"ada": {"internal.in": Count(175, 175)}}
    assert ledger.runs["r1"].user == "ada"


def test_a_pods_run_may_become_known_later() -> None:
    """The run gets the Pod's earlier traffic, once, and keeps it when its Run is no longer seen."""
    nobodys = msgspec.structs.replace(BERT, run="", run_uid="", user="")
    ledger = Ledger()
    for pod, size in ((nobodys, 100), (BERT, 100), (BERT, 150), (nobodys, 175), (BERT, 180)):
        ledger, _ = with_reading(with_pods(ledger, [pod]), reading(("u1", "a", size)), 0.0)
        ledger = msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger)
    assert ledger.runs["r1"].totals == ledger.users["ada"] == {"internal.in": Count(180, 180)}


def test_a_pod_of_another_namespace_adds_to_no_run() -> None:
    """Whatever it claims; its own namespace gets the traffic."""
    forged = msgspec.structs.replace(BERT, uid="u2", namespace="mallory", name="bert-1-1", user="")
    ledger = with_pods(Ledger(), [BERT, forged])
    ledger, _ = with_reading(ledger, reading(("u1", "a", 100), ("u2", "b", 10**6)), 0.0)
    assert ledger.runs["r1"].namespace == "vision"
    assert ledger.runs["r1"].totals == ledger.users["ada"] == {"internal.in": Count(100, 100)}
    assert ledger.namespaces["mallory"] == {"internal.in": Count(10**6, 10**6)}


def test_the_table_of_users_is_bounded() -> None:
    """Any user name can be put into a Run.

    Users in the table stay, others share one row, and a name that is too long gets none. No byte is lost.
    """
    many = [
        msgspec.structs.replace(BERT, uid=f"u{number}", run_uid=f"r{number}", user=f"user-{number}")
        for number in range(MAX_USERS + 5)
    ]
    many.append(msgspec.structs.replace(BERT, uid="long", run_uid="long", user="x" * (MAX_NAME_LENGTH + 1)))
    ledger = with_pods(Ledger(), many)
    for size in (10, 20):
        ledger, _ = with_reading(ledger, reading(*((pod.uid, "a", size) for pod in many)), 0.0)
    assert len(ledger.users) == MAX_USERS + 1
    assert ledger.users["user-0"] == {"internal.in": Count(20, 20)}
    assert ledger.users[OTHERS] == {"internal.in": Count(5 * 20, 5 * 20)}
    assert ledger.runs["long"].user == ""
    assert ledger.namespaces["vision"] == {"internal.in": Count(20 * len(many), 20 * len(many))}


def test_counters_changed_by_other_programs() -> None:
    """A counter that was reset, or deleted and created again, loses its counts since the last reading; nothing is added
    twice."""
    name = str(CounterName("u1", 7, IN))
    ledger, _ = with_reading(with_pods(Ledger(), [BERT]), reading(("u1", "a", 100)), 0.0)
    ledger, lost = with_reading(ledger, reading(("u1", "a", 30)), 0.0)
    assert lost == Lost(reset=(name,))
    ledger, lost = with_reading(ledger, reading(("u1", "b", 50)), 0.0)
    assert lost == Lost(deleted=(name,))
    ledger, lost = with_reading(ledger, {}, 0.0)
    assert lost == Lost(deleted=(name,))
    assert ledger.namespaces["vision"] == {"internal.in": Count(180, 180)}


def test_accounts_of_ended_pods_are_closed() -> None:
    """A Pod's figures leave with it; its run's stay for a while, those of its namespace and user for good."""
    ledger, _ = with_reading(with_pods(Ledger(), [BERT]), reading(("u1", "a", 100), (HOST, "h", 5)), 10.0)
    ledger = without_ended_pods(ledger, set())
    assert ledger.pods == {}
    assert ledger.closing == {str(CounterName("u1", 7, IN))}
    ledger, lost = with_reading(ledger, reading((HOST, "h", 5)), 20.0)
    assert lost == Lost(), "it was we who took it away"
    assert without_old_runs(ledger, 3600.0, 3600).runs["r1"].totals == {"internal.in": Count(100, 100)}
    ledger = without_old_runs(ledger, 3611.0, 3600)
    assert ledger.runs == {}
    assert ledger.users["ada"] == ledger.namespaces["vision"] == {"internal.in": Count(100, 100)}
    assert ledger.host == {"internal.in": Count(5, 5)}


def test_beyond_the_limit_the_oldest_runs_are_dropped() -> None:
    """Independent of their order."""
    runs = {
        f"u{n}": RunAccount("vision", f"r{n}", f"u{n}", "ada", {}, seen_at=float(n * 7 % (MAX_RUNS + 2)))
        for n in range(MAX_RUNS + 2)
    }
    left = without_old_runs(msgspec.structs.replace(Ledger(), runs=runs), MAX_RUNS, 2 * MAX_RUNS).runs
    assert len(left) == MAX_RUNS
    assert set(runs) - set(left) == {uid for uid, run in runs.items() if run.seen_at < 2}


def test_counters_of_unknown_pods_are_still_counted() -> None:
    """As after a lost ledger."""
    ledger, _ = with_reading(Ledger(), reading(("u9", "a", 100)), 0.0)
    assert ledger.strangers == {"internal.in": Count(100, 100)}
    assert without_ended_pods(ledger, set()).closing == {str(CounterName("u9", 7, IN))}


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", fullmatch=True),
    st.integers(0, 2**31),
    st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["in", "out"]),
)
def test_a_counter_name_is_read_back(uid: str, interface: int, name: str, direction: str) -> None:
    """The name is read as it was written."""
    whose = CounterName(uid, interface, Kind(name, direction))  # type: ignore[arg-type]
    assert read_counter_name(str(whose)) == whose


@pytest.mark.parametrize("text", ["", "pod", "pod.u.1.internal.up", "pod.u.x.internal.in", "other.u.1.internal.in"])
def test_counters_of_other_programs_are_ignored(text: str) -> None:
    assert read_counter_name(text) is None
    assert with_reading(Ledger(), {text: Counter("a", Count(5, 5))}, 0.0) == (Ledger(), Lost())


@dataclass
class Kernel:
    """The kernel's counters."""

    counters: dict[str, Counter] = field(default_factory=dict)
    attached: set[str] = field(default_factory=set)
    made: int = 0

    def attach(self, uid: str) -> None:
        self.attached.add(uid)
        name = str(CounterName(uid, 7, IN))
        if name not in self.counters:
            self.made += 1
            self.counters[name] = Counter(str(self.made), Count())

    def pass_bytes(self, uid: str, size: int) -> None:
        name = str(CounterName(uid, 7, IN))
        if uid in self.attached and name in self.counters:
            counter = self.counters[name]
            self.counters[name] = Counter(counter.identity, counter.value.plus(Count(size, 1)))


class Voyage(RuleBasedStateMachine):
    """An agent that is killed at any point of its round, with Pods that come and go and rules that are flushed."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.saved = msgspec.json.encode(Ledger())
        self.living: dict[str, Pod] = {}
        self.sent: Multiset[str] = Multiset()
        self.uncounted: Multiset[str] = Multiset()
        """Bytes by namespace in counters that were deleted before they were read, which are lost."""
        self.number = 0

    @property
    def ledger(self) -> Ledger:
        return msgspec.json.decode(self.saved, type=Ledger)

    @rule(target=pods, namespace=st.sampled_from(["a", "b"]), run=st.sampled_from(["", "x", "y"]))
    def born(self, namespace: str, run: str) -> object:
        self.number += 1
        uid = f"u{self.number}"
        run_uid = f"{namespace}-{run}" if run else ""
        pod = Pod(uid=uid, namespace=namespace, name=uid, run=run, run_uid=run_uid, user=f"user-{run}" if run else "")
        self.living[uid] = pod
        return pod

    @rule(pod=consumes(pods))
    def dies(self, pod: Pod) -> None:
        del self.living[pod.uid]

    @rule(target=pods, pod=consumes(pods), size=st.integers(0, 10**12))
    def sends(self, pod: Pod, size: int) -> object:
        self.kernel.pass_bytes(pod.uid, size)
        if pod.uid in self.kernel.attached:
            self.sent[pod.namespace] += size
        return multiple(pod)

    @rule()
    def flush_rules(self) -> None:
        owners = {uid: account.pod.namespace for uid, account in self.ledger.pods.items()}
        for name, counter in self.kernel.counters.items():
            before = self.ledger.seen.get(name)
            known = before.value.bytes if before is not None and before.identity == counter.identity else 0
            whose = read_counter_name(name)
            assert whose is not None
            if whose.uid in owners:
                self.uncounted[owners[whose.uid]] += counter.value.bytes - known
        self.kernel.counters.clear()
        self.kernel.attached.clear()

    @rule(killed_at=st.integers(0, 5))
    def round(self, killed_at: int) -> None:
        """Run one round as `kajitori.agent.counting` does; it stops after this many steps."""
        ledger = with_pods(self.ledger, self.living.values())
        if killed_at == 1:
            return
        self.saved = msgspec.json.encode(ledger)
        if killed_at == 2:
            return
        self.kernel.attached &= self.living.keys()
        for uid in self.living:
            self.kernel.attach(uid)
        if killed_at == 3:
            return
        ledger, _ = with_reading(ledger, self.kernel.counters, 0.0)
        ledger = without_ended_pods(ledger, self.living.keys())
        if killed_at == 4:
            return
        self.saved = msgspec.json.encode(ledger)
        if killed_at == 5:
            return
        for name in ledger.closing:
            self.kernel.counters.pop(name, None)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        """A new agent would find totals that add up to what was sent."""
        ledger, _ = with_reading(self.ledger, self.kernel.counters, 0.0)
        found = {name: totals.get("internal.in", Count()).bytes for name, totals in ledger.namespaces.items()}
        for namespace in ("a", "b"):
            assert found.get(namespace, 0) == self.sent[namespace] - self.uncounted[namespace]
        assert ledger.strangers == {}
        of_runs = sum(run.totals.get("internal.in", Count()).bytes for run in ledger.runs.values())
        of_users = sum(totals.get("internal.in", Count()).bytes for totals in ledger.users.values())
        assert of_runs == of_users <= sum(found.values())


TestVoyage = Voyage.TestCase
TestVoyage.settings = settings(max_examples=50, stateful_step_count=30)
