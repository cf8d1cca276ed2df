"""`kaji agent`: counts the traffic of one node's Pods and samples the members of runs. It uses threads and no event
loop, since it does few things at a time."""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kajitori.agent.counting import Counting
from kajitori.agent.engines.cgroups import groups_of_pod
from kajitori.agent.engines.choice import choose_engines, other_engines, uninstall
from kajitori.agent.engines.links import interface_of
from kajitori.agent.exposition import exposition
from kajitori.agent.metrics_server import serve_metrics
from kajitori.agent.pods import NoPodsYet, PodFolder, PodSource
from kajitori.agent.policy import TrafficSection
from kajitori.agent.relay import RelayPods
from kajitori.agent.reporting import Reporting
from kajitori.agent.servers import Servers
from kajitori.agent.state import LedgerFile, discard, exclusive_folder, exclusive_network
from kajitori.agent.telemetry.gpus.choice import choose_gpus
from kajitori.agent.telemetry.pods import PodMembers
from kajitori.agent.telemetry.reporting import TelemetryReporting
from kajitori.agent.telemetry.samples import MemberSamples, Sampling
from kajitori.configuration.options.nodes import AgentOptions
from kajitori.configuration.tls_files import FileText, ServingCertificate, TrustedAuthorities
from kajitori.entrypoints.logs import begin_logging, is_json, log_end, say
from kajitori.errors import KajitoriError, Unavailable, Unsupported
from kajitori.monitoring.metrics import new_registry

log = logging.getLogger("kajitori.agent")

LOOK_SECONDS = 0.25
"""Time between two checks for new Pods."""
RETRY_SECONDS = 1.0
"""Pause after a round that failed."""
LOGGED_AGAIN_SECONDS = 60.0
"""Time after which an error that persists is logged again."""
SILENT_ROUNDS = 4
"""Number of intervals without a successful round after which the agent is unhealthy."""


def agent(options: AgentOptions) -> int:
    """Count until told to stop. The counters stay in the kernel and in the data folder for the next agent."""
    begin_logging(options)
    try:
        _count(options)
    except KajitoriError as error:
        if is_json():
            return log_end(error)
        raise
    return 0


def _count(options: AgentOptions) -> None:
    _require_root()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with exclusive_network(), exclusive_folder(options.data), _pod_source(options) as source:
        section = TrafficSection(options.policy)
        engines = choose_engines(section.current().engine)
        reports = bool(options.report)
        counting = Counting(engines, source, LedgerFile(options.data), former=other_engines(engines), reports=reports)
        rounds = Rounds(counting, section)
        rounds.run_once()
        registry = new_registry()
        tls = ServingCertificate.of(options.certificate, options.key)
        token = FileText("--metrics-token", options.metrics_token) if options.metrics_token is not None else None

        with (
            serve_metrics(
                options.host,
                options.port,
                lambda: exposition(counting, registry),
                rounds.are_well,
                tls=tls,
                token=token,
            ) as port,
            _report_totals(options, counting, section),
            _sample_telemetry(options, source),
        ):
            words = ", ".join(engine.name for engine in engines)
            say(f"Counting ({words}); metrics at {'https' if tls else 'http'}://{options.host}:{port}/metrics.")
            gc.collect()
            gc.freeze()
            _count_until(rounds, section, source, stop)


def remove(data: Path) -> list[str]:
    """Remove everything that agents installed on this node; return a list of it. Raises Conflict while an agent
    runs."""
    _require_root()
    with exclusive_network(), exclusive_folder(data):
        removed = uninstall()
        discard(data)
    return removed


def _require_root() -> None:
    if os.geteuid() != 0:
        raise Unsupported("only root may tell the kernel to count traffic", hint="run it as root: sudo kaji agent …")


@contextmanager
def _pod_source(options: AgentOptions) -> Iterator[PodSource]:
    """Yield the source of the node's Pods: the folder that the node's network plugin writes, else a relay."""
    if options.pods is not None:
        yield PodFolder(options.pods)
        return
    relays = Servers(options.relay, options.relay_token, _trusted_authorities("--relay-ca", options.relay_ca))
    pods = RelayPods(relays, options.node, interface_of=interface_of, cgroups_of=groups_of_pod)
    pods.start()
    try:
        yield pods
    finally:
        pods.stop()


@contextmanager
def _report_totals(options: AgentOptions, counting: Counting, section: TrafficSection) -> Iterator[None]:
    """Report totals to the servers of the options, if any, while the context lasts."""
    if not options.report:
        yield
        return
    servers = Servers(options.report, options.report_token, _trusted_authorities("--report-ca", options.report_ca))
    reporting = Reporting(servers, options.node, counting, lambda: float(section.current().report_seconds))
    reporting.start()
    try:
        yield
    finally:
        reporting.stop()


@contextmanager
def _sample_telemetry(options: AgentOptions, source: PodSource) -> Iterator[None]:
    """Sample this node's members and report to the servers of the options, if any, while the context lasts."""
    if not options.report or not options.telemetry:
        yield
        return
    servers = Servers(options.report, options.report_token, _trusted_authorities("--report-ca", options.report_ca))
    gpus = choose_gpus(options.dcgm)
    samples = MemberSamples(PodMembers(source, gpus, options.host_root), gpus)
    sampling, reporting = Sampling(samples), TelemetryReporting(servers, options.node, samples)
    sampling.start()
    reporting.start()
    try:
        yield
    finally:
        reporting.stop()
        sampling.stop()


def _trusted_authorities(option: str, certificates: Path | None) -> TrustedAuthorities | None:
    """Return the authorities in this file; None without a file. Raises InvalidInput."""
    return TrustedAuthorities(option, certificates) if certificates is not None else None


def _count_until(rounds: Rounds, section: TrafficSection, source: PodSource, stop: threading.Event) -> None:
    stamp, due = source.stamp(), 0.0
    while not stop.wait(LOOK_SECONDS):
        now, seen = time.monotonic(), source.stamp()
        if now < due and seen == stamp:
            continue
        stamp = seen
        due = now + (section.current().every_seconds if rounds.run_once() else RETRY_SECONDS)


class Rounds:
    """Runs rounds of counting. An error is logged at once, and once a minute while it persists. That the agent waits
    for the source of Pods is logged once."""

    def __init__(
        self, counting: Counting, section: TrafficSection, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counting = counting
        self._section = section
        self._clock = clock
        self._well_at = -math.inf
        self._said = ""
        self._said_at = -math.inf

    def run_once(self) -> bool:
        """Run a round; return whether it succeeded."""
        traffic = self._section.current()
        try:
            self._counting.round(self._section.classes, traffic.keep_runs_seconds)
        except NoPodsYet as error:
            if str(error) != self._said:
                log.warning("waiting for this node's Pods: %s", error)
            self._said, self._said_at = str(error), self._clock()
            return False
        except (Unavailable, OSError) as error:
            self._say(str(error))
            return False
        if self._said:
            log.info("traffic is counted again")
        self._said, self._said_at = "", -math.inf
        self._well_at = self._clock()
        return True

    def are_well(self) -> bool:
        """Whether a round succeeded recently, by the monotonic clock."""
        return self._clock() - self._well_at < SILENT_ROUNDS * self._section.current().every_seconds

    def _say(self, trouble: str) -> None:
        now = self._clock()
        if trouble != self._said or now - self._said_at >= LOGGED_AGAIN_SECONDS:
            self._said, self._said_at = trouble, now
            log.error("cannot read traffic; the kernel keeps counting meanwhile, so that nothing is lost: %s", trouble)
