"""`kaji logs`: the log of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    line_count,
    namespace_option,
    output_option,
    ranks_option,
    run_argument,
    server_options,
)
from kajitori.cli.problems import fields_named
from kajitori.cli.terminal import say
from kajitori.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from kajitori.cli.follow.log_printing import LogDocuments, LogPrinter
    from kajitori.client.streams import LogPart
    from kajitori.client.web_api import Api

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
    "  kaji logs -f --rank 0,3 bert  # two members, or 0-3 for four\n"
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
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep: upper and lower case are the same.")
@click.option("-t", "--timestamps", is_flag=True, help="Show the time of each line.")
@ranks_option("These members only, such as 3 or 0-3,7.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="The Nth attempt only; default: the latest.")
@click.option("--all-ranks", is_flag=True, help="All members, up to 256.")
@namespace_option()
@output_option("json")
@server_options
@click.pass_obj
def command(cli: Cli, /, run: str, namespace: str | None, output: str | None, **options: Any) -> int:
    """Show what a run prints.

    If a run has several members, each line begins with the member's rank. For earlier attempts, and for members whose
    Pods are gone, it shows the stored end of the log: that of rank 0, of members that failed, then of others.
    With --grep or --until it shows member after member. -o json prints a document per line, with rank and time.
    """
    from kajitori.cli.follow.log_printing import LogDocuments, LogPrinter
    from kajitori.cli.words.runs import has_started, is_sweep, progress_words
    from kajitori.client.lookup import find_run

    # 1. Read the options.
    asked = _Asked(**options)
    asked.check(run)
    if output is not None:
        asked = replace(asked, timestamps=True)
    with cli.api() as api:
        # 2. Find the run, and decide of which members logs are shown.
        view = find_run(api, run, namespace, or_removed=True)
        several = _shows_several(view, asked.ranks, all_ranks=asked.all_ranks)
        if not has_started(view):
            say(f"{view['name']}: no log: {progress_words(view)}")
        # 3. Print the log part by part.
        printer = LogDocuments() if output is not None else LogPrinter(prefix=several, colour=cli.colour)
        silent = _members_with_a_log(view, asked, several=several)
        has_printed = False
        try:
            with fields_named(_OPTIONS):
                for part in asked.parts(api, view, printer, several=several):
                    has_printed = True
                    printer.print(part)
                    silent.discard(part.rank)
        except NotFound:
            if not is_sweep(view) or asked.attempt is not None or has_printed:
                raise
            say(_nothing_of_sweep(view["name"], asked.ranks))
            return 0
        except KeyboardInterrupt:
            printer.make_room()
            if cli.has_person and asked.follow:
                say(f"\n{view['name']} is not touched. Stop it: kaji stop {view['name']}")
            return 130
        printer.end()
    if silent and _are_pods_gone(view, asked.attempt):
        _say_what_is_missing(view["name"], silent)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options that choose lines: of which members, from when to when, with which text."""

    follow: bool
    tail: str
    since: str | None
    until: str | None
    text: str | None
    is_regex: bool
    ignore_case: bool
    timestamps: bool
    ranks: tuple[int, ...]
    attempt: int | None
    all_ranks: bool

    @property
    def is_search(self) -> bool:
        """Whether the server searches the log. Otherwise it is read as it is."""
        return self.text is not None or self.until is not None

    def check(self, run: str) -> None:
        """Raise UsageError for options that exclude or need each other, and InvalidInput for values that are no times
        or numbers."""
        if self.ranks and self.all_ranks:
            raise click.UsageError("--rank and --all-ranks exclude each other")
        if self.follow and self.is_search:
            grep = f"follow it through grep: kaji logs -f {run} | grep TEXT"
            hint = grep if self.until is None else "leave out one of them"
            raise click.UsageError(f"--follow excludes {'--grep' if self.until is None else '--until'}; {hint}")
        for option, is_given in (("--ignore-case", self.ignore_case), ("--regex", self.is_regex)):
            if is_given and self.text is None:
                raise click.UsageError(f"{option} needs --grep")
        from kajitori.cli.follow.follow import MOST_MERGED, TOO_MANY

        if len(self.ranks) > MOST_MERGED:
            message = f"{len(self.ranks)} members are named; {TOO_MANY}"
            raise InvalidInput.one("--rank", message, hint="name fewer")
        line_count(self.tail)
        _time_of(self.since, "--since")
        _time_of(self.until, "--until")

    def parts(
        self, api: Api, view: dict[str, Any], printer: LogDocuments | LogPrinter, *, several: bool
    ) -> Iterator[LogPart]:
        """Return the parts of the log: of the members that are named, else of all if `several`, else of the first."""
        from kajitori.cli.follow.log_searching import LogSearch, found_parts
        from kajitori.client.streams import LogReader, outage_of

        last, since = line_count(self.tail), _time_of(self.since, "--since")
        if self.is_search:
            search = LogSearch(
                text=self.text or "",
                is_regex=self.is_regex,
                ignores_case=self.ignore_case,
                since=since,
                until=_time_of(self.until, "--until"),
                attempt=self.attempt,
                last=last,
                timestamps=self.timestamps,
            )
            return found_parts(api, view, search, ranks=self.ranks, all_ranks=several and not self.ranks)

        def tell(text: str) -> None:
            printer.make_room()
            say(text)

        return LogReader(
            api,
            view,
            ranks=self.ranks,
            all_ranks=several and not self.ranks,
            follow=self.follow,
            tail=last,
            since=since,
            attempt=self.attempt,
            timestamps=self.timestamps,
            outage=outage_of(view, tell),
        ).parts()


