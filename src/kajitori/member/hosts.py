"""Files with the addresses of all members, in the formats that programs read."""

from __future__ import annotations

import os
from collections.abc import Sequence

LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
"""Contents of /etc/hosts for a container that has none."""


def hostfile(run: str, attempt: int, addresses: Sequence[str], slots: int, *, by_address: bool = False) -> str:
    """Return one line per member in rank order, as mpirun and DeepSpeed read it: `bert-2-0.bert slots=8`.

    With `by_address` the lines have addresses, for clusters in which members' names do not resolve.
    """
    hosts = addresses if by_address else [f"{name}.{run}" for name in _host_names(run, attempt, len(addresses))]
    return "".join(f"{host} slots={slots}\n" for host in hosts)


def etc_hosts(known: str, run: str, attempt: int, addresses: Sequence[str], rank: int, host_name: str) -> str:
    """Return an /etc/hosts with the `known` text, and every member by both of its names.

    `host_name` is this member's own hostname; with the node's network that is the node's name.
    """
    names = _host_names(run, attempt, len(addresses))
    lines = [known.rstrip("\n"), f"# members of run {run}, attempt {attempt}"]
    lines += [f"{address}\t{name}.{run}\t{name}" for address, name in zip(addresses, names, strict=True)]
    named = {word for line in known.splitlines() for word in line.partition("#")[0].split()[1:]}
    if host_name not in named and host_name not in names:
        lines.append(f"{addresses[rank]}\t{host_name}")
    return "\n".join(lines) + "\n"


def write(path: str, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write a file atomically, by default readable by everyone: the user's program may run as any user."""
    fresh = f"{path}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="utf-8") as file:
        os.fchmod(fd, mode)
        if owner is not None:
            os.fchown(fd, *owner)
        file.write(text)
    os.rename(fresh, path)  # noqa: PTH104 - importing pathlib takes longer than all of this


def parse_owner(text: str) -> tuple[int, int] | None:
    """Return user and group of `uid:gid`; None for an empty text."""
    uid, _, gid = text.partition(":")
    return (int(uid), int(gid)) if text else None


def read_known(path: str) -> str:
    """Return this container's /etc/hosts."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read() or LOCALHOST
    except OSError:
        return LOCALHOST


def _host_names(run: str, attempt: int, count: int) -> list[str]:
    return [f"{run}-{attempt}-{rank}" for rank in range(count)]
