"""The interface that leads to a Pod, in a real network and for other answers of iproute2."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks

from kajitori.agent.engines import links

VETH = {"linkinfo": {"info_kind": "veth"}}
BRIDGE = {"linkinfo": {"info_kind": "bridge"}}
POD, HARDWARE = "10.16.1.2", "0a:58:0a:10:01:02"

Answers = dict[str, list[dict[str, Any]] | None]
"""Answers by question; None for an empty answer."""


def routed(device: str, kind: dict[str, Any], address: str = POD) -> Answers:
    """Return a route to the address over a device, and the device's kind."""
    link = f"ip -json -details link show dev {device}"
    return {f"ip -json route get {address}": [{"dst": address, "dev": device}], link: [{"ifname": device} | kind]}


def bridged(entries: list[dict[str, Any]], neighbours: list[dict[str, Any]]) -> Answers:
    """Return a route over a bridge, its ports, and its forwarding table."""
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


@needs_networks
@pytest.mark.root
@in_a_network_of_its_own
def test_the_nodes_end_of_a_pods_network_is_found_by_its_address() -> None:
    """Over a route or a bridge; a route elsewhere is not the Pod's own."""
    ip(
        "link set lo up",
        "link add v0 up type veth peer name p0",
        "route add 10.9.0.2/32 dev v0",
        "link add br0 up type bridge",
        "address add 10.8.0.1/24 dev br0",
        "link add v2 up master br0 type veth peer name p2",
        "link add v1 up address 02:00:00:00:01:01 master br0 type veth peer name p1",
        "neighbour add 10.8.0.2 lladdr 02:00:00:00:00:02 dev br0",
        "neighbour add 10.8.0.4 nud failed dev br0",
        "neighbour add 10.8.0.5 lladdr 02:00:00:00:01:01 dev br0",
        "route add 10.7.0.0/24 dev lo",
    )
    for address, port in (("02:00:00:00:00:03", "v2"), ("02:00:00:00:00:02", "v1")):
        subprocess.run(["bridge", "fdb", "add", address, "dev", port, "master", "static"], check=True)
    assert links.interface_of(["10.9.0.2"]) == "v0"
    assert links.interface_of(["10.8.0.2"]) == "v1"
    assert links.interface_of(["10.8.0.3"]) == "", "nobody has talked to it yet"
    assert links.interface_of(["10.8.0.4"]) == "", "nobody has answered"
    assert links.interface_of(["10.8.0.5"]) == "", "the node's own end has that address"
    assert links.interface_of(["10.7.0.2"]) == "", "it leads to the node itself"
    assert links.interface_of(["10.6.0.2"]) == "", "there is no route"
    assert links.interface_of(["fd00::1", "10.9.0.2"]) == "v0"
    assert links.interface_of([]) == ""


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
def test_only_a_pods_own_interface_is_returned(
    answers: Answers, device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shared one would count other Pods' traffic."""
    install(answers, tmp_path, monkeypatch)
    assert links.interface_of([POD]) == device


def test_the_first_address_that_leads_to_a_pod_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(routed("veth6", VETH, "fd00:16::2"), tmp_path, monkeypatch)
    assert links.interface_of([POD, "fd00:16::2"]) == "veth6"
    assert links.interface_of([]) == ""


def test_an_incomplete_answer_finds_no_interface(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install({}, tmp_path, monkeypatch)
    (tmp_path / "ip").write_text("#!/bin/sh\necho '[{\"dst\": '\n")
    assert links.interface_of([POD]) == ""


def test_without_iproute2_no_interface_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert links.interface_of([POD]) == ""


def install(answers: Answers, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an `ip` and a `bridge` with these answers; they refuse other commands, as iproute2 does."""
    said = {asked: json.dumps(answer) if answer is not None else "" for asked, answer in answers.items()}
    cases = "".join(f"'{asked}') printf %s '{answer}';;\n" for asked, answer in said.items())
    for name in ("ip", "bridge"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\ncase "{name} $*" in\n{cases}*) echo RTNETLINK answers: no >&2; exit 2;;\nesac\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
