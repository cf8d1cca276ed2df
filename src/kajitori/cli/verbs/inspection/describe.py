"""`kaji describe`: the details of a run, for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options
from kajitori.cli.terminal import echo, heading
from kajitori.client.views import is_final, phase_of, status_of
from kajitori.core.spec.status_parts.avoided_nodes import avoided_nodes
from kajitori.core.suggestions import first_few

if TYPE_CHECKING:
    from kajitori.client.web_api import Api

_EVENTS_SHOWN = 10
_MEMBERS_SHOWN = 16
"""Largest number of members that are listed."""


@click.command(epilog="\b\nExample:\n  kaji describe bert")
@run_argument
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, namespace: str | None, output: str | None) -> None:
    """Tell everything about a run."""
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run

    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        if output is not None:
            print_document(view, output)
            return
        _print_overview(cli, view, _describe_expected(cli, api, view), _describe_suspicion(api, view))
        _print_members(cli, api, view)
        _print_findings(view)
        if view.get("removedAt"):
            _print_attempts(view)
        else:
            _print_events(cli, api, view)


def _print_attempts(view: dict[str, Any]) -> None:
    """Print the nodes and the ends of the attempts of a removed run."""
    from kajitori.cli.printing.output import print_pairs

    heading("Attempts")
    rows = []
    for attempt in view.get("attempts") or ():
        times = f"{attempt['startedAt'] or attempt['plannedAt']} to {attempt['endedAt'] or '?'}"
        how = ": ".join(filter(None, (attempt["reason"], attempt["message"])))
        rows.append((str(attempt["number"]), ", ".join(filter(None, (attempt["nodes"], times, how)))))
    print_pairs(rows, indent=2)


def _describe_expected(cli: Cli, api: Api, view: dict[str, Any]) -> str:
    """Return the expected (remaining) duration and its evidence; empty for a run that has ended."""
    from kajitori.cli.pages.queue_words import expected_words
    from kajitori.client.web_api import run_path
    from kajitori.errors import KajitoriError

    if is_final(view):
        return ""
    try:
        found = api.get(run_path(view, "/expected"))
    except KajitoriError:
        return ""  # all else is worth being told
    return expected_words(found)


def _describe_suspicion(api: Api, view: dict[str, Any]) -> str:
    """Return that a run is suspected to be stuck; empty if it is not."""
    from kajitori.client.web_api import run_path
    from kajitori.errors import KajitoriError

    if phase_of(view) != "Running":
        return ""
    try:
        found = api.get(run_path(view, "/why"), {"look": "false"})
    except KajitoriError:
        return ""  # all else is worth being told
    return f"{found['words'][0]} See kaji why {view['name']}" if found["verdict"] == "suspected" else ""


def _print_overview(cli: Cli, view: dict[str, Any], expected: str, stuck: str) -> None:
    from kajitori.cli.printing.output import print_pairs
    from kajitori.cli.words import runs as run_words
    from kajitori.core.spec.command_line import command_line

    now, status = cli.now(), status_of(view)
    attempt = status.get("attempt") or {}
    waited, is_queued = "", phase_of(view) == "Queued"
    if is_queued:
        waited = run_words.age(status.get("queuedAt") or view.get("createdAt"), now)
    start, end = run_words.moment(status.get("startedAt")), run_words.moment(status.get("finishedAt"))
    ran = run_words.human_duration(((end or now) - start).total_seconds()) if start is not None else ""
    counted, free = status.get("restarts", 0), status.get("interruptions", 0)
    restarts = run_words.restart_words(view) if counted or free else ""
    if free:
        restarts += f"; {run_words.plural(free, 'interruption')} not counted"
    print_pairs(
        (
            ("Name", view["name"]),
            ("Removed", f"{run_words.age(view['removedAt'], now)} ago" if view.get("removedAt") else ""),
            ("Namespace", view["namespace"]),
            ("Owner", view.get("owner") or ""),
            ("Labels", ", ".join(f"{key}={value}" for key, value in (view.get("labels") or {}).items())),
            ("Status", run_words.status_words(view)),
            ("Reason", run_words.reason_words(view)),
            ("Message", str(status.get("message") or "")),
            ("Health", run_words.health_words(view, now)),
            ("Note", _describe_note(view)),
            ("After", run_words.after_words(view)),
            ("Progress", stuck),
            ("Created", _ago(run_words.age(view.get("createdAt"), now))),
            ("Waiting", waited),
            ("Ran" if end is not None else "Runs", "" if is_queued else ran),
            ("Expected", expected),
            (
                "Ended",
                _ago(run_words.age(status.get("finishedAt"), now)) if status.get("reason") != "NotStarted" else "",
            ),
            ("Restarts", restarts),
            ("Interrupted", _describe_setback(status.get("setback") or {}, now)),
            ("Last attempt" if is_queued else "Attempt", _attempt_number(attempt, run_words.is_sweep(view))),
            ("Last nodes" if is_queued else "Nodes", run_words.node_words(view)),
            ("Avoids", first_few([f"{node} ({count} failures)" for node, count in _avoided_nodes(view).items()])),
            ("GPUs", run_words.gpu_words(view)),
            ("Idle GPUs", _describe_idle(view, now)),
            ("Memory", _describe_peak(view, now)),
            ("Network", _describe_network(status)),
            ("Asked for", command_line(view.get("spec") or {}, name=view.get("name", "")).text),
        )
    )


def _describe_note(view: Mapping[str, Any]) -> str:
    """Return the note on a run in one line, and its writer; empty without one."""
    note = view.get("note")
    return f"{' '.join(note['text'].split())} ({note['by']})" if note else ""


def _describe_idle(view: Mapping[str, Any], now: datetime) -> str:
    """Return the idle GPUs of a run that holds them, and when policy parks it; empty without any."""
    from kajitori.cli.words import runs as run_words
    from kajitori.cli.words.telemetry import idle_gpu_words

    idle = status_of(view).get("idle")
    if not idle or is_final(view):
        return ""
    words = f"{idle_gpu_words(idle)}, for {run_words.age(idle['since'], now)}; see kaji idle {view['name']}"
    return f"{words}; parked at {idle['parkAt']} unless somebody answers" if idle.get("parkAt") else words


def _describe_setback(setback: Mapping[str, Any], now: datetime) -> str:
    """Return the cause of the last interruption or restart."""
    from kajitori.cli.words import runs as run_words

    if not setback:
        return ""
    why = ", ".join(filter(None, (str(setback.get("reason") or ""), str(setback.get("message") or ""))))
    return f"{_ago(run_words.age(setback.get('at'), now))}, attempt {setback.get('attempt', 0)}: {why}"


def _attempt_number(attempt: Mapping[str, Any], is_sweep: bool) -> str:
    """Return the number of the attempt; empty for a sweep, since its number only counts starts of members."""
    return "" if is_sweep else str(attempt.get("number") or "")


def _describe_network(status: Mapping[str, Any]) -> str:
    """Return the finding about restrictions of the network; empty if there is none."""
    found = {finding.get("code"): finding.get("message", "") for finding in status.get("findings") or ()}
    return str(found.get("NetworkRestricted") or found.get("NetworkDefaulted") or "")


def _describe_peak(view: dict[str, Any], now: datetime) -> str:
    """Return the largest memory use of a member with node and time, and that of all members; empty if unknown."""
    from kajitori.cli.words import runs as run_words
    from kajitori.core.formats.quantities import round_memory

    memory = status_of(view).get("memory") or {}
    if not run_words.peak_words(view):
        return ""
    attempt = "" if run_words.is_sweep(view) else f" in attempt {memory.get('attempt', 0)}"
    parts = [f"peak {run_words.peak_words(view)}{attempt} on {memory.get('node', '')}"]
    if memory.get("at"):
        parts[0] += f", {_ago(run_words.age(memory['at'], now))}"
    if memory.get("totalBytes", 0) > memory["peakBytes"]:
        parts.append(f"{round_memory(memory['totalBytes'])} of all members together")
    return "; ".join(parts)


def _ago(span: str) -> str:
    return f"{span} ago" if span else ""


def _avoided_nodes(view: Any) -> dict[str, int]:
    from kajitori.cli.words import runs as run_words

    failures = (view.get("status") or {}).get("avoidNodes") or {}
    avoided = avoided_nodes(failures, is_sweep=run_words.is_sweep(view))
    return {node: count for node, count in failures.items() if node in avoided}


def _print_members(cli: Cli, api: Api, view: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words import runs as run_words

    status = status_of(view)
    counts = status.get("members") or {}
    parts = run_words.count_words(view)
    size, present = run_words.size_words(view), run_words.members_there(view)
    total = f"{present} of {size}" if size else str(counts.get("total", 0))
    heading(f"Members: {total}{' (' + ', '.join(parts) + ')' if parts else ''}")
    if 0 < counts.get("total", 0) <= _MEMBERS_SHOWN and not is_final(view):
        _every_member(cli, api, view)
    if run_words.is_sweep(view):
        echo(f"  Of each: kaji results {view['name']}")
    notable = status.get("notable") or ()
    if notable:
        heading("Worth a look")
    is_sweep = run_words.is_sweep(view)
    columns = [Column("INDEX" if is_sweep else "RANK", right=True)]
    columns += [] if is_sweep else [Column("ATTEMPT", right=True)]
    columns += [Column("NODE"), Column("REASON"), Column("EXIT", right=True), Column("SINCE")]
    columns += [Column("MESSAGE", flexible=True)]
    rows = [
        [
            str(note.get("rank", "")),
            *(() if is_sweep else (str(note.get("attempt") or ""),)),
            str(note.get("node") or ""),
            str(note.get("reason") or ""),
            "" if note.get("exitCode") is None else str(note["exitCode"]),
            run_words.age(note.get("since"), cli.now()),
            str(note.get("message") or ""),
        ]
        for note in notable
    ]
    if rows:
        print_table(cli, columns, rows, indent=2)


def _every_member(cli: Cli, api: Api, view: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age
    from kajitori.client.web_api import run_path

    members = api.all_items(run_path(view, "/members"))
    columns = [Column("RANK", right=True), Column("ATTEMPT", right=True), Column("POD"), Column("NODE")]
    columns += [Column("STATUS", styled=True), Column("ADDRESS"), Column("SINCE"), Column("REASON", flexible=True)]
    rows = [
        [
            str(member["rank"]),
            str(member.get("attempt") or ""),
            member.get("pod") or "",
            member.get("node") or "",
            _state_of_member(member),
            member.get("address") or "",
            age(member.get("startedAt"), cli.now()),
            ": ".join(filter(None, (member.get("reason"), member.get("message")))),
        ]
        for member in members
    ]
    if rows:
        print_table(cli, columns, rows, indent=2)


def _state_of_member(member: Mapping[str, Any]) -> str:
    """Return the state of a member: `Running (healthy)`, `Failed`, or `Ending` after it was told to end."""
    phase = str(member.get("phase") or "")
    if member.get("terminating") and phase in ("Pending", "Running"):
        return "Ending"
    return f"{phase} ({member['health']})" if member.get("health") else phase


def _print_findings(view: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import print_pairs
    from kajitori.client.views import status_of

    findings = status_of(view).get("findings") or ()
    if findings:
        heading("What policy did")
        print_pairs(((finding.get("code", ""), finding.get("message", "")) for finding in findings), indent=2)


def _print_events(cli: Cli, api: Api, view: dict[str, Any]) -> None:
    from kajitori.cli.verbs.inspection.events import print_events
    from kajitori.client.web_api import run_path
    from kajitori.errors import KajitoriError

    try:
        last = deque(api.documents(run_path(view, "/events")), maxlen=_EVENTS_SHOWN)
    except KajitoriError as error:
        heading(f"Events can't be read: {error.message}")
        return
    if last:
        heading("Last events")
        print_events(cli, list(last), indent=2)
