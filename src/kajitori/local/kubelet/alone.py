"""A kubelet's folder is one process's at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kajitori.errors import Unavailable
from kajitori.privatefile import lock_alone

LOCK_FILE = "kubelet.lock"


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Raises Unavailable where another kubelet uses it."""
    fd = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_alone(fd):
            hint = "stop it first, or give this one a root folder of its own"
            raise Unavailable(f"another kubelet uses {root}", hint=hint)
        yield
    finally:
        os.close(fd)
