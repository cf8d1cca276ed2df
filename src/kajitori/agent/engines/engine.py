"""The interface of engines: the ways to make the kernel count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import Counter, Pod


class Engine(Protocol):
    """Counts packets of Pods by class and direction, in kernel objects of its own.

    Every method blocks for some milliseconds, and raises Unavailable if the kernel refuses; then nothing changed.
    """

    name: str
    missing: int
    """Number of Pods that the last `count` could not count, for example because their interface does not exist."""

    def takes(self, pod: Pod) -> bool:
        """Return whether it can count this Pod."""
        ...

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        """Count these Pods (by UID) and no others from now on.

        Counters of other Pods stay readable until they are forgotten. Returns whether another program had changed the
        rules.
        """
        ...

    def read(self) -> dict[str, Counter]:
        """Return all its counters by name. Bytes are those of IP packets, without the link header."""
        ...

    def forget(self, names: Collection[str]) -> None:
        """Delete counters that are no longer used; other engines' names are ignored."""

    def stop(self) -> bool:
        """Count nothing any more, the node included; counters stay readable. Return whether there were rules."""
        ...

    def uninstall(self) -> bool:
        """Remove everything of it from the node; return whether there was anything."""
        ...
