"""Termination messages: a program writes into the Pod's message file, and the status of its ended container shows it.

In an engine's container the file is mounted at its path. For a process nothing is mounted there, since the path belongs
to this machine. Instead, environment variables of the platform's programs that contain the path are rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT_PATH = "/dev/termination-log"
MAX_BYTES = 4096
"""Longest message of one container that Kubernetes keeps."""


def with_message_file(
    environment: Mapping[str, str],
    container: Mapping[str, Any],
    file: Path,
    owner: tuple[int, int] | None,
    variable_prefix: str,
) -> dict[str, str]:
    """Return the environment with `file` in place of the container's message path.

    Only variables that begin with `variable_prefix` are rewritten (empty: none). If one is, the file is created.
    `owner` is the user and group of the program, if they differ from the kubelet's.
    """
    path = container.get("terminationMessagePath") or DEFAULT_PATH
    names = [name for name, value in environment.items() if name.startswith(variable_prefix) and value == path]
    if not variable_prefix or not names:
        return dict(environment)
    file.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # left by a start that a crash interrupted
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if owner is not None:
            os.fchown(fd, *owner)
    finally:
        os.close(fd)
    return {**environment, **dict.fromkeys(names, str(file))}


def create(file: Path) -> None:
    """Create an empty file into which every user of a container may write."""
    file.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # left by a start that a crash interrupted
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o666)
    finally:
        os.close(fd)


def read(file: Path) -> str:
    """Return the first MAX_BYTES of the message; empty if the program wrote none.

    The program may have put anything at that path, so only a regular file is read.
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
