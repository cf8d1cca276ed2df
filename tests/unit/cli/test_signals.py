"""Ctrl-C and SIGTERM while `kaji run` follows, in real processes on real terminals."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, Call, FakeWebApi, frame, log_frames, ndjson, served, view

RUN = "/v1/runs/vision/bert"
DEADLINE_SECONDS = 60


@dataclass
class RunningRun:
    """A run that prints one line and goes on until it is stopped."""

    stopped: threading.Event = field(default_factory=threading.Event)
    obeys: bool = True
    """Whether a stop request is carried out."""
    api: FakeWebApi = field(default_factory=FakeWebApi)

    def __post_init__(self) -> None:
        self.api.answers = {
            "POST /v1/runs": (201, view("bert", "Queued")),
            f"GET {RUN}/watch": lambda _: self._watch(),
            f"GET {RUN}/logs": lambda _: self._log(),
            f"POST {RUN}/stop": self._stop,
            f"GET {RUN}": lambda _: self._view(),
            f"GET {RUN}/members": {"items": [{"pod": "bert-1-0", "node": "n1", "phase": "Running"}]},
        }

    def _view(self) -> dict[str, Any]:
        return view("bert", "Stopped", status={"exitCode": 143}) if self.stopped.is_set() else view("bert")

    def _watch(self) -> Iterator[bytes]:
        yield ndjson([self._view()])[0]
        self.stopped.wait(DEADLINE_SECONDS)
        yield ndjson([self._view()])[0]

    def _log(self) -> Iterator[bytes]:
        yield from log_frames("epoch 1")
        self.stopped.wait(DEADLINE_SECONDS)

    def _stop(self, _: Call) -> dict[str, Any]:
        if self.obeys:
            self.stopped.set()
        return {**self._view(), "graceSeconds": 0}


class Process:
    """`kaji run` as a process, with waiting for its output."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.process = process
        self._output = output
        self.text = ""

    def wait_for(self, words: str) -> None:
        """Read until these words were printed."""
        until = time.monotonic() + DEADLINE_SECONDS
        while words not in self.text:
            assert select.select([self._output], [], [], max(0, until - time.monotonic()))[0], self.text
            try:
                data = os.read(self._output, 4096)
            except OSError:
                data = b""
            assert data, self.text
            self.text += data.decode()

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)


@contextmanager
def kaji_run(
    run: RunningRun,
    *,
    terminal: bool,
    second_interrupt_seconds: float = DEADLINE_SECONDS,
    stop_margin_seconds: float = DEADLINE_SECONDS,
    words: tuple[str, ...] = ("run", "--name", "bert", "x"),
) -> Iterator[Process]:
    """Start `kaji run` against the run, at a terminal of its own or on pipes."""
    program = (
        "from kajitori.cli.app import kaji; from kajitori.cli.context import Cli;"
        f"cli = Cli(second_interrupt_seconds={second_interrupt_seconds}, stop_margin_seconds={stop_margin_seconds});"
        f"kaji.main({list(words)}, prog_name='kaji', obj=cli)"
    )
    with served(run.api) as url:
        environment = {**os.environ, "KAJI_SERVER": url, "KAJI_TOKEN": TOKEN, "TERM": "xterm", "NO_COLOR": "1"}
        if terminal:
            own, theirs = pty.openpty()
            process = subprocess.Popen(
                [sys.executable, "-c", _in_session(program)],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
            )
            os.close(theirs)
        else:
            own, theirs = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
            )
            os.close(theirs)
        try:
            yield Process(process, own)
        finally:
            run.stopped.set()
            process.kill()
            process.wait()
            os.close(own)


def _in_session(program: str) -> str:
    """Return a program that leads a session with its stdin as terminal, so that Ctrl-C there reaches it."""
    return f"import os, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);{program}"


def press_ctrl_c(process: Process) -> None:
    os.write(process._output, b"\x03")


def test_the_first_ctrl_c_leaves_the_run_alone() -> None:
    """At a terminal the run goes on, and the commands to return to it and to stop it are printed."""
    run = RunningRun()
    with kaji_run(run, terminal=True, second_interrupt_seconds=0) as process:
        process.wait_for("epoch 1")
        press_ctrl_c(process)
        process.wait_for("bert goes on. Come back: kaji logs -f bert   Stop it: kaji stop bert")
        assert process.exit_code() == 130
    assert run.api.calls_to("POST", "/stop") == []


