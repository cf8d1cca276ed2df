"""How an engine gives GPUs to a container: by the Container Device Interface (CDI), else by NVIDIA's runtime."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kajitori.embedded.kubelet.containers.environment import ConfigError

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
KIND = "nvidia.com/gpu"
PODMAN_WITH_CDI = (4, 1)
"""First version of Podman that takes CDI devices over its own API. Over Docker's API, Podman takes them from 5.4 on."""
GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


@dataclass(frozen=True)
class GpuAccess:
    """The way to this machine's GPUs."""

    identifiers: tuple[str, ...]
    """The machine's GPUs, in their order. GPUs that do not exist are numbers."""
    cdi_names: frozenset[str] = frozenset()
    by_nvidia_runtime: bool = False
    why_not: str = ""

    def give(self, body: dict[str, Any], gpus: Sequence[str], *, named: bool) -> None:
        """Add these GPUs to the engine's request to create a container, or none if the container asks for none.

        Raises ConfigError if the engine can't give them.
        """
        real = [gpu for gpu in gpus if gpu.startswith(("GPU-", "MIG-"))] if named else []
        if self.identifiers and not self.by_nvidia_runtime:
            body["Env"].append("NVIDIA_VISIBLE_DEVICES=void")
        elif self.identifiers:
            body["Env"].append(f"NVIDIA_VISIBLE_DEVICES={','.join(real) or 'void'}")
        if not real:
            return
        if self.why_not:
            raise ConfigError(f"the engine can't give GPUs to containers: {self.why_not}", hint=GENERATE)
        request: dict[str, Any] = {"Driver": "nvidia", "DeviceIDs": real, "Capabilities": [["gpu"]]}
        if self.cdi_names:
            request = {"Driver": "cdi", "DeviceIDs": [f"{KIND}={self._cdi_name(gpu)}" for gpu in real]}
        body["HostConfig"]["DeviceRequests"] = [request]

    def _cdi_name(self, gpu: str) -> str:
        index = str(self.identifiers.index(gpu)) if gpu in self.identifiers else ""
        for name in (gpu, index):
            if name in self.cdi_names:
                return name
        raise ConfigError(f"the CDI specification of this machine has no GPU {gpu}", hint=GENERATE)


def access(
    identifiers: Iterable[str],
    engine: str,
    version: str,
    info: Mapping[str, Any],
    folders: Sequence[Path] = CDI_FOLDERS,
) -> GpuAccess:
    """Return how this engine gives GPUs to containers; `info` is the engine's own description."""
    known = tuple(identifiers)
    names = cdi_names(folders)
    takes_names = info.get("CDISpecDirs") if engine == "docker" else _version_numbers(version) >= PODMAN_WITH_CDI
    if names and takes_names:
        return GpuAccess(known, names)
    if engine == "docker" and "nvidia" in (info.get("Runtimes") or {}):
        return GpuAccess(known, by_nvidia_runtime=True)
    if names:
        needed = ".".join(map(str, PODMAN_WITH_CDI)) if engine == "podman" else "Docker 28.2"
        return GpuAccess(known, why_not=f"{engine} {version} takes no CDI devices over its API; {needed} does")
    return GpuAccess(known, why_not="this machine has no CDI specification of its GPUs")


def cdi_names(folders: Sequence[Path] = CDI_FOLDERS) -> frozenset[str]:
    """Return the names of the NVIDIA GPUs that the machine's CDI specifications describe."""
    found: set[str] = set()
    for folder in folders:
        for file in sorted(folder.glob("*")) if folder.is_dir() else ():
            try:
                document = (
                    json.loads(file.read_bytes()) if file.suffix == ".json" else yaml.safe_load(file.read_bytes())
                )
            except (OSError, ValueError, yaml.YAMLError):
                continue
            if isinstance(document, dict) and document.get("kind") == KIND:
                found |= {str(device.get("name")) for device in document.get("devices") or ()}
    return frozenset(found)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
