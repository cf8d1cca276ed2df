"""Claims get volumes, and volumes are released."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kajitori.embedded.controllers import claims
from kajitori.embedded.controllers.claims import Action, ActionKind, actions
from kajitori.embedded.objects import Claim, ClaimReference, PersistentVolume, Pod, StorageClass

UID = "00000000-0000-0000-0000-00000000000{}"


def claim(name: str = "c", uid: str = "1", size: str = "1Gi", **spec: Any) -> Claim:
    document = {
        "metadata": {"name": name, "namespace": "d", "uid": UID.format(uid), "finalizers": [claims.CLAIM_PROTECTION]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(document, Claim)


def volume(name: str, size: str = "1Gi", class_name: str = "", **spec: Any) -> PersistentVolume:
    document = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            **spec,
        },
        "status": {"phase": "Available"},
    }
    return msgspec.convert(document, PersistentVolume)


def storage_class(mode: str = "Immediate", provisioner: str = claims.PROVISIONER) -> StorageClass:
    meta = {"name": claims.STORAGE_CLASS, "annotations": {claims.DEFAULT_CLASS: "true"}}
    return msgspec.convert({"metadata": meta, "provisioner": provisioner, "volumeBindingMode": mode}, StorageClass)


def user(claim_name: str, phase: str = "Running") -> Pod:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    document = {
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {"volumes": volumes},
        "status": {"phase": phase},
    }
    return msgspec.convert(document, Pod)


def change(thing: Claim | PersistentVolume, **metadata: Any) -> None:
    thing.metadata = replace(thing.metadata, **metadata)


class World:
    """Claims and volumes, and the effect of each action on them."""

    def __init__(self, *objects: Claim | PersistentVolume, mode: str = "Immediate") -> None:
        self.claims = {(o.metadata.namespace, o.metadata.name): o for o in objects if isinstance(o, Claim)}
        self.volumes = {o.metadata.name: o for o in objects if isinstance(o, PersistentVolume)}
        self.classes = {claims.STORAGE_CLASS: storage_class(mode)}
        self.pods: list[Pod] = []
        self.destroyed: list[str] = []

    def look(self) -> list[Action]:
        return actions(self.claims, self.volumes, self.classes, self.pods)

    def settle(self) -> list[Action]:
        """Act until only waiting is left; return the reasons."""
        for _ in range(10):
            todo = self.look()
            if all(a.kind is ActionKind.CLAIM_PENDING for a in todo):
                return todo
            for action in todo:
                self.act(action)
        raise AssertionError(f"it never settles: {self.look()}")

    def act(self, action: Action) -> None:
        c, v = action.claim, action.volume
        match action.kind:
            case ActionKind.PROVISION:
                assert c is not None
                made = volume(claims.volume_name(c), class_name=claims.STORAGE_CLASS)
                made.metadata = replace(made.metadata, annotations={claims.PROVISIONED_BY: claims.PROVISIONER})
                made.spec.persistent_volume_reclaim_policy = "Delete"
                made.spec.claim_ref = ClaimReference("d", c.metadata.name, c.metadata.uid)
                assert made.metadata.name not in self.volumes
                self.volumes[made.metadata.name] = made
            case ActionKind.RESERVE:
                assert c is not None and v is not None
                v.spec.claim_ref = ClaimReference("d", c.metadata.name, c.metadata.uid)
            case ActionKind.BIND:
                assert c is not None and v is not None
                c.spec.volume_name = v.metadata.name
                change(c, annotations={**c.metadata.annotations, claims.BIND_COMPLETED: "yes"})
            case ActionKind.CLAIM_BOUND | ActionKind.CLAIM_LOST:
                assert c is not None
                c.status.phase = "Bound" if action.kind is ActionKind.CLAIM_BOUND else "Lost"
            case ActionKind.VOLUME_PHASE:
                assert v is not None
                v.status.phase = action.text
            case ActionKind.DESTROY:
                assert v is not None
                self.destroyed.append(v.metadata.name)
                del self.volumes[v.metadata.name]
            case ActionKind.RELEASE_VOLUME:
                assert v is not None
                del self.volumes[v.metadata.name]
            case ActionKind.RELEASE_CLAIM:
                assert c is not None
                del self.claims["d", c.metadata.name]
            case ActionKind.PROTECT_CLAIM:
                assert c is not None
                c.metadata = replace(c.metadata, finalizers=[claims.CLAIM_PROTECTION])
            case ActionKind.CLAIM_PENDING:
                pass


def test_a_claim_gets_its_own_volume_and_both_are_bound() -> None:
    """A claim that names no class gets the default class."""
    world = World(claim())
    assert world.settle() == []
    (made,) = world.volumes.values()
    bound = world.claims["d", "c"]
    assert (bound.spec.volume_name, bound.status.phase, made.status.phase) == (made.metadata.name, "Bound", "Bound")
    assert world.look() == []


def test_a_claim_waits_for_its_first_consumer() -> None:
    """It waits until the scheduler has written the chosen node."""
    world = World(claim(), mode="WaitForFirstConsumer")
    (waiting,) = world.settle()
    assert "first consumer" in waiting.text
    change(world.claims["d", "c"], annotations={claims.SELECTED_NODE: "n"})
    assert world.settle() == []
    assert claims.is_bound(world.claims["d", "c"])


def test_the_smallest_existing_volume_that_fits_is_taken() -> None:
    """By class, size and access mode; no volume gets two claims."""
    world = World(
        volume("big", "10Gi"),
        volume("small", "2Gi"),
        volume("tiny", "1Mi"),
        volume("other", "2Gi", class_name="x"),
        claim("a", "1", storageClassName=""),
        claim("b", "2", storageClassName=""),
        claim("c", "3", storageClassName=""),
    )
    (waiting,) = world.settle()
    assert [world.claims["d", n].spec.volume_name for n in "abc"] == ["small", "big", ""]
    assert "no persistent volumes" in waiting.text
    assert world.volumes["tiny"].status.phase == "Available"


def test_claims_of_missing_classes_and_other_provisioners() -> None:
    """The first says so in an Event; for the second no volume is created."""
    (waiting,) = World(claim(storageClassName="fast")).settle()
    assert waiting.text == 'storageclass.storage.k8s.io "fast" not found'
    foreign = World(claim(storageClassName=claims.STORAGE_CLASS))
    foreign.classes[claims.STORAGE_CLASS] = storage_class(provisioner="ebs.csi.aws.com")
    foreign.settle()
    assert not foreign.volumes and not claims.is_bound(foreign.claims["d", "c"])


def test_a_deleted_claims_folder_stays_while_a_pod_uses_it() -> None:
    """The folder of an existing claim is never removed."""
    world = World(claim("a", "1"), claim("b", "2"))
    world.settle()
    world.pods = [user("a")]
    change(world.claims["d", "a"], deletion_timestamp="2026")
    assert world.settle() == []
    assert world.destroyed == []
    world.pods = [user("a", phase="Succeeded")]
    world.settle()
    assert world.destroyed == [claims.volume_name(claim("a", "1"))]
    assert ("d", "a") not in world.claims
    assert len(world.volumes) == 1


def test_a_retained_or_foreign_volume_is_kept() -> None:
    """It is released but not removed, and a new claim of the same name does not get it."""
    world = World(volume("mine"), claim("a", "1", storageClassName=""))
    world.settle()
    del world.claims["d", "a"]
    world.claims["d", "a"] = claim("a", "2", storageClassName="")
    (waiting,) = world.settle()
    assert waiting.kind is ActionKind.CLAIM_PENDING
    assert world.volumes["mine"].status.phase == "Released"
    forged = volume("pvc-x", claimRef={"namespace": "d", "name": "gone", "uid": "u"})
    forged.spec.persistent_volume_reclaim_policy = "Delete"
    forged.metadata = replace(forged.metadata, annotations={claims.PROVISIONED_BY: claims.PROVISIONER})
    world = World(forged)
    world.settle()
    assert world.destroyed == []


def test_a_claim_with_a_missing_volume_is_lost() -> None:
    """No replacement is created, since data would be missing silently."""
    world = World(claim())
    world.settle()
    world.volumes.clear()
    world.settle()
    assert world.claims["d", "c"].status.phase == "Lost"
    assert world.volumes == {}


def test_a_deleted_volume_stays_while_its_claim_exists() -> None:
    """It is removed with the claim, with its folder."""
    world = World(claim())
    world.settle()
    (made,) = world.volumes.values()
    made.metadata = replace(made.metadata, deletion_timestamp="2026")
    made.metadata = replace(made.metadata, finalizers=[claims.VOLUME_PROTECTION])
    assert world.settle() == []
    assert world.destroyed == []
    world.claims.clear()
    world.settle()
    assert world.destroyed == [made.metadata.name]


@given(st.lists(st.sampled_from(["make", "delete", "make again", "step", "crash half-way"]), max_size=25))
def test_a_folder_is_never_removed_while_its_claim_exists(steps: list[str]) -> None:
    """For any sequence of events, and if the controller is killed at any point."""
    world, made = World(), 0
    for step in steps:
        if step in ("make", "make again") and ("d", "c") not in world.claims:
            made += 1
            world.claims["d", "c"] = claim("c", str(made % 10))
        elif step == "delete" and ("d", "c") in world.claims:
            change(world.claims["d", "c"], deletion_timestamp="2026")
        elif step == "step":
            world.settle()
        elif step == "crash half-way":
            for action in world.look()[:1]:
                world.act(action)
        living = {claims.volume_name(c) for c in world.claims.values()}
        assert not living & set(world.destroyed[-1:])
        world.destroyed.clear()
    world.settle()
    assert len(world.volumes) == len(world.claims)


@pytest.mark.parametrize(
    ("provisioner", "why"),
    [
        ("ebs.csi.aws.com", "external provisioner 'ebs.csi.aws.com'"),
        (claims.NO_PROVISIONER, f'storage class "{claims.STORAGE_CLASS}" makes none'),
    ],
)
def test_a_claim_of_another_provisioners_class_says_what_it_waits_for(provisioner: str, why: str) -> None:
    classes = {claims.STORAGE_CLASS: storage_class(provisioner=provisioner)}
    waiting = claim(storageClassName=claims.STORAGE_CLASS)
    texts = [
        action.text
        for action in actions({("d", "c"): waiting}, {}, classes, [])
        if action.kind is ActionKind.CLAIM_PENDING
    ]
    assert len(texts) == 1 and why in texts[0] and "no storage class is set" not in texts[0]
