"""Sources of readings of this node's GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class GpuSource(Protocol):
    """A source of readings of this node's GPUs."""

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """Return readings by GPU and quantity. A GPU may be under several identifiers: UUID, index, bus address."""
        ...

    def devices(self) -> Sequence[Sequence[str]]:
        """Return the identifiers of each whole GPU, in the order of the GPUs; the first one is unique everywhere."""
        ...

    def processes(self) -> Mapping[int, str]:
        """Return the GPU of each process that uses one, for members without a list of GPUs."""
        ...

    def aliases(self) -> Mapping[str, str]:
        """Return the identifier of a GPU or a slice by each of the names that device plugins and drivers give it."""
        ...


class NoGpus:
    """A node without GPUs, or without a library that reads them."""

    def read(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def devices(self) -> Sequence[Sequence[str]]:
        return ()

    def processes(self) -> Mapping[int, str]:
        return {}

    def aliases(self) -> Mapping[str, str]:
        return {}


class CombinedGpus:
    """Several sources as one. If two have the same figure, that of the later source counts: DCGM knows more than
    NVML."""

    def __init__(self, sources: Sequence[GpuSource]) -> None:
        self._sources = tuple(sources)

    def read(self) -> Mapping[str, Mapping[str, float]]:
        found: dict[str, dict[str, float]] = {}
        readings = [source.read() for source in self._sources]
        is_named = any("/" in identifier for reading_of in readings for identifier in reading_of)
        aliases = self.aliases() if is_named else {}  # dcgm-exporter's slices
        for reading_of in readings:
            for identifier, reading in reading_of.items():
                found.setdefault(aliases.get(identifier, identifier), {}).update(reading)
        return found

    def devices(self) -> Sequence[Sequence[str]]:
        found: dict[str, Sequence[str]] = {}
        for source in self._sources:
            for identifiers in source.devices():
                found.setdefault(identifiers[0], identifiers)
        return tuple(found.values())

    def processes(self) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for source in self._sources:
            found |= source.processes()
        return found

    def aliases(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for source in self._sources:
            found |= source.aliases()
        return found
