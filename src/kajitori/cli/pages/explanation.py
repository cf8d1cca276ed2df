"""Why a run waits, for people: what `kaji explain` and `kaji what-if` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.output import Column, print_pairs, print_table
from kajitori.cli.pages import run_words
from kajitori.cli.pages.queue_words import in_words, place_pairs
from kajitori.cli.terminal import echo, heading, plain
from kajitori.core.words.node_lists import brief, compress, compress_ranks
from kajitori.core.words.quantities import round_memory

SHOWN = 8
"""So many holders and steps are shown; all are in `-o json`."""

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
    "cordoned": "node {name} is uncordoned",
    "broken": "node {who} is in order again",
    "ahead": "{who} no longer waits before it",
}
_AMOUNTS = ("gpus", "cpuMillis", "memoryBytes")


def print_explanation(cli: Cli, title: str, answer: Mapping[str, Any]) -> None:
    """An answer of the API to why something waits."""
    echo(f"{title}: {', '.join(filter(None, (answer.get('phase'), answer.get('reason'))))}")
    if answer.get("message"):
        echo(f"  {answer['message']}")
    if answer.get("controller"):
        echo(f"  {answer['controller']['says']}")
    if "members" not in answer:
        return  # it waits for nothing that anybody could free
    room = answer.get("room") or {}
    if any(count for kind, count in room.items() if kind != "free"):
        members = answer.get("most") or answer["members"]
        heading("Room for it" if members == 1 else f"Room for its {members} members")
        print_pairs(((_ROOM.get(kind, kind), str(count)) for kind, count in room.items() if count), indent=2)
    asks = answer.get("asks") or ()
    if asks:
        heading("It preempts these runs and starts when they have left")
        for each in asks:
            echo(f"  {each}")
    _print_steps(cli, answer)
    _print_holders(cli, answer)
    blocked = answer.get("blocked") or ()
    if blocked:
        heading("Nodes that take no work")
        print_pairs(((each["why"], f"{each['count']}: {brief(each['nodes'])}") for each in blocked), indent=2)
    sooner = answer.get("sooner") or ()
    if sooner:
        heading("It would start now with one of")
        for each in sooner:
            echo(f"  {each}")
    guarantees = answer.get("guarantees") or ()
    if guarantees:
        heading(f"What policy guarantees {guarantees[0]['namespace']}")
        print_pairs(_used_of(guarantees), indent=2)
    heading("Queue")
    print_pairs(place_pairs(cli, answer), indent=2)


def _used_of(guarantees: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """`h100 GPUs`, `24 of 16 in use, 8 borrowed`."""
    for _, what, total, used, shown, borrowed in run_words.guarantee_rows(guarantees):
        yield what, f"{shown(used)} of {shown(total)} in use{f', {borrowed}' if borrowed else ''}"


def _print_steps(cli: Cli, answer: Mapping[str, Any]) -> None:
    steps = answer.get("toFree")
    if steps is None and answer.get("grows"):
        return  # nodes of its own come, as the first line says
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
    steps = _together(steps)
    rows = [
        [
            _happens(each),
            _amount(each),
            in_words(cli, each["until"]),
            each["nodes"],
        ]
        for each in steps[:SHOWN]
    ]
    _print_filled(cli, [Column("WHAT"), Column("FREES"), Column("EXPECTED"), Column("NODES", flexible=True)], rows)
    _print_more(len(steps) - SHOWN)


def _together(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same with the members of a sweep that are expected to end at one time in one line."""
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


def _happens(step: Mapping[str, Any]) -> str:
    known = step["owner"] or step["why"]
    if step["kind"] == "member":
        indices = step["indices"]
        who = f"{'member' if len(indices) == 1 else 'members'} {compress_ranks(sorted(indices))} of {step['run']}"
        who = f"{who} ({known})" if known else who
        return f"{who} {'ends' if len(indices) == 1 else 'end'}"
    who = f"{step['name']} ({known})" if known else step["name"]
    return _HAPPENS.get(step["kind"], "{who}").format(who=who, name=step["name"])


def _print_holders(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Who has such nodes, and was not named yet."""
    named = {step.get("run") or step["name"] for step in answer.get("toFree") or ()}
    holders = [each for each in answer.get("held") or () if each["holder"] not in named]
    if not holders:
        return
    heading("Held by others, too" if named else "Held by")
    columns = [Column("RUN"), Column("OWNER"), Column("GPUS", right=True), Column("CPU", right=True)]
    columns += [Column("MEMORY", right=True), Column("SINCE"), Column("ENDS"), Column("NODES", flexible=True)]
    rows = [
        [
            each["holder"] if each.get("isRun", True) else f"Pod {each['holder']}",
            each.get("owner") or "",
            str(each.get("gpus") or ""),
            run_words.cpu_words(each.get("cpuMillis") or 0),
            round_memory(each.get("memoryBytes") or 0),
            run_words.age(each.get("since"), cli.now()),
            in_words(cli, each.get("until")),
            each.get("nodes") or "",
        ]
        for each in holders[:SHOWN]
    ]
    _print_filled(cli, columns, rows)
    _print_more(len(holders) - SHOWN)


def _print_filled(cli: Cli, columns: list[Column], rows: list[list[str]]) -> None:
    """A table without the columns that are empty."""
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


def _amount(step: Mapping[str, Any]) -> str:
    if step["gpus"]:
        return run_words.plural(step["gpus"], "GPU")
    if step["cpuMillis"] or step["memoryBytes"]:
        cores = run_words.cpu_words(step["cpuMillis"])
        return f"{cores} {'core' if cores == '1' else 'cores'}, {round_memory(step['memoryBytes'])}"
    return ""
