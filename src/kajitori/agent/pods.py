"""The Pods on this node, as the program that gives them their network describes them. The API server is never asked.

The source is a folder with one file per Pod (`{uid}.json`, a `core.traffic.totals.Pod`). A file is created before the
Pod's first program starts and deleted with its network. The process kubelet keeps one; other Pod networks can, too.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from pathlib import Path
from typing import Protocol

import msgspec

from kajitori.agent.engines.cgroups import is_path
from kajitori.core.traffic.totals import HOST, Pod

log = logging.getLogger(__name__)

_SOURCES = "kaji node --pod-network namespace creates it below its --data; on a node with another kubelet use --relay"
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z0-9_.@+-]{0,15}", re.ASCII)


class NoPodsYet(OSError):
    """The source does not exist yet. The agent waits for it, and has lost nothing."""


class PodSource(Protocol):
    """A source of the node's Pods."""

    def stamp(self) -> object:
        """Return a value that changes whenever Pods are added or removed. It costs little."""
        ...

    def pods(self) -> dict[str, Pod]:
        """Return the Pods of this node by UID. Raises OSError if they cannot be listed now."""
        ...


class PodFolder:
    """The Pods described by files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], Pod | None]] = {}

    def stamp(self) -> object:
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def pods(self) -> dict[str, Pod]:
        """Return the Pods by UID, the oldest first.

        If two Pods have the same address or interface, it belongs to the newer one; the older one has ended.
        Raises NoPodsYet if the folder does not exist: its absence does not mean that there are no Pods.
        """
        known: dict[str, tuple[tuple[int, int], Pod | None]] = {}
        try:
            files = [file for file in self._folder.iterdir() if file.suffix == ".json"]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoPodsYet(f"--pods: there is no folder {self._folder} ({_SOURCES})") from error
        for file in files:
            try:
                status = file.stat()
                state = (status.st_mtime_ns, status.st_ino)
                before = self._known.get(file.name)
                known[file.name] = before if before is not None and before[0] == state else (state, _read(file))
            except FileNotFoundError:
                continue  # deleted meanwhile
        self._known = known
        oldest_first = sorted(known.values(), key=lambda item: item[0])
        return {pod.uid: pod for _, pod in oldest_first if pod is not None}


def _read(file: Path) -> Pod | None:
    """Return the Pod in a file; None, and a line in the log, if it has none."""
    try:
        pod = msgspec.json.decode(file.read_bytes(), type=Pod)
    except ValueError as error:  # also raised for text that is not UTF-8
        log.error("%s: not a Pod, so it is not counted: %s", file, error)
        return None
    if pod.uid == HOST or not _UID.fullmatch(pod.uid) or not _INTERFACE.fullmatch(pod.interface):
        log.error("%s: invalid uid %.80r or interface %.80r; its Pod is not counted", file, pod.uid, pod.interface)
        return None
    try:
        addresses = tuple(_normal_address(address) for address in pod.addresses)
    except ValueError as error:
        log.error("%s: %s; its Pod is not counted", file, error)
        return None
    wrong = [path for path in pod.cgroups if not is_path(path)]
    if wrong:
        log.error("%s: %.80r is not a control group; its Pod is not counted", file, wrong[0])
        return None
    return msgspec.structs.replace(pod, addresses=addresses)


def _normal_address(text: str) -> str:
    """Return the address as the kernel writes it. Raises ValueError, also for a link-local one (`fe80::1%eth0`)."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{text!r:.80} is not an address of a Pod")
    return str(address)
