"""Health, version and metrics of this server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.responses import Response

from kajitori import __version__
from kajitori.api.answers.problems import own_failure
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import require_definition
from kajitori.api.nodes.board import board
from kajitori.api.nodes.health import running_tests, test_of
from kajitori.api.rendering.runs import phase_of
from kajitori.api.views.nodes import GuaranteeView
from kajitori.api.views.server import ControllerView, Health, HistoryView, Version, controller_view
from kajitori.core.formats.times import parse_time
from kajitori.core.naming import names
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.spec.reasons import Phase
from kajitori.core.telemetry.stuck import Verdict
from kajitori.errors import KajitoriError, Unavailable
from kajitori.monitoring import metrics

router = APIRouter(tags=["server"])

NODE_STATES = ("ready", "cordoned", "notReady", "unhealthy", "untested")
TEST_STATES = ("asked", "testing", "passed", "failed", "untested")
RUN_HEALTH = ("starting", "healthy", "unhealthy")
STUCK_VERDICTS = (Verdict.SUSPECTED, Verdict.STUCK)

UNSTABLE_SETBACKS = 5
"""Restarts and interruptions after which a run counts as unstable, if the last was within `UNSTABLE_WITHIN`."""
UNSTABLE_WITHIN = timedelta(hours=1)

READY_SECONDS = 2.0
"""An API server that does not answer within this time does not count as reachable."""

REACHED_SECONDS = 1.0
"""Longest time for which `/readyz` reuses an answer of the API server. Callers need no token, so simultaneous calls
share one request, and the next request waits for a multiple of the time that the last one took."""

STALE_SECONDS = 10.0
"""A server whose view of the cluster is older than this is not ready."""


@router.get("/healthz", responses=describes(Health), summary="Whether this process answers")
async def healthz() -> Response:
    """Restart it if this fails. It does not depend on the cluster."""
    return answer(Health(status="ok"))


@router.get("/readyz", responses=describes(Health), summary="Whether this server can serve")
async def readyz(api: Shared) -> Response:
    """503 until the cluster's state has been read, while it is stale, and while the API server does not answer; with
    `kaji up` also until this machine's node is ready for runs. A server without a controller is ready, since it can
    still show the cluster; the answer then says that no controller is at work. It also says how far history lags
    behind, which keeps no server from being ready."""
    if not api.mirror.synced:
        raise Unavailable("the cluster's state is still being read", hint=api.mirror.trouble)
    require_definition(api)
    if awaited := api.process.awaited():
        raise Unavailable(awaited)
    try:
        async with asyncio.timeout(READY_SECONDS):
            await api.remembered.ask("readyz", lambda: _reach(api), longest_seconds=REACHED_SECONDS)
    except TimeoutError:
        raise Unavailable(f"the API server did not answer within {READY_SECONDS:.0f} s") from None
    except KajitoriError as error:
        raise own_failure(error) from error
    age_seconds = api.mirror.age_seconds()
    if age_seconds > STALE_SECONDS:
        raise Unavailable(f"this server's view of the cluster is {age_seconds:.0f} s old", hint=api.mirror.trouble)
    health = Health(status="ok", controller=controller_view(api.leader.state()))
    lag = api.stores.history_lag
    if lag.exists:
        behind = lag.seconds()
        seconds = None if behind is None else round(behind, 1)
        health = msgspec.structs.replace(health, history=HistoryView(behind_seconds=seconds, says=lag.says()))
    return answer(health)


@router.get("/v1/controller", responses=describes(ControllerView), summary="Whether a controller is at work")
async def get_controller(api: Shared, user: Caller) -> Response:
    """Judged by the leader's Lease: the answer says how long ago this server saw it change. Sends no request to the
    API server."""
    return answer(controller_view(api.leader.state()))


@router.get("/v1/version", responses=describes(Version), summary="Versions, and the caller's name")
async def get_version(api: Shared, user: Caller) -> Response:
    """The version of Kubernetes is empty if the API server does not answer with it."""
    try:
        kubernetes = await kubernetes_version(api)
    except KajitoriError:
        kubernetes = ""
    leader = controller_view(api.leader.state())
    return answer(Version(version=__version__, kubernetes=kubernetes, user=user.name, controller=leader))


async def _reach(api: Api) -> bytes:
    return (await kubernetes_version(api)).encode()


async def kubernetes_version(api: Api) -> str:
    """Return the API server's `gitVersion`; empty if its answer has none."""
    document: Any = msgspec.json.decode(await api.client.request("GET", "/version"))
    return str(document.get("gitVersion", "")) if isinstance(document, dict) else ""


@router.get("/metrics", include_in_schema=False)
async def read_metrics(api: Shared) -> Response:
    """Metrics for Prometheus. They name no users and no runs."""
    return Response(generate_latest(api.process.registry), media_type=CONTENT_TYPE_LATEST)


