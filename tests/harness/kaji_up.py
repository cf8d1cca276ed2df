"""A running `kaji up`: a quick one that tests may kill, and the installed one for benchmarks."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from tests.harness.commands import Completed, Kaji, clean_environment, kaji, start_kaji
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, wait_until

from kajitori.core.policy.file import own_machine_policy, with_first_step
from kajitori.embedded.kubelet.machine.detection import try_mounts

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class KajiUp:
    """A `kaji up`, and commands that find it through a file in the user's home."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "cluster"
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = clean_environment(self.home)
        self.process: Kaji | None = None
        self.log = folder / "up.log"

    def start(self, *options: str) -> None:
        with self.log.open("ab") as log:
            self.process = start_kaji(
                "up", "--data", str(self.data), *options, env=self.environment, cwd=self.home, log=log
            )
        wait_until(self._is_current, lambda: self.log.read_text())

    def _is_current(self) -> bool:
        """Return whether the cluster's file is that of the started process. It may be that of a killed one, which
        `kaji up` removes."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(ValueError, FileNotFoundError):
            return bool(self._told()["pid"] == self.process.pid)
        return False

    def _told(self) -> dict[str, Any]:
        """Return what the cluster's file tells commands: among others the Web API's address and a token."""
        told: dict[str, Any] = json.loads((self.data / "kaji.json").read_text())
        return told

    @property
    def url(self) -> str:
        """Address of the Web API and its page."""
        return str(self._told()["url"])

    def kaji(self, *arguments: str, timeout: float = PATIENCE_SECONDS) -> Completed:
        return kaji(*arguments, timeout=timeout, env=self.environment, cwd=self.home)

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return the status of each run by name, from the Web API. Polling with `kaji` would take a hundred times as
        long."""
        told = self._told()
        asked = urllib.request.Request(f"{told['url']}/v1/runs", headers={"Authorization": f"Bearer {told['token']}"})
        with _DIRECTLY.open(asked, timeout=PATIENCE_SECONDS) as answer:
            return {run["name"]: run["status"] for run in json.load(answer)["items"]}

    def status(self, run: str) -> dict[str, Any]:
        """Return the status of a run."""
        return self.runs()[run]

    def kill(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def members(self, run: str) -> dict[int, int]:
        """Return the process of each rank's program, without the processes that it started."""
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


class KajiUpOnRealServer(KajiUp):
    """A `kaji up` that serves a real cluster. This machine is one of its nodes, two others are simulated."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        super().__init__(folder)
        self._kubeconfig = kubeconfig
        self._port = free_port()
        self._nodes: list[Kaji] = []
        self.policy = folder / "policy.json"
        self.policy.write_text(json.dumps(self._policy(folder)))

    def _policy(self, folder: Path) -> dict[str, Any]:
        """Return the policy that `kaji up` has on its own cluster, with the first step of members."""
        mounts = try_mounts(folder / "probe").possible
        policy = own_machine_policy(str(self.home), mounts=mounts, checkpoint_root=str(folder / "checkpoints"))
        policy = with_first_step(policy, "kajitori", f"http://127.0.0.1:{self._port}")
        return policy.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def start(self, *_options: str) -> None:
        kubeconfig = ("--kubeconfig", str(self._kubeconfig))
        super().start(*kubeconfig, "--policy", str(self.policy), "--port", str(self._port))
        if not self._nodes:
            node = ("node", "--engine", "process", "--port", "0", "--data", str(self.data / "node"))
            simulated = ("sim", "--nodes", "2", "--gpus", "8", "--gpu-type", "h100")
            self._nodes = [self._begin(*command, *kubeconfig) for command in (node, simulated)]
            wait_until(self._has_nodes, lambda: self.log.read_text())

    def _begin(self, *command: str) -> Kaji:
        with self.log.open("ab") as log:
            return start_kaji(*command, env=self.environment, cwd=self.home, log=log)

    def _has_nodes(self) -> bool:
        return self.kaji("nodes").stdout.count(" Ready") == 3

    def end(self) -> None:
        """End everything that was started."""
        self.kill()
        for process in self._nodes:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@contextlib.contextmanager
def installed_kaji_up(home: Path, *options: str) -> Iterator[dict[str, str]]:
    """Start `kaji up` as a new Python process. Yields the environment of a user with this home when it responds."""
    environment = clean_environment(home)
    kaji_command = [sys.executable, "-m", "kajitori.cli"]
    command = [*kaji_command, "up", "--data", str(home / "data"), "--port", "0", *options]
    with (home / "log").open("wb") as log, subprocess.Popen(command, stderr=log, env=environment) as server:

        def responds() -> bool:
            assert server.poll() is None, (home / "log").read_text()
            asked = subprocess.run([*kaji_command, "ps", "-q"], env=environment, capture_output=True, check=False)
            return asked.returncode == 0

        try:
            wait_until(responds, lambda: (home / "log").read_text())
            yield environment
        finally:
            server.terminate()
