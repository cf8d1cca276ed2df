"""`kaji ps`: the list of runs."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, say
from kajitori.client.views import phase_of, status_of

_FILTERS = ("status", "name", "label", "owner", "sweep")
_FORMAT_FIELDS = (
    *("ID", "Name", "Names", "Namespace", "Owner", "Image", "Command", "CreatedAt", "RunningFor", "RunTime", "State"),
    *("Status", "Reason", "Message", "ExitCode", "Members", "GPUs", "Nodes", "Restarts", "MemoryPeak", "Ports"),
    *("Mounts", "Networks", "Labels"),
)


@click.command(
    epilog="\b\nExamples:\n  kaji ps\n  kaji ps -a --filter status=failed -o wide\n"
    "  kaji ps --format '{{.Names}} {{.Status}}'\n  kaji ps --format 'table {{.Names}}\\t{{.RunTime}}\\t{{.Nodes}}'\n\n"
    "TIME is how long a run has run, or has waited before its first start. Fields of --format: "
    + ", ".join(_FORMAT_FIELDS)
    + ', Label "KEY".',
)
@click.option("-a", "--all", "everything", is_flag=True, help="Show ended runs, too.")
@click.option("--all-users", is_flag=True, help="Show the runs of all users.")
@click.option(
    "-f", "--filter", "filters", multiple=True, metavar="KEY=VALUE", help="status, name, label, owner or sweep=true."
)
@click.option("-n", "--last", type=click.IntRange(min=1), metavar="N", help="The newest N, ended ones too.")
@click.option("-q", "--quiet", is_flag=True, help="Print names only.")
@click.option("--no-trunc", is_flag=True, help="Do not shorten columns.")
@click.option("--format", "template", metavar="TEMPLATE|json", help="As in docker ps; 'table TEMPLATE' adds titles.")
@namespace_option("Look in this namespace only.")
@output_option("json", "yaml", "wide", "name")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    everything: bool,
    all_users: bool,
    filters: tuple[str, ...],
    last: int | None,
    quiet: bool,
    no_trunc: bool,
    template: str | None,
    namespace: str | None,
    output: str | None,
) -> None:
    """List runs: yours that are active, or all."""
    from kajitori.cli.printing.output import print_document
    from kajitori.client.roles import role_missing_now

    if template is not None and output is not None:
        raise click.UsageError("--format and -o exclude each other")
    params = _params(filters)
    params.setdefault("owner", None if all_users else "@me")
    params["namespace"] = namespace
    if not everything and last is None and "phase" not in params:
        params["active"] = True
    is_for_people = template is None and output in (None, "wide") and not quiet
    with cli.api() as api:
        runs = api.all_items("/v1/runs", params, limit=last)
        missing = role_missing_now(api, namespace) if not runs and is_for_people else ""
    if template is not None and template != "table":
        from kajitori.cli.printing.templates import print_rows

        print_rows(cli, template, [(_fields(cli, run), run.get("labels") or {}) for run in runs], _FORMAT_FIELDS)
    elif output in ("json", "yaml"):
        print_document({"items": runs}, output)
    elif quiet or output == "name":
        for run in runs:
            echo(run["name"])
    else:
        _print(cli, runs, wide=output == "wide", cut=not no_trunc, owners=all_users)
    if missing:
        say(f"note: {missing}")


def _print(cli: Cli, runs: list[dict[str, Any]], *, wide: bool, cut: bool, owners: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words import runs as words

    now = cli.now()
    namespaces = wide or len({run["namespace"] for run in runs}) > 1
    columns = [Column("NAME"), Column("STATUS", styled=True), Column("REASON", flexible=True)]
    columns += [Column("MEMBERS"), Column("GPUS"), Column("TIME")]
    if wide:
        columns.append(Column("AGE"))
    if namespaces:
        columns.append(Column("NAMESPACE"))
    if wide or owners:
        columns.append(Column("OWNER"))
    if wide:
        columns += [Column("RESTARTS"), Column("MEMORY PEAK"), Column("NODES"), Column("IMAGE")]
    columns.append(Column("COMMAND", flexible=True, optional=True))
    rows = []
    for run in runs:
        row = [run["name"], words.status_words(run), words.reason_words(run), words.member_words(run)]
        row += [words.gpu_words(run), words.time_words(run, now)]
        if wide:
            row.append(words.age(run.get("createdAt"), now))
        if namespaces:
            row.append(run["namespace"])
        if wide or owners:
            row.append(run.get("owner") or "")
        if wide:
            row += [words.restart_words(run), words.peak_words(run), words.node_words(run)]
            row.append(str(run["spec"].get("image", "")))
        rows.append([*row, words.program_words(run, cut=cut and not wide)])
    print_table(cli, columns, rows, cut=cut and not wide)


def _fields(cli: Cli, run: dict[str, Any]) -> dict[str, str]:
    """Return a run's fields for `--format`: those of docker, and a few more."""
    from kajitori.cli.words import runs as words

    spec, status, now = run.get("spec") or {}, status_of(run), cli.now()
    mounts = [str(volume.get("name") or volume.get("hostPath") or "") for volume in spec.get("volumes") or ()]
    code = status.get("exitCode")
    values = (
        f"{run['namespace']}/{run['name']}",
        run["name"],
        run["name"],
        run["namespace"],
        run.get("owner") or "",
        str(spec.get("image", "")),
        words.program_words(run),
        run.get("createdAt") or "",
        f"{words.age(run.get('createdAt'), now)} ago",
        words.time_words(run, now),
        phase_of(run),
        words.status_words(run),
        words.reason_words(run),
        str(status.get("message") or ""),
        "" if code is None else str(code),
        words.member_words(run),
        words.gpu_words(run),
        words.node_words(run),
        words.restart_words(run),
        words.peak_words(run),
        ", ".join(str(port) for port in spec.get("ports") or ()),
        ",".join(mounts),
        "host" if spec.get("hostNetwork") else "",
        ",".join(f"{key}={value}" for key, value in (run.get("labels") or {}).items()),
    )
    return dict(zip(_FORMAT_FIELDS, values, strict=True))


def _params(filters: tuple[str, ...]) -> dict[str, Any]:
    """Return the query of the filters. Raises InvalidInput with every filter that can't be read."""
    from kajitori.cli.words.phases import phases_of
    from kajitori.errors import Fault, InvalidInput

    params: dict[str, Any] = {}
    faults: list[Fault] = []
    for word in filters:
        key, equals, value = word.partition("=")
        if not equals or key not in _FILTERS:
            faults.append(
                Fault(
                    "--filter", f"{word!r:.80} is not a filter", word, f"write KEY=VALUE; keys: {', '.join(_FILTERS)}"
                )
            )
        elif key == "status":
            try:
                params.setdefault("phase", []).extend(phases_of("--filter", value.split(",")))
            except InvalidInput as error:
                faults += error.faults
        elif key == "label":
            params["labelSelector"] = ",".join(filter(None, (params.get("labelSelector"), value)))
        else:
            params[key] = value
    if faults:
        raise InvalidInput(faults)
    return params
