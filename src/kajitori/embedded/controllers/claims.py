"""Decides which writes bind claims to volumes and release volumes: a function of all claims, volumes, classes and Pods.

Each action is one write that may be repeated. After a crash the next pass finds the actions that are left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kajitori.core.formats.quantities import QuantityError, parse_memory_bytes
from kajitori.embedded.objects import Claim, PersistentVolume, Pod, StorageClass

PROVISIONER = "kajitori.dev/local"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""Provisioner of classes for which people create the volumes by hand."""
STORAGE_CLASS = "kajitori-local"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"

_OUR_NAME = re.compile(r"pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ActionKind(StrEnum):
    """The kinds of action. An action on a claim names the claim, one on a volume the volume, and `BIND` both."""

    PROVISION = "make a folder and a volume for the claim"
    RESERVE = "write the claim into an existing volume"
    BIND = "write the volume into the claim"
    CLAIM_BOUND = "write that the claim is bound"
    CLAIM_LOST = "write that the claim's volume is gone"
    CLAIM_PENDING = "write that the claim waits"
    PROTECT_CLAIM = "hold the claim while Pods use it"
    RELEASE_CLAIM = "remove the finalizer that protects the claim"
    VOLUME_PHASE = "write the volume's phase"
    DESTROY = "remove the folder and the volume"
    RELEASE_VOLUME = "remove the finalizer that protects the volume"


@dataclass(frozen=True, slots=True)
class Action:
    """One write for a claim or a volume."""

    kind: ActionKind
    claim: Claim | None = None
    volume: PersistentVolume | None = None
    text: str = ""
    """The phase for `VOLUME_PHASE`, the reason for `CLAIM_PENDING`."""


def actions(
    claims: Mapping[tuple[str, str], Claim],
    volumes: Mapping[str, PersistentVolume],
    classes: Mapping[str, StorageClass],
    pods: Sequence[Pod],
) -> list[Action]:
    """Return everything that has to be written now, at most one binding step per claim and per volume."""
    in_use = {
        (p.metadata.namespace, v.persistent_volume_claim.claim_name)
        for p in pods
        if not p.is_finished
        for v in p.spec.volumes or ()
        if v.persistent_volume_claim is not None
    }
    todo: list[Action] = []
    taken: set[str] = set()
    for key, claim in sorted(claims.items()):
        todo += _protection_actions(claim, key in in_use)
        if not claim.metadata.deletion_timestamp:
            todo += _claim_actions(claim, volumes, classes, taken)
    for _, volume in sorted(volumes.items()):
        if volume.metadata.name not in taken:
            todo += _volume_actions(volume, claims)
    return todo


def class_of(claim: Claim, classes: Mapping[str, StorageClass]) -> str:
    """Return the name of the claim's class: its own (empty means none), else the default class."""
    if claim.spec.storage_class_name is not None:
        return claim.spec.storage_class_name
    defaults = [n for n, c in classes.items() if (c.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"]
    return min(defaults, default="")


def waits_for_consumer(claim: Claim, classes: Mapping[str, StorageClass]) -> bool:
    """Return whether the claim gets its volume only once a Pod that uses it has a node."""
    found = classes.get(class_of(claim, classes))
    return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"


def is_bound(claim: Claim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def volume_name(claim: Claim) -> str:
    """Return the name of the volume that is created for a claim: always the same for one claim."""
    return f"pvc-{claim.metadata.uid}"


def is_ours(volume: PersistentVolume) -> bool:
    """Return whether this provisioner created the volume's folder, and so may remove it."""
    made_by = (volume.metadata.annotations or {}).get(PROVISIONED_BY)
    return made_by == PROVISIONER and _OUR_NAME.fullmatch(volume.metadata.name) is not None


def requested_bytes(claim: Claim) -> int:
    """Return the size that the claim asks for; 0 if it can't be read."""
    asked = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    return _parsed_bytes(asked.get("storage", 0))


def _claim_actions(
    claim: Claim, volumes: Mapping[str, PersistentVolume], classes: Mapping[str, StorageClass], taken: set[str]
) -> list[Action]:
    """Return the next step of a claim. The volume that it chooses is added to `taken`."""
    if claim.spec.volume_name:
        return _named_claim_actions(claim, volumes.get(claim.spec.volume_name), taken)
    own = [v for v in volumes.values() if _is_claimed_by(v, claim) and not v.metadata.deletion_timestamp]
    if own:
        chosen = min(own, key=lambda v: v.metadata.name)
        taken.add(chosen.metadata.name)
        is_reserved = chosen.spec.claim_ref is not None and bool(chosen.spec.claim_ref.uid)
        return [Action(ActionKind.BIND if is_reserved else ActionKind.RESERVE, claim, chosen)]
    if waits_for_consumer(claim, classes) and SELECTED_NODE not in (claim.metadata.annotations or {}):
        return [_pending_action(claim, "waiting for first consumer to be created before binding")]
    name = class_of(claim, classes)
    fitting = [v for v in volumes.values() if v.metadata.name not in taken and _volume_fits(claim, v, name)]
    if fitting:
        smallest = min(fitting, key=lambda v: (_capacity_bytes(v), v.metadata.name))
        taken.add(smallest.metadata.name)
        return [Action(ActionKind.RESERVE, claim, smallest)]
    return [_new_volume_action(claim, name, classes.get(name))]


def _new_volume_action(claim: Claim, class_name: str, found: StorageClass | None) -> Action:
    """Return the step of a claim that no volume fits: make one, or say why the claim waits."""
    if found is None:
        if class_name:
            return _pending_action(claim, f'storageclass.storage.k8s.io "{class_name}" not found')
        return _pending_action(claim, "no persistent volumes available for this claim and no storage class is set")
    if found.provisioner == NO_PROVISIONER:
        why = f'no persistent volumes available for this claim, and storage class "{class_name}" makes none'
        return _pending_action(claim, why)
    if found.provisioner != PROVISIONER:
        who = f"either by the external provisioner '{found.provisioner}' or manually by the system administrator"
        return _pending_action(claim, f"waiting for a volume to be created {who}")
    if claim.spec.selector:
        return _pending_action(claim, "claim.spec.selector is not supported for volumes that are made on demand")
    if claim.spec.volume_mode == "Block":
        return _pending_action(claim, "volumes of this class are folders: volumeMode Block is not supported")
    return Action(ActionKind.PROVISION, claim)


def _named_claim_actions(claim: Claim, volume: PersistentVolume | None, taken: set[str]) -> list[Action]:
    """Return the actions for a claim that names its volume, because it is bound or a user wrote the name."""
    bound = is_bound(claim)
    if volume is None:
        if bound:
            return [] if claim.status.phase == "Lost" else [Action(ActionKind.CLAIM_LOST, claim)]
        return [_pending_action(claim, f'volume "{claim.spec.volume_name}" not found')]
    taken.add(volume.metadata.name)
    reference = volume.spec.claim_ref
    if reference is None or (_names_claim(reference.namespace, reference.name, claim) and not reference.uid):
        return [Action(ActionKind.RESERVE, claim, volume)]
    if reference.uid != claim.metadata.uid:
        taken.discard(volume.metadata.name)
        if bound:
            return [] if claim.status.phase == "Lost" else [Action(ActionKind.CLAIM_LOST, claim)]
        return [_pending_action(claim, f'volume "{volume.metadata.name}" already bound to a different claim.')]
    if not bound:
        return [Action(ActionKind.BIND, claim, volume)]
    todo = [] if volume.status.phase == "Bound" else [Action(ActionKind.VOLUME_PHASE, volume=volume, text="Bound")]
    if claim.status.phase != "Bound":
        todo.append(Action(ActionKind.CLAIM_BOUND, claim, volume))
    return todo


def _volume_actions(volume: PersistentVolume, claims: Mapping[tuple[str, str], Claim]) -> list[Action]:
    reference = volume.spec.claim_ref
    claim = claims.get((reference.namespace, reference.name)) if reference is not None else None
    owner_lives = claim is not None and reference is not None and reference.uid in ("", claim.metadata.uid)
    if bool(volume.metadata.deletion_timestamp):
        held = VOLUME_PROTECTION in (volume.metadata.finalizers or ())
        if not held or (owner_lives and volume.status.phase == "Bound"):
            return []
        return [_deletion_of(volume)]
    if reference is None or not reference.uid:
        return _phase_actions(volume, "Available")
    if owner_lives:
        return []
    if volume.spec.persistent_volume_reclaim_policy == "Delete" and is_ours(volume):
        return [*_phase_actions(volume, "Released"), Action(ActionKind.DESTROY, volume=volume)]
    return _phase_actions(volume, "Released")


def _deletion_of(volume: PersistentVolume) -> Action:
    """Return how to end a volume that is being deleted: with its folder, if this provisioner created it and the policy
    allows."""
    if volume.spec.persistent_volume_reclaim_policy == "Delete" and is_ours(volume):
        return Action(ActionKind.DESTROY, volume=volume)
    return Action(ActionKind.RELEASE_VOLUME, volume=volume)


def _protection_actions(claim: Claim, in_use: bool) -> list[Action]:
    held = CLAIM_PROTECTION in (claim.metadata.finalizers or ())
    if not claim.metadata.deletion_timestamp:
        return [] if held else [Action(ActionKind.PROTECT_CLAIM, claim)]
    return [Action(ActionKind.RELEASE_CLAIM, claim)] if held and not in_use else []


def _pending_action(claim: Claim, why: str) -> Action:
    return Action(ActionKind.CLAIM_PENDING, claim, text=why)


def _phase_actions(volume: PersistentVolume, phase: str) -> list[Action]:
    return [] if volume.status.phase == phase else [Action(ActionKind.VOLUME_PHASE, volume=volume, text=phase)]


def _is_claimed_by(volume: PersistentVolume, claim: Claim) -> bool:
    """Return whether the volume was created or reserved for exactly this claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and _names_claim(reference.namespace, reference.name, claim)
        and reference.uid in ("", claim.metadata.uid)
    )


def _names_claim(namespace: str, name: str, claim: Claim) -> bool:
    return (namespace, name) == (claim.metadata.namespace, claim.metadata.name)


def _volume_fits(claim: Claim, volume: PersistentVolume, class_name: str) -> bool:
    spec = volume.spec
    if spec.claim_ref is not None or bool(volume.metadata.deletion_timestamp):
        return False
    if claim.spec.selector is not None and not claim.spec.selector.matches(volume.metadata.labels):
        return False
    return (
        spec.storage_class_name == class_name
        and (spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and set(claim.spec.access_modes or ()) <= set(spec.access_modes or ())
        and _capacity_bytes(volume) >= requested_bytes(claim)
    )


def _capacity_bytes(volume: PersistentVolume) -> int:
    return _parsed_bytes((volume.spec.capacity or {}).get("storage", 0))


def _parsed_bytes(quantity: str | int | float) -> int:
    try:
        return parse_memory_bytes(quantity)
    except QuantityError:
        return 0
