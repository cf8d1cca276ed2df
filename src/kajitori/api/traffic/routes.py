"""Network traffic by run, user, namespace and node, summed up from the reports of the nodes' agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.agents import NodeAgent
from kajitori.api.answers.paging import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.requests.bodies import JSON, require_media_type
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.views.base import Time, View
from kajitori.core.formats.node_lists import compress
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.suggestions import did_you_mean
from kajitori.core.traffic.cluster_traffic import WINDOW_SECONDS, ClusterTraffic, Group, Subject
from kajitori.core.traffic.report import PATH, node_traffic, read_report
from kajitori.core.traffic.totals import DIRECTIONS, Count, Totals, run_id
from kajitori.errors import InvalidInput

router = APIRouter(tags=["network"])

SILENT_REPORTS = 5
"""Number of report intervals after which an agent without a report counts as silent."""


class TrafficCount(View):
    """Traffic in one direction."""

    bytes: int
    packets: int
    """Packets as the kernel counts them: a large packet that the network card splits or joins is one."""
    bytes_per_second: int
    """Average over the last `rateSeconds`."""


class ClassTraffic(View):
    """Traffic with the addresses of one class (the policy's `traffic.classes`)."""

    name: str
    received: TrafficCount
    sent: TrafficCount


class TrafficRow(View, omit_defaults=True):
    """Bytes received and sent, over all nodes."""

    name: str
    """Name of the run, user, namespace or node."""
    classes: list[ClassTraffic]
    namespace: str = ""
    """Namespace of the run."""
    run_id: str = ""
    """Distinguishes runs of the same name, here and in the agents' metrics; it is not the UID."""
    user: str = ""
    """The user who submitted the run; empty if unknown."""


class TrafficNodes(View):
    """The part of the cluster whose traffic is counted."""

    counted: int
    """Number of nodes whose agents reported recently."""
    silent: str
    """Other nodes, as a list such as `gpu-[00001-00004]`: their traffic since their last report is missing."""
    silent_count: int
    uncounted_pods: int
    """Pods with a network that no agent can count."""


class TrafficList(View, omit_defaults=True):
    """Sums of traffic, the largest recent ones first."""

    items: list[TrafficRow]
    total: int
    """Number of all rows; `items` may hold fewer."""
    order_class: str
    """The class of addresses that the rows are ordered by."""
    rate_seconds: int
    """Time over which rates are averaged, in seconds."""
    nodes: TrafficNodes
    at: Time
    kept: bool
    """Whether totals outlive this server. If not, the totals of ended runs are lost when it stops."""
    hidden: int = 0
    """Number of runs in namespaces whose runs the caller may not list; the sums of namespaces, users and nodes include
    their bytes."""


class RunTrafficView(TrafficList):
    """Traffic of a run; `items` are its nodes."""

    run: TrafficRow | None = None


class TrafficParameters(Parameters):
    by: Group = "run"
    """Sums of runs, users, namespaces or nodes."""
    namespace: str = Field(default="", max_length=253)
    """Only runs of this namespace; needs the right to list them."""
    class_: str = Field(default="", alias="class", max_length=63)
    """Order by traffic with addresses of this class. Default: the policy's `traffic.others`, such as internet."""
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of items."""


class TrafficRunParameters(Parameters):
    class_: str = Field(default="", alias="class", max_length=63)
    """As in /v1/traffic."""


@router.get("/v1/traffic", responses=describes(TrafficList), summary="Traffic by run, user, namespace and node")
async def list_traffic(api: Shared, user: Caller, query: Annotated[TrafficParameters, Query()]) -> Response:
    """Every authenticated user may read the sums of users, namespaces and nodes, as with the GPU board: a congested
    network affects everyone. The traffic of single runs needs the right to list the runs of their namespace."""
    traffic, now, by_class = api.traffic.keeper.traffic, api.now().timestamp(), order_class(api, query.class_)
    require_by_run(query.by, query.namespace)
    subjects = traffic.ranked(query.by, by_class, now)
    hidden = 0
    if query.by == "run":
        readable = await readable_namespaces(
            api, user, query.namespace, {run.namespace for run in traffic.runs.values()}
        )
        shown = [run for run in subjects if readable is None or traffic.runs[run.key].namespace in readable]
        hidden = 0 if query.namespace else len(subjects) - len(shown)
        subjects = shown
    rows = [_row(traffic, subject, now) for subject in subjects[: query.limit]]
    listing = _listing(api, rows, len(subjects), by_class, now)
    listing.hidden = hidden
    return answer(listing)


@router.get("/v1/runs/{namespace}/{name}/traffic", responses=describes(RunTrafficView), summary="Traffic of a run")
async def run_traffic(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[TrafficRunParameters, Query()]
) -> Response:
    """The sum of all attempts, and the traffic on each node."""
    run = await find_run(api, user, namespace, name)
    traffic, now, order = api.traffic.keeper.traffic, api.now().timestamp(), order_class(api, query.class_)
    row = _row(traffic, Subject("run", run.metadata.uid), now)
    row.name, row.namespace, row.run_id = run.metadata.name, namespace, run_id(run.metadata.uid)

    def moved(item: tuple[str, Totals]) -> tuple[int, str]:
        return -sum(item[1].get(f"{order}.{direction}", Count()).bytes for direction in DIRECTIONS), item[0]

    nodes = sorted(traffic.nodes_of_run(run.metadata.uid).items(), key=moved)
    rows = [TrafficRow(name=node, classes=_classes(totals, {})) for node, totals in nodes[:MAX_LIMIT]]
    listing = _listing(api, rows, len(nodes), order, now)
    return answer(RunTrafficView(**{field: getattr(listing, field) for field in listing.__struct_fields__}, run=row))


@router.post(
    PATH,
    dependencies=[NodeAgent],
    status_code=204,
    responses=describes(None, status=204),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
    summary="Report the traffic of a node",
)
async def take_report(api: Shared, node: str, request: Request) -> Response:
    """For agents, each of which has a token for its own node, and for users who may patch the status of that Node.

    A report holds the totals since the agent started. So a report that arrives twice, or at another server, counts
    once.
    """
    require_media_type(request, JSON)
    report = read_report(await request.body())
    now = api.now().timestamp()
    api.traffic.keeper.traffic.add(node_traffic(report, node, now), now)
    return Response(status_code=204)


# ---------------------------------------------------------------------------------------------- views


def require_by_run(by: str, namespace: str) -> None:
    """Raise InvalidInput if a namespace is named, but the sums are not those of runs."""
    if namespace and by != "run":
        hint = "leave it out, or use by=run"
        raise InvalidInput.one("namespace", f"only runs have one, and by is {by}", value=namespace, hint=hint)


def order_class(api: Api, address_class: str) -> str:
    """Return the class that rows are ordered by. Raises InvalidInput if it does not exist."""
    policy = api.policy.current().policy.traffic
    classes = {*policy.classes, policy.others, *api.traffic.keeper.traffic.classes()}
    if address_class and address_class not in classes:
        hint = did_you_mean(address_class, classes)
        raise InvalidInput.one(
            "class", f"there is no class of addresses {address_class!r:.80}", value=address_class, hint=hint
        )
    return address_class or policy.others


def _listing(api: Api, rows: list[TrafficRow], total: int, order: str, now: float) -> TrafficList:
    return TrafficList(
        items=rows,
        total=total,
        order_class=order,
        rate_seconds=WINDOW_SECONDS,
        nodes=_nodes(api, now),
        at=format_time(time_at(now)),
        kept=api.traffic.keeper.kept,
    )


def _row(traffic: ClusterTraffic, subject: Subject, now: float) -> TrafficRow:
    row = TrafficRow(name=subject.key, classes=_classes(traffic.total(subject), traffic.rates(subject, now)))
    run = traffic.runs.get(subject.key) if subject.group == "run" else None
    if run is not None:
        row.name, row.namespace, row.run_id, row.user = run.run, run.namespace, run_id(subject.key), run.user
    return row


def _classes(totals: Totals, rates: Mapping[str, float]) -> list[ClassTraffic]:
    def count(name: str, direction: str) -> TrafficCount:
        kind = f"{name}.{direction}"
        amounts = totals.get(kind, Count())
        return TrafficCount(bytes=amounts.bytes, packets=amounts.packets, bytes_per_second=round(rates.get(kind, 0.0)))

    names = sorted({kind.rpartition(".")[0] for kind in totals})
    return [ClassTraffic(name=name, received=count(name, "in"), sent=count(name, "out")) for name in names]


def _nodes(api: Api, now: float) -> TrafficNodes:
    silence_seconds = SILENT_REPORTS * api.policy.current().policy.traffic.report_seconds
    reports = api.traffic.keeper.traffic.nodes
    counted = {name for name in api.mirror.nodes if name in reports and now - reports[name].heard_at <= silence_seconds}
    silent = sorted(api.mirror.nodes.keys() - counted)
    return TrafficNodes(
        counted=len(counted),
        silent=compress(silent),
        silent_count=len(silent),
        uncounted_pods=sum(reports[name].uncounted_pods for name in counted),
    )
