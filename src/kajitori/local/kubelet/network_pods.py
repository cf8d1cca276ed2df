"""Which Pods of this machine have a network of their own, and where: one file for each, for whoever counts traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from kajitori.core import names, traffic
from kajitori.local.kubelet import pod as pods
from kajitori.local.kubelet.pod import Manifest


class NetworkPods:
    """A folder of `core.traffic.Pod`: the Pod's file is there before its first program starts, and goes with its
    network."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "network"

    def tell(self, pod: Manifest, interface: str, address: str) -> None:
        """Tells of a Pod, where it has an interface of its own."""
        if not interface:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._folder / f"{pods.uid(pod)}.new"
        fresh.write_bytes(msgspec.json.encode(_described(pod, interface, address)))
        fresh.replace(fresh.with_suffix(".json"))

    def forget(self, uid: str) -> None:
        """Its network is gone."""
        (self._folder / f"{uid}.json").unlink(missing_ok=True)

    def keep(self, living: Collection[str]) -> None:
        """Forgets all others."""
        with contextlib.suppress(FileNotFoundError):
            for file in self._folder.iterdir():
                if file.stem not in living:
                    file.unlink(missing_ok=True)


def _described(pod: Manifest, interface: str, address: str) -> traffic.Pod:
    metadata = pod["metadata"]
    # Whoever makes a Pod writes its labels; a run is the owner of its members.
    owners = metadata.get("ownerReferences") or ()
    run: Mapping[str, str] = next(
        (each for each in owners if each.get("controller") and each.get("kind") == names.KIND), {}
    )
    return traffic.Pod(
        uid=pods.uid(pod),
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        run=run.get("name", ""),
        run_uid=run.get("uid", ""),
        user=(metadata.get("annotations") or {}).get(names.ANNOTATION_OWNER, "") if run else "",
        interface=interface,
        addresses=(address,),
    )
