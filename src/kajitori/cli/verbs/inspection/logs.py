"""`kaji logs`: the log of a run."""

from __future__ import annotations

import re
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import line_count, namespace_option, output_option, run_argument, server_options
from kajitori.cli.problems import fields_named
from kajitori.cli.terminal import say
from kajitori.errors import InvalidInput, NotFound

_OPTIONS = {
    "rank": "--rank",
    "attempt": "--attempt",
    "since": "--since",
    "tail": "--tail",
    "until": "--until",
    "text": "--grep",
}
"""Options by query parameters of the Web API."""


@click.command(
    epilog="\b\nExamples:\n  kaji logs -f bert\n  kaji logs --tail 100 --rank 3 -t bert\n"
    "  kaji logs --attempt 1 bert    # what it printed before it was restarted\n"
    "  kaji logs --all-ranks -i --grep 'nccl warn' bert\n"
    "  kaji logs -E --grep 'loss=(nan|inf)$' bert"
)
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends, across restarts.")
@click.option("-n", "--tail", default="all", metavar="N", show_default=True, help="The last N lines of each member.")
@click.option("--since", metavar="TIME", help="Newer than 10m, or than 2026-11-21T10:00:00Z.")
@click.option("--until", metavar="TIME", help="Older than 10m, or than 2026-11-21T10:00:00Z.")
@click.option("--grep", "text", metavar="TEXT", help="Only lines that contain TEXT; the server searches.")
@click.option("-E", "--regex", "is_regex", is_flag=True, help="With --grep: TEXT is a regular expression (RE2).")
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep: a to z and A to Z are the same.")
@click.option("-t", "--timestamps", is_flag=True, help="Show the time of each line.")
@click.option("--rank", "--index", "rank", type=click.IntRange(min=0), metavar="R", help="This member only.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="The Nth attempt only; default: the latest.")
@click.option("--all-ranks", is_flag=True, help="All members, up to 256.")
@namespace_option()
@output_option("json")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str,
    follow: bool,
    tail: str,
    since: str | None,
    until: str | None,
    text: str | None,
    is_regex: bool,
    ignore_case: bool,
    timestamps: bool,
    rank: int | None,
    attempt: int | None,
    all_ranks: bool,
    namespace: str | None,
    output: str | None,
) -> int:
    """Show what a run prints.

    If a run has several members, each line begins with the member's rank. For earlier attempts, and for members whose
    Pods are gone, it shows the stored end of the log: that of rank 0, of members that failed, then of others.
    With --grep or --until it shows member after member. -o json prints a document per line, with rank and time.
    """
    from functools import partial

    from kajitori.cli.follow.log_printing import LogDocuments, LogPrinter
    from kajitori.cli.follow.log_searching import LogSearch, found_parts
    from kajitori.cli.words.runs import has_started, is_sweep, members_asked_for, progress_words
    from kajitori.client.lookup import find_run
    from kajitori.client.streams import LogReader, outage_of

    _check_combination(run, follow, until, text, rank, is_regex=is_regex, ignore_case=ignore_case, all_ranks=all_ranks)
    last, oldest, newest = line_count(tail), _since(since), _since(until, "--until")
    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        several = _shows_several(view, rank, all_ranks=all_ranks)
        if not has_started(view):
            say(f"{view['name']}: no log: {progress_words(view)}")
        printer = LogDocuments() if output is not None else LogPrinter(prefix=several, colour=cli.colour)
        timestamps = timestamps or output is not None

        def tell(text: str) -> None:
            printer.make_room()
            say(text)

        reader = LogReader(
            api,
            view,
            rank=rank,
            all_ranks=several,
            follow=follow,
            tail=last,
            since=oldest,
            attempt=attempt,
            timestamps=timestamps,
            outage=outage_of(view, tell),
        )
        parts = reader.parts
        if text is not None or until is not None:
            searched = LogSearch(text or "", is_regex, ignore_case, oldest, newest, attempt, last, timestamps)
            parts = partial(found_parts, api, view, searched, rank=rank, all_ranks=several)
        all_of_them = several and not follow and not is_sweep(view) and not view["spec"].get("minReplicas")
        silent = set(range(members_asked_for(view))) if all_of_them and parts == reader.parts else set()
        has_printed = False
        try:
            with fields_named(_OPTIONS):
                for part in parts():
                    has_printed = True
                    printer.print(part)
                    silent.discard(part.rank)
        except NotFound:
            if not is_sweep(view) or attempt is not None or has_printed:
                raise
            say(_nothing_of_sweep(view["name"], rank))
            return 0
        except KeyboardInterrupt:
            printer.make_room()
            if cli.has_person and follow:
                say(f"\n{view['name']} is not touched. Stop it: kaji stop {view['name']}")
            return 130
        printer.end()
    if silent and _are_pods_gone(view, attempt):
        _say_what_is_missing(view["name"], silent)
    return 0


