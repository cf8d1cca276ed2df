"""One file per Pod for a program that counts traffic: it names the interface or the groups of the Pod's packets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from pathlib import Path

import msgspec

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.manifest import Manifest


class PacketPath(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A Pod on this node, with its interface or control groups. The file also has the fields of the platform's
    adapter."""

    uid: str
    namespace: str
    name: str
    interface: str = ""
    """The end of the Pod's network that is on the node; empty if the Pod uses the node's network."""
    addresses: tuple[str, ...] = ()
    """The Pod's own addresses; none if it uses the node's network."""
    cgroups: tuple[str, ...] = ()
    """Paths of the control groups (version 2) of the Pod's processes, if the Pod uses the node's network."""


class NetworkPods:
    """The folder with the files of Pods for a program that counts traffic.

    The kubelet writes a Pod's file before the Pod's first program starts, and removes it with the Pod's network.
    """

    def __init__(self, root: Path, adapter: PodAdapter) -> None:
        self._folder = root / "network"
        self._adapter = adapter

    def write_interface(self, pod: Manifest, interface: str, address: str) -> None:
        """Write the file of a Pod that has an interface of its own; do nothing if `interface` is empty."""
        if interface:
            self._write(pod, interface=interface, addresses=(address,))

    def write_groups(self, pod: Manifest, groups: Collection[str]) -> None:
        """Write the file of a Pod on the node's own network, before a container starts in these control groups.

        Creates the groups (version 2), so that packets can be counted from the first one on.
        """
        if not groups:
            return
        for path in groups:
            Path(path).mkdir(parents=True, exist_ok=True)
        before: tuple[str, ...] = ()
        with contextlib.suppress(OSError, msgspec.DecodeError):
            before = msgspec.json.decode(self._file_of(pods.uid(pod)).read_bytes(), type=PacketPath).cgroups
        earlier = [path for path in before if path not in groups and Path(path).exists()]
        self._write(pod, cgroups=(*earlier, *groups))

    def forget(self, uid: str) -> None:
        """Remove the file of a Pod after its network was removed."""
        self._file_of(uid).unlink(missing_ok=True)

    def keep(self, living: Collection[str]) -> None:
        """Create the folder, and remove the files of all Pods but `living` (UIDs).

        A reader that finds the folder knows that it reads the right one.
        """
        self._make_folder()
        for file in self._folder.iterdir():
            if file.stem not in living:
                file.unlink(missing_ok=True)

    def _write(
        self, pod: Manifest, *, interface: str = "", addresses: tuple[str, ...] = (), cgroups: tuple[str, ...] = ()
    ) -> None:
        metadata = pod["metadata"]
        path = PacketPath(
            uid=pods.uid(pod),
            namespace=metadata.get("namespace", "default"),
            name=metadata["name"],
            interface=interface,
            addresses=addresses,
            cgroups=cgroups,
        )
        self._make_folder()
        file = self._file_of(path.uid)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({**self._adapter.traffic_labels(pod), **msgspec.to_builtins(path)}))
        fresh.replace(file)

    def _file_of(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
