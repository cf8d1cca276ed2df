"""Which interface of this node leads to a Pod: its end of the pair that the Pod's network plugin made.

Plugins that route have a route to the Pod's address over it. Those that bridge have a route over the bridge, whose
table of hardware addresses says at which port the Pod's was learnt.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

PATIENCE_SECONDS = 5.0


def interface_of(addresses: Sequence[str]) -> str:
    """The name of that interface; empty where the Pod has none of its own (ipvlan, macvlan, an overlay of its own), or
    where it is not known yet."""
    for address in addresses:
        routes = _ask("ip", "-json", "route", "get", address)
        device = routes[0].get("dev", "") if routes else ""
        kind = _kind_of(device)
        if kind == "bridge":
            device = _port_of(device, address)
            kind = _kind_of(device)
        if kind == "veth":
            return device
    return ""


def _kind_of(device: str) -> str:
    if not device:
        return ""
    links = _ask("ip", "-json", "-details", "link", "show", "dev", device)
    return str(links[0].get("linkinfo", {}).get("info_kind", "")) if links else ""


def _port_of(bridge: str, address: str) -> str:
    neighbours = _ask("ip", "-json", "neighbour", "show", "to", address, "dev", bridge)
    hardware = next((each["lladdr"] for each in neighbours if "lladdr" in each), "")
    entries = _ask("bridge", "-json", "fdb", "show", "br", bridge) if hardware else []
    ports = (
        each["ifname"] for each in entries if each.get("mac") == hardware and "permanent" not in each.get("state", "")
    )
    return next(ports, "")


def _ask(*command: str) -> list[dict[str, Any]]:
    """What iproute2 answers; nothing where it refuses, as for a route that there is not, or was stopped half-way."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        return [each for each in json.loads(done.stdout or b"[]") if each]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
