"""The run that a Pod belongs to: proven only by namespace, name, and owner reference or signature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import NOW
from tests.helpers.scenes.queue_scene import TEMPLATE, mirror_of_nodes

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.mirror.shrink import shrink_pod
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.core import gang
from kajitori.core.naming import names
from kajitori.core.pods.tickets import sign_member
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.watch import Added, Deleted, Modified

KEY, UID = b"k" * 32, "0f5a-uid"
HOME = "vision"


def gang_of(members: int, attempt: int = 2, uid: str = UID) -> RunObject:
    """A Run `bert` with a running gang."""
    planned = Attempt(
        number=attempt, nodes=f"n*{members}", world_size=members, created=True, template=template_text(TEMPLATE)
    )
    status = RunStatus(phase=Phase.RUNNING, attempts=attempt, attempt=planned, started_at="2026-11-21T11:00:00Z")
    meta = ObjectMeta(name="bert", namespace=HOME, uid=uid)
    return RunObject(metadata=meta, spec=msgspec.Raw(b'{"image": "x"}'), status=status)


def pod(
    name: str = "bert-2-0",
    namespace: str = HOME,
    *,
    owner: str = "",
    owner_kind: str = "Run",
    owner_name: str = "bert",
    label: str = "",
    signature: str = "",
    phase: str = "Running",
    **more: Any,
) -> Pod:
    """The run's status as the mirror keeps it."""
    reference = {"kind": owner_kind, "name": owner_name, "uid": owner, "controller": True}
    attempt, _, rank = name.removeprefix("bert-").partition("-")
    labels = {names.LABEL_RUN_UID: label, names.LABEL_ATTEMPT: attempt, names.LABEL_RANK: rank}
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T11:30:00Z"}}
    running = {"running": {"startedAt": "2026-11-21T11:00:00Z"}}
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "ownerReferences": [reference] if owner else [],
            "labels": {names.LABEL_WHOLE_NODE: "true"} | (labels if label else {}),
            "annotations": {names.ANNOTATION_SIGNATURE: signature} if signature else {},
        },
        "spec": {"nodeName": "n0", "containers": TEMPLATE["spec"]["containers"], **more},
        "status": {
            "phase": phase,
            "podIP": "10.0.0.9",
            "containerStatuses": [{"name": "main", "state": ended if phase == "Failed" else running}],
        },
    }
    made = msgspec.convert(document, Pod)
    shrink_pod(made, None)
    return made


def mirror_with(run: RunObject, *pods: Pod, key: bytes | None = KEY) -> Mirror:
    """Build a mirror with these objects."""
    mirror = mirror_of_nodes(2)
    mirror.runs[run.metadata.namespace, run.metadata.name] = run
    for pod in pods:
        show(mirror, pod)
    if key is not None:
        mirror.use_signing_key(key)
    return mirror


def show(mirror: Mirror, seen: Pod) -> None:
    """Put a Pod into the mirror, or its newest state. As in a watch, it shares all unchanged parts with its last
    state."""
    key = (seen.metadata.namespace, seen.metadata.name)
    before = mirror.pods.get(key)
    shrink_pod(seen, before)
    mirror.pods[key] = seen
    mirror._index(Modified(seen, before) if before is not None else Added(seen))


def shown(mirror: Mirror) -> list[str]:
    """Return the members of the run."""
    return sorted(found.metadata.name for found in mirror.pods_of_run(mirror.runs[HOME, "bert"]))


def signed(name: str, uid: str = UID, namespace: str = HOME, key: bytes = KEY) -> str:
    return sign_member(namespace, name, uid, key)


MEMBERS = {
    "its owner is the Run": {"owner": UID},
    "its owner was taken away": {"signature": signed("bert-2-0")},
    "somebody else was made its owner": {"owner": "c", "owner_kind": "ConfigMap", "signature": signed("bert-2-0")},
    "another Run was made its owner": {"owner": "r", "owner_name": "eve", "signature": signed("bert-2-0")},
}

STRANGERS = {
    "in another namespace": {"namespace": "mallory", "owner": UID, "label": UID},
    "with the label alone": {"label": UID},
    "of another Run of this name": {"owner": "earlier", "label": UID, "signature": signed("bert-2-0")},
    "with another member's signature": {"label": UID, "signature": signed("bert-2-1")},
    "with a signature for another namespace": {"label": UID, "signature": signed("bert-2-0", namespace="mallory")},
    "with a signature by another key": {"label": UID, "signature": signed("bert-2-0", key=b"x")},
    "signed for another run": {"label": UID, "signature": signed("bert-2-0", uid="other")},
    "called otherwise": {"name": "eve-2-0", "owner": UID, "label": UID},
    "called as its owner reference calls the Run": {"name": "eve-2-0", "owner": UID, "owner_name": "eve"},
    "of an attempt that there was not": {"name": "bert-3-0", "owner": UID, "label": UID},
    "of an earlier attempt": {"name": "bert-1-0", "owner": UID, "label": UID},
    "beyond its members": {"name": "bert-2-3", "owner": UID, "label": UID},
}


