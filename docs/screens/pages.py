"""The pages and the states that pictures are taken of, by the folder and name of the picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

PAGES = {
    "runs/list": "/runs",
    "runs/beside": "/runs/default/llama?list=",
    "runs/search": "/runs",
    "runs/clean-up": "/runs",
    "runs/start": "/start?from=default/llama",
    "run/log": "/runs/default/llama",
    "run/members": "/runs/default/bert-large?tab=members",
    "run/members-many": "/runs/default/crowd?tab=members&rank=300",
    "run/events": "/runs/default/llama?tab=events",
    "run/terminal": "/runs/default/llama?tab=terminal&rank=0",
    "run/attempts": "/runs/default/llama?tab=attempts",
    "run/files": "/runs/default/llama?tab=files",
    "run/waiting": "/runs/default/gpt-long",
    "run/figures": "/runs/default/llama?tab=figures",
    "run/tensorboard": "/runs/default/llama?tab=figures",
    "run/time": "/runs/default/llama?tab=time",
    "run/why": "/runs/default/llama?tab=stuck",
    "run/processes": "/runs/default/llama?tab=processes",
    "run/inside": "/runs/default/llama?tab=files&inside=0",
    "runs/compare": "/compare?run=default/llama&run=default/llama-fast",
    "cluster/map": "/cluster",
    "cluster/table": "/cluster?as=table",
    "cluster/node": "/cluster/h100-01",
    "cluster/test": "/cluster/a100-12",
    "cluster/board": "/board",
    "networks/traffic": "/networks",
    "networks/past": "/networks?part=past",
    "networks/use": "/networks?part=use",
    "networks/registry": "/networks?part=registry",
    "networks/check": "/networks?part=check",
    "queue/timeline": "/queue",
    "queue/run": "/queue/default/gpt-long",
    "queue/table": "/queue?as=table",
    "sweeps/list": "/sweeps",
    "sweeps/one": "/sweeps/default/search",
    "usage/usage": "/usage?by=run",
    "usage/history": "/history",
    "usage/audit": "/audit",
    "usage/events": "/events",
    "mine/mine": "/mine",
    "mine/policy": "/policy",
}
"""Addresses on a `kaji up` with some runs."""
LATE = {"run/figures", "run/tensorboard", "run/time", "runs/compare", "usage/usage", "cluster/test"}
"""Pages that show something once the runs have run for some minutes, and the test of a node, which adds a team."""
EMPTY = {
    name: PAGES[name].partition("?")[0]
    for name in ("runs/list", "runs/start", "cluster/map", "cluster/board", "queue/timeline", "sweeps/list")
} | {
    "networks/traffic": "/networks",
    "usage/usage": "/usage",
    "usage/history": "/history",
    "usage/audit": "/audit",
    "mine/mine": "/mine",
}
"""Addresses before there are runs."""
LARGE = {
    "runs/list": "/runs?whose=all",
    "runs/beside": "/runs/vision/{run}?list=whose%3Dall",
    "cluster/map": "/cluster",
    "cluster/table": "/cluster?as=table",
    "cluster/board": "/board",
    "queue/timeline": "/queue",
    "queue/run": "/queue/vision/{waiting}",
    "queue/table": "/queue?as=table",
    "usage/usage": "/usage",
    "usage/history": "/history",
    "usage/audit": "/audit",
    "runs/compare": "/compare?run=vision/{first}&run=vision/{second}&run=vision/{third}&run=vision/{fourth}",
}
"""Addresses on a server with written objects; it tells the names of a run that runs, of one that waits, and of the
newest four."""
COMPARED = {"runs/compare": LARGE["runs/compare"]}
AWAY = {name: LARGE[name] for name in ("runs/list", "runs/beside", "cluster/map", "queue/timeline")} | {
    "runs/start": "/start?from=vision/{run}"
}
"""Addresses that were open when the server went away, or the session ended."""

SHOWS = {
    "runs/beside": "[role=log], [role=region] [role=alert]",
    "runs/search": "[role=option]",
    "run/figures": ".uplot",
    "runs/compare": ".uplot, [aria-label=Differences]",
    "run/files": "table",
    "run/processes": "td:nth-child(2):not(:empty)",
    "run/tensorboard": "a:text-is('Open')",
    "cluster/test": ":text('It is under way')",
    "usage/events": "main li",
    "run/inside": "td",
    "run/members-many": "[role=region] strong",
    "run/terminal": ".xterm-rows :text('#')",
    "cluster/board": "section li, main p",
    "usage/usage": "h2, main p",
}
"""CSS selectors of what a page has to show before its picture is taken."""
WHOLE = {"run/members-many", "cluster/board-phone"}
"""Pictures of the whole page, also of what has to be scrolled to."""
CLICKS: Mapping[str, tuple[str, ...]] = {
    "runs/clean-up": (
        "button:text-is('Clean up')",
        "[role=dialog] [role=combobox]",
        "[role=option]:text-is('at any time')",
    ),
    "run/tensorboard": ("summary:text-is('TensorBoard')", "button:text-is('Start')"),
    "cluster/test": ("button:text-is('Test it')",),
}
"""CSS selectors of what is clicked as soon as the page is there, in this order."""
PRESSES = {"runs/search": "Control+k"}
"""The key that is pressed as soon as the page is there."""
TYPES = {
    "runs/search": "la",
    "run/terminal": "echo rank $KAJI_RANK of $KAJI_WORLD_SIZE; ls -l $KAJI_CHECKPOINT_DIR\n",
}
"""Text that is typed before the picture is taken."""

Server = Literal["up", "full", "long", "japanese", "arabic"]
State = Literal["usual", "empty", "away", "signed-out"]


@dataclass(frozen=True)
class Kind:
    """A kind of pictures: pages on a server, in a state, and the size of the window."""

    pages: Mapping[str, str]
    size: tuple[int, int] = (1440, 900)
    server: Server = "up"
    """`kaji up` with simulated nodes, or written objects: `screens.written` lists them."""
    state: State = "usual"


KINDS = {
    "empty": Kind(EMPTY, state="empty"),
    "usual": Kind(PAGES),
    "wide": Kind(
        {name: PAGES[name] for name in ("runs/list", "runs/beside", "run/log", "queue/timeline")}, (1920, 1080)
    ),
    "laptop": Kind({name: PAGES[name] for name in ("runs/list", "runs/beside", "queue/run")}, (1280, 800)),
    "phone": Kind(PAGES, (360, 740)),
    "full": Kind(LARGE, server="full"),
    "long": Kind(LARGE, server="long"),
    "japanese": Kind(LARGE, server="japanese"),
    "arabic": Kind(LARGE, server="arabic"),
    "long-phone": Kind(COMPARED, (360, 740), server="long"),
    "japanese-phone": Kind(COMPARED, (360, 740), server="japanese"),
    "arabic-phone": Kind(COMPARED, (360, 740), server="arabic"),
    "away": Kind(AWAY, server="long", state="away"),
    "signed-out": Kind(AWAY, server="long", state="signed-out"),
}
"""In the order in which they are taken: those of `kaji up` share one, which is empty at first."""

KEPT: Mapping[str, Collection[str]] = {
    "empty": EMPTY,
    "usual": PAGES,
    "phone": (
        *("runs/list", "runs/start", "run/log", "run/members-many", "run/figures", "cluster/map", "cluster/board"),
        *("queue/timeline", "queue/run", "networks/use", "sweeps/one", "usage/usage", "usage/history", "mine/mine"),
    ),
    "full": ("runs/list", "runs/beside", "cluster/map", "cluster/board", "queue/timeline", "usage/history"),
}
"""The pictures that docs/figures has, by their kind. The others are looked at only."""
