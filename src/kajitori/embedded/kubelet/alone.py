"""A kubelet's folder is one process's at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kajitori.configuration.private_files import locked_alone
from kajitori.errors import Unavailable

LOCK_FILE = "kubelet.lock"


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Raises Unavailable where another kubelet uses it."""
    with locked_alone(root / LOCK_FILE) as is_ours:
        if not is_ours:
            hint = "stop it first, or give this one a root folder of its own"
            raise Unavailable(f"another kubelet uses {root}", hint=hint)
        yield
