"""How commands find a `kaji up`: by a file in its data folder, and a link to it in a folder that they read.

The link exists as long as the process, and the file while its servers answer. The lock file holds the process number
until the servers stop. So a command can tell a cluster that is still starting from one that does not run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kajitori.configuration.private_files import exclusive_lock, write_private
from kajitori.errors import Conflict, InvalidInput

CLUSTER_FILE = "kaji.json"
LOCK_FILE = "kaji.lock"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """Data with which a command connects to a running cluster."""

    url: str
    token: str = field(repr=False)
    pid: int
    namespace: str
    kubeconfig: Path | None = None
    ca: Path | None = None
    """Certificates of its certificate authority (PEM); None if it serves plain HTTP."""


@contextmanager
def announced(folder: Path, cluster: ClusterFile) -> Iterator[None]:
    """Let `kaji` use the cluster in a claimed folder while the context lasts. Only the file's owner can read it (mode
    0600)."""
    file = folder / CLUSTER_FILE
    document = {
        "url": cluster.url,
        "token": cluster.token,
        "kubeconfig": str(cluster.kubeconfig) if cluster.kubeconfig else None,
        "ca": str(cluster.ca) if cluster.ca else None,
        "pid": cluster.pid,
        "namespace": cluster.namespace,
    }
    try:
        write_private(file, json.dumps(document).encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / LOCK_FILE).write_text("")  # it is stopping, and not starting
        with contextlib.suppress(OSError):
            file.unlink()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Claim a data folder for this process while the context lasts, and create it if it is missing.

    Commands find the folder without naming it from now on, before its servers answer. Raises Conflict if another
    process has claimed it, and InvalidInput if it cannot be used.
    """
    with ExitStack() as lock:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_ours = lock.enter_context(exclusive_lock(folder / LOCK_FILE))
            if is_ours:
                lock.enter_context(_linked(folder))
        except OSError as error:
            why = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror
            message = f"{folder} cannot be used: {why}"
            hint = "make room on its disk" if error.errno == errno.ENOSPC else "name a folder of your own"
            raise InvalidInput.one("--data", message, value=str(folder), hint=hint) from error
        if not is_ours:
            hint = "use that cluster, stop it, or choose another folder with --data"
            raise Conflict(f"another kaji up is using {folder}", hint=hint)
        yield


@contextmanager
def _linked(folder: Path) -> Iterator[None]:
    """Let commands find a folder while the context lasts, and know that its servers are starting."""
    from hashlib import sha256

    (folder / CLUSTER_FILE).unlink(missing_ok=True)  # a process that was killed left it
    (folder / LOCK_FILE).write_text(str(os.getpid()))
    link = links_folder() / sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.symlink_to(folder / CLUSTER_FILE)
    fresh.replace(link)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            link.unlink()


def is_starting(folder: Path) -> bool:
    """Whether a process has claimed the folder, and its servers do not answer yet."""
    if (folder / CLUSTER_FILE).exists():
        return False
    try:
        return is_alive(int((folder / LOCK_FILE).read_text()))
    except (OSError, ValueError):
        return False


def is_alive(pid: int) -> bool:
    """Whether a process with this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def links_folder() -> Path:
    """Return the folder with links to this user's running clusters."""
    import platformdirs  # imported only by commands that look for a cluster

    return Path(platformdirs.user_state_dir("kajitori")) / "clusters"
