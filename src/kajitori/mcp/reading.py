"""Tools that only read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from kajitori import __version__
from kajitori.client.views import FINAL
from kajitori.client.web_api import run_path
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.mcp import answers, arguments
from kajitori.mcp.bounds import LOG_LINE_TEXT, MOST_CHARACTERS, shown, without_secret_values
from kajitori.mcp.session import Session, View

SEARCH_SECONDS = 20.0
SEARCH_BYTES = 64 * 2**20
MOST_POINTS = 600
"""The largest number of points in an answer about metrics, over all series."""
_SINGLE_FIELDS = ("run", "phase", "reason", "message", "members")
_LOG_CHARACTERS = MOST_CHARACTERS * 3 // 4


async def whoami(session: Session, _: arguments.Nothing) -> answers.Server:
    """Return the person you act for, the server, the default namespace and the person's rights."""
    found = await session.get("/v1/whoami")
    sync = session.sync
    connection = {"server": sync.target.url, "namespace": sync.namespace, "version": __version__}
    return answers.Server.model_validate({**found, **connection, "changesAllowed": session.allows_changes})


async def list_runs(session: Session, asked: arguments.ListRuns) -> answers.Runs:
    """List runs, the newest first. By default only the person's own runs are listed."""
    params: dict[str, Any] = {
        "owner": asked.owner,
        "namespace": asked.namespace or session.sync.namespace,
        "phase": asked.phase,
    }
    params |= {"active": asked.active, "search": asked.search, "fields": "summary"}
    found = await session.get("/v1/runs", params | _page_params(asked))
    counts = found.get("counts") or {}
    lines = [answers.RunLine.model_validate(row) for row in found["items"]]
    return answers.Runs(runs=lines, phases=counts.get("phases") or {}, **_page_of(found))


async def get_run(session: Session, asked: arguments.OfRun) -> answers.RunDetails:
    """Show one run: its specification, phase and reason, its attempts, and the members that failed or stand out. Works
    for deleted runs too."""
    view = await session.view(asked.run, or_removed=True)
    return answers.RunDetails(
        run=answers.RunLine.of_view(view),
        spec=without_secret_values(view.get("spec") or {}),
        status=view.get("status") or {},
        nodes=view.get("nodes") or "",
        labels=view.get("labels") or {},
    )


async def list_members(session: Session, asked: arguments.ListMembers) -> answers.Members:
    """List the members of a run that have Pods now, by rank, with the node, phase and exit code of each. `note` says
    which members are missing."""
    view = await session.view(asked.run, or_removed=True)
    found = await session.get(run_path(view, "/members"), _page_params(asked))
    lines = [answers.MemberLine.model_validate(row) for row in found["items"]]
    paged = _page_of(found)
    if not asked.page and not paged["next"]:
        paged["total"] = len(lines)
    return answers.Members(members=lines, note=_why_unlisted(view, paged["total"]), **paged)


def _why_unlisted(view: View, listed: int | None) -> str:
    """Return why fewer members are listed than the run has, or an empty text."""
    status = view.get("status") or {}
    members = (status.get("members") or {}).get("total") or 0
    if listed is None or listed >= members:
        return ""
    less = f"{listed} of {members} members have Pods now."
    if view.get("spec", {}).get("array"):
        return f"{less} run_results shows how each member of the sweep ended, and read_logs what it printed."
    if status.get("phase") in FINAL:
        return f"{less} get_run shows the members that failed, and read_logs what each member printed."
    return f"{less} explain_run says what the run waits for."


async def explain_run(session: Session, asked: arguments.OfRun) -> answers.Explanation:
    """Explain why a run is in its phase. For a waiting run the answer says what is missing, which runs hold it, what
    would start the run sooner, and when it is expected to start."""
    view = await session.view(asked.run)
    found = await session.get(run_path(view, "/explain"))
    known = {"fitNow", "missing", "sooner", "expectedAt", "ahead"}
    details = {name: value for name, value in found.items() if name not in known | set(_SINGLE_FIELDS)}
    findings = (view.get("status") or {}).get("findings") or []
    line = answers.RunLine.of_view(view)
    shared = {name: found[name] for name in known & found.keys()}
    return answers.Explanation.model_validate({"run": line, "findings": findings, "details": details, **shared})


async def why(session: Session, asked: arguments.Why) -> answers.Reason:
    """Diagnose a running run: whether it is stuck, with the call stacks of its ranks as evidence, and which rank or GPU
    slows it down."""
    view = await session.view(asked.run)
    found = await session.get(run_path(view, "/why"), {"look": "true" if asked.take_stacks else "false"})
    groups = [{**group, "ranks": compress_ranks(group["ranks"])} for group in found.get("groups") or ()]
    return answers.Reason.model_validate({**found, "groups": groups, "late": compress_ranks(found.get("late") or ())})