def _check_combination(
    run: str,
    follow: bool,
    until: str | None,
    text: str | None,
    rank: int | None,
    *,
    is_regex: bool,
    ignore_case: bool,
    all_ranks: bool,
) -> None:
    """Raise UsageError for options that exclude or need each other."""
    if rank is not None and all_ranks:
        raise click.UsageError("--rank and --all-ranks exclude each other")
    if follow and (text is not None or until is not None):
        hint = f"follow it through grep: kaji logs -f {run} | grep TEXT" if until is None else "leave out one of them"
        raise click.UsageError(f"--follow excludes {'--until' if until is not None else '--grep'}; {hint}")
    for option, is_given in (("--ignore-case", ignore_case), ("--regex", is_regex)):
        if is_given and text is None:
            raise click.UsageError(f"{option} needs --grep")


def _shows_several(view: dict[str, Any], rank: int | None, *, all_ranks: bool) -> bool:
    """Return whether the logs of all members are shown; if not, say which one is. Raises InvalidInput if there are too
    many members."""
    from kajitori.cli.follow.follow import MOST_MERGED, MOST_RANKS, TOO_MANY
    from kajitori.cli.words.runs import is_sweep, members_asked_for

    replicas = members_asked_for(view)
    several = rank is None and replicas > 1 and (all_ranks or replicas <= MOST_RANKS)
    if several and replicas > MOST_MERGED:
        message, hint = f"{view['name']} has {replicas} members; {TOO_MANY}", "choose one of them: --rank R"
        raise InvalidInput.one("--all-ranks", message, hint=hint)
    if rank is None and replicas > 1 and not several:
        which = "the first" if is_sweep(view) else "rank 0"
        more = " or --all-ranks" if replicas <= MOST_MERGED else ""
        say(f"{view['name']}: {which} of {replicas}; others with --rank R{more}")
    return several


def _say_what_is_missing(name: str, silent: set[int]) -> None:
    """Say of which ranks no log was kept."""
    from kajitori.core.formats.node_lists import compress_ranks

    ranks = f"rank{'s' if len(silent) > 1 else ''} {compress_ranks(sorted(silent))}"
    kept = "of members whose Pods are gone, logs are kept of rank 0, of those that failed, then of some others"
    say(f"{name}: nothing of {ranks}: {kept}")


def _nothing_of_sweep(name: str, rank: int | None) -> str:
    """Return the message if no log of a sweep is stored. That is no error: a member that printed nothing has no stored
    log."""
    if rank is not None:
        return f"{name}: member {rank} printed nothing, or its log was not kept; how it ended: kaji results {name}"
    which = "the members that were looked at printed nothing, or their logs were not kept"
    return f"{name}: {which}; one member: kaji logs --index N {name}; how each ended: kaji results {name}"


def _are_pods_gone(view: dict[str, Any], attempt: int | None) -> bool:
    """Whether the Pods of the requested attempt are gone, so that its log was kept or lost."""
    from kajitori.client.views import phase_of, status_of

    newest = (status_of(view).get("attempt") or {}).get("number", 0)
    return phase_of(view) == "Stopped" or (attempt is not None and attempt < newest)


def _since(text: str | None, option: str = "--since") -> str:
    """Return a time, or a duration in seconds. Raises InvalidInput, which names the option, for any other text."""
    if text is None or re.match(r"\d{4}-\d\d-\d\d", text):
        return text or ""
    from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds

    try:
        return f"{parse_duration_seconds(text)}s"
    except QuantityError as error:
        raise InvalidInput.one(option, error.message, value=text, hint="write 10m or 2026-11-21T10:00:00Z") from None
