"""`kaji drain`: empty nodes of runs, for a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.many import Done
from kajitori.cli.options import done_option, server_options
from kajitori.cli.terminal import say
from kajitori.core.suggestions import first_few
from kajitori.errors import NotFound

if TYPE_CHECKING:
    from kajitori.client.web_api import Api

POLL_SECONDS = 1.0
LISTED = 5


@click.command(
    epilog='\b\nExamples:\n  kaji drain gpu-00012 --reason "loud fan"\n  kaji drain --no-wait gpu-00012 gpu-00013'
)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--wait/--no-wait", default=True, help="Wait until no run is left there.", show_default=True)
@click.option(
    "--reason", default="", metavar="TEXT", help="Reason for the drain; everybody who may see the node sees it."
)
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, nodes: tuple[str, ...], wait: bool, reason: str) -> int:
    """Empty nodes: runs on them move elsewhere.

    Nothing new is placed there. A gang is ended as a whole, with the time that its run has to write a checkpoint, and
    starts again on other nodes once there is room. `kaji uncordon` takes it back.
    """
    from kajitori.cli.lookup import node_path, require_nodes

    with cli.api() as api:
        views = [
            api.post(node_path(node, "/drain"), {"reason": reason} if reason else {})
            for node in require_nodes(api, nodes)
        ]
        moved = {member["holder"] for view in views for member in _members_of_runs(view)}
        try:
            if wait:
                views = [_wait_until_empty(cli, api, view) for view in views]
                _tell_who_waits(api, moved)
        except KeyboardInterrupt:
            names = " ".join(view["name"] for view in views)
            say(f"\nruns leave all the same; to let new ones come again: kaji uncordon {names}")
            return 130
    report = Done()
    for view in views:
        foreign = [member["holder"] for member in view["members"] if not member["isRun"]]
        if foreign:
            say(
                f"note: Pods that belong to no run stay on {view['name']}: {first_few(foreign, LISTED)}; to move them: "
                f"kubectl drain {view['name']} --ignore-daemonsets"
            )
        report.add(view)
    report.finish()
    return 0


def _wait_until_empty(cli: Cli, api: Api, view: dict[str, Any]) -> dict[str, Any]:
    """Wait until no run has a member on the node, and return its view. Print the runs that are waited for each time
    they change."""
    from kajitori.cli.lookup import node_path

    shown, name = "", view["name"]
    while members := _members_of_runs(view):
        holders: dict[str, int] = {}
        for member in members:
            holders[member["holder"]] = holders.get(member["holder"], 0) + 1
        counts = [f"{holder} ({count})" if count > 1 else holder for holder, count in sorted(holders.items())]
        waiting = first_few(counts, LISTED)
        if not view["ready"]:
            waiting += f"; it is not ready: its Pods go once it is back, or with: kubectl delete node {name}"
        if waiting != shown:
            say(f"{name}: waiting for {waiting}")
            shown = waiting
        cli.sleep(POLL_SECONDS)
        try:
            view = api.get(node_path(name))
        except NotFound:
            say(f"note: {name} is not in the cluster any more")
            return {"name": name, "members": []}
        if not view["draining"]:
            say(f"note: somebody lets {name} take work again")
            break
    return view


def _tell_who_waits(api: Api, moved: set[str]) -> None:
    """Print the runs that have found no other place yet, and why they wait."""
    for holder in sorted(moved):
        namespace, _, name = holder.partition("/")
        items = api.get("/v1/runs", params={"namespace": namespace, "name": name})["items"]
        for run in items:
            status = run.get("status") or {}
            if run["name"] == name and status.get("phase") in ("Queued", "Restarting"):
                words = status.get("message") or status.get("reason") or ""
                say(f"note: {holder} waits for nodes: {words}")


def _members_of_runs(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [member for member in view["members"] if member["isRun"]]
