"""One `kaji up`, as a person uses it: real servers, nothing injected."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from tests.harness.commands import Kaji, clean_environment, kaji, server

PATIENCE_SECONDS = 60.0
Completed = subprocess.CompletedProcess[str]


class KajiUp:
    """One `kaji up`, and commands that find it as a user's do: by the link that it leaves in the user's home."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "cluster"
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = clean_environment(self.home)
        self.process: Kaji | None = None
        self.log = folder / "up.log"

    def start(self, *options: str) -> None:
        with self.log.open("ab") as log:
            self.process = server(
                "up", "--data", str(self.data), *options, env=self.environment, cwd=self.home, log=log
            )
        until(lambda: (self.data / "kaji.json").exists() and self._is_current(), lambda: self.log.read_text())

    def _is_current(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(ValueError):
            return bool(json.loads((self.data / "kaji.json").read_text())["pid"] == self.process.pid)
        return False

    def kaji(self, *arguments: str, timeout: float = PATIENCE_SECONDS) -> Completed:
        return kaji(*arguments, timeout=timeout, env=self.environment, cwd=self.home)

    def status(self, run: str) -> dict[str, Any]:
        answer = self.kaji("describe", "-o", "json", run)
        assert answer.returncode == 0, answer.stderr
        status: dict[str, Any] = json.loads(answer.stdout)["status"]
        return status

    def kill(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def members(self, run: str) -> dict[int, int]:
        """The first process of each rank: the program itself, not what it started."""
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                if environment.get("KAJI_RUN") == run and str(self.home) in environment.get("MARK", ""):
                    rank = int(environment["KAJI_RANK"])
                    oldest = found.get(rank)
                    if oldest is None or process.create_time() < oldest.create_time():
                        found[rank] = process
        return {rank: process.pid for rank, process in found.items()}


def until(happened: Callable[[], bool], explain: Callable[[], object] = str, *, every: float = 0.1) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, explain()
        time.sleep(every)
