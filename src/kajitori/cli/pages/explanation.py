"""The pages of `kaji explain` and `kaji what-if`: why a run waits, and what would start it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.pages.queue_words import in_words, place_pairs
from kajitori.cli.printing.output import Column, print_pairs, print_table
from kajitori.cli.terminal import echo, heading, plain
from kajitori.cli.words import runs as run_words
from kajitori.core.formats.node_lists import brief, compress, compress_ranks
from kajitori.core.formats.quantities import round_memory

SHOWN = 8
"""Number of holders and of steps on the page; `-o json` has all of them."""

MOST_OF_A_REASON = 40
"""Characters of the reason for a drain in the table of steps."""

_ROOM = {
    "free": "free",
    "reserved": "kept for runs before it",
    "held": "held by others",
    "cordoned": "on cordoned nodes",
    "broken": "on broken nodes",
}
_HAPPENS = {
    "run": "{who} ends",
    "pod": "Pod {who} goes",
    "cordoned": "node {who} is uncordoned",
    "broken": "node {who} is in order again",
    "ahead": "{who} no longer waits before it",
}
_AMOUNTS = ("gpus", "cpuMillis", "memoryBytes")


def print_explanation(cli: Cli, title: str, answer: Mapping[str, Any]) -> None:
    """Print the Web API's answer to why a run waits, below `title`."""
    echo(f"{title}: {', '.join(filter(None, (answer.get('phase'), answer.get('reason'))))}")
    if answer.get("message"):
        echo(f"  {answer['message']}")
    if answer.get("controller"):
        echo(f"  {answer['controller']['says']}")
    if answer.get("after"):
        _print_others(cli, answer)
    if "members" not in answer:
        return  # it does not wait for resources
    room = answer.get("room") or {}
    if any(count for kind, count in room.items() if kind != "free"):
        members = answer.get("most") or answer["members"]
        heading("Room for it" if members == 1 else f"Room for its {members} members")
        print_pairs(((_ROOM.get(kind, kind), str(count)) for kind, count in room.items() if count), indent=2)
    asks = answer.get("asks") or ()
    if asks:
        heading("It preempts these runs and starts when they have left")
        for run in asks:
            echo(f"  {run}")
    _print_steps(cli, answer)
    _print_holders(cli, answer)
    blocked = answer.get("blocked") or ()
    if blocked:
        heading("Nodes that take no work")
        print_pairs(((group["why"], f"{group['count']}: {brief(group['nodes'])}") for group in blocked), indent=2)
    sooner = answer.get("sooner") or ()
    if sooner:
        heading("It would start now with one of")
        for change in sooner:
            echo(f"  {change}")
    guarantees = answer.get("guarantees") or ()
    if guarantees:
        heading(f"What policy guarantees {guarantees[0]['namespace']}")
        print_pairs(_used_of(guarantees), indent=2)
    heading("Queue")
    print_pairs(place_pairs(cli, answer), indent=2)