async def read_logs(session: Session, asked: arguments.ReadLogs) -> answers.Logs:
    """Read lines that one member of a run printed. By default the last lines are returned. Works for ended and deleted
    runs too."""
    view = await session.view(asked.run, or_removed=True)
    params: dict[str, Any] = {"rank": asked.rank, "attempt": asked.attempt}
    params |= {"before": asked.before, "after": asked.after, "since": asked.since}
    limit = asked.lines
    while True:
        found = await session.get(run_path(view, "/logs/window"), params | {"limit": limit})
        lines = [
            answers.LogText(time=row.get("time") or "", line=shown(row["line"], session.secrets, LOG_LINE_TEXT))
            for row in found.get("lines") or ()
        ]
        size = sum(len(line.model_dump_json()) for line in lines)
        if size <= _LOG_CHARACTERS or limit == 1:
            break
        limit = max(1, min(limit - 1, len(lines) * _LOG_CHARACTERS // size))
    cut = [f"lines: {limit} of {asked.lines}, because the lines are long"] if limit < asked.lines else []
    place = {"run": view["name"], "namespace": view["namespace"], "lines": lines, "cut": cut}
    return answers.Logs.model_validate({**found, **place})


async def search_logs(session: Session, asked: arguments.SearchLogs) -> answers.LogHits:
    """Find the lines that contain a text, in the logs of one member or of all members of a run."""
    view = await session.view(asked.run, or_removed=True)
    params = {"text": asked.text, "regex": asked.regex, "ignoreCase": asked.ignore_case}
    params |= {"attempt": asked.attempt, "limit": asked.limit}
    params |= {"since": asked.since, "until": asked.until, "rank": asked.rank, "allRanks": asked.rank is None}
    return await asyncio.to_thread(_search_logs, session, view, params)


def _search_logs(session: Session, view: View, params: Mapping[str, Any]) -> answers.LogHits:
    stop_at = time.monotonic() + SEARCH_SECONDS
    lines: list[answers.LogHit] = []
    states: dict[tuple[int, int], Mapping[str, Any]] = {}
    complete = True
    documents: Iterator[Mapping[str, Any]] = session.sync.api.documents(run_path(view, "/logs/search"), params)
    for document in documents:
        if "line" in document:
            text = shown(document["line"], session.secrets, LOG_LINE_TEXT)
            lines.append(answers.LogHit.model_validate({**document, "line": text}))
        elif "matches" in document:
            states[document["rank"], document["attempt"]] = document
            searched = sum(state.get("searched", 0) for state in states.values())
            if time.monotonic() > stop_at or searched > SEARCH_BYTES:
                complete = False
                break
    whole = complete and not any(state.get("next") for state in states.values())
    return answers.LogHits(
        run=view["name"],
        namespace=view["namespace"],
        lines=lines,
        matches=max(len(lines), sum(state["matches"] for state in states.values())),
        searched_members=len({rank for rank, _ in states}),
        complete=whole,
    )


async def run_metrics(session: Session, asked: arguments.Metrics) -> answers.RunMetrics:
    """Show GPU, CPU, memory, network and training metrics of a run over time. Each point has the minimum, median and
    maximum over the ranks, and names the ranks with the minimum and the maximum."""
    view = await session.view(asked.run, or_removed=True)
    params = {"name": asked.names, "since": asked.since, "until": asked.until, "points": asked.points}
    found = await session.get(run_path(view, "/metrics"), params)
    series: list[answers.SeriesLine] = []
    cut: list[str] = []
    count = 0
    for each in found["series"]:
        count += len(each["points"])
        if count > MOST_POINTS:
            cut.append(f"series: {each['name']} was left out. Ask for it in `names`")
            continue
        series.append(
            answers.SeriesLine.model_validate({**each, "points": [_point_of(band) for band in each["points"]]})
        )
    return answers.RunMetrics.model_validate({**found, "series": series, "cut": cut})


def _point_of(band: Mapping[str, Any]) -> answers.Point:
    least, most = band["min"], band["max"]
    return answers.Point(
        at=band["at"],
        min=_short(least["value"]),
        median=_short(band["p50"]),
        max=_short(most["value"]),
        min_rank=least.get("rank", 0),
        max_rank=most.get("rank", 0),
    )


def _short(value: float) -> float:
    return float(f"{value:.5g}")


async def run_results(session: Session, asked: arguments.Results) -> answers.RunResults:
    """Show how the members of a sweep ended, and the results that they wrote. With `best` the best results come
    first."""
    view = await session.view(asked.run, or_removed=True)
    params = {"state": asked.state, "best": asked.best, "by": asked.by}
    found = await session.get(run_path(view, "/results"), params | _page_params(asked))
    lines = [answers.ResultLine.model_validate(row) for row in found["items"]]
    results = {"results": lines, "by": found.get("by") or "", "order": found.get("order") or ""}
    paged = _page_of(found)
    if not asked.state and not asked.best:
        paged["total"] = ((view.get("status") or {}).get("members") or {}).get("total")
    return answers.RunResults.model_validate({**results, "names": found.get("names") or [], **paged})


async def report(session: Session, asked: arguments.Report) -> answers.TimeReport:
    """Report where the time of one run went (waiting, starting, productive, lost), or the sums over many runs by cause,
    team, owner or node."""
    if asked.run:
        view = await session.view(asked.run, or_removed=True)
        found = await session.get(run_path(view, "/report"))
        about = f"{view['namespace']}/{view['name']}"
    else:
        params = {"by": asked.by, "since": asked.since, "until": asked.until, "owner": asked.owner}
        found = await session.get("/v1/report", params | {"cluster": asked.by == "node"})
        about = f"sums by {asked.by}"
    known = {"since", "until", "ratio", "words"}
    shared = {name: found[name] for name in known & found.keys()}
    details = {name: value for name, value in found.items() if name not in known}
    return answers.TimeReport.model_validate({"about": about, **shared, "details": details})


async def list_queue(session: Session, asked: arguments.ListQueue) -> answers.Queue:
    """List the runs that wait for nodes, in the order of the queue, with the expected start of each. `state` selects
    the runs that have nodes, or that wait for other runs, instead."""
    params = {"state": asked.state, "owner": asked.owner, "namespace": asked.namespace, "fields": "summary"}
    found = await session.get("/v1/queue", params | _page_params(asked))
    lines = [answers.QueueLine.model_validate(row) for row in found["items"]]
    controller = found.get("controller") or {}
    says = str(controller.get("says") or "") if controller.get("absent") else ""
    return answers.Queue(runs=lines, controller=says, **_page_of(found))


async def what_if(session: Session, asked: arguments.Ask) -> answers.Outlook:
    """Plan a run without creating it: whether it would start now and on which nodes, or what it would wait for. The
    answer lists every error in the options, and the changes that policy would make."""
    found = await session.client.what_if(asked.image, asked.command, **asked.options())
    return answers.Outlook.model_validate(found.document)


async def list_nodes(session: Session, asked: arguments.ListNodes) -> answers.Nodes:
    """List nodes with their state, their resources and the runs on them."""
    params = {"search": asked.search, "gpuType": asked.gpu_type, "room": asked.has_room, "fields": "summary"}
    found = await session.get("/v1/nodes", params | _page_params(asked))
    counts = found.get("counts") or {}
    lines = [answers.NodeLine.model_validate(row) for row in found["items"]]
    return answers.Nodes(nodes=lines, states=counts.get("states") or {}, **_page_of(found))


async def get_node(session: Session, asked: arguments.OneNode) -> answers.Document:
    """Show everything about one node. The document is a NodeView of the Web API."""
    return answers.Document(document=await session.get(f"/v1/nodes/{quote(asked.node, safe='')}"))


async def node_metrics(session: Session, asked: arguments.NodeMetrics) -> answers.Document:
    """Show CPU, memory, and GPU use, memory, power and temperature of a node over the last week, and the runs that held
    the node. The document is a NodeMetrics of the Web API: `at` has the times of the values of each series."""
    params = {"name": asked.names, "since": asked.since, "until": asked.until, "points": asked.points}
    path = f"/v1/nodes/{quote(asked.node, safe='')}/metrics"
    found = await session.get(path, params | {"gpu": asked.gpus})
    series: list[Any] = []
    cut = []
    for each in found["series"]:
        if (len(series) + 1) * len(found["at"]) > MOST_POINTS:
            gpu = f" of GPU {each['gpu']}" if each.get("gpu") is not None else ""
            cut.append(f"series: {each['name']}{gpu} was left out. Ask for it in `names` and `gpus`")
        else:
            series.append({name: value for name, value in each.items() if name != "description"})
    return answers.Document.model_validate({"document": {**found, "series": series}, "cut": cut})


async def gpus(session: Session, _: arguments.Nothing) -> answers.Document:
    """Show the free and used GPUs by type, and the users that hold them. The document is a GpuBoard of the Web API."""
    return answers.Document(document=await session.get("/v1/gpus"))


async def idle_runs(session: Session, _: arguments.Nothing) -> answers.Document:
    """List the runs that hold GPUs and have not used them for a long time. The document is an IdleList of the Web
    API."""
    return answers.Document(document=await session.get("/v1/idle", {"limit": 50}))


async def list_events(session: Session, asked: arguments.ListEvents) -> answers.Events:
    """Show the latest events of one run, or of all runs in a namespace. Kubernetes keeps events for an hour."""
    if asked.run:
        view = await session.view(asked.run)
        found = [event async for event in session.client.events(f"{view['namespace']}/{view['name']}")]
        lines = [answers.EventLine.model_validate(event, from_attributes=True) for event in found[-asked.limit :]]
        cut = [f"events: the last {asked.limit} of {len(found)}"] if len(found) > asked.limit else []
        return answers.Events(events=lines, cut=cut)
    where = asked.namespace or session.sync.namespace
    listed = await session.get("/v1/events", {"namespace": where, "limit": asked.limit})
    return answers.Events(events=[answers.EventLine.model_validate(row) for row in listed["items"][::-1]])


def _page_params(asked: arguments.Page) -> dict[str, Any]:
    return {"limit": asked.limit, "continue": asked.page}


def _page_of(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"next": found.get("continue") or "", "total": (found.get("counts") or {}).get("total")}
