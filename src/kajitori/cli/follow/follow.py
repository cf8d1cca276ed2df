"""Following a run from its submission to its end, as `docker run` without -d does.

The main thread only waits for signals. A second thread shows progress and log; a third one reports restarts meanwhile.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.follow.ending import not_carried_out, seconds_to_end
from kajitori.cli.follow.interrupts import Signals
from kajitori.cli.follow.log_printing import LogPrinter
from kajitori.cli.follow.progress import Progress
from kajitori.cli.submit.code import what_code_would_bring, where_the_image_belongs
from kajitori.cli.terminal import say
from kajitori.cli.words.runs import (
    has_started,
    is_peak_near_limit,
    is_sweep,
    members_asked_for,
    peak_words,
    sweep_words,
)
from kajitori.client.exitcodes import end_words, ended_by_its_user, exit_code_of
from kajitori.client.streams import LogReader, outage_of, watch
from kajitori.client.views import View, is_final, phase_of, status_of
from kajitori.client.web_api import Api, run_path
from kajitori.errors import KajitoriError, NotFound, Unavailable

MOST_RANKS = 64
"""Largest number of members that show their logs together by default. Larger runs show rank 0 only."""
MOST_MERGED = 256
"""Largest number of logs that the server merges into one."""
TOO_MANY = f"at most {MOST_MERGED} logs are merged into one"

_BEFORE_RUNNING = frozenset({"Queued", "Starting"})


class Left(Exception):
    """Ends the threads after the command has stopped following the run."""


class Follower(threading.Thread):
    """Shows a run's progress and log until it is final."""

    def __init__(
        self,
        cli: Cli,
        api: Api,
        run: dict[str, Any],
        *,
        rank: int | None,
        all_ranks: bool,
        quiet: bool,
        first: int = 1,
        from_now: bool = False,
    ) -> None:
        """`first` is the first attempt whose log is shown; `from_now` leaves out everything printed before now."""
        super().__init__(name="follow", daemon=True)
        self.view = run
        self.quiet = quiet
        self.done, self._finished = socket.socketpair()
        """A socket that becomes readable once the run is final or cannot be followed any longer."""
        self._cli = cli
        self._api = api
        self._error: BaseException | None = None
        self._listening = True
        self._output = threading.Lock()
        self._progress = Progress(cli, self._print_note, quiet=quiet)
        self._outage = outage_of(run, self._tell_outage)
        cli.notices.say = self._tell_outage
        replicas = members_asked_for(run)
        self._counts_only = is_sweep(run) and rank is None and not all_ranks
        if all_ranks and replicas > MOST_MERGED:
            say(f"note: {TOO_MANY}")
        several = rank is None and 1 < replicas <= (MOST_MERGED if all_ranks else MOST_RANKS)
        if rank is None and replicas > 1 and not several and not quiet and not self._counts_only:
            say(f"{run['name']}: the log of rank 0 of {replicas}; others: kaji logs --rank R {run['name']}")
        self._reader = LogReader(
            api,
            run,
            ranks=() if rank is None else (rank,),
            all_ranks=several,
            follow=True,
            first=None if from_now else first,
            tail=0 if from_now else None,
            outage=self._outage,
        )
        self._printer = LogPrinter(prefix=several, colour=cli.colour)

    def run(self) -> None:
        try:
            self._follow()
        except Left:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._progress.stop()
            self._finished.close()

    def result(self) -> dict[str, Any]:
        """Wait for the end and return the run's last view. Raises the error that stopped the following."""
        self.join()
        if self._error is not None:
            raise self._error
        return self.view

    @property
    def is_done(self) -> bool:
        """Whether the run is final or cannot be followed any longer."""
        return bool(select.select([self.done], [], [], 0)[0])

    def clear_line(self) -> None:
        """Clear the lines that change, so that something else can be printed."""
        self._progress.stop()
        with self._output:
            self._printer.make_room()

    def leave(self) -> None:
        """Stop printing, also if the run goes on."""
        with self._output:
            self._listening = False
            self._printer.end()
        self._progress.stop()

    def _follow(self) -> None:
        with self._cli.api() as api:  # one stream of views from start to end, so that no restart is missed
            views = watch(api, self.view, self._outage)
            for view in views:
                self.view = view
                if phase_of(view) not in _BEFORE_RUNNING:
                    break
                self._progress.show(view)
            self._progress.stop()
            if self._counts_only:
                self._report_counts(views)
                return
            if not is_final(self.view):
                self._progress.show(self.view)
            watcher = _Watcher(self.view, views, self._progress.show)
            watcher.start()
            if not is_final(self.view) or has_started(self.view):
                self._print_log()
            self.view = watcher.result()

    def _report_counts(self, views: Iterator[dict[str, Any]]) -> None:
        """Report the progress of a sweep: at each tenth of its members, and whenever more of them have failed."""
        shown = self._tell_counts((0, 0))
        for view in views:
            self.view = view
            if not is_final(view):
                shown = self._tell_counts(shown)

    def _tell_counts(self, shown: tuple[int, int]) -> tuple[int, int]:
        """Report the counts if they differ from `told`; return (tenths that have ended, members that failed)."""
        counts = status_of(self.view).get("members") or {}
        failed = counts.get("failed", 0)
        tenth = 10 * (counts.get("succeeded", 0) + failed) // max(1, counts.get("total", 1))
        if (tenth, failed) != shown and not self.quiet:
            self._print_note(f"{self.view['name']}: {sweep_words(self.view)}")
        return tenth, failed

    def _print_log(self) -> None:
        try:
            for part in self._reader.parts():
                with self._output:
                    if not self._listening:
                        raise Left
                    self._printer.print(part)
        except KajitoriError as error:
            name = self.view["name"]
            self._print_note(f"{name}: its log can't be read any further: {error.message}; try: kaji logs {name}")
        with self._output:
            self._printer.end()

    def _tell_outage(self, text: str) -> None:
        self._progress.stop()
        self._print_note(text)

    def _print_note(self, text: str) -> None:
        with self._output:
            if self._listening:
                self._printer.make_room()
                say(text)


