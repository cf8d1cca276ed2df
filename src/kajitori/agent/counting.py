"""One round of the agent: list Pods, count for them, read counters, save totals, forget Pods that left.

The agent may be killed after any step. The next round then reads from the kernel whatever the ledger lacks, and adds
nothing twice.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kajitori.agent.engines.engine import Engine
from kajitori.agent.pods import PodSource
from kajitori.agent.state import LedgerFile
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import (
    Counter,
    Ledger,
    Lost,
    Pod,
    with_pods,
    with_reading,
    without_ended_pods,
    without_old_runs,
)

log = logging.getLogger(__name__)


@dataclass
class Health:
    """Figures about the agent itself, for its metrics."""

    repairs: int = 0
    """Number of times that another program's changes to our rules were undone."""
    counters_lost: int = 0
    """Counters that another program deleted or reset; each lost its counts since the last read."""
    failures: int = 0
    """Rounds that failed."""
    uncounted_pods: int = 0
    """Pods on this node that are not counted: no engine can, or their interface or control group was not found."""
    read_seconds: float = 0.0
    """Duration of the last read."""
    read_at: float = 0.0
    """Time of the last read, in seconds since 1970."""
    reported_at: float = 0.0
    """Time of the last read that was reported to a server; 0 for none."""


class Counting:
    """Counts the traffic of one node's Pods."""

    def __init__(
        self,
        engines: Sequence[Engine],
        source: PodSource,
        file: LedgerFile,
        clock: Callable[[], float] = time.time,
        former: Sequence[Engine] = (),
        *,
        reports: bool = False,
    ) -> None:
        """Count each Pod with the first engine that can count it.

        `former` are engines that counted here before an operator chose other ones; their totals are added once.
        `reports` says that totals are sent to a server. A run is then kept until it was reported.
        """
        self._engines = engines
        self._former = former
        self._source = source
        self._file = file
        self._clock = clock
        self._reports = reports
        ledger = file.load()
        self.ledger: Ledger = ledger if ledger.life else msgspec.structs.replace(ledger, life=secrets.token_hex(8))
        self.health = Health()

    def round(self, classes: Classes, keep_runs_seconds: float) -> None:
        """Do all steps once. Raises Unavailable or OSError; the round can then be repeated and nothing is lost."""
        try:
            self._round(classes, keep_runs_seconds)
        except Exception:
            self.health.failures += 1
            raise

    def _round(self, classes: Classes, keep_runs_seconds: float) -> None:
        # 1. List the Pods, and save them before anything counts for them, so that each counter has an owner.
        pods = self._source.pods()
        self._save(with_pods(self.ledger, pods.values()))
        # 2. Count for these Pods and no others.
        self._former = [engine for engine in self._former if engine.stop()]
        repaired = self._count(pods, classes)
        # 3. Add to the ledger what was counted since the last round.
        started = time.perf_counter()
        reading: dict[str, Counter] = {}
        for engine in self._former:
            reading |= engine.read()
        former = frozenset(reading)
        for engine in self._engines:
            reading |= engine.read()
        self.health.read_seconds = time.perf_counter() - started
        now, last_read_at = self._clock(), self.health.read_at
        self.health.read_at = now
        ledger, lost = with_reading(self.ledger, reading, now)
        # 4. Save the ledger. The counters of Pods that left are no longer needed after that.
        reported_at = min(now, self.health.reported_at) if self._reports else now
        self._save(without_old_runs(without_ended_pods(ledger, pods.keys(), former), reported_at, keep_runs_seconds))
        self._report(repaired, lost, now - last_read_at if 0 < last_read_at < now else None)
        # 5. Delete those counters.
        for engine in self._engines:
            engine.forget(self.ledger.closing)
        for engine in self._former:
            engine.uninstall()
        self._former = ()

    def _count(self, pods: Mapping[str, Pod], classes: Classes) -> list[str]:
        """Tell every engine its Pods; return the names of engines with rules that another program had changed."""
        shares: dict[str, dict[str, Pod]] = {engine.name: {} for engine in self._engines}
        uncounted = 0
        for uid, pod in pods.items():
            engine = next((engine for engine in self._engines if engine.takes(pod)), None)
            if engine is not None:
                shares[engine.name][uid] = pod
            elif pod.interface or pod.addresses:
                uncounted += 1
        repaired = [engine.name for engine in self._engines if engine.count(shares[engine.name], classes)]
        self.health.uncounted_pods = uncounted + sum(engine.missing for engine in self._engines)
        return repaired

    def _save(self, ledger: Ledger) -> None:
        self._file.save(ledger)
        self.ledger = ledger

    def _report(self, repaired: Sequence[str], lost: Lost, since_read_seconds: float | None) -> None:
        """Log and count what other programs changed. `since_read_seconds`: None if unknown."""
        self.health.repairs += len(repaired)
        for name in repaired:
            log.warning("another program changed the rules that count traffic (%s); they are restored", name)
        count = len(lost.deleted) + len(lost.reset)
        self.health.counters_lost += count
        if count:
            known = since_read_seconds is not None
            period = f"in the last {since_read_seconds:.0f} s" if known else "since they were last read"
            words = "another program deleted %d counters and reset %d: what they counted %s is lost"
            log.warning(words, len(lost.deleted), len(lost.reset), period)
