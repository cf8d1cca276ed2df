"""Changes of nf_tables, by the program `nft`: one text is one transaction, so packets see all of it or nothing."""

from __future__ import annotations

import shutil
import subprocess

from kajitori.core.traffic.address_classes import Classes
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


def class_sets(table: str, classes: Classes, making: int) -> list[str]:
    """Statements that make a set for each class of several ranges; a packet is cheaper compared with a single one.
    While a rule uses them nobody can change what they hold. making: the number that their names end in."""
    lines = []
    for name in classes.ranges:
        for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr")):
            ranges = classes.version(name, version)
            if len(ranges) > 1:
                elements = ", ".join(map(str, ranges))
                made = f"{{ type {kind}; flags constant, interval; elements = {{ {elements} }}; }}"
                lines.append(f"add set {table} {_class_set(name, version, making)} {made}")
    return lines


def matches(classes: Classes, field: str, making: int) -> list[tuple[str, int, str]]:
    """(class, IP version, what a rule says to match a packet whose address in `field`, saddr or daddr, is in it), in
    order: the first that matches counts."""
    found = []
    for version, protocol in ((4, "ip"), (6, "ip6")):
        for name in classes.ranges:
            if ranges := classes.version(name, version):
                within = str(ranges[0]) if len(ranges) == 1 else f"@{_class_set(name, version, making)}"
                found.append((name, version, f"{protocol} {field} {within}"))
        found.append((classes.others, version, f"meta protocol {protocol}"))
    return found


def _class_set(name: str, version: int, making: int) -> str:
    """The set with the ranges of a class."""
    return f"class.{name}.{version}.{making}"


def _run(command: list[str], script: str) -> None:
    try:
        done = subprocess.run(command, input=script.encode(), capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"nft could not change the rules: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:500]
        raise Unavailable(f"nft could not change the rules: {said}")
