"""The state of a Pod that survives the kubelet's own restarts: one small file per Pod."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class ProbeResults(msgspec.Struct, frozen=True):
    """The results of the probes of one attempt of a container."""

    attempt: int
    started: bool
    ready: bool


class PodRecord(msgspec.Struct, omit_defaults=True):
    """The saved state of a Pod. The kubelet writes it before it takes an action that depends on it."""

    pod: dict[str, Any]
    """The manifest in its last known version; its status is the kubelet's own."""
    started_at: float = 0.0
    gpus: list[str] = []
    """Identifiers of the GPUs that this Pod holds until it ends."""
    restarts_in_a_row: dict[str, int] = msgspec.field(default_factory=dict, name="rows")
    """Restarts in a row, by container."""
    probes: dict[str, ProbeResults] = msgspec.field(default_factory=dict)
    """The last results of probes, by container."""
    failed_reason: str = ""
    failed_message: str = ""
    """Set when the kubelet itself has decided that the Pod has failed (eviction, deadline): all its containers are
    ended."""
    final_phase: str = ""
    """Succeeded or Failed, once everything has ended: no container is started again."""
    pod_ip: str = ""


class PodFolders:
    """The folders of a Pod.

    `pods/{uid}` holds the kubelet's files, `logs/{namespace}_{name}_{uid}` what the programs wrote to standard output
    and error, and `messages/{uid}-…` their termination messages, which programs write themselves, as any user.
    """

    def __init__(self, root: Path, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        uid = str(metadata["uid"])
        if "/" in uid or uid.startswith("."):
            raise ValueError(f"a Pod's UID is no path: {uid!r}")
        self.root = root
        self.own = root / "pods" / uid
        self._uid = uid
        self.logs = root / "logs" / f"{metadata.get('namespace', 'default')}_{metadata['name']}_{uid}"

    @property
    def volumes(self) -> Path:
        return self.own / "volumes"

    @property
    def hosts(self) -> Path:
        """The /etc/hosts of the Pod's containers."""
        return self.own / "hosts"

    def container(self, name: str, attempt: int) -> Path:
        return self.own / "containers" / name / str(attempt)

    def log(self, name: str, attempt: int) -> Path:
        return self.logs / name / f"{attempt}.log"

    def message(self, name: str, attempt: int) -> Path:
        """Return the file that stands for a container's termination message path."""
        return self.root / "messages" / f"{self._uid}-{name}-{attempt}"

    def remove_messages(self) -> None:
        for file in (self.root / "messages").glob(f"{self._uid}-*"):
            with contextlib.suppress(OSError):
                file.unlink()

    def attempts(self, name: str) -> list[int]:
        """Return the numbers of the attempts that have folders, oldest first."""
        with contextlib.suppress(OSError):
            return sorted(
                int(entry.name) for entry in (self.own / "containers" / name).iterdir() if entry.name.isdigit()
            )
        return []

    def save(self, record: PodRecord) -> None:
        """Save the record so that it survives a sudden end of the machine: sync the new file, then rename it."""
        self.own.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.own / "record.json.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(fd)
        fresh.replace(self.own / "record.json")


def saved_records(root: Path) -> Iterator[PodRecord]:
    """Yield the records of all Pods that an earlier kubelet left under this root."""
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted((root / "pods").iterdir()):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                yield msgspec.json.decode((folder / "record.json").read_bytes(), type=PodRecord)
