"""`kaji inspect`: everything about runs, for programs."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, runs_argument, server_options


@click.command(epilog="\b\nExamples:\n  kaji inspect bert\n  kaji inspect bert | jq -r '.[0].status.phase'")
@runs_argument
@output_option("json", "yaml")
@click.option("-f", "--format", "template", hidden=True)
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], output: str | None, template: str | None, namespace: str | None) -> int:
    """Show everything about runs as JSON.

    A list, as docker inspect prints one: each run as the Web API shows it, with its members. Removed runs are found in
    history by their whole name or UID, and have `removedAt`. For people: kaji describe.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import print_error
    from kajitori.client.lookup import find_runs
    from kajitori.client.web_api import run_path
    from kajitori.errors import InvalidInput

    if template is not None:
        hint = f"kaji inspect {runs[0]} | jq -r '.[0].status.phase'; for lists: kaji ps --format"
        raise InvalidInput.one("--format", "kaji inspect reads no templates", value=template, hint=hint)
    with cli.api() as api:
        found, errors = find_runs(api, runs, namespace, or_removed=True)
        document = [{**view, "members": api.all_items(run_path(view, "/members"))} for view in found]
    print_document(document, output or "json")
    for error in errors:
        print_error(error)
    return errors[0].exit_code if errors else 0
