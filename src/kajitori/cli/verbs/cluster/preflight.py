"""`kaji preflight`: test nodes with the test that policy names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.terminal import echo, say

if TYPE_CHECKING:
    from kajitori.client.web_api import Api

POLL_SECONDS = 2.0
SHOWN = 3
_GOES_ON = ("asked", "testing")


@click.command(epilog="\b\nExamples:\n  kaji preflight gpu-00012 gpu-00013\n  kaji preflight --all --no-wait")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@click.option("--all", "every", is_flag=True, help="All nodes that policy has a test for, and that can be tested now.")
@click.option("--wait/--no-wait", default=True, help="Wait for the results.", show_default=True)
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, nodes: tuple[str, ...], every: bool, wait: bool, output: str | None) -> int:
    """Test nodes; those that fail leave the pool.

    The test is the one of policy (preflight): a run that has the node for itself, so it waits until no other is there.
    A node that is out of the pool comes back when it passes. Ends with 1 if a node did not pass.
    """
    from kajitori.cli.printing.output import print_document

    if bool(nodes) == every:
        raise click.UsageError("name nodes, or say --all")
    with cli.api() as api:
        known = _nodes(api)
        if every:
            _check_there_is_a_test(known)
        chosen = api.post("/v1/preflight", {"all": True} if every else {"nodes": list(nodes)})["nodes"]
        if every:
            _say_who_is_left_out(known, len(chosen))
        if not wait and output is not None:
            print_document({"items": [known[name] for name in chosen if name in known]}, output)
            return 0
        if not wait:
            for name in chosen:
                echo(name)
            return 0
        before = {name: _last_test(view) for name, view in known.items()}
        views = _wait_until_tested(cli, api, chosen, before)
    if output is not None:
        print_document({"items": views}, output)
    else:
        _print(cli, views)
    return 0 if all((view.get("test") or {}).get("state") == "passed" for view in views) else 1


def _wait_until_tested(
    cli: Cli, api: Api, chosen: list[str], before: dict[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Wait until all nodes are tested, and return their views. Print the nodes that are waited for each time they
    change."""
    shown = ""
    while True:
        known = _nodes(api)
        open_ones = [name for name in chosen if name in known and not _is_answered(known[name], before.get(name))]
        if not open_ones:
            gone = [name for name in chosen if name not in known]
            if gone:
                say(f"note: no such nodes any more: {', '.join(gone)}")
            return [known[name] for name in chosen if name in known]
        waiting = "; ".join(_describe_progress(known[name]) for name in open_ones[:SHOWN])
        more = f"; and {len(open_ones) - SHOWN} more" if len(open_ones) > SHOWN else ""
        if waiting + more != shown:
            shown = waiting + more
            say(f"{len(chosen) - len(open_ones)} of {len(chosen)} tested; {shown}")
        cli.sleep(POLL_SECONDS)


def _is_answered(view: dict[str, Any], before: tuple[str, str] | None) -> bool:
    """Whether the node has a newer result than when the test was requested."""
    state = (view.get("test") or {}).get("state", "asked")
    return state not in _GOES_ON and _last_test(view) != before


def _last_test(view: dict[str, Any]) -> tuple[str, str]:
    test = view.get("test") or {}
    return test.get("run", ""), test.get("at", "")


def _describe_progress(view: dict[str, Any]) -> str:
    test = view.get("test") or {}
    return f"{view['name']}: {test['says']}" if test.get("says") else f"{view['name']} waits for its turn"


def _print(cli: Cli, views: list[dict[str, Any]]) -> None:
    from kajitori.cli.printing.output import Column, print_table

    columns = [Column("NODE"), Column("TEST", styled=True), Column("POOL"), Column("SAYS", flexible=True)]
    rows = []
    for view in views:
        test = view.get("test") or {}
        rows.append([view["name"], test.get("state", ""), "out" if view.get("why") else "in", test.get("says", "")])
    print_table(cli, columns, rows, cut=False)


def _nodes(api: Api) -> dict[str, dict[str, Any]]:
    return {view["name"]: view for view in api.get("/v1/nodes")["items"]}


def _check_there_is_a_test(known: dict[str, dict[str, Any]]) -> None:
    if known and not any(view.get("testable") for view in known.values()):
        raise click.UsageError(
            "policy has no test for any node: set preflight.image in it, and preflight.nodes if it is for some nodes"
            " only; docs/operate/nodes/node-health.md tells more"
        )


def _say_who_is_left_out(known: dict[str, dict[str, Any]], chosen: int) -> None:
    untestable = sum(not view.get("testable") for view in known.values())
    away = len(known) - chosen - untestable
    if untestable:
        say(f"note: policy has no test for {untestable} of {len(known)} nodes")
    if away > 0:
        say(f"note: {away} of {len(known)} nodes are not ready or cordoned, and are not tested")
