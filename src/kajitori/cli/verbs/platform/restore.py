"""`kaji restore`: create the objects of a backup that a cluster lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.options import output_option
from kajitori.cli.terminal import echo, say
from kajitori.cli.verbs.platform.backup import source_options

if TYPE_CHECKING:
    from kajitori.backup.restoring import Report

SHOWN = 20


@click.command(
    epilog="\b\nExamples:\n  kaji restore --dry-run --data ~/.local/share/kajitori/cluster backup.tar.zst\n"
    "  kaji restore --history postgresql://kaji@db/kajitori --blobs s3://runs/kaji backup.tar.zst"
)
@click.argument("source", metavar="FILE|URL")
@source_options
@click.option("--dry-run", is_flag=True, help="Only print what would be restored.")
@click.option(
    "--missing-runs", is_flag=True, help="Also restore runs that were deleted after the backup of this same cluster."
)
@click.option("--with-secrets", "secrets", is_flag=True, help="Also restore the Secrets in the backup.")
@output_option("json")
def command(source: str, dry_run: bool, missing_runs: bool, secrets: bool, output: str | None, **options: Any) -> int:
    """Restore what a cluster lacks from a backup.

    Install Kajitori in the cluster first. Nothing that exists is changed, so a restore can be repeated and does not
    disturb running runs. Ended runs are restored as they ended. Waiting runs keep their place in the queue. Runs that
    were running are queued and continue from their checkpoints. The whole backup is verified before anything is
    created.
    """
    from kajitori.configuration.options.operators import BackupOptions

    settings = BackupOptions(**options)
    from kajitori.entrypoints import backup

    report = backup.bring_back(settings, source, say, dry_run=dry_run, missing_runs=missing_runs, secrets=secrets)
    if output is not None:
        from kajitori.cli.printing.output import print_document

        print_document({name: getattr(report, name) for name in report.__dataclass_fields__}, output)
    else:
        _print(report, dry_run)
    return 0


def _print(report: Report, dry_run: bool) -> None:
    for names, done, planned in (
        (report.queued, "queued again", "would be queued again"),
        (report.ended, "restored as they ended", "would be restored as they ended"),
    ):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            echo(f"Runs {planned if dry_run else done}: {len(names)} ({', '.join(names[:SHOWN])}{more})")
    for why, count in report.kept.items():
        echo(f"Runs that {why}: {count}")
    if not dry_run:
        if report.objects:
            echo(f"Objects created: {', '.join(report.objects)}")
        if report.rows:
            echo("Rows of history read: " + ", ".join(f"{count} {name}" for name, count in report.rows.items()))
        echo(f"Blobs stored: {report.blobs}")
    for note in report.notes:
        say(note)
