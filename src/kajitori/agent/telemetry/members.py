"""A member on this node, and the interface of sources that list this node's members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class LocalMember:
    """A member's Pod, and where its processes, output and GPUs are found on this node."""

    namespace: str
    pod: str
    """Name of the Pod."""
    uid: str
    pids: Callable[[], Sequence[int]]
    """Returns the present processes of the member's program, without processes of the node itself."""
    cgroups: tuple[str, ...] = ()
    """Paths of its program's control groups, of version 1 or 2; empty if only the processes are known."""
    log: Path | None = None
    """The file with the output of its program; None if it is not known."""
    gpus: tuple[str, ...] = ()
    """Identifiers of its GPUs."""
    memory_limit_bytes: int = 0
    """0 if there is no limit, or only that of its control group."""
    tensorboard: str = ""
    """Folder in which its program writes TensorBoard's event files, as the program sees it."""


class MemberSource(Protocol):
    """A source of this node's members."""

    def members(self) -> Sequence[LocalMember]:
        """Return the members with running programs. Raises OSError if they cannot be listed now."""
        ...
