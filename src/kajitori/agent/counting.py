"""The agent's round: who is here, count for them, read, remember, forget those who left.

Each step may be the last one that is done before somebody kills the agent: the next round of the next agent finds in
the kernel whatever the ledger lacks, and nothing in it twice.
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
    """How counting goes, for whoever watches the agent."""

    repairs: int = 0
    """How often somebody else's changes to our rules were undone."""
    counters_lost: int = 0
    """Counters that somebody else deleted or set back: each lost what passed since it was read last."""
    failures: int = 0
    """Rounds that could not be finished."""
    uncounted_pods: int = 0
    """Pods on the node, just now, with a network that no engine here can count, or whose place in it is not found."""
    read_seconds: float = 0.0
    """How long the last read-out took."""
    read_at: float = 0.0
    """When it was, in seconds since 1970."""
    reported_at: float = 0.0
    """When what had been read was told to somebody who keeps totals; 0: not yet."""


class Counting:
    """Counts for the Pods of one node."""

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
        """A Pod is counted by the first of the engines that takes it. What `former` ones counted here, before an
        operator chose others, is taken over. reports: totals are told to somebody; no run is forgotten before that."""
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
        """Does everything once. Raises Unavailable or OSError: then it is to be done again, and nothing is lost."""
        try:
            self._round(classes, keep_runs_seconds)
        except Exception:
            self.health.failures += 1
            raise

    def _round(self, classes: Classes, keep_runs_seconds: float) -> None:
        # 1. Who is here. Written down before anything counts for them, so that each counter has an owner.
        pods = self._source.pods()
        self._keep(with_pods(self.ledger, pods.values()))
        # 2. Count for them, and for nobody else.
        self._former = [engine for engine in self._former if engine.stop()]
        repaired = self._count(pods, classes)
        # 3. Add what is new.
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
        # 4. Remember. From now on nobody needs the counters of those who left.
        told_at = min(now, self.health.reported_at) if self._reports else now
        self._keep(without_old_runs(without_ended_pods(ledger, pods.keys(), former), told_at, keep_runs_seconds))
        self._report(repaired, lost, now - last_read_at if 0 < last_read_at < now else None)
        # 5. Forget them.
        for engine in self._engines:
            engine.forget(self.ledger.closing)
        for engine in self._former:
            engine.uninstall()
        self._former = ()

    def _count(self, pods: Mapping[str, Pod], classes: Classes) -> list[str]:
        """Tells every engine for whom it counts; the names of those whose rules had been changed."""
        shares: dict[str, dict[str, Pod]] = {engine.name: {} for engine in self._engines}
        uncounted = 0
        for uid, pod in pods.items():
            engine = next((each for each in self._engines if each.takes(pod)), None)
            if engine is not None:
                shares[engine.name][uid] = pod
            elif pod.interface or pod.addresses:
                uncounted += 1
        repaired = [engine.name for engine in self._engines if engine.count(shares[engine.name], classes)]
        self.health.uncounted_pods = uncounted + sum(engine.missing for engine in self._engines)
        return repaired

    def _keep(self, ledger: Ledger) -> None:
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
