"""`kaji agent`: counts the traffic of one node's Pods. Threads and no event loop: it is small, and does one thing."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
from pathlib import Path

from kajitori.agent.counting import Counting
from kajitori.agent.engines import chosen, uninstall
from kajitori.agent.exposition import exposition
from kajitori.agent.pods import PodFolder
from kajitori.agent.policy import TrafficSection
from kajitori.agent.server import serving
from kajitori.agent.state import LedgerFile, alone, discard
from kajitori.errors import Unavailable
from kajitori.monitoring.metrics import new_registry
from kajitori.settings import AgentOptions

log = logging.getLogger("kajitori.agent")

LOOK_SECONDS = 0.25
"""How soon a Pod that comes is counted."""
AGAIN_SECONDS = 1.0
"""After a round that failed."""
SILENT_ROUNDS = 4
"""An agent that has read nothing for so many intervals is not healthy."""


def agent(options: AgentOptions) -> int:
    """Counts until it is told to stop. What it counted stays in the kernel and in its folder for the next one."""
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with alone(options.data):
        section = TrafficSection(options.policy)
        engines = chosen(section.current().engine)
        counting = Counting(engines, PodFolder(options.pods), LedgerFile(options.data))
        _round(counting, section)
        registry = new_registry()

        def healthy() -> bool:
            return time.time() - counting.health.read_at < SILENT_ROUNDS * section.current().every_seconds

        with serving(options.host, options.port, lambda: exposition(counting, registry), healthy) as port:
            words = ", ".join(engine.name for engine in engines)
            sys.stderr.write(f"Counting ({words}); metrics at http://{options.host}:{port}/metrics.\n")
            sys.stderr.flush()
            gc.collect()
            gc.freeze()
            _go_on(counting, section, PodFolder(options.pods), stop)
    return 0


def remove(data: Path) -> list[str]:
    """Takes away what agents made on this node; says what that was. Raises Conflict while one is counting."""
    with alone(data):
        removed = uninstall()
        discard(data)
    return removed


def _go_on(counting: Counting, section: TrafficSection, folder: PodFolder, stop: threading.Event) -> None:
    stamp, due = folder.stamp(), 0.0
    while not stop.wait(LOOK_SECONDS):
        now, seen = time.monotonic(), folder.stamp()
        if now < due and seen == stamp:
            continue
        stamp = seen
        due = now + (section.current().every_seconds if _round(counting, section) else AGAIN_SECONDS)


def _round(counting: Counting, section: TrafficSection) -> bool:
    """Whether a round went well."""
    traffic = section.current()
    try:
        counting.round(section.classes, traffic.keep_runs_seconds)
    except (Unavailable, OSError) as error:
        log.error("traffic was not read; what passes meanwhile is not lost: %s", error)
        return False
    return True
