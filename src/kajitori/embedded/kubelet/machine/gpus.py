"""The owners of GPUs. A GPU belongs to one Pod alone, from its admission until all its processes have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kajitori.embedded.kubelet.machine.detection import Gpu

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class GpuLedger:
    """Keeps the owners of GPUs in memory. Each Pod's record holds its GPUs as well, and a restarted kubelet calls
    `restore`."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = tuple(gpus)
        self._owners: dict[str, str] = {}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self._gpus

    def restore(self, uid: str, identifiers: Iterable[str]) -> None:
        for identifier in identifiers:
            self._owners[identifier] = uid

    def take(self, uid: str, count: int) -> list[str] | None:
        """Give the Pod `count` free GPUs and return their identifiers; return None, and give nothing, if fewer are
        free."""
        held = [gpu.identifier for gpu in self._gpus if self._owners.get(gpu.identifier) == uid]
        if held:
            return held
        free = [gpu.identifier for gpu in self._gpus if gpu.identifier not in self._owners]
        if len(free) < count:
            return None
        self.restore(uid, free[:count])
        return free[:count]

    def release(self, uid: str) -> None:
        """Free the Pod's GPUs."""
        self._owners = {identifier: owner for identifier, owner in self._owners.items() if owner != uid}

    def environment(self, identifiers: Sequence[str]) -> Mapping[str, str]:
        """Return the variable that names a program's own GPUs. It hides all GPUs from a program that requested none."""
        if not self._gpus:
            return {}
        return {VISIBLE_DEVICES: ",".join(identifiers)}
