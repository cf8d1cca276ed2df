"""The audit trail says who took nodes out and back: the controller, people with kaji, and others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.helpers.scenes.gangs import NOW

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.nodes.recording import UNKNOWN, Cordon, change_of_cordon, decisions_about
from kajitori.cluster.objects import Node
from kajitori.cluster.runs.recording import CONTROLLER
from kajitori.controllers.records import node_audit
from kajitori.controllers.records.node_audit import NodeAudit
from kajitori.core.naming import names
from kajitori.core.nodes.health import DRAINED_BY
from kajitori.core.nodes.trail import TrailEvent, new_entry, write_trail
from kajitori.core.usage.records import AuditEntry
from kajitori.errors import Unavailable
from kajitori.history.store import History
from kajitori.kube.decoding import decode
from kajitori.kube.resources import NODES, Resource

FREE = Cordon("u1", False, "")
BY_KUBECTL = Cordon("u1", True, "")
BY_ADA = Cordon("u1", True, "ada")
BY_US = Cordon("u1", True, f"{DRAINED_BY}MembersFail")


def node(*entries: Any, cordoned: bool = False, drained_by: str = "") -> Node:
    annotations = {names.ANNOTATION_HEALTH: write_trail(entries)} | (
        {names.ANNOTATION_DRAIN: drained_by} if drained_by else {}
    )

    meta = {"name": "gpu-1", "uid": "u1", "annotations": annotations}
    return decode(json.dumps({"metadata": meta, "spec": {"unschedulable": cordoned}}).encode(), Node)


@pytest.mark.parametrize(
    ("before", "after", "noted"),
    [
        (FREE, BY_KUBECTL, (UNKNOWN, "cordon node", "")),
        (BY_KUBECTL, FREE, (UNKNOWN, "uncordon node", "")),
        (FREE, BY_US, (CONTROLLER, "drain node", "MembersFail")),
        (BY_US, FREE, (CONTROLLER, "uncordon node", "MembersFail")),
        (FREE, BY_ADA, None),
        (BY_ADA, FREE, None),
        (BY_KUBECTL, BY_ADA, None),
        (Cordon("u0", True, ""), FREE, None),
    ],
)
def test_a_cordon_is_noted_unless_the_web_api_notes_it(before: Cordon, after: Cordon, noted: Any) -> None:
    """`kaji drain` and `kaji uncordon` are noted with their user; a new node of the same name was not uncordoned."""
    found = change_of_cordon("gpu-1", before, after, NOW)
    assert (found and (found.actor, found.action, found.rule)) == noted


def test_decisions_about_a_nodes_health_have_keys_of_their_own() -> None:
    """They are read from the Node again after every crash, and are stored once."""
    out = new_entry(NOW, TrailEvent.OUT, "MembersFail", evidence=["3 runs failed here"])
    back = new_entry(NOW, TrailEvent.BACK, "ByHand", by="ada")
    (found,) = decisions_about(node(out, back))
    assert (found.actor, found.action, found.object, found.rule) == (
        CONTROLLER,
        "take node out of the pool",
        "node gpu-1",
        "MembersFail",
    )
    assert found.message == "out of the pool: MembersFail; 3 runs failed here"
    assert [entry.key for entry in decisions_about(node(out))] == [found.key]


class Shown:
    """The part of a mirror that is needed."""

    synced = True

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.told: list[Callable[[Resource, str, str], None]] = []

    def on_change(self, told: Callable[[Resource, str, str], None]) -> Callable[[], None]:
        self.told.append(told)
        return lambda: self.told.remove(told)

    async def wait_synced(self) -> None:
        """It always is."""

    def show(self, found: Node) -> None:
        self.nodes[found.metadata.name] = found
        for told in self.told:
            told(NODES, "", found.metadata.name)


class Trail:
    """A history that fails once."""

    def __init__(self) -> None:
        self.noted: dict[str, AuditEntry] = {}
        self.fails = 1
        self.written = asyncio.Event()

    async def note(self, entries: list[AuditEntry]) -> None:
        if self.fails:
            self.fails -= 1
            raise Unavailable("down")
        self.noted |= {entry.key: entry for entry in entries}
        self.written.set()


async def test_changes_of_nodes_reach_the_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided earlier, and what changes from now on, also if the database does not answer at first."""
    monkeypatch.setattr(node_audit, "GATHER_SECONDS", 0)
    monkeypatch.setattr(node_audit, "PAUSE_SECONDS", 0)
    shown, trail = Shown(), Trail()
    out = new_entry(NOW, TrailEvent.OUT, "NodeLost")
    shown.show(node(out))
    following = asyncio.create_task(NodeAudit(cast(History, trail), cast(Mirror, shown), lambda: NOW).follow())
    async with asyncio.timeout(10):
        await trail.written.wait()
        trail.written.clear()
        shown.show(node(out, cordoned=True))
        await trail.written.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert [entry.action for entry in trail.noted.values()] == ["take node out of the pool", "cordon node"]
    assert shown.told == []


async def test_entries_beyond_the_limit_go_to_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest ones, while the database does not answer."""
    monkeypatch.setattr(node_audit, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(node_audit, "MOST_WAITING", 2)
    shown, trail = Shown(), Trail()
    audit = NodeAudit(cast(History, trail), cast(Mirror, shown), lambda: NOW)
    reasons = ("NodeLost", "MembersFail", "GpuLost")
    shown.nodes["gpu-1"] = node(
        *(new_entry(NOW + timedelta(hours=hour), TrailEvent.OUT, reason) for hour, reason in enumerate(reasons))
    )
    audit._look_at("gpu-1")
    await audit._write_entries()
    await audit._write_entries()
    assert [entry.rule for entry in trail.noted.values()] == ["MembersFail", "GpuLost"]
    assert "no more room for: take node out of the pool" in caplog.text
