"""The interface between a Pod's life, which is the same on every node, and how the node runs a container.

A runtime says what an image is, and turns a prepared container into a `Launch`. Everything after the start is the
shim's: it holds the container's lock, keeps the log and the exit code, and obeys the kubelet. There are two:
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
    """A container that is ready to be started: what every runtime needs to know of it."""

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
        """Remove containers that no shim holds: `living` are the containers' folders by their shims. Returns how many
        were removed."""
        ...

    async def stop(self) -> None:
        """End what the runtime does in the background. Containers keep running."""


def engine_name(prepared: Prepared) -> str:
    """Return the name of a container for its engine: readable in the engine's own list, and unlike any other's."""
    digest = hashlib.sha256(f"{prepared.container_id}{prepared.folder.resolve()}".encode()).hexdigest()[:12]
    return f"kaji-{prepared.pod['metadata']['name'][:60]}-{prepared.spec['name']}-{digest}"