def _members_with_a_log(view: dict[str, Any], asked: _Asked, *, several: bool) -> set[int]:
    """Return the ranks that are expected to have a log; empty if that is not known, or if it does not matter."""
    from kajitori.cli.words.runs import is_sweep, members_asked_for

    if not several or asked.follow or asked.is_search or is_sweep(view) or view["spec"].get("minReplicas"):
        return set()
    return set(asked.ranks or range(members_asked_for(view)))


def _shows_several(view: dict[str, Any], ranks: Sequence[int], *, all_ranks: bool) -> bool:
    """Return whether the logs of several members are shown: of those that are named, else of all. Say which one is
    shown if that was not asked for. Raises InvalidInput if there are too many members."""
    from kajitori.cli.follow.follow import MOST_MERGED, MOST_RANKS, TOO_MANY
    from kajitori.cli.words.runs import is_sweep, members_asked_for

    if ranks:
        return len(ranks) > 1
    replicas = members_asked_for(view)
    several = replicas > 1 and (all_ranks or replicas <= MOST_RANKS)
    if several and replicas > MOST_MERGED:
        message, hint = f"{view['name']} has {replicas} members; {TOO_MANY}", "choose some of them: --rank R[-S]"
        raise InvalidInput.one("--all-ranks", message, hint=hint)
    if replicas > 1 and not several:
        which = "the first" if is_sweep(view) else "rank 0"
        more = " or --all-ranks" if replicas <= MOST_MERGED else ""
        say(f"{view['name']}: {which} of {replicas}; others with --rank R[-S]{more}")
    return several


def _say_what_is_missing(name: str, silent: set[int]) -> None:
    """Say of which ranks no log was kept."""
    from kajitori.core.formats.node_lists import compress_ranks

    ranks = f"rank{'s' if len(silent) > 1 else ''} {compress_ranks(sorted(silent))}"
    kept = "of members whose Pods are gone, logs are kept of rank 0, of those that failed, then of some others"
    say(f"{name}: nothing of {ranks}: {kept}")


def _nothing_of_sweep(name: str, ranks: Sequence[int]) -> str:
    """Return the message if no log of a sweep is stored. That is no error: a member that printed nothing has no stored
    log."""
    if len(ranks) == 1:
        return f"{name}: member {ranks[0]} printed nothing, or its log was not kept; how it ended: kaji results {name}"
    which = "the members that were looked at printed nothing, or their logs were not kept"
    return f"{name}: {which}; one member: kaji logs --index N {name}; how each ended: kaji results {name}"


def _are_pods_gone(view: dict[str, Any], attempt: int | None) -> bool:
    """Whether the Pods of the requested attempt are gone, so that its log was kept or lost."""
    from kajitori.client.views import phase_of, status_of

    newest = (status_of(view).get("attempt") or {}).get("number", 0)
    return phase_of(view) == "Stopped" or (attempt is not None and attempt < newest)


def _time_of(text: str | None, option: str) -> str:
    """Return a time, or a duration in seconds. Raises InvalidInput, which names the option, for any other text."""
    if text is None or re.match(r"\d{4}-\d\d-\d\d", text):
        return text or ""
    from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds

    try:
        return f"{parse_duration_seconds(text)}s"
    except QuantityError as error:
        raise InvalidInput.one(option, error.message, value=text, hint="write 10m or 2026-11-21T10:00:00Z") from None
