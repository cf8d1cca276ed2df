"""The name servers of programs in a Pod's network namespace, where a server on this machine's loopback address does not
answer."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

RESOLV_CONF = Path("/etc/resolv.conf")
BEHIND_LOOPBACK = Path("/run/systemd/resolve/resolv.conf")
"""The servers that systemd-resolved asks. Kubernetes' own kubelet is given this file, too."""


def resolver_file(usual: Path = RESOLV_CONF, behind: Path = BEHIND_LOOPBACK) -> Path | None:
    """Return the file that takes the place of /etc/resolv.conf in a network namespace; None if that file is right
    there, or nothing else is known."""
    servers = _servers(usual)
    if not servers or not all(map(_is_loopback, servers)) or not _servers(behind):
        return None
    return behind


def _servers(file: Path) -> list[str]:
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return []
    return [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]


def _is_loopback(server: str) -> bool:
    try:
        return ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return False
