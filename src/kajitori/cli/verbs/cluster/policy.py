"""`kaji policy`: the operators' policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    complete_file,
    namespace_option,
    output_option,
    read_file,
    server_options,
)
from kajitori.cli.policy.diff import diff
from kajitori.cli.policy.pods import audit, check_manifests, render
from kajitori.cli.terminal import echo, say


@click.group(epilog="\b\nExample:\n  kaji policy check policy.yaml")
def command() -> None:
    """Show, explain, check, compare and apply the policy."""


for _verb in (render, audit, diff):
    command.add_command(_verb)


@command.command(epilog="\b\nExample:\n  kaji policy show")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def show(cli: Cli, output: str | None) -> None:
    """Show the policy in force."""
    from kajitori.cli.printing.output import print_document

    with cli.api() as api:
        answer = api.get("/v1/policy")
    if output is not None:
        print_document(answer, output)
        return
    _say_its_state(answer)
    print_document(answer["policy"], "yaml")


@command.command(epilog="\b\nExample:\n  kaji policy explain")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def explain(cli: Cli, output: str | None) -> None:
    """Tell what the policy in force allows and fills in, in sentences.

    Each sentence ends with the field of the policy file that says so; docs/reference/policy.md has all fields.
    """
    from kajitori.cli.printing.output import print_document

    with cli.api() as api:
        answer = api.get("/v1/policy")
    if output is not None:
        print_document({"items": answer["rules"]}, output)
        return
    _say_its_state(answer)
    for place, group in enumerate(answer["rules"]):
        if place:
            echo("")
        echo(group["title"])
        for rule in group["rules"]:
            echo(f"  {rule['text']} [{rule['field']}]")


def _say_its_state(answer: Mapping[str, Any]) -> None:
    """Say whether the newest file is faulty or missing, and what may be a mistake in it."""
    faults = answer.get("faults") or ()
    if faults:
        say(f"{answer.get('path') or 'The policy file'} is faulty; this older policy stays in force:")
        for fault in faults:
            say(f"  {fault.get('field')}: {fault.get('message')}")
    for finding in answer.get("findings") or ():
        say(f"note: {finding}")
    if not faults and not answer.get("path"):
        say("There is no policy file; this is in force without one:")


@command.command(
    epilog="\b\nExamples:\n  kaji policy check policy.yaml\n"
    "  kaji policy check --live policy.yaml\n  kaji policy check --live -N vision\n"
    "  kaji policy check -f deployment.yaml"
)
@click.argument("file", metavar="[FILE]", required=False, shell_complete=complete_file)
@click.option("--live", is_flag=True, help="Also ask the server whether the cluster has what the policy names.")
@click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    metavar="MANIFEST",
    shell_complete=complete_file,
    help="Check the Pods of these manifests against FILE, or the policy in force. May be repeated.",
)
@namespace_option("With --live: look for claims, ConfigMaps and Secrets there. With -f: the Pods' namespace.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if the file is right.")
@output_option("json")
@server_options
@click.pass_obj
def check(
    cli: Cli,
    file: str | None,
    live: bool,
    manifests: tuple[str, ...],
    namespace: str | None,
    quiet: bool,
    output: str | None,
) -> int:
    """Check a policy file.

    Names every fault at once, with its line; `-` reads stdin. With --live it also names every StorageClass,
    PriorityClass, namespace, claim, Secret, GPU type, node label and so on that the policy names and the cluster
    lacks; without FILE it checks the policy in force. With -f it checks the Pods and Pod templates of manifests, which
    the section `pods` is about. Ends with 2 if there are faults.
    """
    from kajitori.core.policy.file import parse_policy

    if manifests:
        if live or output is not None:
            raise click.UsageError("-f goes with neither --live nor -o")
        return check_manifests(cli, file, manifests, namespace, quiet=quiet)
    if not live:
        if file is None:
            raise click.UsageError("name a policy file, or use --live to check the policy in force")
        if namespace is not None or output is not None:
            raise click.UsageError("-N and -o need --live")
    text = read_file(file) if file is not None else None
    if text is not None:
        parse_policy(text)
    name = file or "The policy in force"
    if not live:
        if not quiet:
            echo(f"{name} is a policy without faults.")
        return 0
    return _check_cluster(cli, name, text, namespace, quiet=quiet, output=output)


def _check_cluster(
    cli: Cli, name: str, text: bytes | None, namespace: str | None, *, quiet: bool, output: str | None
) -> int:
    from kajitori.cli.printing.output import print_document

    path, params = "/v1/policy/cluster", {"namespace": namespace} if namespace else {}
    with cli.api() as api:
        answer = api.get(path, params) if text is None else api.post(path, text, params)
    faults = answer.get("faults") or ()
    code = 2 if faults else 0
    if output is not None:
        print_document(answer, output)
        return code
    where = f"looked in namespace {answer.get('namespace')}"
    if faults:
        count = f"{len(faults)} things" if len(faults) > 1 else "one thing"
        say(f"kaji: {name} names {count} that the cluster lacks ({where}):")
    for fault in faults:
        say(f"  {fault.get('field')}: {fault.get('message')}")
        if fault.get("hint"):
            say(f"      {fault.get('hint')}")
    for note in answer.get("notes") or () if not quiet else ():
        say(f"note: {note}")
    if not faults and not quiet:
        echo(f"{name} is a policy without faults; nothing that it names was found missing ({where}).")
    return code
