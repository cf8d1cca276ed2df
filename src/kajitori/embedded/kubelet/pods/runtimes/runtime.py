"""The interface between a Pod's life cycle, which is the same on every node, and the way in which a node runs
containers.

A runtime provides images, and turns a prepared container into a `Launch`. After the start, the shim does the rest: it
holds the container's lock, writes the log and the exit code, and obeys the kubelet. There are two runtimes:
`ProcessRuntime` (programs of this machine) and `EngineRuntime` (Docker or Podman).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kajitori.embedded.kubelet.adapter import LocalProgram
from kajitori.embedded.kubelet.containers.launch import Launch
from kajitori.embedded.kubelet.machine.detection import MountAbility
from kajitori.embedded.kubelet.manifest import Manifest

Say = Callable[[str, str, bool], None]
"""Records an Event about the Pod: reason, message, whether it is a warning."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A container that is ready to be started, as every runtime needs it."""

    pod: Manifest
    spec: Mapping[str, Any]
    container_id: str
    folder: Path
    """The folder of this attempt."""
    log_path: Path
    program: LocalProgram | None
    """A program of this machine that runs in place of the image."""
    environment: Mapping[str, str] = field(repr=False)
    working_dir: str
    """The folder that the container asks for; empty if it names none."""
    namespace: Mapping[str, Any] | None
    """Its mounts, as `MountPlan` describes them."""
    message_file: Path
    gpus: Sequence[str] = ()
    network_namespace: str = ""
    is_isolated: bool = False
    """Whether it may reach the loopback interface only."""


class Runtime(Protocol):
    """How this node runs containers."""

    scheme: str
    """Prefix of container IDs: `process`, `podman`, `docker`."""
    version: str
    can_isolate: bool
    """Whether it can run a container without network access, though Pods have no network of their own."""

    @property
    def mounts(self) -> MountAbility:
        """Whether volumes can appear at their mount paths."""
        ...

    async def ensure_image(self, pod: Manifest, container: Mapping[str, Any], attempt: int, say: Say) -> None:
        """Return when the container's image can be used. Raises ImageNotReady, also while it is pulled."""

    async def images(self) -> list[dict[str, Any]]:
        """Return the images that this node has, as its status lists them: names and size, the largest first."""
        ...

    def base_environment(self, uid: int | None) -> dict[str, str]:
        """Return the variables that come from this machine."""
        ...

    def launch(self, prepared: Prepared) -> Launch:
        """Return how to start the container. Raises ConfigError; nothing was started then."""
        ...

    async def clean(self, living: Mapping[int, Path]) -> int:
        """Remove the containers that no shim holds, and return their number. `living` has the containers' folders by
        the process identifiers of their shims."""
        ...

    async def stop(self) -> None:
        """End the runtime's background work. Containers keep running."""


def engine_name(prepared: Prepared) -> str:
    """Return the name of a container for its engine: readable in the engine's own list, and unlike any other's."""
    digest = hashlib.sha256(f"{prepared.container_id}{prepared.folder.resolve()}".encode()).hexdigest()[:12]
    return f"kaji-{prepared.pod['metadata']['name'][:60]}-{prepared.spec['name']}-{digest}"
