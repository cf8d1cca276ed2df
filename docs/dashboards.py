"""Generates the Grafana dashboards of Kajitori and of the control plane with Grafana's own SDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef, GridPos

from kajitori.monitoring import controller, metrics

_COLUMNS = 24
_RATE = "$__rate_interval"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: a figure (`stat`) or curves. Each query has a legend."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    about: str
    is_figure: bool = False


def _figure(title: str, expr: str, about: str, *, unit: str = "short") -> Panel:
    return Panel(title=title, unit=unit, queries=[(expr, "")], about=about, is_figure=True)


def _curves(title: str, unit: str, expr: str, legend: str, about: str) -> Panel:
    return Panel(title=title, unit=unit, queries=[(expr, legend)], about=about)


@dataclass(frozen=True, kw_only=True)
class Board:
    """One dashboard: rows of panels."""

    uid: str
    title: str
    about: str
    rows: Sequence[tuple[str, Sequence[Panel]]]


def _rate(metric: str, by: str, selector: str = "") -> str:
    return (
        f"sum by ({by}) (rate({metric}{{{selector}}}[{_RATE}]))"
        if selector
        else f"sum by ({by}) (rate({metric}[{_RATE}]))"
    )


def _p99(metric: str, by: str, selector: str = "") -> str:
    return f"histogram_quantile(0.99, {_rate(f'{metric}_bucket', f'{by}, le' if by else 'le', selector)})"


_REQUESTS, _DURATION = "apiserver_request_total", "apiserver_request_duration_seconds"
_SHORT = 'verb!~"WATCH|CONNECT",subresource!~"log|exec|attach|portforward|proxy"'

CONTROL_PLANE = Board(
    uid="kajitori-control-plane",
    title="Kajitori: the cluster's control plane",
    about="kube-apiserver, etcd, webhooks and clients; the alerts about them are in docs/operate/alerts.md.",
    rows=(
        (
            "Requests to kube-apiserver",
            (
                _curves("By verb", "reqps", _rate(_REQUESTS, "verb"), "{{verb}}", "Requests a second."),
                _curves(
                    "By answer", "reqps", _rate(_REQUESTS, "code"), "{{code}}", "429 means too much load, 5xx a fault."
                ),
                _curves(
                    "Slowest hundredth, by verb",
                    "s",
                    _p99(_DURATION, "verb", _SHORT),
                    "{{verb}}",
                    "Kubernetes' objective: 1 s, for lists of the whole cluster 30 s.",
                ),
                _curves(
                    "Requests in flight",
                    "short",
                    "sum by (request_kind) (apiserver_current_inflight_requests)",
                    "{{request_kind}}",
                    "Reads and writes that are being answered.",
                ),
                Panel(
                    title="Seats by priority level",
                    unit="short",
                    queries=[
                        (
                            "sum by (priority_level) (apiserver_flowcontrol_current_executing_seats)",
                            "{{priority_level}}",
                        )
                    ],
                    about="Requests in flight at each priority level; Kajitori has a level of its own.",
                ),
                Panel(
                    title="Writes of Events and of all else",
                    unit="reqps",
                    queries=[
                        (f'sum(rate({_REQUESTS}{{resource="events",verb=~"POST|PATCH|PUT"}}[{_RATE}]))', "Events"),
                        (f'sum(rate({_REQUESTS}{{resource!="events",verb=~"POST|PATCH|PUT"}}[{_RATE}]))', "all else"),
                    ],
                    about="If most writes are Events, some controller repeats itself.",
                ),
            ),
        ),
        (
            "Webhooks and clients",
            (
                _curves(
                    "Slowest hundredth of webhook calls",
                    "s",
                    _p99("apiserver_admission_webhook_admission_duration_seconds", "name"),
                    "{{name}}",
                    "The API server waits for them in each request that they match.",
                ),
                _curves(
                    "Requests of Kubernetes' own clients",
                    "reqps",
                    _rate("rest_client_requests_total", "job, code"),
                    "{{job}} {{code}}",
                    "Requests that kube-apiserver, scheduler and controller manager send.",
                ),
            ),
        ),
        (
            "etcd",
            (
                Panel(
                    title="Size of the database",
                    unit="bytes",
                    queries=[
                        ("etcd_mvcc_db_total_size_in_bytes", "{{instance}}"),
                        ("etcd_mvcc_db_total_size_in_use_in_bytes", "{{instance}} in use"),
                        ("etcd_server_quota_backend_bytes", "{{instance}} quota"),
                    ],
                    about="At the quota, etcd accepts no writes. Defragmenting gives back what is not in use.",
                ),
                Panel(
                    title="Slowest hundredth on the disk",
                    unit="s",
                    queries=[
                        (_p99("etcd_disk_wal_fsync_duration_seconds", "instance"), "{{instance}} fsync"),
                        (_p99("etcd_disk_backend_commit_duration_seconds", "instance"), "{{instance}} commit"),
                    ],
                    about="A healthy disk needs less than 10 ms for fsync and 25 ms for a commit.",
                ),
                _curves(
                    "Leader changes",
                    "short",
                    "etcd_server_leader_changes_seen_total",
                    "{{instance}}",
                    "Since the member started.",
                ),
                _curves(
                    "Largest kinds",
                    "short",
                    "topk(10, max by (resource) (apiserver_storage_objects))",
                    "{{resource}}",
                    "Number of stored objects.",
                ),
            ),
        ),
    ),
)

_PLANNED = f"{controller.STEP_SECONDS}_bucket"

PLATFORM = Board(
    uid="kajitori-platform",
    title="Kajitori",
    about="Runs, nodes, GPUs, and the parts of Kajitori; the alerts about them are in docs/operate/alerts.md.",
    rows=(
        (
            "Now",
            (
                _figure("Controllers that lead", f"sum({controller.LEADING})", "One is right."),
                _figure("Running runs", f'max({metrics.RUNS}{{phase="Running"}})', "In all namespaces."),
                _figure("Waiting runs", f"max({controller.WAITING_RUNS})", "As the leader sees it."),
                _figure(
                    "GPUs in use",
                    f'sum(max by (type) ({metrics.GPUS}{{state="used"}})) / sum(max by (type, state) ({metrics.GPUS}))',
                    "Share of all GPUs, including broken ones.",
                    unit="percentunit",
                ),
                _figure(
                    "Runs that restart again and again",
                    f"max({metrics.RUNS_UNSTABLE})",
                    "Five or more restarts or interruptions, the last within an hour.",
                ),
                _figure(
                    "Stuck runs",
                    f'max({metrics.RUNS_STUCK}{{verdict="stuck"}})',
                    "No progress, and no process moved between two looks.",
                ),
                _figure(
                    "Unhealthy runs",
                    f'max({metrics.RUNS_CHECKED}{{health="unhealthy"}})',
                    "Their own health check fails in at least one member.",
                ),
                _figure(
                    "Faults in the policy file",
                    f"max({metrics.POLICY_FAULTS})",
                    "Above zero, the previous policy stays in effect.",
                ),
            ),
        ),
        (
            "Runs and nodes",
            (
                _curves("Runs", "short", f"max by (phase) ({metrics.RUNS})", "{{phase}}", "By phase."),
                _curves(
                    "GPUs",
                    "short",
                    f"max by (type, state) ({metrics.GPUS})",
                    "{{type}} {{state}}",
                    "By type and state.",
                ),
                _curves(
                    "Runs without progress",
                    "short",
                    f"max by (verdict) ({metrics.RUNS_STUCK})",
                    "{{verdict}}",
                    "Suspected by their telemetry, or stuck: their processes were seen to stand still.",
                ),
                _curves(
                    "Runs with a health check",
                    "short",
                    f"max by (health) ({metrics.RUNS_CHECKED})",
                    "{{health}}",
                    "Running runs by the health that their own checks found.",
                ),
                _curves(
                    "Idle GPUs",
                    "short",
                    f"max by (type) ({metrics.GPUS_IDLE})",
                    "{{type}}",
                    "Held by runs that have not used them for as long as policy allows.",
                ),
                _curves("Nodes", "short", f"max by (state) ({metrics.NODES})", "{{state}}", "By state."),
                Panel(
                    title="Guarantees",
                    unit="short",
                    queries=[
                        (
                            f'max by (team, type) ({metrics.GUARANTEED}{{resource="gpus"}})',
                            "{{team}} {{type}} guaranteed",
                        ),
                        (
                            f'max by (team, type) ({metrics.GUARANTEED_USED}{{resource="gpus"}})',
                            "{{team}} {{type}} used",
                        ),
                        (f"max by (team) ({metrics.GUARANTEED_WAITING})", "{{team}} waiting runs"),
                    ],
                    about="GPUs that policy guarantees to teams, what they use, and how many of their runs wait.",
                ),
                _curves(
                    "Runs that ended",
                    "short",
                    f"sum by (phase) (increase({controller.RUNS_ENDED}[1h]))",
                    "{{phase}}",
                    "Within the last hour.",
                ),
                _curves(
                    "Failed attempts",
                    "short",
                    f"sum by (reason) (increase({controller.FAILURES}[1h]))",
                    "{{reason}}",
                    "Within the last hour, by reason.",
                ),
                Panel(
                    title="Wait until the first start",
                    unit="s",
                    queries=[
                        (
                            f"histogram_quantile({q}, sum by (le) (rate({controller.QUEUE_WAIT_SECONDS}_bucket[1h])))",
                            name,
                        )
                        for q, name in ((0.5, "half of the runs"), (0.95, "95 of 100"))
                    ],
                    about="Runs that started within the last hour.",
                ),
                _curves(
                    "Preemptions",
                    "short",
                    f"sum by (cause) (increase({controller.PREEMPTIONS}[1h]))",
                    "{{cause}}",
                    "Within the last hour, by cause.",
                ),
            ),
        ),
        (
            "The parts",
            (
                _curves(
                    "Time of a controller's steps",
                    "s",
                    f"histogram_quantile(0.99, sum by (step, le) (rate({_PLANNED}[{_RATE}])))",
                    "{{step}}",
                    "Slowest hundredth; `full` is a cycle over the whole queue.",
                ),
                Panel(
                    title="Age of what the parts know",
                    unit="s",
                    queries=[
                        (controller.MIRROR_AGE_SECONDS, "{{instance}} state of the cluster"),
                        (metrics.CONTROLLER_LEASE_AGE_SECONDS, "{{instance}} Lease of the controllers"),
                    ],
                    about="Above 20 s for the Lease, no controller works.",
                ),
                _curves(
                    "Requests to the API server at a time",
                    "short",
                    controller.REQUESTS_AT_A_TIME,
                    "{{instance}}",
                    "A controller's own limit; it falls while the API server is slow or answers 429.",
                ),
                Panel(
                    title="Work that waits",
                    unit="short",
                    queries=[
                        (controller.HISTORY_WAITING, "{{instance}} runs for history"),
                        (controller.LOGS_WAITING, "{{instance}} logs"),
                        (controller.MESSAGES_WAITING, "{{instance}} messages"),
                    ],
                    about="News for history, logs of ended members, messages to people and teams.",
                ),
                _curves(
                    "Requests to the Web API",
                    "reqps",
                    _rate(f"{metrics.REQUEST_SECONDS}_count", "status"),
                    "{{status}}",
                    "By status.",
                ),
                _curves(
                    "Slowest hundredth of requests to the Web API",
                    "s",
                    _p99(metrics.REQUEST_SECONDS, "route"),
                    "{{route}}",
                    "Time until the answer begins.",
                ),
            ),
        ),
    ),
)

BOARDS = {"control-plane.json": CONTROL_PLANE, "platform.json": PLATFORM}


def dashboards() -> dict[str, str]:
    """Return every generated dashboard as JSON, by its file name."""
    return {name: JSONEncoder(sort_keys=True, indent=1).encode(_built(board)) + "\n" for name, board in BOARDS.items()}


def _built(board: Board) -> object:
    made = Dashboard(board.title).uid(board.uid).description(board.about).tags(["kajitori"]).timezone("browser")
    made = made.refresh("1m").time("now-6h", "now").tooltip(DashboardCursorSync.CROSSHAIR)
    made = made.with_variable(DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
    number, top = 1, 0
    for title, panels in board.rows:
        made = made.with_row(Row(title).id(number).grid_pos(GridPos(h=1, w=_COLUMNS, x=0, y=top)))
        number, top = number + 1, top + 1
        width, height = (_COLUMNS // len(panels), 4) if panels[0].is_figure else (_COLUMNS // 2, 8)
        for at, panel in enumerate(panels):
            across = _COLUMNS // width
            place = GridPos(h=height, w=width, x=at % across * width, y=top + at // across * height)
            made = made.with_panel(_panel(panel, number, place))
            number += 1
        top += -(-len(panels) // (_COLUMNS // width)) * height
    return made.build()


def _panel(panel: Panel, number: int, place: GridPos) -> Stat | TimeSeries:
    made: Stat | TimeSeries = Stat() if panel.is_figure else TimeSeries()
    made = made.title(panel.title).description(panel.about).id(number).grid_pos(place).unit(panel.unit)
    made = made.datasource(_SOURCE).min(0)
    for at, (expr, legend) in enumerate(panel.queries):
        query = Dataquery().expr(expr).legend_format(legend).ref_id(chr(ord("A") + at)).datasource(_SOURCE)
        made = made.with_target(query)
    if isinstance(made, TimeSeries):
        legend_options = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        made = made.legend(legend_options.show_legend(True)).fill_opacity(10)
    return made
