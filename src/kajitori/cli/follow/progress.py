"""Progress of a followed run on stderr: why it does not run yet, and what interrupts it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kajitori.cli.context import Cli
from kajitori.cli.printing.output import StatusLine
from kajitori.cli.terminal import one_line
from kajitori.cli.words.runs import counts_as_restart, failed_starts, node_words, progress_words
from kajitori.client.views import View, phase_of, status_of
from kajitori.core.formats.node_lists import brief

HOPELESS_AFTER = 3
"""Number of equal failed starts after which the command to stop the run is shown: later ones rarely succeed."""


class Progress:
    """Shows progress: at a terminal one changing line until the run runs, otherwise a line for each lasting stage.

    A stage that passes within a moment gets no line. A stage is not reported again before the run restarts.
    Thread-safe.
    """

    def __init__(self, cli: Cli, say: Callable[[str], None], *, quiet: bool) -> None:
        self._cli = cli
        self._say = say
        self._quiet = quiet
        self._lines = not cli.has_person
        self._shown_stages: list[tuple[str, ...]] = []
        self._restarted = False
        self._warned = False
        self._status: StatusLine | None = None
        self._waiting: threading.Timer | None = None
        self._waiting_stage: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def show(self, view: View) -> None:
        """Show the stage of a run that is not final."""
        if self._quiet:
            return
        text = one_line(f"{view['name']}: {progress_words(view)}")
        if failed_starts(view) >= HOPELESS_AFTER:
            text += f"; if it can't be mended: kaji stop {view['name']}"
        phase, stage = phase_of(view), _stage_of(view)
        with self._lock:
            if not self._lines:
                self._show_status(text)
            elif self._waiting is None or stage != self._waiting_stage:
                self._cancel_waiting()
                if phase == "Restarting":
                    self._show_restart(stage, text)
                    if counts_as_restart(view) and not self._warned:
                        self._warned = True
                        self._say("note: a program that fails is started again; with --restarts 0 it is not")
                elif phase == "Running":
                    self._show_running(text, brief(node_words(view)))
                elif stage not in self._shown_stages:
                    self._show_if_it_lasts(stage, text)

    def stop(self) -> None:
        """Remove the changing line for good, and drop a stage that was about to be reported."""
        with self._lock:
            self._lines = True
            self._cancel_waiting()
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _show_restart(self, stage: tuple[str, ...], text: str) -> None:
        if self._shown_stages[:1] != [stage]:
            self._shown_stages = []
            self._restarted = True
            self._print(stage, text)

    def _show_running(self, text: str, nodes: str) -> None:
        """Report that the run runs, if it was reported before that it did not."""
        if not self._shown_stages and not self._restarted:
            return
        if nodes:
            self._say(f"{text} {'again ' if self._restarted else ''}on {nodes}")
        self._shown_stages, self._restarted = [], False

    def _show_if_it_lasts(self, stage: tuple[str, ...], text: str) -> None:
        if self._cli.settle_seconds <= 0:
            self._print(stage, text)
            return
        timer = threading.Timer(self._cli.settle_seconds, self._show_late, [stage, text])
        timer.daemon = True
        self._waiting, self._waiting_stage = timer, stage
        timer.start()

    def _show_late(self, stage: tuple[str, ...], text: str) -> None:
        with self._lock:
            if self._waiting is threading.current_thread():
                self._waiting = None
                self._print(stage, text)

    def _print(self, stage: tuple[str, ...], text: str) -> None:
        self._shown_stages.append(stage)
        self._say(text)

    def _cancel_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _show_status(self, text: str) -> None:
        if self._status is None:
            self._status = StatusLine(self._cli, text)
        else:
            self._status.update(text)


def _stage_of(view: View) -> tuple[str, ...]:
    """Return the values that identify a stage. Details of why a run waits change all the time, so they are not among
    them."""
    phase, status = phase_of(view), status_of(view)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if failed_starts(view):
        hopeless = "hopeless" if failed_starts(view) >= HOPELESS_AFTER else ""
        return phase, reason, message.rpartition("; ")[0], hopeless
    if phase == "Restarting":
        return phase, reason, f"{status.get('restarts', 0)}+{status.get('interruptions', 0)}"
    return phase, reason
