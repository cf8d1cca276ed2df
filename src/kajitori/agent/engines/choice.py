"""The choice of engines that count on this node."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection

from kajitori.agent.engines import nft
from kajitori.agent.engines.engine import Engine
from kajitori.agent.engines.interface import InterfaceEngine
from kajitori.agent.engines.iptables import IptablesEngine
from kajitori.agent.engines.sets import SetsEngine
from kajitori.errors import Unavailable, Unsupported

log = logging.getLogger(__name__)


def choose_engines(word: str) -> list[Engine]:
    """Return the engines for policy's `traffic.engine` on this node; the first one that takes a Pod counts it.

    Raises Unsupported if this machine supports none of them.
    """
    if word == "iptables":
        return [IptablesEngine()]
    nft.require_nft()
    if word == "sets":
        return [SetsEngine()]
    if has_egress_hooks():
        return [InterfaceEngine(), SetsEngine()]
    if word == "interface":
        raise Unsupported(
            "traffic.engine is interface, but this kernel (before 5.16) can't count at interfaces",
            hint="use auto, which counts by addresses if needed, or sets; or leave such nodes without an agent",
        )
    log.warning("this kernel (before 5.16) can't count at interfaces: Pods are counted by their addresses")
    return [SetsEngine()]


def other_engines(engines: Collection[Engine]) -> list[Engine]:
    """Return the engines that may have counted here before, under an earlier policy."""
    names = {engine.name for engine in engines}
    return [engine for engine in _usable_engines() if engine.name not in names]


def uninstall() -> list[str]:
    """Remove the rules of all engines from this node; return the names of those that had any."""
    return [engine.name for engine in _usable_engines() if engine.uninstall()]


def _usable_engines() -> list[Engine]:
    """Return every engine with its programs installed."""
    engines: list[Engine] = []
    if shutil.which("nft") is not None:
        engines += [InterfaceEngine(), SetsEngine()]
    if all(shutil.which(program) is not None for program in ("iptables-restore", "ip6tables-restore")):
        engines.append(IptablesEngine())
    return engines


def has_egress_hooks() -> bool:
    """Return whether packets can be counted at interfaces (kernel 5.16 or newer)."""
    try:
        nft.check(
            "add table netdev kajitori_try\nadd chain netdev kajitori_try c "
            '{ type filter hook egress device "lo" priority 0; }\n'
        )
    except Unavailable:
        return False
    return True
