"""The provisioner of the class `kajitori-local`: creates a folder for each claim, and removes it.

`embedded.controllers.claims` decides, and this module writes. A folder is removed only after the API server has
confirmed that its claim is gone. It must be directly below the root and have a name that this provisioner gives. Links
are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kajitori import errors
from kajitori.embedded.controllers import claims
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.claims import Action, ActionKind
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.objects import Claim, ClaimReference, PersistentVolume, Pod, StorageClass
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About
from kajitori.kube.resources import CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES

log = logging.getLogger(__name__)

REMOVING = ".removing-"
"""Prefix of a folder's name while it is being removed, so that it never serves as a volume again."""


class Provisioner(Controller):
    """Creates volumes below `root`, which only the cluster's owner should be able to enter: its folders are open to
    all, since a Pod may run as any user."""

    name = "kajitori-local-provisioner"

    def __init__(
        self,
        client: KubeClient,
        root: Path,
        cache: Cache | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self.root = root
        self._claims = self.cache.informer(CLAIMS, Claim)
        self._volumes = self.cache.informer(PERSISTENT_VOLUMES, PersistentVolume)
        self._classes = self.cache.informer(STORAGE_CLASSES, StorageClass)
        self._pods = self.cache.informer(PODS, Pod)
        for informer in (self._claims, self._volumes, self._classes):
            informer.listen(self.changed)
        self._pods.listen(self._see_pod)
        self._last_event: dict[str, str] = {}

    async def prepare(self) -> None:
        """Create the root folder and the default class, and finish interrupted removals."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.root.glob(f"{REMOVING}*"):
            await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
        body = {
            "apiVersion": STORAGE_CLASSES.api_version,
            "kind": STORAGE_CLASSES.kind,
            "metadata": {"name": claims.STORAGE_CLASS, "annotations": {claims.DEFAULT_CLASS: "true"}},
            "provisioner": claims.PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(STORAGE_CLASSES, body)

    async def reconcile(self) -> None:
        """Do everything that can be done now. Each write leads to another pass."""
        found = claims.actions(
            self._claims.items,
            {name: volume for (_, name), volume in self._volumes.items.items()},
            self._storage_classes(),
            list(self._pods.items.values()),
        )
        failure: errors.KajitoriError | None = None
        for action in found:
            try:
                await self._perform(action)
            except (errors.NotFound, errors.Conflict) as cause:
                log.debug("%s: overtaken by another change: %s", action.kind, cause)
            except errors.KajitoriError as cause:
                log.warning("%s failed: %s", action.kind, cause)
                failure = cause
        uids = {claim.metadata.uid for claim in self._claims.items.values()}
        self._last_event = {uid: text for uid, text in self._last_event.items() if uid in uids}
        if failure is not None:
            raise failure

    async def _perform(self, action: Action) -> None:
        claim, volume = action.claim, action.volume
        if claim is not None and volume is not None:
            await self._do_with_both(action, claim, volume)
        elif claim is not None:
            await self._do_with_claim(action, claim)
        elif volume is not None:
            await self._do_with_volume(action, volume)

    async def _do_with_both(self, action: Action, claim: Claim, volume: PersistentVolume) -> None:
        match action.kind:
            case ActionKind.RESERVE:
                version = {"resourceVersion": volume.metadata.resource_version}
                patch = {"metadata": version, "spec": {"claimRef": _claim_reference(claim)}}
                await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, patch)
            case ActionKind.BIND:
                notes = {claims.BIND_COMPLETED: "yes"}
                if not claim.spec.volume_name:
                    notes[claims.BOUND_BY_CONTROLLER] = "yes"
                meta = {"resourceVersion": claim.metadata.resource_version, "annotations": notes}
                await self._patch_claim(claim, {"metadata": meta, "spec": {"volumeName": volume.metadata.name}})
            case ActionKind.CLAIM_BOUND:
                status = {
                    "phase": "Bound",
                    "accessModes": volume.spec.access_modes,
                    "capacity": volume.spec.capacity,
                }
                await self._patch_claim(claim, {"status": status}, "status")

    async def _do_with_claim(self, action: Action, claim: Claim) -> None:
        match action.kind:
            case ActionKind.PROVISION:
                await self._provision_volume(claim)
            case ActionKind.CLAIM_LOST:
                await self._patch_claim(claim, {"status": {"phase": "Lost"}}, "status")
                self._record_event(
                    claim, "Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data is lost!"
                )
            case ActionKind.CLAIM_PENDING:
                reason = "WaitForFirstConsumer" if "first consumer" in action.text else "FailedBinding"
                self._record_event(claim, "Normal", reason, action.text)
            case ActionKind.PROTECT_CLAIM:
                await self._set_finalizers(claim, [*(claim.metadata.finalizers or ()), claims.CLAIM_PROTECTION])
            case ActionKind.RELEASE_CLAIM:
                kept = [f for f in claim.metadata.finalizers or () if f != claims.CLAIM_PROTECTION]
                await self._set_finalizers(claim, kept)

    async def _do_with_volume(self, action: Action, volume: PersistentVolume) -> None:
        match action.kind:
            case ActionKind.VOLUME_PHASE:
                patch = {"status": {"phase": action.text}}
                await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, patch, subresource="status")
            case ActionKind.RELEASE_VOLUME:
                await self._release_volume(volume)
            case ActionKind.DESTROY:
                if await self._is_claimed(volume):
                    return
                await asyncio.to_thread(remove_folder, self.root, volume.metadata.name)
                await self._release_volume(volume)
                with contextlib.suppress(errors.NotFound):
                    await self.client.delete(PERSISTENT_VOLUMES, volume.metadata.name)

    async def _provision_volume(self, claim: Claim) -> None:
        """Create the folder first, since a volume that exists can be used at once."""
        name = claims.volume_name(claim)
        folder = self.root / name
        try:
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        except OSError as cause:
            text = f"can't create the folder of the volume: {cause.strerror} ({folder})"
            self._record_event(claim, "Warning", "ProvisioningFailed", text)
            raise errors.Unavailable(text) from cause
        classes = self._storage_classes()
        found = classes[claims.class_of(claim, classes)]
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "annotations": {claims.PROVISIONED_BY: claims.PROVISIONER},
                "finalizers": [claims.VOLUME_PROTECTION],
            },
            "spec": {
                "capacity": {"storage": _requested_size(claim)},
                "accessModes": claim.spec.access_modes or ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": found.reclaim_policy or "Delete",
                "storageClassName": found.metadata.name,
                "volumeMode": "Filesystem",
                "hostPath": {"path": str(folder), "type": ""},
                "claimRef": _claim_reference(claim),
            },
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(PERSISTENT_VOLUMES, body)
        self._record_event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _is_claimed(self, volume: PersistentVolume) -> bool:
        """Ask the API server itself and not the cache, since a removed folder cannot be restored."""
        reference: ClaimReference | None = volume.spec.claim_ref
        if reference is None:
            return False
        try:
            claim = await self.client.get(CLAIMS, reference.name, reference.namespace, type=Claim)
        except errors.NotFound:
            return False
        return claim.metadata.uid == reference.uid

    async def _release_volume(self, volume: PersistentVolume) -> None:
        held = volume.metadata.finalizers
        if claims.VOLUME_PROTECTION in held:
            kept = [f for f in held if f != claims.VOLUME_PROTECTION]
            patch = {"metadata": {"finalizers": kept or None}}
            with contextlib.suppress(errors.NotFound):
                await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, patch)

    async def _set_finalizers(self, claim: Claim, finalizers: list[str]) -> None:
        version = claim.metadata.resource_version
        await self._patch_claim(claim, {"metadata": {"resourceVersion": version, "finalizers": finalizers or None}})

    async def _patch_claim(self, claim: Claim, patch: Mapping[str, Any], subresource: str = "") -> None:
        meta = claim.metadata
        await self.client.patch(CLAIMS, meta.name, patch, meta.namespace, subresource=subresource)

    def _record_event(self, claim: Claim, kind: str, reason: str, text: str) -> None:
        """Record an Event, unless it was the last one about this claim."""
        meta = claim.metadata
        if self._last_event.get(meta.uid) != text:
            self._last_event[meta.uid] = text
            self.events.emit(About("PersistentVolumeClaim", meta.name, meta.uid, meta.namespace), kind, reason, text)

    def _storage_classes(self) -> dict[str, StorageClass]:
        return {name: found for (_, name), found in self._classes.items.items()}

    def _see_pod(self, _key: object, old: Pod | None, new: Pod | None) -> None:
        """Reconcile when a Pod with claims has ended."""
        last = new or old
        if last is not None and last.spec.volumes and (new is None or new.is_finished):
            self.changed()


def remove_folder(root: Path, name: str) -> None:
    """Remove the volume `root/name` with its contents; links in it are removed, not followed.

    The folder is renamed first, so that an interrupted removal is finished at the next start and the folder never
    mounted again. Raises Unavailable if it can't be removed, and ValueError for a name that is not that of a folder
    directly below the root.
    """
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} is not the name of a volume")
    folder, removing = root / name, root / f"{REMOVING}{name}"
    try:
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            folder.rename(removing)
        if removing.exists():
            shutil.rmtree(removing)
    except OSError as cause:
        raise errors.Unavailable(f"the folder of volume {name} can't be removed: {cause}") from cause


def _claim_reference(claim: Claim) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }


def _requested_size(claim: Claim) -> str:
    asked = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    size: str = msgspec.convert(asked.get("storage", "0"), str, strict=False)
    return size