@pytest.mark.parametrize("case", MEMBERS)
def test_a_pod_is_a_member(case: str) -> None:
    mirror = mirror_with(gang_of(3), pod(**MEMBERS[case]))
    assert shown(mirror) == ["bert-2-0"]
    assert mirror.members() == {(HOME, "bert-2-0")}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_pod_is_no_member(case: str) -> None:
    mirror = mirror_with(gang_of(3), pod(**STRANGERS[case]))
    assert shown(mirror) == []
    assert not any(mirror.is_member(pod) for pod in mirror.pods.values())


def test_without_the_key_only_owner_references_count() -> None:
    """Once the key is known, Pods that are members by it are reported; a new key replaces it."""
    mirror = mirror_with(gang_of(3), pod(signature=signed("bert-2-0")), pod("bert-2-1", owner=UID), key=None)
    told: list[str] = []
    mirror.on_change(lambda resource, namespace, name: told.append(name))
    assert shown(mirror) == ["bert-2-1"]
    mirror.use_signing_key(KEY)
    assert (shown(mirror), told) == (["bert-2-0", "bert-2-1"], ["bert-2-0"])
    mirror.use_signing_key(KEY)
    assert told == ["bert-2-0"]
    mirror.use_signing_key(b"another")
    assert (shown(mirror), told) == (["bert-2-1"], ["bert-2-0", "bert-2-0"])


def test_a_member_keeps_counting_while_one_proof_exists() -> None:
    """Usage counts the Pod while its owner reference or its signature is there, and not once both are gone."""
    mirror = mirror_with(gang_of(3))
    signature = signed("bert-2-0")
    for proof in ({"owner": UID, "signature": signature}, {"signature": signature}, {"owner": UID}):
        show(mirror, pod(**proof))
        assert shown(mirror) == ["bert-2-0"]
        usage = mirror.usage_of("n0")
        assert usage is not None and (usage.members, usage.lone_members) == (1, 1)
    show(mirror, pod(label=UID))
    usage = mirror.usage_of("n0")
    assert usage is not None and (usage.pods, usage.members, usage.lone_members) == (1, 0, 0)
    assert mirror.mislabelled_pods(HOME, "bert", UID) == {(HOME, "bert-2-0")}
    mirror._index(Deleted(mirror.pods.pop((HOME, "bert-2-0"))))
    assert not mirror.mislabelled_pods(HOME, "bert", UID) and mirror.usage_of("n0") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"owner": UID}, {}),
        ({"signature": signed("bert-2-0")}, {"signature": signed("bert-2-0", key=b"x" * 32)}),
    ],
    ids=["owner", "signature"],
)
def test_a_pod_whose_only_proof_changes_is_no_member_any_more(before: dict[str, str], after: dict[str, str]) -> None:
    mirror = mirror_with(gang_of(1), pod(**before))
    assert shown(mirror) == ["bert-2-0"]
    show(mirror, pod(**after))
    assert shown(mirror) == []


def test_a_pod_that_only_gets_a_label_of_the_run_is_a_stranger() -> None:
    mirror = mirror_with(gang_of(1), pod())
    assert not mirror.mislabelled_pods(HOME, "bert", UID)
    show(mirror, pod(label=UID))
    assert mirror.mislabelled_pods(HOME, "bert", UID) == {(HOME, "bert-2-0")}


def test_pods_of_a_missing_run_are_no_members() -> None:
    """An owner reference to a missing Run reserves no node; the Pods count once the Run is in the mirror, and no longer
    once it is gone."""
    run = gang_of(3)
    leaving = msgspec.structs.replace(
        pod("bert-2-1", owner=UID),
        metadata=msgspec.structs.replace(
            pod("bert-2-1", owner=UID).metadata, deletion_timestamp="2026-11-21T12:00:00Z"
        ),
    )
    mirror = mirror_with(run, pod(owner=UID), leaving)
    del mirror.runs[HOME, "bert"]
    mirror._pods.note_run(Deleted(run))
    usage = mirror.usage_of("n0")
    assert usage is not None and (usage.pods, usage.members, usage.lone_members) == (2, 0, 0)
    assert (mirror.members(), mirror.leaving(), mirror.holders()) == (frozenset(), [], [])
    assert len(mirror.owned_pods(HOME, "bert", UID)) == 2
    other = gang_of(3, uid="another")
    mirror.runs[HOME, "bert"] = other
    mirror._pods.note_run(Added(other))
    assert mirror.members() == frozenset()
    mirror.runs[HOME, "bert"] = run
    mirror._pods.note_run(Modified(run, other))
    assert usage.members == 2 and len(mirror.members()) == 2
    assert (mirror.leaving(), mirror.holders()) == ([leaving], [(HOME, "bert")])