class ClusterCollector(Collector):
    """Metrics about the cluster, computed from the mirror at each scrape."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Yield the metrics without values, so that registering the collector does not compute them."""
        yield from (metrics.runs_by_phase(), metrics.nodes_by_state(), metrics.gpus_by_state())
        yield metrics.gpus_idle()
        yield from (metrics.nodes_suspected(), metrics.node_tests())
        yield from (metrics.mirror_synced(), metrics.mirror_troubled(), metrics.policy_faults())
        yield from (metrics.controller_lease_age(), metrics.guaranteed(), metrics.guaranteed_used())
        yield from (metrics.guaranteed_waiting(), metrics.runs_unstable(), metrics.runs_stuck(), metrics.runs_checked())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics with their current values."""
        api = self._api
        phases = Counter(phase_of(run) for run in api.mirror.runs.values())
        runs = metrics.runs_by_phase()
        for phase in Phase:
            runs.add_metric((phase.value,), phases[phase])
        yield runs
        states: Counter[str] = Counter()
        for facts in api.cluster.table().nodes:
            states[_state(facts)] += 1
        nodes = metrics.nodes_by_state()
        for state in NODE_STATES:
            nodes.add_metric((state,), states[state])
        yield nodes
        yield from self._health()
        gpus, idle, shown = metrics.gpus_by_state(), metrics.gpus_idle(), board(api)
        yield from _guarantees(shown.guarantees)
        yield from self._troubled_runs({view.namespace for view in shown.guarantees})
        for row in shown.types:
            for state, count in (("used", row.used), ("free", row.free), ("broken", row.broken)):
                gpus.add_metric((row.type or "unknown", state), count)
            idle.add_metric((row.type or "unknown",), row.idle)
        yield from (gpus, idle)
        for family, value in (
            (metrics.mirror_synced(), float(api.mirror.synced)),
            (metrics.mirror_troubled(), float(bool(api.mirror.trouble))),
            (metrics.policy_faults(), float(len(api.policy.current().faults))),
        ):
            family.add_metric((), value)
            yield family
        lease, age = metrics.controller_lease_age(), api.leader.state().age_seconds
        if age is not None:  # no sample if the age is unknown
            lease.add_metric((), age)
        yield lease

    def _health(self) -> Iterator[GaugeMetricFamily]:
        api = self._api
        suspected = metrics.nodes_suspected()
        suspected.add_metric((), len(api.health.verdict(api.mirror.now()).warnings))
        yield suspected
        running, policy = running_tests(api), api.cluster.policy
        counts = Counter(
            test.state for node in api.mirror.nodes.values() if (test := test_of(node, policy, running)) is not None
        )
        tests = metrics.node_tests()
        for state in TEST_STATES:
            tests.add_metric((state,), counts[state])
        yield tests

    def _troubled_runs(self, guaranteed_teams: Collection[str]) -> Iterator[GaugeMetricFamily]:
        """Yield how many runs wait in each team with a guarantee, restart again and again, make no progress, or are
        unhealthy."""
        waiting, unstable = Counter(dict.fromkeys(guaranteed_teams, 0)), 0
        stuck, checked = dict.fromkeys(STUCK_VERDICTS, 0), Counter[str]()
        recent = self._api.mirror.now() - UNSTABLE_WITHIN
        for (team, _), run in self._api.mirror.runs.items():
            phase = phase_of(run)
            if team in guaranteed_teams and phase in (Phase.QUEUED, Phase.RESTARTING):
                waiting[team] += 1
            status = run.status
            if status is not None and not phase.is_final and status.setback is not None:
                at = parse_time(status.setback.at)
                setbacks = status.restarts + status.interruptions
                unstable += setbacks >= UNSTABLE_SETBACKS and at is not None and at >= recent
            if phase is Phase.RUNNING and status is not None and status.stuck is not None:
                stuck[Verdict.STUCK if status.stuck.verdict == Verdict.STUCK else Verdict.SUSPECTED] += 1
            if phase is Phase.RUNNING and status is not None and status.health is not None:
                checked[status.health.status] += 1
        families = metrics.guaranteed_waiting(), metrics.runs_unstable(), metrics.runs_stuck(), metrics.runs_checked()
        for team, count in waiting.items():
            families[0].add_metric((team,), count)
        families[1].add_metric((), unstable)
        for verdict, count in stuck.items():
            families[2].add_metric((verdict.value,), count)
        for health in RUN_HEALTH:
            families[3].add_metric((health,), checked[health])
        yield from families


def _guarantees(views: Iterable[GuaranteeView]) -> Iterator[GaugeMetricFamily]:
    """Yield the amounts that the policy guarantees, and how much of them is used."""
    guaranteed, used = metrics.guaranteed(), metrics.guaranteed_used()
    for view in views:
        resources = (("gpus", view.gpus, 1), ("cores", view.cpu_millis, 1000), ("memory_bytes", view.memory_bytes, 1))
        for resource, amount, unit in (*resources, ("nodes", view.nodes, 1)):
            if amount is not None:
                labels = (view.namespace, view.gpu_type or "", resource)
                guaranteed.add_metric(labels, amount.total / unit)
                used.add_metric(labels, amount.used / unit)
    yield guaranteed
    yield used


def _state(facts: NodeFacts) -> str:
    """Return the state that a node counts as: the one that needs an operator's attention most."""
    if any(taint.key == names.TAINT_UNHEALTHY for taint in facts.out):
        return "unhealthy"
    if not facts.ready:
        return "notReady"
    if not facts.schedulable:
        return "cordoned"
    return "untested" if facts.out else "ready"
