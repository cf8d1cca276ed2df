"""How to start a container: what the kubelet passes to the container's shim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kajitori.embedded.kubelet.containers.leftovers import MARKER_VARIABLE
from kajitori.embedded.kubelet.shim.cgroups import Cgroup


class EngineContainer(msgspec.Struct, frozen=True):
    """A container that an engine runs."""

    socket: str
    """Path of the engine's socket."""
    scheme: str
    name: str
    body: dict[str, Any] = {}
    """The body of the engine's request to create the container. It may contain secrets, so it is written to no file."""
    api: str = ""
    """Beginning of the paths of requests; empty in the files of earlier kubelets."""
    create: str = "/containers/create"
    """Path of the request that creates it. It depends on whether `body` has Docker's format or Podman's own."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start a container. The document with the environment stays in memory, since it may contain secrets."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    working_dir: str
    log_path: Path
    log_max_bytes: int = 10 * 1024**2
    log_max_files: int = 5
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] = ()
    umask: int = 0o022
    open_files: int = 1_048_576
    oom_score_adjustment: int | None = None
    memory_limit_bytes: int = 0
    cgroups: Sequence[Cgroup] = ()
    mount_namespace: Mapping[str, Any] | None = None
    network_namespace: str = ""
    host_name: str = ""
    """The host name that the program sees, if it has a network of its own."""
    tty: bool = False
    stdin: bool = False
    engine: EngineContainer | None = None
    """The engine's container to create; None: `argv` runs as a process."""

    def document(self, directory: Path, mark: str) -> dict[str, Any]:
        """Return the document for the shim, as JSON. All processes of the container carry `mark`."""
        return {
            "directory": str(directory),
            "argv": list(self.argv),
            "environment": {**self.environment, MARKER_VARIABLE: mark},
            "working_dir": self.working_dir,
            "log_path": str(self.log_path),
            "log_max_bytes": self.log_max_bytes,
            "log_max_files": self.log_max_files,
            "uid": self.uid,
            "gid": self.gid,
            "groups": list(self.groups),
            "umask": self.umask,
            "open_files": self.open_files,
            "oom_score_adjustment": self.oom_score_adjustment,
            "memory_limit_bytes": self.memory_limit_bytes,
            "cgroups": [cgroup.as_document() for cgroup in self.cgroups],
            "mount_namespace": self.mount_namespace,
            "network_namespace": self.network_namespace,
            "host_name": self.host_name,
            "tty": self.tty,
            "stdin": self.stdin,
        } | ({"engine": msgspec.to_builtins(self.engine)} if self.engine is not None else {})