# ---------------------------------------------------------------------------------------------- any foreign Pods

_SIGNATURES = [
    "",
    "nonsense",
    *(signed(f"bert-{attempt}-{rank}") for attempt in (1, 2, 3) for rank in range(4)),
    *(signed("bert-2-0", namespace="mallory"), signed("bert-2-0", key=b"x"), signed("bert-2-0", uid="other")),
]
_NAMES = [*(f"bert-{attempt}-{rank}" for attempt in (1, 2, 3, 99) for rank in (0, 1, 2, 3, 7, 99_999)), "eve", "bert"]

elsewhere = st.builds(
    pod,
    st.sampled_from(_NAMES),
    st.sampled_from(["mallory", "eve"]),
    owner=st.sampled_from(["", UID, "other"]),
    owner_kind=st.sampled_from(["Run", "ReplicaSet"]),
    owner_name=st.sampled_from(["bert", "eve"]),
    label=st.sampled_from(["", UID]),
    signature=st.sampled_from(_SIGNATURES),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
)
"""Pods of other namespaces, with any labels and references."""

unproven = st.builds(
    lambda name, copied, **more: pod(name, **more, signature="" if copied == signed(name) else copied),
    st.sampled_from(_NAMES),
    st.sampled_from(_SIGNATURES),
    owner=st.sampled_from(["", "other"]),
    owner_kind=st.sampled_from(["Run", "ReplicaSet"]),
    owner_name=st.sampled_from(["bert", "eve"]),
    label=st.sampled_from(["", UID]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
)
"""Pods of the run's own namespace with its label, and with signatures copied from its members."""

beyond = st.builds(
    lambda name, **more: pod(name, owner_name=name.partition("-")[0], **more),
    st.sampled_from(["eve-2-0", *(f"bert-{attempt}-{rank}" for attempt in (2, 3, 99) for rank in (3, 7, 99_999))]),
    owner=st.just(UID),
    label=st.sampled_from(["", UID]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
)
"""Pods of its own namespace with its owner reference, of ranks and attempts that it did not plan."""


def decided(mirror: Mirror) -> tuple[Any, ...]:
    """Return the gang's next step, its members, and their nodes."""
    run = mirror.runs[HOME, "bert"]
    assert run.status is not None
    seen = [member_of(pod, mirror.nodes) for pod in mirror.owned_pods(HOME, "bert", UID)]
    life = gang.Run("batch", 3, gang.Limits(restarts=3), run.status)
    step = gang.next_step(life, [member for member in seen if member is not None], NOW)
    hosts = {pod.member: pod.addresses for pod in mirror.pods_of_run(run)}
    usage = mirror.usage_of("n0")
    alone = (usage.members, usage.lone_members) if usage is not None else (0, 0)
    return replace(step, status=step.status), hosts, mirror.holders(), mirror.leaving(), alone


@settings(max_examples=120)
@given(
    ours=st.lists(st.sampled_from(["Pending", "Running", "Failed"]), min_size=1, max_size=3),
    foreign=st.lists(elsewhere | unproven, max_size=8),
)
def test_foreign_pods_do_not_change_what_a_gang_does(ours: list[str], foreign: list[Pod]) -> None:
    """Its next step, its members and their nodes are the same, and nothing foreign would be deleted with it."""
    members = [pod(f"bert-2-{rank}", owner=UID, label=UID, phase=phase) for rank, phase in enumerate(ours)]
    taken = {(pod.metadata.namespace, pod.metadata.name) for pod in members}
    others = [pod for pod in foreign if (pod.metadata.namespace, pod.metadata.name) not in taken]
    alone, crowded = mirror_with(gang_of(3), *members), mirror_with(gang_of(3), *others, *members)
    assert decided(crowded) == decided(alone)
    assert crowded.owned_pods(HOME, "bert", UID) == alone.owned_pods(HOME, "bert", UID)
    labelled = {
        (pod.metadata.namespace, pod.metadata.name)
        for pod in crowded.pods.values()
        if pod.metadata.labels.get(names.LABEL_RUN_UID) == UID and pod.metadata.namespace == HOME
    }
    assert labelled - crowded.mislabelled_pods(HOME, "bert", UID) == taken


@settings(max_examples=100)
@given(foreign=st.lists(beyond, max_size=6))
def test_an_owner_reference_adds_no_unplanned_rank(foreign: list[Pod]) -> None:
    """Anyone who may create Pods in the namespace can write one; such a Pod is counted nowhere."""
    members = [pod(f"bert-2-{rank}", owner=UID, label=UID) for rank in range(3)]
    alone, crowded = mirror_with(gang_of(3), *members), mirror_with(gang_of(3), *members, *foreign)
    assert decided(crowded)[:2] == decided(alone)[:2]
    assert shown(crowded) == ["bert-2-0", "bert-2-1", "bert-2-2"]
