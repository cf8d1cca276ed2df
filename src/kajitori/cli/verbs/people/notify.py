"""`kaji notify`: channels in which messages about runs arrive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, output_option, server_options

if TYPE_CHECKING:
    from kajitori.client.web_api import Api

PATH = "/v1/channels"
POLL_SECONDS = 0.5
TEST_SECONDS = 60.0

team_option = click.option("--team", metavar="NAMESPACE", help="The channels of a team instead of yours.")


@click.group(epilog="\b\nExample:\n  kaji notify add slack    # asks for its URL, then sends a test")
def command() -> None:
    """Choose where messages about your runs arrive.

    A channel is a service that you name by a URL: Slack, e-mail, Teams, and all others that apprise knows
    (github.com/caronc/apprise). URLs contain tokens: they are never shown again, and never written on a command line.

    \b
    Kinds of messages:
      started      after a long wait
      ended        succeeded, was stopped, or restarts as asked
      failed       with the reason and the last lines of output
      preempted    another run got its nodes
      drained      it leaves a node that an operator drains
      idle         its GPUs are idle: keep it, or park it?
      stuck        it has made no progress for long
      time-limit   it soon reaches its time limit
    """


@command.command(
    epilog="\b\nExamples:\n  kaji notify add slack\n  kaji notify add mail --on failed,ended < url\n"
    "  kaji notify add ci --webhook --team vision"
)
@click.argument("name")
@click.option("--on", metavar="KINDS", help="Kinds of messages, as in failed,ended; left out: all.")
@click.option("--webhook", is_flag=True, help="An https URL of yours, which gets signed requests. Prints their key.")
@click.option("--no-test", is_flag=True, help="Send no test.")
@team_option
@done_option
@server_options
@click.pass_obj
def add(cli: Cli, name: str, on: str | None, webhook: bool, no_test: bool, team: str | None) -> int:
    """Add a channel, or replace it, and send a test.

    The URL is asked for at the terminal, or read from stdin.
    """
    from kajitori.cli.many import Done
    from kajitori.cli.problems import fields_named
    from kajitori.cli.terminal import say

    if "://" in name:
        raise click.UsageError("the URL stands on the command line, where others can read it: give a name alone")
    body: dict[str, Any] = {"name": name, "url": _read_url(name), "webhook": webhook}
    if on is not None:
        body["kinds"] = [word for word in on.split(",") if word]
    with fields_named({"name": "NAME", "url": "URL", "kinds": "--on"}), cli.api() as api:
        made = api.post(PATH, body, {"team": team})
        report = Done()
        report.add({"name": name}, **({"key": made["key"]} if made["key"] else {}))
        report.finish()
        if made["key"] and cli.output is None:
            say(
                f"its requests are signed (standardwebhooks.com) with this key, which is not shown again: {made['key']}"
            )
        return 0 if no_test else _test_channel(cli, api, name, team)


def _read_url(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"URL of {name}", hide_input=True, err=True)).strip()
    return sys.stdin.read().strip()


@command.command("ls", epilog="\b\nExample:\n  kaji notify ls")
@team_option
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def list_channels(cli: Cli, team: str | None, output: str | None) -> None:
    """List channels, without their URLs.

    LAST is the time of the last delivery. STATE tells what went wrong since.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo
    from kajitori.cli.words.runs import age

    with cli.api() as api:
        found = api.get(PATH, {"team": team})
    if output in ("json", "yaml"):
        print_document(found, output)
    elif output == "name":
        for channel in found["items"]:
            echo(channel["name"])
    else:
        columns = [Column("NAME"), Column("SERVICE"), Column("ON"), Column("LAST"), Column("STATE", flexible=True)]
        rows = []
        for channel in found["items"]:
            state = channel["error"] or "ok"
            if channel["waiting"]:
                state = (
                    f"{channel['waiting']} waiting; {state}" if channel["error"] else f"{channel['waiting']} waiting"
                )
            last = age(channel["sentAt"], cli.now()) if channel["sentAt"] else ""
            rows.append((channel["name"], channel["scheme"], ",".join(channel["kinds"]), last, state))
        print_table(cli, columns, rows)


@command.command(epilog="\b\nExample:\n  kaji notify rm slack")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@team_option
@done_option
@server_options
@click.pass_obj
def rm(cli: Cli, names: tuple[str, ...], team: str | None) -> int:
    """Remove channels.

    Prints the name of each. What waits for it is not delivered.
    """
    from kajitori.cli.many import delete_named

    with cli.api() as api:
        return delete_named(api, PATH, names, {"team": team})


@command.command(epilog="\b\nExample:\n  kaji notify test slack")
@click.argument("name")
@team_option
@done_option
@server_options
@click.pass_obj
def test(cli: Cli, name: str, team: str | None) -> int:
    """Send a test to a channel, and tell whether it arrived.

    Ends with 1 if it did not arrive. Prints the name of a channel if it did.
    """
    from kajitori.cli.many import Done

    with cli.api() as api:
        code = _test_channel(cli, api, name, team)
    report = Done()
    if code == 0:
        report.add({"name": name})
    report.finish()
    return code


def _test_channel(cli: Cli, api: Api, name: str, team: str | None) -> int:
    from kajitori.cli.terminal import say

    path = f"{PATH}/{quote(name, safe='')}/test"
    asked = api.post(path, {}, {"team": team})
    for _ in range(int(TEST_SECONDS / POLL_SECONDS)):
        found = api.get(path, {"team": team, "id": asked["id"]})
        if found["state"] == "delivered":
            say(f"{name} took a test message")
            return 0
        if found["state"] == "failed" or found["error"]:
            again = "" if found["state"] == "failed" else "; it is tried again"
            say(f"{name} did not take a test message: {found['error']}{again}")
            return 1
        cli.sleep(POLL_SECONDS)
    say(f"no controller has sent the test within {TEST_SECONDS:.0f} s; see later: kaji notify ls")
    return 1
