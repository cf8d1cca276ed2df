"""`kaji stacks`: the places of a run's processes in their programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, ranks_option, run_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(
    epilog="\b\nExamples:\n  kaji stacks bert\n  kaji stacks --rank 3 bert\n  kaji stacks --native bert\n"
    "  kaji stacks --rank 3 --attempt 2 bert    # kept when attempt 2 hung or failed\n"
    "  kaji stacks -o json bert > stacks.json"
)
@run_argument
@ranks_option("The whole stacks of these ranks, such as 3 or 0-3,7.")
@click.option(
    "--native",
    is_flag=True,
    help="Also calls in native code, of the ranks of --rank or of a few. Stops each process for half a second or more.",
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="The stacks that were kept of attempt N.")
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str,
    ranks: tuple[int, ...],
    native: bool,
    attempt: int | None,
    namespace: str | None,
    output: str | None,
) -> int:
    """Show where the processes of a run are in their code.

    The agents on the nodes read the stacks of Python programs from outside, with py-spy: programs and images need
    nothing for it. Ranks at the same place are one line; first come those for which the others may wait. Needs the
    right that `kaji exec` needs.

    --native says what a line of Python waits for: a lock, a socket, NCCL. Of a thread that waits in the kernel, and of
    programs without Python, the kernel's functions are shown in any case.

    --attempt shows the stacks that were kept when an attempt was suspected to be stuck, or before its members were
    ended because one had failed, also if the run has ended or was removed.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=attempt is not None)
        asked = {"rank": list(ranks) or None, "native": native or None, "attempt": attempt}
        answer = api.get(run_path(view, "/stacks"), asked)
    if output is not None:
        print_document(answer, output)
        return 0 if answer["ranks"] else 1
    for each in answer["groups"]:
        echo(f"{each['words'][:1].upper()}{each['words'][1:]}.")
    if ranks or native:
        shown = [member for member in answer["ranks"] if ranks or _has_native(member)]
        for member in shown:
            for line in _lines_of_rank(member):
                echo(line)
    elif answer["groups"]:
        first = answer["groups"][0]["ranks"][0]
        of_attempt = f" --attempt {attempt}" if attempt is not None else ""
        say(f"The whole stacks of a rank: kaji stacks --rank {first}{of_attempt} {view['name']}")
    silent = answer.get("silent", [])
    if silent:
        from kajitori.core.formats.node_lists import compress_ranks

        trouble = answer.get("trouble") or "their agents did not answer"
        say(f"kaji: no stacks of rank {compress_ranks(silent)}: {trouble}")
    if not answer["ranks"]:
        say("      see kaji agent, and kaji node --report")
        return 1
    return 0


def _lines_of_rank(member: Mapping[str, Any]) -> Iterator[str]:
    """Yield the stacks of one rank, the innermost call first."""
    for process in member["processes"]:
        yield ""
        yield f"Rank {member['rank']} on {member['node']}, process {process['pid']}: {process['command']}"
        if process.get("trouble"):
            kernel = f", waits in {process['waits_in']}" if process.get("waits_in") else ""
            yield f"  no stack (state {process['state']}{kernel}): {process['trouble']}"
        for thread in process.get("threads", ()):
            yield from _lines_of_thread(thread, "Thread")
        for thread in process.get("native", ()):
            yield from _lines_of_thread(thread, "Native code and kernel, thread")
        if process.get("native_trouble"):
            yield f"  no calls in native code: {process['native_trouble']}"
    if member.get("left_out"):
        yield f"  and {member['left_out']} more processes"


def _lines_of_thread(thread: Mapping[str, Any], title: str) -> Iterator[str]:
    yield f"  {title} {thread['name'] or '?'} ({'active' if thread['active'] else 'waits'})"
    for frame in thread["frames"]:
        is_native = not frame["line"] and frame["file"].startswith("[")
        at = frame["file"] if is_native else f"({frame['file']}:{frame['line']})"
        yield f"    {frame['function']} {at}"


def _has_native(member: Mapping[str, Any]) -> bool:
    return any(process.get("native") or process.get("native_trouble") for process in member["processes"])
