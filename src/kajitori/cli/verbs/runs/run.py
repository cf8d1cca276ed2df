"""`kaji run`: submit a program and follow it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    complete_file,
    complete_folder,
    complete_image,
    complete_run,
    complete_secret,
    complete_template,
    env_option,
    namespace_option,
    remember_output,
    server_options,
    volume_option,
)
from kajitori.cli.submit.borrowing import BorrowingCommand, borrowed_words
from kajitori.cli.terminal import echo, say

if TYPE_CHECKING:
    from kajitori.client.submit.request import RunRequest
    from kajitori.client.web_api import Api
    from kajitori.errors import InvalidInput

_DOCKER, _CLUSTER = "As in docker run", "Kajitori's own"


class _RunCommand(BorrowingCommand):
    """Shows options of Docker and Kajitori's own options in separate sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {_DOCKER: [], _CLUSTER: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups[_DOCKER if parameter.name in _DOCKERS else _CLUSTER].append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


_DOCKERS = {
    *("detach", "name", "env", "env_file", "volume", "mount", "workdir", "entrypoint", "user", "label", "publish"),
    *("remove", "gpus", "cpus", "memory", "shm_size", "privileged", "network", "network_alias"),
    *("interactive", "tty", "health_cmd", "health_interval", "health_timeout", "health_retries"),
    *("health_start_period", "health_start_interval", "no_healthcheck"),
}


def _closed_set(*known: str) -> Any:
    """Completes from a closed set. The check of the spec refuses other values, together with all other faults."""
    return lambda _ctx, _param, incomplete: [word for word in known if word.startswith(incomplete)]


