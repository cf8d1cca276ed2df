"""`kaji backup`: a backup of a cluster in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option
from kajitori.cli.process_options import FILE, blobs_option, history_options, kubeconfig_options
from kajitori.cli.terminal import echo, say

if TYPE_CHECKING:
    from kajitori.entrypoints.backup import Found

ACTIONS = ("ls", "verify")


def source_options(function: Any) -> Any:
    """Options that `kaji backup` and `kaji restore` share."""
    data = click.option(
        "--data", type=FILE, metavar="FOLDER", help="Data folder of a running kaji up: its cluster, history and blobs."
    )
    namespace = click.option(
        "-N", "--namespace", default="kajitori", show_default=True, metavar="NAME", help="Namespace of the parts."
    )
    options = history_options("else it is left out")(blobs_option("else they are left out")(namespace(function)))
    return kubeconfig_options(data(options))


@click.command(
    epilog="\b\nExamples:\n  kaji backup --data ~/.local/share/kajitori/cluster /backups/\n"
    "  kaji backup --history postgresql://kaji@db/kajitori --blobs s3://runs/kaji s3://backups/kaji\n"
    "  kaji backup ls /backups --max-age 26h\n"
    "  kaji backup verify /backups/kajitori-20261121T030000Z.tar.zst"
)
@click.argument("words", nargs=-1, required=True, metavar="[ls|verify] TARGET")
@source_options
@click.option(
    "--with-results", "results", is_flag=True, help="Include the contents of sweeps' results, not only their names."
)
@click.option("--with-secrets", "secrets", is_flag=True, help="Include Secrets that Kajitori made, in plain text.")
@click.option("--max-age", metavar="TIME", help="With ls: end with 1 if the newest complete backup is older.")
@output_option("json")
@click.pass_obj
def command(
    cli: Cli,
    /,
    words: tuple[str, ...],
    results: bool,
    secrets: bool,
    max_age: str | None,
    output: str | None,
    **options: Any,
) -> int:
    """Back up a cluster into one file, while everything runs.

    A backup has Runs, the installation's settings, history, code and logs. It has no checkpoints or other volumes, no
    Pods, nodes or images, and no Secrets unless you ask for them. TARGET is a file, a folder, or the URL of a store
    (file://, s3://, az://, gs://). The file is a tar with zstd that only you may read; it gets its name once it is
    complete. History from SQLite can be restored into PostgreSQL. `kaji backup ls TARGET` lists backups with their age,
    `kaji backup verify FILE` checks that one is complete.
    """
    action = words[0] if len(words) == 2 and words[0] in ACTIONS else ""
    if len(words) != (2 if action else 1):
        raise click.UsageError("name one target: kaji backup [ls|verify] TARGET")
    if action == "ls":
        return _list(cli, words[1], max_age, output)
    if max_age is not None:
        raise click.UsageError("--max-age belongs to kaji backup ls")
    from kajitori.cli.printing.output import print_document
    from kajitori.entrypoints import backup

    if action == "verify":
        about, contents = backup.check(words[1])
        if output is not None:
            document = {"takenAt": about.taken_at, "version": about.version, "counts": contents.counts}
            print_document(document, output)
        else:
            echo(f"{words[1]} is complete: taken {about.taken_at} by kaji {about.version}.")
            echo("  " + ", ".join(f"{name} {count}" for name, count in contents.counts.items()))
        return 0
    from kajitori.configuration.options.operators import BackupOptions

    where = backup.back_up(BackupOptions(**options), words[0], say, results=results, secrets=secrets)
    if output is not None:
        print_document({"backup": where}, output)
    else:
        echo(where)
    return 0


def _list(cli: Cli, place: str, max_age: str | None, output: str | None) -> int:
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.core.formats.quantities import parse_duration_seconds
    from kajitori.entrypoints import backup

    limit = None
    if max_age is not None:
        try:
            limit = parse_duration_seconds(max_age)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--max-age") from None
    found, now = backup.listed(place), datetime.now(UTC)
    if output is not None:
        print_document({"items": [_document(one) for one in found]}, output)
    else:
        columns = [Column("NAME"), Column("AGE", right=True), Column("SIZE", right=True), Column("FAULT")]
        print_table(cli, columns, [_row(one, now) for one in found], cut=False)
    ages = [(now - one.taken_at).total_seconds() for one in found if one.taken_at is not None]
    if limit is not None and (not ages or min(ages) > limit):
        say(f"The newest backup is older than {max_age}." if ages else "There is no backup.")
        return 1
    return 0


def _document(one: Found) -> dict[str, Any]:
    from kajitori.core.formats.times import format_time

    taken_at = format_time(one.taken_at) if one.taken_at is not None else None
    return {"name": one.name, "sizeBytes": one.size_bytes, "takenAt": taken_at, "fault": one.fault}


def _row(one: Found, now: datetime) -> tuple[str, str, str, str]:
    from kajitori.core.formats.quantities import format_duration, format_memory

    age = format_duration(int((now - one.taken_at).total_seconds())) if one.taken_at is not None else ""
    return one.name, age, format_memory(one.size_bytes), one.fault
