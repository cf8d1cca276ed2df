"""Changes of nf_tables with the program `nft`. One script is one transaction: packets see all of it or nothing."""

from __future__ import annotations

import shutil
import subprocess

from kajitori.core.traffic.address_classes import Classes
from kajitori.errors import Unavailable, Unsupported

_TIMEOUT_SECONDS = 60


def require_nft() -> None:
    """Raise Unsupported if `nft` is not installed."""
    if shutil.which("nft") is None:
        raise Unsupported("traffic is counted with the program nft, which is not installed", hint="install nftables")


def change(script: str) -> None:
    """Make all changes of a script, or none. Raises Unavailable with nft's message."""
    if script:
        _run(["nft", "-f", "-"], script)


def check(script: str) -> None:
    """Ask the kernel whether it would accept these changes. Raises Unavailable if not."""
    _run(["nft", "--check", "-f", "-"], script)


def class_sets(table: str, classes: Classes, revision: int) -> list[str]:
    """Return statements that create a set for each class of several ranges; a single range is cheaper to compare.

    A set that a rule uses cannot be changed, so the names of sets end in `revision`.
    """
    lines = []
    for name in classes.ranges:
        for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr")):
            ranges = classes.version(name, version)
            if len(ranges) > 1:
                elements = ", ".join(map(str, ranges))
                made = f"{{ type {kind}; flags constant, interval; elements = {{ {elements} }}; }}"
                lines.append(f"add set {table} {_class_set(name, version, revision)} {made}")
    return lines


def matches(classes: Classes, field: str, revision: int) -> list[tuple[str, int, str]]:
    """Return (class, IP version, match expression) for the address in `field`, saddr or daddr.

    The order matters: the first match counts.
    """
    found = []
    for version, protocol in ((4, "ip"), (6, "ip6")):
        for name in classes.ranges:
            if ranges := classes.version(name, version):
                within = str(ranges[0]) if len(ranges) == 1 else f"@{_class_set(name, version, revision)}"
                found.append((name, version, f"{protocol} {field} {within}"))
        found.append((classes.others, version, f"meta protocol {protocol}"))
    return found


def _class_set(name: str, version: int, revision: int) -> str:
    """Return the name of the set with a class's ranges."""
    return f"class.{name}.{version}.{revision}"


def _run(command: list[str], script: str) -> None:
    try:
        done = subprocess.run(command, input=script.encode(), capture_output=True, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"nft could not change the rules: {error}") from error
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split())[:500]
        raise Unavailable(f"nft could not change the rules: {message}")
