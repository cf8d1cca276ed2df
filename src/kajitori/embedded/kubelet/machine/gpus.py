"""Which Pod has which GPU: each is one Pod's alone, from its admission until nothing of it runs any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kajitori.embedded.kubelet.machine.detection import Gpu

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class GpuLedger:
    """Kept in memory; what survives the kubelet stands in each Pod's record and is entered again with `restore`."""

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
        """Identifiers of `count` free GPUs that are the Pod's now; None, and nothing taken, where there are fewer."""
        held = [gpu.identifier for gpu in self._gpus if self._owners.get(gpu.identifier) == uid]
        if held:
            return held
        free = [gpu.identifier for gpu in self._gpus if gpu.identifier not in self._owners]
        if len(free) < count:
            return None
        self.restore(uid, free[:count])
        return free[:count]

    def release(self, uid: str) -> None:
        """A Pod's GPUs are free again."""
        self._owners = {identifier: owner for identifier, owner in self._owners.items() if owner != uid}

    def environment(self, identifiers: Sequence[str]) -> Mapping[str, str]:
        """What a program sees of GPUs: its own; none where it asked for none, so that nobody works on another's."""
        if not self._gpus:
            return {}
        return {VISIBLE_DEVICES: ",".join(identifiers)}
