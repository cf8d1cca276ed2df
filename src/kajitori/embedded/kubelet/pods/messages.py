"""Termination messages: what a container's program writes to the file that its Pod names stands in its last status.

Nothing is mounted over that path: it is this machine's own. A variable of ours that holds it tells where the file lies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kajitori.core.documents.fields import RESERVED_ENV_PREFIX

DEFAULT_PATH = "/dev/termination-log"
MAX_BYTES = 4096
"""What Kubernetes takes of one container."""


def told(
    environment: Mapping[str, str], container: Mapping[str, Any], file: Path, owner: tuple[int, int] | None
) -> dict[str, str]:
    """The environment, in which variables of ours that hold the path name the file instead; it is made where any does.
    `owner`: user and group of the program where these are not the kubelet's own."""
    path = container.get("terminationMessagePath") or DEFAULT_PATH
    names = [name for name, value in environment.items() if name.startswith(RESERVED_ENV_PREFIX) and value == path]
    if not names:
        return dict(environment)
    file.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # of a start that a crash cut off
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if owner is not None:
            os.fchown(fd, *owner)
    finally:
        os.close(fd)
    return {**environment, **dict.fromkeys(names, str(file))}


def read(file: Path) -> str:
    """What was written there, as far as Kubernetes takes it; nothing where nothing was.

    The program may have put anything there: only a plain file is read.
    """
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(fd, "rb") as opened:
        try:
            return opened.read(MAX_BYTES).decode(errors="replace")
        except OSError:
            return ""
