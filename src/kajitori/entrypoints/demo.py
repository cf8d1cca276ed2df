"""The story of `kaji demo`: a user's commands, run against a real, small cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from kajitori.configuration.cluster_file import CLUSTER_FILE
from kajitori.configuration.options.own_cluster import DemoOptions
from kajitori.errors import KajitoriError, Unavailable, Unsupported

STEPS = 300
SECONDS_PER_STEP = 0.03
PATIENCE_SECONDS = 60.0
_IMAGE = "pytorch/pytorch:2.9.1"
_HOG = "keep = []\nwhile True: keep.append(bytearray(8 * 2**20))"


class StoryBroken(KajitoriError):
    """A step of the demo did not happen as announced. A demo must not hide that."""

    code = "DemoFailed"


def demo(options: DemoOptions) -> int:
    """Run the demo, and remove everything afterwards. Raises StoryBroken if a step fails."""
    script = _example_script()
    with _data_folder(options.data) as folder, _run_cluster(folder, options) as environment:
        story = Story(environment, script)
        for chapter in (story.training, story.refused, story.waiting, story.memory, story.board):
            chapter()
        story.say("That is all. `kaji up` starts a cluster that stays; `kaji run --help` lists the options of a run.")
        if options.keep:
            story.say(f"The cluster runs on until Ctrl-C: kaji ps -a --cluster {folder}")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    return 0


class Story:
    """Explains each step, runs the commands, and checks their results."""

    def __init__(self, environment: Mapping[str, str], script: Path) -> None:
        self._environment = environment
        self._script = script
        self._color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._began = time.monotonic()

    # ------------------------------------------------------------------------------------------ chapters

    def training(self) -> None:
        """Kill a member of a gang of two, which restarts from its checkpoint and ends with the same result."""
        self.title("A training that survives")
        self.say("Two members train a network on handwritten digits. This run is left alone:")
        self.kaji("run", "-d", "--name", "calm", *self._training_options(), quiet=True)
        self.say("The same training again. One of its members will be killed half-way:")
        self.kaji("run", "-d", "--name", "digits", *self._training_options(), quiet=True)
        step = self._reached_step("digits", STEPS // 2)
        victim = _member_process("digits", rank=1)
        try:
            victim.kill()
        except psutil.NoSuchProcess as gone:
            raise StoryBroken(f"digits was over before a member could be killed at step {step}") from gone
        self.say(f"Step {step} of {STEPS}. kill -9 {victim.pid}, which is member 1 of digits:")
        self.wait("the gang restarts", lambda: self._run_status("digits").get("restarts", 0) == 1)
        self.kaji("ps", "-a", "-o", "wide")
        self.kaji("wait", "digits", "calm", timeout_seconds=PATIENCE_SECONDS)
        disturbed, calm = self._last_line("digits"), self._last_line("calm")
        self.kaji("logs", "--rank", "0", "--tail", "1", "calm")
        self.kaji("logs", "--rank", "0", "--tail", "1", "digits")
        if not disturbed or disturbed != calm:
            raise StoryBroken(f"the disturbed run ended with {disturbed!r}, the other with {calm!r}")
        self.say(
            "The whole gang went back to its checkpoint and reached the same accuracy as the run that was left alone."
        )

    def refused(self) -> None:
        """Submit an invalid run, which is refused with all reasons and hints at once."""
        self.title("A run that policy refuses")
        self.kaji("run", "--name", "Greedy", "-n", "two", "-m", "lots", _IMAGE, expect=2)
        self.kaji(
            *("run", "--gpus", "16", "--gpu-type", "h100", "-v", "/etc:/etc", "--privileged", _IMAGE),
            expect=2,
        )
        self.say("Nothing was created.")

    def waiting(self) -> None:
        """Let a run wait, explain what it lacks and which run has it, and let it start."""
        self.title("A run that waits")
        gpus = ("--gpus", "8", "--gpu-type", "h100", _IMAGE)
        self.kaji("run", "-d", "-q", "--name", "large", "-n", "7", *gpus)
        self.wait("large runs", lambda: self._run_phase("large") == "Running")
        self.kaji("run", "-d", "-q", "--name", "patient", "-n", "2", *gpus)
        self.wait("patient waits", lambda: self._run_status("patient").get("reason") == "WaitingForGPU")
        self.kaji("explain", "patient")
        self.kaji("stop", "large")
        self.wait("patient runs", lambda: self._run_phase("patient") == "Running")
        self.kaji("ps")
        self.say("It started by itself when the GPUs became free.")

    def memory(self) -> None:
        """Exceed a memory limit: the member is killed, and the run is not restarted elsewhere."""
        self.title("A run over its memory limit")
        options = ("--name", "hungry", "-m", "256m", "--restarts", "5")
        self.kaji("run", *options, "python:3.12", sys.executable, "-c", _HOG, expect=137)
        status = self._run_status("hungry")
        if status.get("reason") != "OutOfMemory" or status.get("restarts", 0) or status["attempts"] != 1:
            raise StoryBroken(f"hungry was to end as OutOfMemory after one attempt, and not {status}")
        self.say("Five restarts were allowed and none was used: the program would have exceeded its limit again.")

    def board(self) -> None:
        """Show which users hold which GPUs."""
        self.title("The board")
        self.kaji("gpus")

    # ------------------------------------------------------------------------------------------ output

    def title(self, text: str) -> None:
        self._write(f"\n\033[1m{text}\033[0m" if self._color else f"\n{text}\n{'-' * len(text)}")

    def say(self, text: str) -> None:
        self._write(text)

    def kaji(
        self, *arguments: str, expect: int = 0, quiet: bool = False, timeout_seconds: float = PATIENCE_SECONDS
    ) -> str:
        """Show and run a command, and return its output. Raises StoryBroken if the exit code differs."""
        shown = shlex.join(["kaji", *(_shortened_command(argument) for argument in arguments)])
        self._write(f"\033[36m$ {shown}\033[0m" if self._color else f"$ {shown}")
        done = self._call(*arguments, timeout_seconds=timeout_seconds)
        if not quiet or done.returncode != expect:
            self._write(done.stdout.rstrip("\n"))
        if done.returncode != expect:
            raise StoryBroken(f"`{shown}` ended with exit code {done.returncode} instead of {expect}")
        return done.stdout

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something happened. Raises StoryBroken after the timeout."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise StoryBroken(f"gave up after {PATIENCE_SECONDS:.0f} s of waiting until {what}")
            time.sleep(0.2)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    # ------------------------------------------------------------------------------------------ queries

    def _call(self, *arguments: str, timeout_seconds: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kajitori.cli", *arguments],
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def _run_view(self, run: str) -> dict[str, Any]:
        done = self._call("describe", "-o", "json", run)
        if done.returncode:
            raise StoryBroken(f"{run} can't be described: {done.stdout.strip()}")
        view: dict[str, Any] = json.loads(done.stdout)
        return view

    def _run_status(self, run: str) -> dict[str, Any]:
        status: dict[str, Any] = self._run_view(run)["status"]
        return status

    def _run_phase(self, run: str) -> str:
        return str(self._run_status(run)["phase"])

    def _last_line(self, run: str) -> str:
        lines = self._call("logs", "--rank", "0", "--tail", "1", run).stdout.splitlines()
        return lines[-1].strip() if lines else ""

    def _reached_step(self, run: str, step: int) -> int:
        """Return the first step, from `step` on, that a training's log shows, as soon as it is logged."""
        command = [sys.executable, "-m", "kajitori.cli", "logs", "-f", "--rank", "0", run]
        with subprocess.Popen(
            command, env=dict(self._environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as follower:
            patience = threading.Timer(PATIENCE_SECONDS, follower.kill)
            patience.start()
            try:
                for line in follower.stdout or ():
                    found = re.match(r"step (\d+)/", line)
                    if found and int(found[1]) >= step:
                        return int(found[1])
            finally:
                patience.cancel()
                follower.kill()
        raise StoryBroken(f"{run} did not reach step {step} within {PATIENCE_SECONDS:.0f} s")

    def _training_options(self) -> tuple[str, ...]:
        return (
            *("-n", "2", "--launcher", "torchrun", "--cpus", "0.5", "-m", "512m", "--checkpoint", "/ckpt"),
            *("--restarts", "3", "--code", str(self._script.parent), "python:3.12"),
            *(sys.executable, self._script.name, "--steps", str(STEPS), "--seconds-per-step", str(SECONDS_PER_STEP)),
        )


def _shortened_command(argument: str) -> str:
    """Return a command as the demo shows it, without the path of Python and the text of inline programs."""
    if argument == sys.executable:
        return "python3"
    return argument if "\n" not in argument else "…"


def _example_script() -> Path:
    script = Path(__file__).parents[3] / "examples" / "digits" / "train.py"
    if not script.is_file():
        raise Unsupported(f"the demo's training is not there: {script}", hint="run it in a clone of the repository")
    return script


def _member_process(run: str, *, rank: int) -> psutil.Process:
    """Return a member's process, which it finds by the platform's environment variables."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            is_member = environment.get("KAJI_RUN") == run and environment.get("KAJI_RANK") == str(rank)
            if is_member and any(word.endswith("train.py") for word in process.cmdline()):
                return process
    raise StoryBroken(f"no process is member {rank} of {run}")


@contextmanager
def _data_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="kaji-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _run_cluster(folder: Path, options: DemoOptions) -> Iterator[Mapping[str, str]]:
    """Run the demo's cluster in its own process, and yield the environment in which `kaji` finds it."""
    command = [
        sys.executable,
        "-m",
        "kajitori.cli",
        "up",
        "--data",
        str(folder.absolute()),
        "--nodes",
        str(options.nodes),
    ]
    command += ["--gpus", str(options.gpus), "--gpu-type", "h100", "--gpu-type", "a100"]
    command += ["--log-level", options.log_level]
    log = folder / "up.log"
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        # Runs may mount the folder in which the cluster was started, so the demo starts it beside the training program.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=_example_script().parent
        )
    try:
        described = _await_file(folder / CLUSTER_FILE, process, log)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAJI_")} | {
            "KAJI_SERVER": described["url"],
            "KAJI_TOKEN": described["token"],
            "COLUMNS": "110",
        }
        try:
            yield environment
        finally:
            _remove_runs(environment)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _remove_runs(environment: Mapping[str, str]) -> None:
    """Kill the demo's members, since members outlive a cluster that is stopped."""

    def kaji(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kajitori.cli", *arguments]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                command, env=dict(environment), capture_output=True, text=True, timeout=30, check=False
            )
        return subprocess.CompletedProcess(command, 125, "", "")

    left = kaji("ps", "-a", "-q").stdout.split()
    if not left:
        return
    kaji("rm", "-f", *left)
    deadline = time.monotonic() + 15
    while kaji("ps", "-a", "-q").stdout.split() and time.monotonic() < deadline:
        time.sleep(0.2)


def _await_file(path: Path, process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"the demo's cluster did not start: {log.read_text().strip()[-2000:]}")
        with contextlib.suppress(OSError, ValueError):
            document: dict[str, Any] = json.loads(path.read_text())
            return document
        time.sleep(0.1)
    raise Unavailable("the demo's cluster did not start in time", hint=f"its log is {log}")