def test_a_second_ctrl_c_stops_the_run() -> None:
    """If it comes soon enough, the run is stopped and followed to its end."""
    run = RunningRun()
    with kaji_run(run, terminal=True) as process:
        process.wait_for("epoch 1")
        press_ctrl_c(process)
        process.wait_for("goes on")
        press_ctrl_c(process)
        process.wait_for("bert was stopped")
        assert process.exit_code() == 143
    assert len(run.api.calls_to("POST", "/stop")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_terminal_a_signal_stops_the_run(number: signal.Signals) -> None:
    """As docker run does; the exit code is the run's."""
    run = RunningRun()
    with kaji_run(run, terminal=False) as process:
        process.wait_for("epoch 1")
        process.process.send_signal(number)
        process.wait_for("bert was stopped")
        assert process.exit_code() == 143
    assert len(run.api.calls_to("POST", "/stop")) == 1


def test_a_signal_during_submission_stops_the_run_once_it_is_known() -> None:
    """Otherwise the run would be left behind unnoticed."""
    run = RunningRun()
    asked, signalled = threading.Event(), threading.Event()

    def submit(_: Call) -> Any:
        asked.set()
        signalled.wait(DEADLINE_SECONDS)
        return 201, view("bert", "Queued")

    run.api.answers["POST /v1/runs"] = submit
    with kaji_run(run, terminal=False) as process:
        assert asked.wait(DEADLINE_SECONDS)
        process.process.send_signal(signal.SIGTERM)
        signalled.set()
        assert process.exit_code() == 143
    assert len(run.api.calls_to("POST", "/stop")) == 1


def test_a_stop_that_is_not_carried_out_exits_with_125() -> None:
    """After the grace and a margin kaji says what is left of the run, and does not wait for ever."""
    run = RunningRun(obeys=False)
    with kaji_run(run, terminal=False, stop_margin_seconds=0) as process:
        process.wait_for("epoch 1")
        process.process.send_signal(signal.SIGTERM)
        process.wait_for("bert was asked to stop and has not: 1 member still runs: bert-1-0 on n1")
        process.wait_for("kaji describe bert")
        assert process.exit_code() == 125


def test_a_run_that_has_stopped_is_followed_to_its_end() -> None:
    """The margin does not limit the time for reading the rest of the log."""
    run, read = RunningRun(), threading.Event()

    def log() -> Iterator[bytes]:
        yield from log_frames("epoch 1")
        read.wait(DEADLINE_SECONDS)
        yield from log_frames("last words")

    def read_run(_: Call) -> dict[str, Any]:
        read.set()
        return run._view()

    run.api.answers |= {f"GET {RUN}/logs": lambda _: log(), f"GET {RUN}": read_run}
    with kaji_run(run, terminal=False, stop_margin_seconds=0) as process:
        process.wait_for("epoch 1")
        process.process.send_signal(signal.SIGTERM)
        process.wait_for("last words")
        assert process.exit_code() == 143


@pytest.mark.parametrize("terminal", [True, False])
def test_a_signal_ends_attach_but_not_the_run(terminal: bool) -> None:
    """Ctrl-C and SIGTERM, however often, only detach."""
    run = RunningRun()
    run.api.runs = [view("bert")]
    with kaji_run(run, terminal=terminal, words=("attach", "bert")) as process:
        process.wait_for("epoch 1")
        process.process.send_signal(signal.SIGTERM)
        if terminal:
            process.wait_for("bert goes on. Come back: kaji logs -f bert   Stop it: kaji stop bert")
        assert process.exit_code() == 143
    assert run.api.calls_to("POST", "/stop") == []


def test_a_closed_pipe_is_no_error() -> None:
    """`kaji logs | head` ends quietly."""
    api = FakeWebApi([view("bert")], answers={f"GET {RUN}/logs": [frame("line\n")] * 20_000})
    with served(api) as url:
        environment = {**os.environ, "KAJI_SERVER": url, "KAJI_TOKEN": TOKEN}
        process = subprocess.Popen(
            [sys.executable, "-c", "from kajitori.cli import main; main()", "logs", "bert"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(DEADLINE_SECONDS) == 141
        assert process.stderr.read() == b""
        process.stderr.close()
