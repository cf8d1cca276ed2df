"""Which interface leads to a Pod, from what iproute2 answers; that of real namespaces is tried in tests/cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kajitori.agent import links

VETH = {"linkinfo": {"info_kind": "veth"}}
BRIDGE = {"linkinfo": {"info_kind": "bridge"}}
POD, HARDWARE = "10.16.1.2", "0a:58:0a:10:01:02"

Answers = dict[str, list[dict[str, Any]] | None]
"""By question; None: it says nothing, and no more than that."""


def routed(device: str, kind: dict[str, Any], address: str = POD) -> Answers:
    """A route to the address over a device, and what the device is."""
    link = f"ip -json -details link show dev {device}"
    return {f"ip -json route get {address}": [{"dst": address, "dev": device}], link: [{"ifname": device} | kind]}


def bridged(entries: list[dict[str, Any]], neighbours: list[dict[str, Any]]) -> Answers:
    """A route over a bridge, its ports, and who is known behind it."""
    return {
        **routed("cni0", BRIDGE),
        f"ip -json neighbour show to {POD} dev cni0": neighbours,
        "bridge -json fdb show br cni0": entries,
        "ip -json -details link show dev veth2": [{"ifname": "veth2"} | VETH],
        "ip -json -details link show dev flannel.1": [{"ifname": "flannel.1", "linkinfo": {"info_kind": "vxlan"}}],
    }


KNOWN = [{"dst": POD, "state": ["FAILED"]}, {"dst": POD, "lladdr": HARDWARE, "state": ["REACHABLE"]}]
OWN = {"mac": HARDWARE, "ifname": "veth9", "state": "permanent"}
OTHER = {"mac": "0a:58:0a:10:01:03", "ifname": "veth3", "state": ""}
LEARNT = {"mac": HARDWARE, "ifname": "veth2", "state": ""}


@pytest.mark.parametrize(
    ("answers", "device"),
    [
        (routed("veth1", VETH), "veth1"),
        (routed("eth0", {}), ""),
        (routed("flannel.1", {"linkinfo": {"info_kind": "vxlan"}}), ""),
        (bridged([OWN, OTHER, LEARNT], KNOWN), "veth2"),
        (bridged([OTHER, {key: LEARNT[key] for key in ("mac", "ifname")}], KNOWN), "veth2"),
        (bridged([OWN, OTHER], KNOWN), ""),
        (bridged([LEARNT], []), ""),
        (bridged([LEARNT], KNOWN[:1]), ""),
        (bridged([LEARNT | {"ifname": "flannel.1"}], KNOWN), ""),
        ({}, ""),
        ({f"ip -json route get {POD}": [{}]}, ""),
        ({f"ip -json route get {POD}": [{"dst": POD}]}, ""),
        ({f"ip -json route get {POD}": [{"dst": POD, "dev": "veth1"}]}, ""),
        (bridged([LEARNT], KNOWN) | {f"ip -json neighbour show to {POD} dev cni0": None}, ""),
    ],
    ids=[
        "a pair that is routed to",
        "the node's own",
        "another node's",
        "a port of a bridge",
        "a port without a state",
        "not learnt yet",
        "not asked for yet",
        "does not answer",
        "behind another node",
        "no route",
        "an empty answer",
        "a route without a device",
        "gone meanwhile",
        "nothing said at all",
    ],
)
def test_the_interface_of_a_pod(answers: Answers, device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its own and nobody else's: one that is shared would count for others, too."""
    install(answers, tmp_path, monkeypatch)
    assert links.interface_of([POD]) == device


def test_whichever_address_leads_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a Pod with both families the first that does."""
    install(routed("veth6", VETH, "fd00:16::2"), tmp_path, monkeypatch)
    assert links.interface_of([POD, "fd00:16::2"]) == "veth6"
    assert links.interface_of([]) == ""


def test_a_node_without_iproute2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert links.interface_of([POD]) == ""


def install(answers: Answers, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `ip` and a `bridge` that answer these, and refuse whatever else they are asked, as iproute2 does."""
    said = {asked: json.dumps(answer) if answer is not None else "" for asked, answer in answers.items()}
    cases = "".join(f"'{asked}') printf %s '{answer}';;\n" for asked, answer in said.items())
    for name in ("ip", "bridge"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\ncase "{name} $*" in\n{cases}*) echo RTNETLINK answers: no >&2; exit 2;;\nesac\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
