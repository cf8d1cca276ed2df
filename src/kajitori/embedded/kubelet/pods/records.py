"""What the kubelet itself has to remember of a Pod over its own death: one small file per Pod."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class PodRecord(msgspec.Struct, omit_defaults=True):
    """Written before what it says is acted on."""

    pod: dict[str, Any]
    """The manifest, as it was last seen; the status part is ours."""
    started_at: float = 0.0
    gpus: list[str] = []
    """Identifiers of the GPUs that are this Pod's alone until it ends."""
    rows: dict[str, int] = {}
    """Restarts in a row, by container."""
    failed_reason: str = ""
    failed_message: str = ""
    """The kubelet's own decision that the Pod has failed (evicted, deadline): everything of it is to be ended."""
    final_phase: str = ""
    """Succeeded or Failed, once everything has ended: from then on nothing of it is started again."""
    pod_ip: str = ""


class PodFolders:
    """Where a Pod's things lie: `pods/{uid}` for what is ours, `logs/{namespace}_{name}_{uid}` for what it wrote, and
    `messages/{uid}-…` for what its programs say last: they write there themselves, as whatever user."""

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

    def container(self, name: str, attempt: int) -> Path:
        return self.own / "containers" / name / str(attempt)

    def log(self, name: str, attempt: int) -> Path:
        return self.logs / name / f"{attempt}.log"

    def message(self, name: str, attempt: int) -> Path:
        """The file that stands for a container's termination message path."""
        return self.root / "messages" / f"{self._uid}-{name}-{attempt}"

    def remove_messages(self) -> None:
        for file in (self.root / "messages").glob(f"{self._uid}-*"):
            with contextlib.suppress(OSError):
                file.unlink()

    def attempts(self, name: str) -> list[int]:
        """Numbers of the attempts whose folders are there, oldest first."""
        with contextlib.suppress(OSError):
            return sorted(
                int(entry.name) for entry in (self.own / "containers" / name).iterdir() if entry.name.isdigit()
            )
        return []

    def save(self, record: PodRecord) -> None:
        """Survives the machine's sudden end: the folder is made first, the file swapped in whole."""
        self.own.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.own / "record.json.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(fd)
        fresh.replace(self.own / "record.json")


def saved_records(root: Path) -> Iterator[PodRecord]:
    """The records of all Pods that an earlier kubelet left under this root."""
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted((root / "pods").iterdir()):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                yield msgspec.json.decode((folder / "record.json").read_bytes(), type=PodRecord)
