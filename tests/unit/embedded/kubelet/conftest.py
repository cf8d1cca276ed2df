"""Helpers for tests with real, short processes; all of them have ended at the end of their test."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.launch import Launch
from kajitori.embedded.kubelet.containers.leftovers import MARKER_VARIABLE
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.pods import waiting, worker
from kajitori.embedded.kubelet.settings import KubeletSettings

from .fake_cluster import FakeCluster

BOUND_SECONDS = 60.0


async def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Poll until the condition holds and return its value; fail after a generous time limit."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"did not come: {what or condition}"
        await asyncio.sleep(0.01)
    return value


def sh(script: str) -> tuple[str, str, str]:
    """Return a command for the shell. `$$$$` arrives as `$$`: Kubernetes takes `$$` for one dollar."""
    return ("/bin/sh", "-c", script)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Bench:
    """Creates containers under one folder and removes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[Container] = []
        self._prefix = f"test-{os.getpid()}-{root.name}-"

    def container(self, name: str = "c") -> Container:
        container = Container(self.root / name, self._prefix + name)
        self.made.append(container)
        return container

    def log(self, name: str = "c") -> Path:
        return self.root / "logs" / f"{name}.log"

    def launch(self, *argv: str, name: str = "c", **options: Any) -> Launch:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root)} | options.pop("environment", {})
        return Launch(
            argv=list(argv),
            environment=environment,
            working_dir=options.pop("working_dir", str(self.root)),
            log_path=self.log(name),
            **options,
        )

    def shell(self, script: str, **options: Any) -> Launch:
        return self.launch("/bin/sh", "-c", script, **options)

    def python(self, script: str, **options: Any) -> Launch:
        return self.launch(sys.executable, "-I", "-S", "-c", script, **options)

    def text(self, name: str = "c") -> str:
        """Return what the program wrote, with pieces joined as readers of the format do."""
        out = []
        for line in filter(None, self.log(name).read_bytes().decode().split("\n")):
            _, _, tag, content = line.split(" ", 3)
            out.append(content + ("\n" if tag == "F" else ""))
        return "".join(out)

    def left_behind(self) -> list[int]:
        """Return the processes of all its containers, even if the test removed their folders."""
        marker = f"{MARKER_VARIABLE}={self._prefix}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                variables = (process / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(marker) for variable in variables):
                    found.append(int(process.name))
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for container in bench.made:
        await container.stop(0)
        if container._pidfd is not None:
            await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    for pid in bench.left_behind():
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class RewritingAdapter(PodAdapter):
    """Lets the kubelet rewrite variables that begin with `APP_`."""

    variable_prefix = "APP_"


class Machine:
    """A kubelet on this machine beside a fake API server; `stop` and `start` simulate a crash and a restart."""

    def __init__(self, root: Path, *, adapter: PodAdapter | None = None, **settings: Any) -> None:
        self.root = root
        self.adapter = adapter or RewritingAdapter()
        self.cluster = FakeCluster()
        self.options = {
            "namespaces": False,
            "cgroups": False,
            "cpu_millis": 4000,
            "memory_bytes": 8 << 30,
            "backoff_initial_seconds": 0.2,
            "resync_seconds": 60.0,
        } | settings
        self.memory_available = 8 << 30
        self.kubelet: Kubelet
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def start(self) -> None:
        settings = KubeletSettings(node_name="node", root_dir=self.root, **self.options)
        self.kubelet = Kubelet(
            self.cluster, settings, available_memory=lambda: self.memory_available, adapter=self.adapter
        )
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self.kubelet.run(self._stop))
        registered = asyncio.create_task(self.kubelet.registered.wait())
        await asyncio.wait({self._task, registered}, return_when=asyncio.FIRST_COMPLETED)
        registered.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Stop the kubelet; Pods keep running, as after a crash."""
        if self._task is not None:
            self._stop.set()
            await self._task
            self._task = None
            self.cluster._watchers.clear()

    async def tear_down(self) -> None:
        self.cluster.away = False
        if self._task is None:
            await self.start()
        for key in [key for key in self.cluster.objects if key[0] == "pods"]:
            self.cluster.vanish(key[2], key[1])
        await until(lambda: not self.kubelet.workers, "all Pods are gone")
        await self.stop()

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        await until(lambda: self.cluster.phase(name) == phase, f"{name} is {phase}: {self.cluster.status(name)}")
        return self.cluster.status(name)

    def log(self, name: str, attempt: int = 0) -> str:
        files = list((self.root / "logs").glob(f"*_{name}_*/main/{attempt}.log"))
        return files[0].read_text() if files else ""

    async def logged_pid(self, name: str) -> int:
        """Return the process identifier that a Pod's program printed last, once it has."""
        await until(lambda: self.log(name).endswith("\n"), f"{name} says its process")
        return int(self.log(name).split()[-1])


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    """A kubelet that tries again after 100 ms what it could not do yet."""
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "RETRY_SECONDS", 0.1)
    machine = Machine(tmp_path / "kubelet")
    await machine.start()
    yield machine
    await machine.tear_down()
