"""The view of a run as the Web API answers it: a document of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

View = Mapping[str, Any]

FINAL = frozenset({"Succeeded", "Failed", "Stopped"})
"""The final phases, as `core.spec.reasons.Phase.is_final` has them."""


def phase_of(run: View) -> str:
    """Return the phase; Queued before the controller has written one."""
    return str(status_of(run).get("phase") or "Queued")


def status_of(run: View) -> Mapping[str, Any]:
    """Return the status; empty before the controller has written one."""
    return run.get("status") or {}


def is_final(run: View) -> bool:
    """Whether the run has ended; it runs again only after `kaji resume`."""
    return phase_of(run) in FINAL


def has_network_of_this_machine(member: View) -> bool:
    """Return whether a member of a local cluster has no network of its own, so that its ports are this machine's."""
    try:
        return ip_address(member.get("address") or "").is_loopback
    except ValueError:
        return False