def _print_others(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print the runs that a run waits for, and when it is expected to start."""
    heading("It starts after")
    columns = [Column("RUN"), Column("HAS TO"), Column("IS"), Column("EXPECTED TO END")]
    has_to = {"succeeded": "succeed", "healthy": "be healthy", "ended": "end"}
    rows = [
        [
            other["run"],
            has_to.get(other["condition"], other["condition"]),
            "done" if other["met"] else other["phase"] or "not submitted yet",
            "" if other["met"] else in_words(cli, other.get("endsAt")) or "not known",
        ]
        for other in answer["after"]
    ]
    _print_filled(cli, columns, rows)
    echo()
    echo(f"Expected to start: {in_words(cli, answer.get('expectedAt')) or 'not known'}")


def _used_of(guarantees: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield label and text of each guaranteed resource: `h100 GPUs`, `24 of 16 in use, 8 borrowed`."""
    for row in run_words.guarantee_rows(guarantees):
        borrowed = f", {row.borrowed}" if row.borrowed else ""
        yield row.resource, f"{row.shown(row.used)} of {row.shown(row.total)} in use{borrowed}"


def _print_steps(cli: Cli, answer: Mapping[str, Any]) -> None:
    steps = answer.get("toFree")
    if steps is None and answer.get("grows"):
        return  # new nodes come for it, as the first line says
    if steps is None and not answer.get("exact", True):
        heading("What exactly would start it")
        echo("  Too many runs are before it to tell.")
        return
    if steps is None:
        heading("Nothing starts it")
        echo("  The cluster is too small for it, even with all nodes empty and in order.")
        return
    if not steps:
        return
    this = "this" if len(steps) == 1 else "all of this"
    otherwise = "Without that it" if answer.get("asks") else "It"
    heading(f"{otherwise} starts once {this} has happened{'' if answer.get('exact', True) else ', perhaps sooner'}")
    steps = _merge_members(steps)
    rows = [
        [
            _describe_step(step),
            _describe_amount(step),
            in_words(cli, step["until"]),
            step["nodes"],
        ]
        for step in steps[:SHOWN]
    ]
    _print_filled(cli, [Column("WHAT"), Column("FREES"), Column("EXPECTED"), Column("NODES", flexible=True)], rows)
    _print_more(len(steps) - SHOWN)


def _merge_members(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return `steps` with one step for all members of a sweep that are expected to end at the same time."""
    found: list[Mapping[str, Any]] = []
    members: dict[tuple[str, str], dict[str, Any]] = {}
    for step in steps:
        if step["kind"] != "member":
            found.append(step)
            continue
        key = step["run"], step["until"]
        if key not in members:
            members[key] = {**step, "indices": [], "at": []} | dict.fromkeys(_AMOUNTS, 0)
            found.append(members[key])
        line = members[key]
        line["indices"].append(int(step["name"].rpartition("-")[2]))
        line["at"].append(step["nodes"])
        line |= {amount: line[amount] + step[amount] for amount in _AMOUNTS}
    for line in members.values():
        line["nodes"] = compress(list(dict.fromkeys(line["at"])))
    return found


def _describe_step(step: Mapping[str, Any]) -> str:
    known = step["owner"] or step["why"]
    if step["kind"] == "member":
        indices = step["indices"]
        who = f"{'member' if len(indices) == 1 else 'members'} {compress_ranks(sorted(indices))} of {step['run']}"
        who = f"{who} ({known})" if known else who
        return f"{who} {'ends' if len(indices) == 1 else 'end'}"
    if step["kind"] == "run" and step["why"]:
        known = ", ".join(filter(None, (step["owner"], step["why"])))
    who = f"{step['name']} ({_shorten_reason(known)})" if known not in ("", "cordoned") else step["name"]
    return _HAPPENS.get(step["kind"], "{who}").format(who=who, name=step["name"])


def _shorten_reason(why: str) -> str:
    """Return the beginning of a reason; "Nodes that take no work" has all of it."""
    return why if len(why) <= MOST_OF_A_REASON else f"{why[: MOST_OF_A_REASON - 1].rstrip()}…"


def _print_holders(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print the holders of such nodes that no step has named."""
    named = {step.get("run") or step["name"] for step in answer.get("toFree") or ()}
    holders = [holder for holder in answer.get("held") or () if holder["holder"] not in named]
    if not holders:
        return
    heading("Held by others, too" if named else "Held by")
    columns = [Column("RUN"), Column("OWNER"), Column("GPUS", right=True), Column("CPU", right=True)]
    columns += [Column("MEMORY", right=True), Column("SINCE"), Column("ENDS"), Column("NODES", flexible=True)]
    rows = [
        [
            holder["holder"] if holder.get("isRun", True) else f"Pod {holder['holder']}",
            holder.get("owner") or "",
            str(holder.get("gpus") or ""),
            run_words.cpu_words(holder.get("cpuMillis") or 0),
            round_memory(holder.get("memoryBytes") or 0),
            run_words.age(holder.get("since"), cli.now()),
            in_words(cli, holder.get("until")),
            holder.get("nodes") or "",
        ]
        for holder in holders[:SHOWN]
    ]
    _print_filled(cli, columns, rows)
    _print_more(len(holders) - SHOWN)


def _print_filled(cli: Cli, columns: list[Column], rows: list[list[str]]) -> None:
    """Print a table without its empty columns."""
    filled = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    page = [[row[index] for index in filled] for row in rows]
    if len(filled) == 1:
        for (line,) in page:
            echo(f"  {plain(line)}")
        return
    print_table(cli, [columns[index] for index in filled], page, indent=2)


def _print_more(count: int) -> None:
    if count > 0:
        echo(f"  and {count} more; see -o json")


def _describe_amount(step: Mapping[str, Any]) -> str:
    if step["gpus"]:
        return run_words.plural(step["gpus"], "GPU")
    if step["cpuMillis"] or step["memoryBytes"]:
        cores = run_words.cpu_words(step["cpuMillis"])
        return f"{cores} {'core' if cores == '1' else 'cores'}, {round_memory(step['memoryBytes'])}"
    return ""
