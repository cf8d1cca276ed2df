"""Sources of readings of this node's GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class GpuSource(Protocol):
    """A source of readings of this node's GPUs."""

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """Return readings by GPU and quantity. A GPU may be under several identifiers: UUID, index, bus address."""
        ...

    def processes(self) -> Mapping[int, str]:
        """Return the GPU of each process that uses one, for members without a list of GPUs."""
        ...


class NoGpus:
    """A node without GPUs, or without a library that reads them."""

    def read(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def processes(self) -> Mapping[int, str]:
        return {}


class Together:
    """Several sources. Of a figure that two have, the later one's counts: DCGM knows more than NVML."""

    def __init__(self, sources: Sequence[GpuSource]) -> None:
        self._sources = tuple(sources)

    def read(self) -> Mapping[str, Mapping[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for source in self._sources:
            for identifier, reading in source.read().items():
                found.setdefault(identifier, {}).update(reading)
        return found

    def processes(self) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for source in self._sources:
            found |= source.processes()
        return found