@click.command(
    cls=_RunCommand,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    epilog="\b\nExamples:\n  kaji run python:3.11 python -c 'print(1)'\n"
    "  kaji run -d --name bert --gpus 8 --gpu-type h100 -n 4 --launcher torchrun \\\n"
    "      -v imagenet:/data:ro --checkpoint /ckpt registry/bert:3 train.py --lr 3e-4\n"
    "  kaji run --code . python:3.11 python train.py    # the folder you are in",
)
@click.argument("image", required=False, shell_complete=complete_image)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_file)
@click.option("-d", "--detach", is_flag=True, help="Print the name and leave.")
@click.option("--name", help="Name of the run; one is made up otherwise.")
@env_option
@click.option(
    "--env-file", multiple=True, metavar="FILE", shell_complete=complete_file, help="Environment variables, one a line."
)
@volume_option
@click.option("--mount", multiple=True, metavar="type=…,…", help="The same in docker's long form.")
@click.option("-w", "--workdir", metavar="PATH", help="Folder the program starts in.")
@click.option("--entrypoint", metavar="PROGRAM", help="Replaces the image's entrypoint.")
@click.option("-u", "--user", metavar="UID[:GID]", help="User the program runs as.")
@click.option("-l", "--label", multiple=True, metavar="KEY=VALUE", help="Label of the run and its members.")
@click.option("-p", "--publish", multiple=True, metavar="PORT", help="Port the program listens on.")
@click.option("--rm", "remove", is_flag=True, help="Delete the run once it has ended.")
@click.option("--gpus", metavar="N|all|TYPE:N", help="GPUs of each member, such as 8 or h100:8.")
@click.option("--cpus", metavar="N", help="Cores of each member, such as 8 or 0.5.")
@click.option("-m", "--memory", metavar="SIZE", help="Memory limit of each member, such as 64g.")
@click.option("--shm-size", metavar="SIZE", help="Size of /dev/shm, taken from memory.")
@click.option("--privileged", is_flag=True, help="If policy allows it.")
@click.option(
    "--network",
    "--net",
    metavar="NAME",
    shell_complete=_closed_set("host", "none"),
    help="Runs in it find each other; or host, none.",
)
@click.option("--network-alias", multiple=True, metavar="NAME", help="Another name in that network.")
@click.option("--health-cmd", metavar="COMMAND", help="Run by a shell; exit code 0 is healthy.")
@click.option("--health-interval", metavar="TIME", help="Time between two checks: 30s.")
@click.option("--health-timeout", metavar="TIME", help="Longest time of a check: 30s.")
@click.option("--health-retries", metavar="N", help="Failures in a row until unhealthy: 3.")
@click.option("--health-start-period", metavar="TIME", help="In it, failures do not count: 0s.")
@click.option("--health-start-interval", hidden=True, metavar="TIME")
@click.option("--no-healthcheck", is_flag=True, hidden=True)
@click.option("--restart", hidden=True, metavar="POLICY")
@click.option("--ipc", hidden=True, metavar="MODE")
@click.option("--expose", hidden=True, multiple=True, metavar="PORT")
@click.option("--platform", hidden=True, metavar="OS/ARCH")
@click.option("--stop-timeout", hidden=True, metavar="SECONDS")
@click.option("-i", "--interactive", is_flag=True, help="Pass stdin on, and keep it open.")
@click.option("-t", "--tty", is_flag=True, help="Give it a terminal; ctrl-p,ctrl-q detaches.")
@click.option("--detach-keys", default="ctrl-p,ctrl-q", hidden=True, metavar="KEYS")
@click.option("-n", "--replicas", metavar="N|8-32", help="Members; 8-32: as many as fit, at least 8.")
@click.option(
    "--array", metavar="0-999%64", help="A sweep: a member for each number (KAJI_ARRAY_INDEX); %64: 64 at once."
)
@click.option(
    "--stop-at",
    metavar="first-failure|first-success",
    shell_complete=_closed_set("first-failure", "first-success"),
    help="End the whole sweep at the first failure or success.",
)
@click.option("--gpu-type", metavar="TYPE", help="GPU type, such as h100; see kaji gpus.")
@click.option("--whole-node", is_flag=True, help="Take whole nodes, which no other run shares.")
@click.option(
    "--launcher",
    metavar="none|torchrun|mpi",
    shell_complete=_closed_set("none", "torchrun", "mpi"),
    help="Program that starts a member's processes.",
)
@click.option(
    "--type",
    metavar="TYPE",
    shell_complete=_closed_set("batch", "service", "notebook"),
    help="batch, service (runs for good) or notebook.",
)
@click.option(
    "--after",
    multiple=True,
    metavar="RUN[:healthy|ended]",
    shell_complete=complete_run,
    help="Start once RUN has succeeded, is healthy, or has ended.",
)
@click.option(
    "--code",
    metavar="DIR[:PATH]",
    shell_complete=complete_folder,
    help="Folder in which all members start, or its sha256:….",
)
@click.option("--checkpoint", metavar="PATH[:SIZE]", help="Folder that outlives restarts and the run.")
@click.option("--checkpoint-every", metavar="TIME", help="Time between checkpoints, such as 10m.")
@click.option("--tensorboard", metavar="PATH", help="Folder with event files, for kaji metrics.")
@click.option("--restarts", metavar="N", help="Restarts after the program failed; left out: none without a checkpoint.")
@click.option("--stuck-after", metavar="TIME", help="Time without progress until suspected: 20m.")
@click.option("--on-stuck", metavar="ACTION", help="Once it is stuck: tell or restart.")
@click.option("--time-limit", metavar="TIME", help="The run ends after it: 8h or 2-00:00:00.")
@click.option("--notify", metavar="WORDS", help="Channels and kinds: slack,failed; or none.")
@click.option("--grace", metavar="TIME", help="Time from SIGTERM to SIGKILL: 60s.")
@click.option(
    "--priority",
    metavar="high|normal|low",
    shell_complete=_closed_set("high", "normal", "low"),
    help="Runs of higher priority start first.",
)
@click.option(
    "--secret",
    multiple=True,
    metavar="NAME[:PATH]",
    shell_complete=complete_secret,
    help="Secret as variables or files; or VAR=NAME/KEY.",
)
@click.option("--allow-from", multiple=True, metavar="CLASS,…", help="Only these may connect, such as namespace.")
@click.option("--allow-to", multiple=True, metavar="CLASS,…", help="It connects only to these, such as internal.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="Only nodes with this label.")
@click.option("--toleration", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Taint of nodes that is no obstacle.")
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Run manifest or bare spec in YAML; options overrule it.",
)
@click.option(
    "--template",
    metavar="NAME",
    shell_complete=complete_template,
    help="Begin with a template of the policy; options overrule it.",
)
@namespace_option("Namespace of the run.")
@click.option(
    "--rank", "--index", "rank", type=click.IntRange(min=0), metavar="R", help="Follow this member's log only."
)
@click.option("--all-ranks", is_flag=True, help="Follow the logs of all members, up to 256.")
@click.option("-q", "--quiet", is_flag=True, help="No notes and no progress.")
@click.option("--dry-run", is_flag=True, help="Show what would be made; make nothing.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml", "name"]),
    metavar="json|yaml|name",
    is_eager=True,
    callback=remember_output,
    help="Form of output; needs -d or --dry-run.",
)
@server_options
@click.pass_obj
def command(
    cli: Cli,
    /,
    rank: int | None,
    all_ranks: bool,
    quiet: bool,
    dry_run: bool,
    output: str | None,
    detach_keys: str,
    **words: Any,
) -> int:
    """Run a program on the cluster, in Docker's words.

    Follows its log and ends with its exit code. Ctrl-C leaves it running; a second one stops it.
    """
    from kajitori.cli.follow.follow import Follower, follow_to_the_end
    from kajitori.cli.follow.interrupts import Signals
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.submit.code import Code
    from kajitori.client.submit.request import build_request
    from kajitori.client.submit.run_options import RunWords

    # 1. Read the options. Nothing is created if any of them has a fault.
    if rank is not None and all_ranks:
        raise click.UsageError("--rank and --all-ranks exclude each other")
    _check_terminal_options(words, detach_keys, output, dry_run=dry_run)
    code = Code(cli, quiet=quiet)
    run_words = RunWords(**words, borrowed=borrowed_words())
    request = build_request(
        run_words,
        environment=cli.environment,
        folder=Path.cwd(),
        read_text=read_text_of,
        pack=code.pack,
        template=template_of(cli, run_words.template),
    )
    if request.faults:
        raise all_faults(cli, request)
    if not quiet:
        for line in request.notes:
            say(line)
    if rank is not None:
        _require_member(request, rank)

    # 2. Upload the code and submit the run.
    with cli.api() as api, Signals() as signals:
        if dry_run:
            return _show_dry_run(_submit_request(api, request, dry_run=True), output, quiet)
        code.upload(
            api, at_home(api, request).namespace or "", check=lambda: _submit_request(api, request, dry_run=True)
        )
        view = _submit_request(api, request)
        if not quiet:
            note((view.get("status") or {}).get("findings") or ())
            if ports := (view.get("spec") or {}).get("ports"):
                say(f"its ports on this machine: kaji port-forward {view['name']} {' '.join(map(str, ports))}")

        # 3. Print its name, follow its log, or attach to it.
        if words["detach"]:
            if output in ("json", "yaml"):
                print_document(view, output)
            else:
                echo(view["name"])
            return 0
        spec = view.get("spec") or {}
        if not (spec.get("stdin") or spec.get("tty")):
            follower = Follower(cli, api, view, rank=rank, all_ranks=all_ranks, quiet=quiet)
            return follow_to_the_end(cli, api, follower, signals, remove=words["remove"])
    from kajitori.cli.follow.attached import attach_to_the_end
    from kajitori.client.members.detach_keys import detach_keys_of

    with cli.api() as api:
        return attach_to_the_end(
            cli, api, view, keys=detach_keys_of(detach_keys), from_start=True, quiet=quiet, remove=words["remove"]
        )


