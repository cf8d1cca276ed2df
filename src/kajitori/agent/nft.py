"""Changes of nf_tables, by the program `nft`: one text is one transaction, so packets see all of it or nothing."""

from __future__ import annotations

import shutil
import subprocess

from kajitori.core.address_classes import Classes
from kajitori.errors import Unavailable, Unsupported

_SECONDS = 60


def require_nft() -> None:
    """Raises Unsupported where there is no `nft`."""
    if shutil.which("nft") is None:
        raise Unsupported("traffic is counted by the program nft, which is not here", hint="install nftables")


def change(script: str) -> None:
    """Makes all changes of a script, or none. Raises Unavailable with what nft said of the first that could not be."""
    if script:
        _run(["nft", "-f", "-"], script)


def check(script: str) -> None:
    """Asks the kernel whether it would make these changes. Raises Unavailable where it would not."""
    _run(["nft", "--check", "-f", "-"], script)


def class_set(name: str, version: int) -> str:
    """The set with the ranges of a class."""
    return f"class.{name}.{version}"


def class_sets(table: str, classes: Classes) -> list[str]:
    """Statements that make the sets of all classes. While a rule uses them nobody can change what they hold."""
    lines = []
    for name in classes.ranges:
        for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr")):
            if elements := ", ".join(map(str, classes.version(name, version))):
                made = f"{{ type {kind}; flags constant, interval; elements = {{ {elements} }}; }}"
                lines.append(f"add set {table} {class_set(name, version)} {made}")
    return lines


def matches(classes: Classes, field: str) -> list[tuple[str, int, str]]:
    """(class, IP version, what a rule says to match a packet whose address in `field`, saddr or daddr, is in it), in
    order: the first that matches counts."""
    found = []
    for version, protocol in ((4, "ip"), (6, "ip6")):
        ranges = [name for name in classes.ranges if classes.version(name, version)]
        found += [(name, version, f"{protocol} {field} @{class_set(name, version)}") for name in ranges]
        found.append((classes.others, version, f"meta protocol {protocol}"))
    return found


def _run(command: list[str], script: str) -> None:
    try:
        done = subprocess.run(command, input=script.encode(), capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"nft could not change the rules: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:500]
        raise Unavailable(f"nft could not change the rules: {said}")
