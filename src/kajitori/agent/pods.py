"""Which Pods are on this node, as whoever gives them their network says: never asked of the API server.

A folder with one file for each Pod (`{uid}.json`, a `core.traffic.totals.Pod`), put there before its first program
starts and taken away with its network. The process kubelet keeps one; so can any other network of Pods.
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

_MADE = "kaji node makes it when it starts: network below its --data"
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z0-9_.@+-]{0,15}", re.ASCII)


class PodSource(Protocol):
    """Where an agent learns of its node's Pods."""

    def stamp(self) -> object:
        """Another one whenever Pods came or went; asking costs next to nothing."""
        ...

    def pods(self) -> dict[str, Pod]:
        """The Pods of this node, by UID. Raises OSError where that can't be told now."""
        ...


class PodFolder:
    """The Pods that files in a folder tell of. One that is not there tells nothing: not that there are none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], Pod | None]] = {}

    def stamp(self) -> object:
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def pods(self) -> dict[str, Pod]:
        """The oldest first: where two have one address or interface, it is the newer one's, and the older one is dead.
        Raises OSError where there is no such folder: nobody is forgotten for that."""
        known: dict[str, tuple[tuple[int, int], Pod | None]] = {}
        try:
            files = [file for file in self._folder.iterdir() if file.suffix == ".json"]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise OSError(
                f"--pods: '{self._folder}': there is no such folder, and it is waited for: {_MADE}"
            ) from error
        for file in files:
            try:
                status = file.stat()
                state = (status.st_mtime_ns, status.st_ino)
                before = self._known.get(file.name)
                known[file.name] = before if before is not None and before[0] == state else (state, _read(file))
            except FileNotFoundError:
                continue  # gone meanwhile
        self._known = known
        oldest_first = sorted(known.values(), key=lambda each: each[0])
        return {pod.uid: pod for _, pod in oldest_first if pod is not None}


def _read(file: Path) -> Pod | None:
    """The Pod that a file tells of; None, and a line in the log, where it tells of none."""
    try:
        pod = msgspec.json.decode(file.read_bytes(), type=Pod)
    except ValueError as error:  # also where it is no UTF-8
        log.error("%s tells of no Pod, which is not counted: %s", file, error)
        return None
    if pod.uid == HOST or not _UID.fullmatch(pod.uid) or not _INTERFACE.fullmatch(pod.interface):
        log.error("%s: uid %.80r or interface %.80r can't be; its Pod is not counted", file, pod.uid, pod.interface)
        return None
    try:
        addresses = tuple(_address(address) for address in pod.addresses)
    except ValueError as error:
        log.error("%s: %s; its Pod is not counted", file, error)
        return None
    wrong = [path for path in pod.cgroups if not is_path(path)]
    if wrong:
        log.error("%s: %.80r is no control group; its Pod is not counted", file, wrong[0])
        return None
    return msgspec.structs.replace(pod, addresses=addresses)


def _address(text: str) -> str:
    """As the kernel writes it. Raises ValueError; also for one of a single wire (`fe80::1%eth0`): no Pod has such."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{text!r:.80} is no address of a Pod")
    return str(address)