def _check_terminal_options(words: Mapping[str, Any], detach_keys: str, output: str | None, *, dry_run: bool) -> None:
    """Raise UsageError if the output, the terminal or the keys that detach from it do not fit the other options."""
    is_attached = not (words["detach"] or dry_run)
    if output is not None and is_attached:
        raise click.UsageError("-o goes with -d or --dry-run: otherwise stdout is the program's")
    if is_attached and words["interactive"] and words["tty"]:
        from kajitori.cli.connection.execution import check_terminal

        check_terminal()
    if words["tty"]:
        from kajitori.client.members.detach_keys import detach_keys_of

        detach_keys_of(detach_keys)


def template_of(cli: Cli, name: str | None) -> Mapping[str, Any] | None:
    """Return the spec of a template of the policy; None without a name. Raises InvalidInput for one that is unknown."""
    from kajitori.client.submit.sending import template_spec

    if name is None:
        return None
    with cli.api() as api:
        return template_spec(api, name)


def _require_member(request: RunRequest, rank: int) -> None:
    """Raise a usage error if the run will have no member of the rank or index to follow."""
    from kajitori.core.spec.array import parse_array

    spec = request.spec
    try:
        array = parse_array(spec["array"]) if spec.get("array") else None
    except (ValueError, TypeError):
        return  # the server reports it
    replicas = spec.get("replicas", 1)
    if array is not None and rank not in array.indices:
        raise click.UsageError(f"--index {rank}: no member of --array {spec['array']} has this number")
    if array is None and isinstance(replicas, int) and rank >= replicas:
        last = f"ranks are 0 to {replicas - 1}" if replicas > 1 else "its only member is 0"
        raise click.UsageError(f"--rank {rank}: the run has no such member; {last}")


