"""Where the packets of this machine's Pods are found: one file for each, for whoever counts traffic."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from kajitori.core.traffic import totals
from kajitori.core.words import names
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.manifest import Manifest


class NetworkPods:
    """A folder of `core.traffic.totals.Pod`: the Pod's file is there before its first program starts, and goes with its
    network."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "network"

    def tell(self, pod: Manifest, interface: str, address: str) -> None:
        """Tells of a Pod, where it has an interface of its own."""
        if interface:
            self._write(msgspec.structs.replace(_described(pod), interface=interface, addresses=(address,)))

    def tell_groups(self, pod: Manifest, groups: Collection[str]) -> None:
        """Tells of a Pod on the node's own network, one of whose containers is about to start in these control groups
        of version 2. They are made, so that they can be counted by from the first packet on."""
        if not groups:
            return
        for path in groups:
            Path(path).mkdir(parents=True, exist_ok=True)
        before: tuple[str, ...] = ()
        with contextlib.suppress(OSError, msgspec.DecodeError):
            before = msgspec.json.decode(self._file(pods.uid(pod)).read_bytes(), type=totals.Pod).cgroups
        earlier = [path for path in before if path not in groups and Path(path).exists()]
        self._write(msgspec.structs.replace(_described(pod), cgroups=(*earlier, *groups)))

    def _write(self, told: totals.Pod) -> None:
        self._make()
        file = self._file(told.uid)
        fresh = file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(told))
        fresh.replace(file)

    def _file(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"

    def forget(self, uid: str) -> None:
        """Its network is gone."""
        self._file(uid).unlink(missing_ok=True)

    def keep(self, living: Collection[str]) -> None:
        """Forgets all others. From then on the folder is there: who reads it knows that it is the right one."""
        self._make()
        for file in self._folder.iterdir():
            if file.stem not in living:
                file.unlink(missing_ok=True)

    def _make(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _described(pod: Manifest) -> totals.Pod:
    metadata = pod["metadata"]
    # Whoever makes a Pod writes its labels; a run is the owner of its members.
    owners = metadata.get("ownerReferences") or ()
    run: Mapping[str, str] = next(
        (each for each in owners if each.get("controller") and each.get("kind") == names.KIND), {}
    )
    return totals.Pod(
        uid=pods.uid(pod),
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        run=run.get("name", ""),
        run_uid=run.get("uid", ""),
        user=(metadata.get("annotations") or {}).get(names.ANNOTATION_OWNER, "") if run else "",
    )
