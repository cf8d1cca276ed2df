"""`kaji token`: tokens for robots."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, output_option, server_options


@click.group(epilog="\b\nExample:\n  kaji token create --for ci --ttl 30d >ci.token")
def command() -> None:
    """Make, list and delete tokens for robots.

    A robot is a service account of a namespace. It signs in with `kaji login URL --token-stdin`, or uses $KAJI_SERVER
    and $KAJI_TOKEN. Only leads of a team and administrators make robots.
    """


@command.command(
    epilog="\b\nExamples:\n  kaji token create --for ci >ci.token\n  kaji token create --for tv --role viewer --ttl 7d"
)
@click.option("--for", "name", required=True, metavar="NAME", help="Name of the robot.")
@click.option("--ttl", default="30d", show_default=True, metavar="TIME", help="How long the token is valid.")
@click.option(
    "--role",
    type=click.Choice(("user", "viewer")),
    metavar="user|viewer",
    default="user",
    show_default=True,
    help="What it may do.",
)
@namespace_option("Namespace where the robot works.")
@done_option
@server_options
@click.pass_obj
def create(cli: Cli, name: str, ttl: str, role: str, namespace: str | None) -> None:
    """Make a token for a robot, and print it.

    It is printed once, to stdout, and kept nowhere. A robot that exists gets a further token.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named
    from kajitori.cli.terminal import echo_data, say

    with fields_named({"name": "--for", "ttl": "--ttl"}), cli.api() as api:
        body = {"name": name, "role": role, "ttl": ttl}
        if where := namespace or api.target.namespace:
            body["namespace"] = where
        made = api.post("/v1/tokens", body)
    if cli.output == "json":
        print_document(made, "json")
        return
    say(f"token of {made['user']} ({made['role']}), valid until {made['expiresAt']}")
    echo_data(f"{made['token']}\n")


@command.command("ls", epilog="\b\nExample:\n  kaji token ls -N vision")
@namespace_option("Namespace to look in.")
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def list_robots(cli: Cli, namespace: str | None, output: str | None) -> None:
    """List the robots of a namespace."""
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo

    with cli.api() as api:
        where = namespace or api.target.namespace
        items = api.get("/v1/tokens", {"namespace": where} if where else None)["items"]
    if output == "name":
        for token in items:
            echo(token["name"])
    elif output is not None:
        print_document({"items": items}, output)
    else:
        columns = [Column("NAME"), Column("ROLE"), Column("MADE BY", flexible=True), Column("CREATED")]
        print_table(
            cli, columns, [(token["name"], token["role"], token["owner"], token["createdAt"]) for token in items]
        )


@command.command("rm", epilog="\b\nExample:\n  kaji token rm ci")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@namespace_option("Namespace of the robots.")
@done_option
@server_options
@click.pass_obj
def remove(cli: Cli, names: tuple[str, ...], namespace: str | None) -> None:
    """Delete robots; their tokens end within a minute.

    Prints the names.
    """
    from urllib.parse import quote

    from kajitori.cli.many import Done

    report = Done()
    with cli.api() as api:
        where = namespace or api.target.namespace
        for name in names:
            api.delete(f"/v1/tokens/{quote(name, safe='')}", {"namespace": where} if where else None)
            report.add({"name": name})
    report.finish()