def all_faults(cli: Cli, request: RunRequest) -> InvalidInput:
    """Return the error for a faulty request, with the server's faults if it answers. Nothing is created."""
    from kajitori.client.submit import sending
    from kajitori.errors import InvalidInput, KajitoriError

    try:
        with cli.api() as api:
            return sending.all_faults(api, at_home(api, request))
    except KajitoriError:
        return InvalidInput(request.faults)


def _submit_request(api: Api, request: RunRequest, *, dry_run: bool = False) -> dict[str, Any]:
    from kajitori.client.submit import sending

    return sending.submit(api, at_home(api, request), dry_run=dry_run)


def at_home(api: Api, request: RunRequest) -> RunRequest:
    """Return the request with the namespace of the server's address, unless it names one."""
    from kajitori.client.submit import sending

    return sending.at_home(request, api.target.namespace)


def _show_dry_run(answer: dict[str, Any], output: str | None, quiet: bool) -> int:
    """Print the result of a dry run for people, or the whole document for programs. Returns the exit code."""
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.words.runs import gpu_words, members_asked_for, size_words
    from kajitori.core.spec.command_line import command_line

    if output in ("json", "yaml"):
        print_document(answer, output)
        return 0
    run = answer["run"]
    if output == "name":
        echo(run["name"])
        return 0
    if not quiet:
        note(answer.get("findings") or (), all_of_them=True)
    kinds: dict[str, int] = {}
    for manifest in answer.get("manifests") or ():
        kinds[manifest.get("kind", "")] = kinds.get(manifest.get("kind", ""), 0) + 1
    if "Pod" in kinds:  # one is shown for all members: they differ in rank and node only
        kinds["Pod"] = members_asked_for(run)
    size = size_words(run)
    made = ", ".join(
        f"{size if size and kind == 'Pod' else count} {kind}{'' if count == 1 else 's'}"
        for kind, count in kinds.items()
    )
    echo(command_line(run["spec"], name=run["name"]).text)
    if gpus := gpu_words(run):
        untyped = not (run["spec"].get("resources") or {}).get("gpuType")
        echo(f"Takes {gpus}{(' GPU' if gpus == '1' else ' GPUs') if untyped else ''}.")
    if made:
        echo(f"Would make {made}; see them with -o yaml.")
    start = answer.get("start") or {}
    if start.get("message"):
        echo(f"Start: {start['message']}")
    return 0


def note(findings: Iterable[Mapping[str, Any]], *, all_of_them: bool = False) -> None:
    from kajitori.cli.submit.notes import notes

    for line in notes(findings, all_of_them=all_of_them):
        say(line)


def read_text_of(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    return Path(file).expanduser().read_text(encoding="utf-8")
