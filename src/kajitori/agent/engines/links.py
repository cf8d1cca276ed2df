"""Finds the interface of the node that leads to a Pod: the node's end of the veth pair that the network plugin made.

A plugin that routes adds a route to the Pod's address over this interface. A plugin that bridges adds a route over the
bridge; the bridge's forwarding table then names the interface for the Pod's hardware address.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

TIMEOUT_SECONDS = 5.0


def interface_of(addresses: Sequence[str]) -> str:
    """Return the name of the interface that leads to a Pod with these addresses.

    It is empty if the Pod has no interface of its own (ipvlan, macvlan, some overlays), or if it is not known yet.
    """
    for address in addresses:
        routes = _query("ip", "-json", "route", "get", address)
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
    links = _query("ip", "-json", "-details", "link", "show", "dev", device)
    return str(links[0].get("linkinfo", {}).get("info_kind", "")) if links else ""


def _port_of(bridge: str, address: str) -> str:
    neighbours = _query("ip", "-json", "neighbour", "show", "to", address, "dev", bridge)
    hardware = next((neighbour["lladdr"] for neighbour in neighbours if "lladdr" in neighbour), "")
    entries = _query("bridge", "-json", "fdb", "show", "br", bridge) if hardware else []
    learned = (entry for entry in entries if "permanent" not in entry.get("state", ""))
    ports = (entry["ifname"] for entry in learned if entry.get("mac") == hardware)
    return next(ports, "")


def _query(*command: str) -> list[dict[str, Any]]:
    """Return the output of iproute2; nothing if it fails, for example for a route that does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=True)
        return [item for item in json.loads(done.stdout or b"[]") if item]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
