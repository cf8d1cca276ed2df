"""What counts: one small interface for every way in which the kernel can be told to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import Counter, Pod


class Engine(Protocol):
    """Counts packets of Pods by class and direction. What it touches in the kernel is its own and nobody else's.

    Every method blocks for some milliseconds, and raises Unavailable where the kernel refuses: then nothing changed.
    """

    name: str
    missing: int
    """Pods of the last `count` of which it found nothing to count at: their interface is not there, say."""

    def takes(self, pod: Pod) -> bool:
        """Whether it can count for this Pod."""
        ...

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        """Counts for these Pods (by UID) and for no others from now on; whether somebody else had changed its rules.

        What was counted for others stays readable until it is forgotten.
        """
        ...

    def read(self) -> dict[str, Counter]:
        """All its counters by name. Bytes are those of IP packets, without the header of the wire."""
        ...

    def forget(self, names: Collection[str]) -> None:
        """Takes counters away that nothing counts in any more; names that are not its own are left alone."""

    def stop(self) -> bool:
        """Counts for nobody any more, the node neither; what was counted stays readable. Whether there was anything."""
        ...

    def uninstall(self) -> bool:
        """Leaves the node as it was before; whether there was anything of it."""
        ...