class _Watcher(threading.Thread):
    """Reports each new stage of a run, and keeps its last view."""

    def __init__(self, run: dict[str, Any], views: Iterator[dict[str, Any]], tell: Callable[[View], None]) -> None:
        super().__init__(name="watch", daemon=True)
        self._view = run
        self._views = views
        self._tell = tell
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            for view in self._views:
                if not is_final(view) and _stage_of(view) != _stage_of(self._view):
                    self._tell(view)
                self._view = view
        except BaseException as error:
            self._error = error

    def result(self) -> dict[str, Any]:
        """Wait for the end and return the run's last view. Raises the error that ended the stream of views."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._view


def _stage_of(view: View) -> tuple[Any, ...]:
    status = status_of(view)
    return (
        status.get("phase"),
        status.get("reason"),
        (status.get("attempt") or {}).get("number"),
        status.get("restarts"),
    )


def follow_to_the_end(
    cli: Cli, api: Api, follower: Follower, signals: Signals, *, remove: bool, stops: bool = True
) -> int:
    """Follow the run, handle signals, and return the exit code of `kaji run`.

    At a terminal, the first Ctrl-C only ends the command; a second one within two seconds stops the run. Without a
    terminal, a signal stops the run, as with `docker run`, and a second one ends the command at once. If `stops` is
    False, no signal stops the run. Raises Unavailable if the run does not stop in time.
    """
    signals.begin()
    follower.start()
    try:
        code = _answer_signals(cli, api, follower, signals, stops=stops)
        if code is not None:
            return code
        final = follower.result()
    except NotFound as error:
        raise Unavailable(error.message, hint=error.hint) from error
    finally:
        follower.done.close()
    tell_the_end(final, quiet=follower.quiet, remove=remove)
    if remove:
        with suppress(NotFound):  # another client has deleted it
            api.delete(run_path(final), uid=final["uid"])
    return exit_code_of(final)


def _answer_signals(cli: Cli, api: Api, follower: Follower, signals: Signals, *, stops: bool) -> int | None:
    """Handle signals until the run is final (returns None) or a signal ends the command (returns the exit code)."""
    name, stopping, patience = follower.view["name"], False, None
    while True:
        number = signals.wait(follower.done, patience)
        if number is None and (follower.is_done or patience is None):
            return None
        if number is None:
            _check_stopped(api, follower)
            patience = None  # the run has ended, and what it printed is still being read
            continue
        if stopping:
            follower.leave()
            return 128 + number
        if cli.has_person:
            follower.clear_line()
            or_again = ", or Ctrl-C again" if stops else ""
            say(f"\n{name} goes on. Come back: kaji logs -f {name}   Stop it: kaji stop {name}{or_again}")
            again = stops and number == signal.SIGINT and signals.wait(follower.done, cli.second_interrupt_seconds)
            if not again:
                follower.leave()
                return 128 + number
        if not stops:
            follower.leave()
            return 128 + number
        stopping = True
        say(f"stopping {name}")
        try:
            answer = api.post(run_path(follower.view, "/stop"), {}, uid=follower.view["uid"])
        except KajitoriError:
            follower.leave()
            raise
        patience = cli.stop_margin_seconds + seconds_to_end(answer, answer.get("graceSeconds", 0))


def _check_stopped(api: Api, follower: Follower) -> None:
    """Raise Unavailable, and stop printing the log, if the run has not ended although its time is over."""
    try:
        view = api.get(run_path(follower.view))
        if is_final(view) or view.get("uid") != follower.view.get("uid"):
            return
        error: Unavailable = not_carried_out(api, view, "was asked to stop and has not")
    except NotFound:
        return
    except Unavailable as away:
        error = away
    follower.leave()
    raise error


def tell_the_end(final: View, *, quiet: bool, remove: bool) -> None:
    """Print how a run has ended, and the commands that help."""
    words = end_words(final)
    if is_sweep(final) and not quiet and not remove:
        say(f"{final['name']}: {sweep_words(final)}; each by itself: kaji results {final['name']}")
    if is_peak_near_limit(final) and not quiet:
        say(f"note: memory peaked at {peak_words(final)}")
    if not words or (quiet and phase_of(final) == "Stopped"):
        return
    say(f"kaji: {words}")
    if phase_of(final) == "Failed" and not remove and not ended_by_its_user(final):
        say(f"      see kaji describe {final['name']}")
    if phase_of(final) == "Failed" and (
        hint := where_the_image_belongs(final) or what_code_would_bring(final, Path.cwd())
    ):
        say(f"      {hint}")
