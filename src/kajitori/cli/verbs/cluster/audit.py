"""`kaji audit`: who changed what, and the load that other clients put on the API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, server_options
from kajitori.cli.process_options import FILE, kubeconfig_options
from kajitori.cli.terminal import echo, heading, say

if TYPE_CHECKING:
    from kajitori.core.protection.api_clients import Growing, Report
    from kajitori.entrypoints.audit import Audit


@click.group(
    epilog="\b\nExamples:\n  kaji audit log --since 7d\n  kaji audit clients --audit-log /var/log/kubernetes/audit.log"
)
def command() -> None:
    """Show who changed what, and which clients send too many requests."""


@command.command(
    epilog="\b\nExamples:\n  kaji audit log\n  kaji audit log --actor ana --since 7d\n"
    "  kaji audit log --outcome refused -o csv\n"
    "  kaji audit log --since 30d -n 1000000 -o parquet > audit.parquet"
)
@click.option("--actor", metavar="USER", help="Changes by this user only; @me are yours.")
@click.option("--object", "subject", metavar="NAME", help="Changes of this object only: bert, or 'run bert'.")
@click.option("--outcome", type=click.Choice(["done", "refused", "failed"]), help="Only changes that ended like this.")
@click.option("--since", metavar="TIME", help="In the last 7d, or since 2026-11-21T10:00:00Z.")
@click.option("--until", metavar="TIME", help="Only changes before this time.")
@click.option(
    "-n", "--last", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="The newest N."
)
@namespace_option("In this namespace only.")
@output_option("json", "yaml", "csv", "parquet")
@server_options
@click.pass_obj
def log(
    cli: Cli,
    actor: str | None,
    subject: str | None,
    outcome: str | None,
    since: str | None,
    until: str | None,
    last: int,
    namespace: str | None,
    output: str | None,
) -> None:
    """Show who changed what, newest first.

    Changes through the Web API, also refused ones with the rule that refused them, and the controller's decisions
    about runs. This trail cannot be edited.
    """
    from kajitori.cli.printing.export import Kind, print_data
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.times import moment_option

    params = {
        "actor": actor,
        "object": subject,
        "outcome": outcome,
        "since": moment_option("--since", since, cli.now()),
        "until": moment_option("--until", until, cli.now()),
        "namespace": namespace,
    }
    fields = ("actor", "source", "action", "namespace", "object", "outcome", "rule", "message")
    with cli.api() as api:
        if output in ("csv", "parquet"):
            data_columns = {"at": Kind.TIME, **dict.fromkeys(fields, Kind.TEXT)}
            print_data(output, data_columns, api.each_item("/v1/audit", params, limit=last))
            return
        entries = api.all_items("/v1/audit", params, limit=last)
    if output is not None:
        print_document({"items": entries}, output)
        return
    rows = [[str(entry[field]) for field in ("at", *fields)] for entry in entries]
    columns = [Column("TIME"), Column("WHO"), Column("FROM"), Column("ACTION"), Column("NAMESPACE"), Column("OBJECT")]
    columns += [Column("OUTCOME"), Column("RULE", flexible=True), Column("MESSAGE", flexible=True, optional=True)]
    print_table(cli, columns, rows)


@command.command(
    epilog="\b\nExamples:\n  kaji audit clients\n  kaji audit clients --audit-log /var/log/kubernetes/audit.log"
)
@kubeconfig_options
@click.option(
    "--audit-log",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Audit log of the API server; - is standard input, .gz is unpacked. May be repeated.",
)
@click.option(
    "--nodes",
    "planned_nodes",
    type=int,
    default=7500,
    show_default=True,
    metavar="N",
    help="How many nodes the cluster will have.",
)
@output_option("json", "yaml")
@click.pass_obj
def clients(
    cli: Cli,
    kubeconfig: Path | None,
    context: str | None,
    audit_log: tuple[Path, ...],
    planned_nodes: int,
    output: str | None,
) -> None:
    """Find clients whose requests grow with the number of nodes.

    Such a client runs on every node: each of its requests is made as often as there are nodes. Asks the API server
    itself, with your rights: DaemonSets, what their accounts may read, and its own count of open watches. With an audit
    log it shows what each client asks for, how often, and what to change.
    """
    from kajitori.configuration.options.operators import AuditOptions

    settings = AuditOptions(kubeconfig=kubeconfig, context=context, audit_log=audit_log, planned_nodes=planned_nodes)
    from kajitori.cli.printing.output import print_document
    from kajitori.entrypoints.audit import audit_clients

    found = audit_clients(settings)
    if output is not None:
        print_document(_report_document(found), output)
    else:
        _print(cli, found)


def _report_document(found: Audit) -> dict[str, Any]:
    import msgspec

    log = found.log
    return {
        "log": None if log is None else {"requests": log.requests, "seconds": log.seconds, "clients": len(log.uses)},
        **msgspec.to_builtins(found.report),
        "notes": list(found.notes),
    }


def _print(cli: Cli, found: Audit) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import human_duration, plural

    report = found.report
    if found.log is not None:
        span = human_duration(found.log.seconds)
        echo(f"{found.log.requests} requests in {span}, by {plural(len(found.log.uses), 'client')}.")
    if report.growing:
        _print_growing(cli, report)
    elif found.log is not None:
        echo("No client of this log is on every node.")
    if report.largest:
        heading("Others, who asks most first")
        rows = [
            [client.client, f"{client.requests_per_second:.2f}", f"{client.share:.0%}"] for client in report.largest
        ]
        print_table(
            cli, [Column("CLIENT"), Column("REQUESTS/S", right=True), Column("OF ALL", right=True)], rows, cut=False
        )
    if report.suspects:
        heading("DaemonSets that may read everything of a kind" + (", and did not in this log" if found.log else ""))
        rows = [
            [f"{suspect.namespace}/{suspect.name}", str(suspect.pods), _kinds(suspect.reads)]
            for suspect in report.suspects
        ]
        print_table(
            cli, [Column("DAEMONSET"), Column("PODS", right=True), Column("MAY READ", flexible=True)], rows, cut=False
        )
    if report.watched:
        heading("Open watches of everything, about one a node or more")
        rows = [[resource.resource, str(resource.open), str(resource.besides_kubelets)] for resource in report.watched]
        print_table(
            cli, [Column("KIND"), Column("OPEN", right=True), Column("NOT KUBELETS'", right=True)], rows, cut=False
        )
    if not (report.growing or report.suspects or report.watched):
        echo("Nothing was found that grows with the number of nodes.")
    if found.log is None:
        echo("\nWho asks for what, and how often, tells only an audit log: --audit-log FILE.")
    for note in found.notes:
        say(f"note: {note}")


def _print_growing(cli: Cli, report: Report) -> None:
    """Print the clients that are on every node, so that their load grows with the cluster, and what helps."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import plural

    heading(f"On every node ({plural(report.nodes, 'node')} now)")
    columns = [Column("CLIENT"), Column("INSTANCES", right=True), Column("REQUESTS/MIN EACH", right=True)]
    columns += [
        Column("WATCHES EACH", right=True),
        Column(f"AT {report.planned_nodes} NODES"),
        Column("IS TOLD ALL", flexible=True),
    ]
    print_table(cli, columns, [_row(client) for client in report.growing], cut=False)
    for client in report.growing:
        for fix in client.fixes:
            echo(f"  {client.client}: {fix}")


def _row(each: Growing) -> list[str]:
    sets = f" = DaemonSet {', '.join(each.daemon_sets)}" if each.daemon_sets else ""
    then = f"{each.requests_per_second_then:.1f} requests/s, {each.watches_then:.0f} watches"
    return [
        f"{each.client}{sets}",
        str(each.instances),
        f"{each.requests_per_minute:.1f}",
        f"{each.watches:.1f}",
        then,
        _kinds(each.reads_all),
    ]


def _kinds(kinds: tuple[str, ...]) -> str:
    return "everything" if "*" in kinds else ", ".join(kinds)
