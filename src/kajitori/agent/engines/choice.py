"""Which engines count on this node."""

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


def chosen(word: str) -> list[Engine]:
    """The engines that policy's `traffic.engine` stands for here; the first that takes a Pod counts for it.

    Raises Unsupported where this machine has none of them.
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
            hint="say auto, which counts by addresses where it has to, or sets; or keep such nodes without an agent",
        )
    log.warning("this kernel (before 5.16) can't count at interfaces: Pods are counted by their addresses")
    return [SetsEngine()]


def others(engines: Collection[Engine]) -> list[Engine]:
    """The engines that may have counted here before, by another policy."""
    names = {engine.name for engine in engines}
    return [engine for engine in _possible() if engine.name not in names]


def uninstall() -> list[str]:
    """Takes away what any engine made on this node; the names of those that had made something."""
    return [engine.name for engine in _possible() if engine.uninstall()]


def _possible() -> list[Engine]:
    """Every engine that has its programs here."""
    engines: list[Engine] = []
    if shutil.which("nft") is not None:
        engines += [InterfaceEngine(), SetsEngine()]
    if all(shutil.which(program) is not None for program in ("iptables-restore", "ip6tables-restore")):
        engines.append(IptablesEngine())
    return engines


def has_egress_hooks() -> bool:
    """Whether packets can be counted at interfaces (kernel 5.16 or newer)."""
    try:
        nft.check(
            "add table netdev kajitori_try\nadd chain netdev kajitori_try c "
            '{ type filter hook egress device "lo" priority 0; }\n'
        )
    except Unavailable:
        return False
    return True
