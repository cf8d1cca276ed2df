"""Describes running containers to programs that watch them: processes, control groups, logs and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kajitori.embedded.kubelet.manifest import Manifest, container_limit
from kajitori.embedded.kubelet.pods.worker import PodWorker


@dataclass(frozen=True)
class RunningContainer:
    """A container with a running program."""

    pod: Manifest
    name: str
    pids: Callable[[], Sequence[int]]
    """Returns its processes now, the program's first one first."""
    cgroups: tuple[str, ...]
    """Paths of its control groups, of version 1 or 2."""
    log: Path
    gpus: tuple[str, ...]
    """Identifiers of the Pod's GPUs."""
    memory_limit_bytes: int
    """0: none."""


def running_containers(workers: Iterable[PodWorker]) -> Iterator[RunningContainer]:
    """Yield the containers with running programs, except init containers.

    May be called from any thread.
    """
    for worker in list(workers):
        for slot in list(worker.slots.values()):
            container = slot.container
            if slot.is_init or container is None or not slot.running or not container.state.running:
                continue
            yield RunningContainer(
                pod=worker.pod,
                name=slot.name,
                pids=container.pids,
                cgroups=tuple(group.path for group in container.cgroups()),
                log=worker.folders.log(slot.name, slot.attempt),
                gpus=tuple(worker.record.gpus),
                memory_limit_bytes=container_limit(slot.spec).memory_bytes,
            )
