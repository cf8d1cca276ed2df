"""When `kaji up` reports that it is ready, and how it describes a repair."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kajitori.embedded.store.repair import Repaired
from kajitori.entrypoints.parts.own_cluster import OwnNode
from kajitori.entrypoints.parts.up_texts import repair_report


class Nodes:
    """A mirror that has only nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}
        self.callbacks: list[Any] = []

    def on_change(self, callback: Any) -> Any:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def show(self, name: str, *, ready: bool) -> None:
        self.nodes[name] = SimpleNamespace(is_ready=ready)
        for callback in self.callbacks:
            callback()


async def test_it_is_ready_once_its_kubelet_has_made_its_node_ready() -> None:
    """A Node of an earlier process that is still shown does not count. Once it was ready, it is not waited for
    again."""
    mirror, registered = Nodes(), asyncio.Event()
    kubelet = SimpleNamespace(registered=registered, settings=SimpleNamespace(node_name="laptop"))
    node = OwnNode(cast(Any, mirror), cast(Any, kubelet))
    mirror.show("laptop", ready=True)
    assert node.awaited() == "this machine's node laptop is not ready for runs yet"
    waiting = asyncio.create_task(node.wait())
    mirror.show("laptop", ready=False)
    registered.set()
    assert node.awaited()
    await asyncio.sleep(0)
    mirror.show("other", ready=True)
    await asyncio.sleep(0)
    assert not waiting.done()
    mirror.show("laptop", ready=True)
    await asyncio.wait_for(waiting, 60)
    assert (node.awaited(), mirror.callbacks) == ("", [])
    mirror.show("laptop", ready=False)
    assert node.awaited() == ""


def test_a_repair_lists_lost_objects_and_where_the_damaged_files_are() -> None:
    lost = (("/pods", "default", "bert-1-0"), ("kajitori.dev/runs", "default", "bert"), ("/nodes", "", "h100-1"))
    kept = Path("/data/objects/damaged-1")
    assert repair_report(
        Repaired(kept, "the objects are damaged: row 1", 15, lost, may_lack_more=True)
    ).splitlines() == [
        "The objects are damaged: row 1.",
        "Objects that could be read: 15.",
        "Lost: 3.",
        "  pods default/bert-1-0",
        "  kajitori.dev/runs default/bert",
        "  nodes h100-1",
        "More may be lost, since the list of all objects is damaged, too.",
        "The damaged files are kept in /data/objects/damaged-1; delete them if nothing is missing.",
    ]
    assert "Nothing is lost." in repair_report(Repaired(kept, "its log is damaged", 15))
    assert repair_report(Repaired(None, objects=3)).startswith("Nothing to repair: all 3 objects")
