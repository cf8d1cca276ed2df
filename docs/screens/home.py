"""A home folder and a host name that pictures may show, whatever machine they are taken on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

HOME = Path("/mnt/ada")
_HOST = "laptop"
_INSIDE = "KAJITORI_PICTURES_INSIDE"


def enter() -> None:
    """Start this program again in a mount namespace and with a host name of its own (`unshare` of util-linux), unless
    it runs there already."""
    if os.environ.get(_INSIDE):
        socket.sethostname(_HOST)
        return
    mapped = () if os.geteuid() == 0 else ("--map-root-user",)
    words = ("unshare", "--mount", "--uts", *mapped, sys.executable, *sys.argv)
    os.execvpe(words[0], words, os.environ | {_INSIDE: "1"})


def show_as_home(folder: Path) -> Path:
    """Return the path by which an empty folder is now a user's home, in this namespace only."""
    subprocess.run(["mount", "--bind", folder, HOME.parent], check=True)
    HOME.mkdir()
    return HOME


def leave_home() -> None:
    """Undo `show_as_home`."""
    subprocess.run(["umount", "--lazy", HOME.parent], check=True)
