"""The lock of a kubelet's root folder, which one process at a time may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kajitori.configuration.private_files import exclusive_lock
from kajitori.errors import Unavailable

LOCK_FILE = "kubelet.lock"


@contextlib.contextmanager
def locked_root(root: Path) -> Iterator[None]:
    """Hold the lock of a root folder. Raises Unavailable if another kubelet holds it."""
    with exclusive_lock(root / LOCK_FILE) as is_ours:
        if not is_ours:
            hint = "stop it first, or give this one a root folder of its own"
            raise Unavailable(f"another kubelet uses {root}", hint=hint)
        yield
