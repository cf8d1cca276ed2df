"""Finds the container engine of this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kajitori.embedded.kubelet.engine.client import EngineClient, EngineVersion
from kajitori.errors import KajitoriError, Unavailable

log = logging.getLogger(__name__)

AUTO, PROCESS = "auto", "process"
KINDS = (AUTO, "podman", "docker", PROCESS)
ANSWER_SECONDS = 20.0
"""Longest wait for an engine's first answer: systemd may start the engine for it, on a busy machine."""
INSTALL = {
    "podman": "sudo apt-get install podman && systemctl --user enable --now podman.socket (as root without --user)",
    "docker": "sudo apt-get install docker.io && sudo usermod --append --groups docker $USER, then sign in again",
}
"""How a user of Debian or Ubuntu installs each engine."""
HOW_TO = f"To run real images: {INSTALL['podman']}"


@dataclass(frozen=True)
class Engine:
    """An engine that answers."""

    socket: str
    name: str
    version: str
    api: str = ""
    """Beginning of the paths of requests (EngineVersion)."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} at {self.socket}"


def described(wanted: str, engine: Engine | None) -> str:
    """Return a sentence for the user about what runs images on this machine; empty if processes are wanted."""
    if wanted == PROCESS:
        return ""
    if engine is not None:
        return f"Images run through {engine}."
    return f"No container engine is used: runs start this machine's own programs, whatever their image. {HOW_TO}"


def candidates(environment: Mapping[str, str]) -> list[str]:
    """Return the sockets at which an engine may answer, the most specific one first. $DOCKER_HOST excludes others."""
    if (host := environment.get("DOCKER_HOST", "")).startswith("unix://"):
        return [host.removeprefix("unix://")]
    found = ["/run/podman/podman.sock"]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        found += [f"{runtime}/podman/podman.sock", f"{runtime}/docker.sock"]
    return [*found, "/var/run/docker.sock"]


async def _ask(socket: str) -> EngineVersion:
    return await EngineClient(socket).version(ANSWER_SECONDS)


async def find(
    wanted: str, environment: Mapping[str, str] = os.environ, ask: Callable[[str], Awaitable[EngineVersion]] = _ask
) -> Engine | None:
    """Return the engine to use; None for processes, which `auto` takes if no engine answers.

    Raises Unavailable, which names what was tried and how to install it, if the wanted engine does not answer.
    """
    if wanted == PROCESS:
        return None
    tried = []
    for socket in candidates(environment):
        if not os.path.exists(socket):  # noqa: ASYNC240, PTH110 - one look at a local folder
            tried.append(f"{socket} (does not exist)")
            continue
        try:
            answered = await ask(socket)
        except KajitoriError as error:
            tried.append(f"{socket} ({error.message})")
            if wanted == AUTO:
                log.warning("%s; it is not used", error.message)
            continue
        if wanted in (AUTO, answered.name):
            return Engine(socket, answered.name, answered.version, answered.api)
        tried.append(f"{socket} (is {answered.name})")
    if wanted == AUTO:
        return None
    hint = f"install and start it: {INSTALL[wanted]}; or leave out --engine {wanted}"
    raise Unavailable(f"{wanted} does not answer; tried {', '.join(tried)}", hint=hint)
