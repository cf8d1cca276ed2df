"""`kaji team`: the teams of the cluster, and the bindings that give them their rights."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_file, output_option, read_file, server_options


@click.group(epilog="\b\nExamples:\n  kaji team ls\n  kaji team render policy.yaml | kubectl apply -f -")
def command() -> None:
    """Show the teams, and write the bindings that give them rights.

    A team is groups of users and the namespaces in which they work, both named in the policy. The API server decides by
    the bindings that `kaji team render` writes.
    """


@command.command("ls", epilog="\b\nExample:\n  kaji team ls")
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def list_teams(cli: Cli, output: str | None) -> None:
    """List the teams of the policy in force.

    A star marks those that you belong to.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo

    with cli.api() as api:
        items = api.get("/v1/teams")["items"]
    if output == "name":
        for team in items:
            echo(team["name"])
    elif output is not None:
        print_document({"items": items}, output)
    else:
        columns = [
            Column("TEAM"),
            Column("NAMESPACES"),
            Column("GROUPS", flexible=True),
            Column("LEADS", flexible=True),
        ]
        rows = [
            (
                f"{team['name']} *" if team["yours"] else team["name"],
                ", ".join(team["namespaces"]),
                ", ".join(team["groups"]),
                ", ".join(team["leads"]),
            )
            for team in items
        ]
        print_table(cli, columns, rows)


@command.command("render", epilog="\b\nExample:\n  kaji team render policy.yaml | kubectl apply -f -")
@click.argument("policy", shell_complete=complete_file)
def render(policy: str) -> None:
    """Write namespaces and bindings for the teams of a policy file.

    Prints manifests for kubectl; asks no server. `-` reads stdin. A team that left the policy keeps its bindings until
    you delete them: `kubectl get rolebindings -A -l app.kubernetes.io/managed-by=kajitori`.
    """
    from kajitori.cli.terminal import echo_data
    from kajitori.core.policy.file import parse_policy
    from kajitori.install.parts.objects import as_yaml
    from kajitori.install.parts.teams import team_objects

    echo_data(as_yaml(team_objects(parse_policy(read_file(policy, "POLICY")).teams)))
