"""`kaji policy diff`: the effects of a new policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_file, namespace_option, output_option, read_file, server_options
from kajitori.cli.terminal import echo, heading, say

_SHOWN = 20
"""Number of lines of each part that are shown to people."""


@click.command(epilog="\b\nExamples:\n  kaji policy diff new-policy.yaml\n  kaji policy diff new-policy.yaml -o json")
@click.argument("file", metavar="FILE", shell_complete=complete_file)
@namespace_option("Look for claims, ConfigMaps and Secrets in this namespace.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def diff(cli: Cli, file: str, namespace: str | None, output: str | None) -> None:
    """Show what a policy file would change if it replaced the policy in force.

    Which fields it changes, which waiting runs it would refuse or move in the queue, what it names and the cluster
    lacks, and which existing Pods break its rules. Nothing is changed; `-` reads stdin.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.words.runs import plural
    from kajitori.core.policy.file import parse_policy

    text = read_file(file)
    parse_policy(text)
    with cli.api() as api:
        answer = api.post("/v1/policy/diff", text, {"namespace": namespace} if namespace else {})
    if output is not None:
        print_document(answer, output)
        return
    for note in answer["notes"]:
        say(f"note: {note}")
    if not _print_parts(cli, answer):
        echo(f"Nothing changes for the cluster and {plural(answer['waiting'], 'waiting run')}.")


def _print_parts(cli: Cli, answer: Mapping[str, Any]) -> bool:
    """Print every part that has lines; return whether there were any."""
    from kajitori.cli.printing.output import Column, print_table

    refused = [(run["run"], run["owner"], _describe_faults(run["faults"])) for run in answer["refused"]]
    parts = (
        (
            "Fields",
            ("FIELD", "NOW", "NEW"),
            [(item["field"], item["before"] or "-", item["after"] or "-") for item in answer["fields"]],
        ),
        (f"Waiting runs that it refuses ({len(refused)} of {answer['waiting']})", ("RUN", "OWNER", "WHY"), refused),
        (
            f"Waiting runs with another place in the queue ({len(answer['moved'])} of {answer['waiting']})",
            ("RUN", "OWNER", "PLACE NOW", "NEW PLACE"),
            [(run["run"], run["owner"], str(run["before"]), str(run["after"])) for run in answer["moved"]],
        ),
        (
            "What the cluster lacks for it",
            ("FIELD", "FAULT"),
            [(fault["field"], fault["message"]) for fault in answer["lacks"]],
        ),
        (
            "Existing Pods that break its rules",
            ("NAMESPACE", "OWNER", "PODS", "FAULT"),
            [(item["namespace"], item["owner"], str(item["pods"]), item["message"]) for item in answer["pods"]],
        ),
    )
    any_printed = False
    for title, titles, rows in parts:
        if not rows:
            continue
        if any_printed:
            echo()
        any_printed = True
        heading(title)
        print_table(cli, [Column(text) for text in titles], rows[:_SHOWN])
        if len(rows) > _SHOWN:
            echo(f"… and {len(rows) - _SHOWN} more (-o json shows all)")
    return any_printed


def _describe_faults(faults: list[Mapping[str, Any]]) -> str:
    return "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults)
