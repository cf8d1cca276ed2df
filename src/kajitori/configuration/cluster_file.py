"""How a running `kaji up` is found: a file in its data folder, and a link to it where every command looks."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kajitori.configuration.private_files import locked_alone, write_private
from kajitori.errors import Conflict, InvalidInput

CLUSTER_FILE = "kaji.json"
LOCK_FILE = "kaji.lock"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What a command needs to know of a running cluster."""

    url: str
    token: str = field(repr=False)
    pid: int
    namespace: str
    kubeconfig: Path | None = None
    ca: Path | None = None
    """Who vouches for its certificate (PEM); None: it serves plain HTTP."""


@contextmanager
def announced(folder: Path, cluster: ClusterFile) -> Iterator[None]:
    """As long as the context lasts, `kaji` finds the cluster. Only its owner can read the file (mode 0600)."""
    file = folder / CLUSTER_FILE
    document = {
        "url": cluster.url,
        "token": cluster.token,
        "kubeconfig": str(cluster.kubeconfig) if cluster.kubeconfig else None,
        "ca": str(cluster.ca) if cluster.ca else None,
        "pid": cluster.pid,
        "namespace": cluster.namespace,
    }
    write_private(file, json.dumps(document).encode())
    from hashlib import sha256

    link = links_folder() / sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.symlink_to(file)
    fresh.replace(link)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            link.unlink()
        with contextlib.suppress(OSError):
            file.unlink()


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The data folder is this process's alone; made where it is missing. Raises Conflict where another one has it, and
    InvalidInput where it cannot be used at all."""
    with ExitStack() as lock:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_ours = lock.enter_context(locked_alone(folder / LOCK_FILE))
        except OSError as error:
            why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
            message = f"{folder} can't be used: {why}"
            raise InvalidInput.one("--data", message, value=str(folder), hint="name a folder of your own") from error
        if not is_ours:
            hint = "use that one, stop it, or name another folder with --data"
            raise Conflict(f"another kaji up works in {folder}", hint=hint)
        yield


def links_folder() -> Path:
    """Where running clusters of this user leave links to themselves."""
    import platformdirs  # only where a command looks for a cluster

    return Path(platformdirs.user_state_dir("kajitori")) / "clusters"
