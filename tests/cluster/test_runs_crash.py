"""Controllers that are killed at any moment: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from tests.helpers.world import GPUS, World

from kajitori.core import names
from kajitori.core.reasons import Phase, Reason
from kajitori.errors import KajitoriError
from kajitori.kube.objects import Pod
from kajitori.kube.resources import PODS, RUNS, Resource

CHAOS_SECONDS = float(os.environ.get("KAJI_TEST_CHAOS_SECONDS", "6"))
REPOSITORY = Path(__file__).resolve().parents[2]


class Watchman:
    """Looks at every change of a Pod, in the API server's own order, and writes down what must never be.

    one_writer: a Pod that is gone is not made again once its attempt is stored as created. Of two controllers that both
    create the same attempt, the slower may come too late for that: this is what leadership is for.
    """

    def __init__(self, world: World, *, one_writer: bool) -> None:
        self.world = world
        self.one_writer = one_writer
        self.wrong: list[str] = []
        self.lost: set[str] = set()

    def note(self, resource: Resource, namespace: str, name: str) -> None:
        """A callback of the mirror."""
        if resource != PODS or namespace != self.world.namespace:
            return
        pod = self.world.mirror.pods.get((namespace, name))
        if pod is None:
            run_name, attempt_number, _ = name.rsplit("-", 2)
            attempt = self.world.status(run_name).attempt
            if attempt is not None and attempt.number == int(attempt_number) and attempt.created:
                self.lost.add(name)
            return
        if name in self.lost and self.one_writer:
            self.wrong.append(f"{name} was lost, and made again")
        alive = [each for each in self.world.mirror.pods_of_run(pod.run_uid) if not each.is_finished]
        attempts = {each.metadata.labels[names.LABEL_ATTEMPT] for each in alive}
        if len(attempts) > 1:
            self.wrong.append(f"alive at once: {sorted(each.metadata.name for each in alive)}")
        if pod.spec.node_name:
            usage = self.world.mirror.usage_of(pod.spec.node_name)
            used = usage.other(names.GPU_RESOURCE) if usage else 0
            if used > GPUS:
                self.wrong.append(f"{used} GPUs are taken on {pod.spec.node_name}, {name} is there")


class Controllers:
    """Controllers that come and go: tasks that are cancelled, or processes that get SIGKILL."""

    def __init__(self, world: World, *, processes: bool) -> None:
        self.world = world
        self.processes = processes
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        """One more."""
        if not self.processes:
            self._tasks.append(self.world.start_controller())
            return
        policy = self.world.folder / "policy.yaml"
        policy.write_text(yaml.safe_dump(self.world.policy_document))
        arguments = [str(self.world.kubeconfig), str(policy)]
        self._processes.append(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.helpers.controller_process", *arguments, cwd=REPOSITORY
            )
        )

    async def kill(self) -> None:
        """Ends the oldest at once, whatever it is doing."""
        if self._tasks:
            await self.world.kill_controller(self._tasks.pop(0))
        elif self._processes:
            process = self._processes.pop(0)
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def kill_all(self) -> None:
        while self._tasks or self._processes:
            await self.kill()


class Chaos:
    """Random submissions, failures, stops and deletions."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.submitted: list[str] = []

    async def act(self) -> None:
        """One of them; what is refused because somebody was quicker is nothing to worry about."""
        actions: list[Callable[[], Awaitable[None]]] = [
            self.submit,
            self.submit,
            self.fail,
            self.lose,
            self.stop,
            self.delete,
        ]
        with contextlib.suppress(KajitoriError):
            await self.chance.choice(actions)()

    async def submit(self) -> None:
        if len(self.running()) > 8:
            return
        name = f"run-{len(self.submitted)}"
        self.submitted.append(name)
        resources = {"cpu": 1, "memory": "1Gi", "gpu": self.chance.choice([4, 8]), "gpuType": "h100"}
        await self.world.submit(name, replicas=self.chance.randint(1, 6), resources=resources, restarts=100, grace="1s")

    def running(self) -> list[str]:
        return [name for name in self.submitted if self.world.run(name) and not self.world.status(name).phase.is_final]

    def some_pod(self) -> Pod | None:
        pods = [pod for name in self.running() for pod in self.world.pods(name) if pod.status.phase == "Running"]
        return self.chance.choice(pods) if pods else None

    async def fail(self) -> None:
        if pod := self.some_pod():
            await self.world.behave(pod.metadata.name, exit_code="1")

    async def lose(self) -> None:
        if pod := self.some_pod():
            await self.world.client.delete(PODS, pod.metadata.name, self.world.namespace, grace_seconds=0)

    async def stop(self) -> None:
        if running := self.running():
            await self.world.change(self.chance.choice(running), stopped=True)

    async def delete(self) -> None:
        if running := self.running():
            await self.world.client.delete(RUNS, self.chance.choice(running), self.world.namespace)


@contextlib.asynccontextmanager
async def watched(world: World, *, one_writer: bool = True) -> AsyncIterator[Watchman]:
    watchman = Watchman(world, one_writer=one_writer)
    unsubscribe = world.mirror.on_change(watchman.note)
    try:
        yield watchman
    finally:
        unsubscribe()


async def all_end(world: World, chaos: Chaos) -> None:
    """Whatever runs or waits now reaches its end once its members end well."""

    async def succeed_running() -> None:
        for name in chaos.running():
            if world.status(name).phase is Phase.RUNNING:
                with contextlib.suppress(KajitoriError):
                    await world.succeed(name)

    deadline = time.monotonic() + 30
    while chaos.running():
        assert time.monotonic() < deadline, world.describe()
        await succeed_running()
        with contextlib.suppress(AssertionError):
            await world.until(lambda: not chaos.running(), "everything ended", seconds=0.5)
    for name in chaos.submitted:
        if world.run(name):
            status = world.status(name)
            assert status.phase in (Phase.SUCCEEDED, Phase.STOPPED), (name, status)
            assert status.reason in (Reason.NONE, Reason.STOPPED_BY_USER)
    await world.until(lambda: not [p for n in chaos.submitted for p in world.pods(n) if not p.is_finished], "all quiet")


@pytest.mark.parametrize(("kind", "bind"), [("tasks", "direct"), ("processes", "scheduler")])
async def test_a_killed_controller_loses_nothing(world: World, kind: str, bind: str) -> None:
    """Killed and started again during submissions, restarts, stops and deletions: of a run never two attempts live at
    once, no GPU is taken twice, no lost Pod is made again, and every run reaches its end."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    world.use_policy(binding={"bind": bind})
    controllers = Controllers(world, processes=kind == "processes")
    chaos = Chaos(world, chance)
    try:
        async with watched(world) as watchman:
            await controllers.start()
            deadline = time.monotonic() + CHAOS_SECONDS
            kill_at = 0.0
            while time.monotonic() < deadline:
                await chaos.act()
                if time.monotonic() > kill_at:
                    await controllers.kill()
                    await controllers.start()
                    kill_at = time.monotonic() + chance.uniform(0.02, 0.4) * (4 if kind == "processes" else 1)
                await asyncio.sleep(chance.uniform(0, 0.1))
            await all_end(world, chaos)
            assert not watchman.wrong, watchman.wrong[:5]
            assert len(chaos.submitted) > 3
    finally:
        await controllers.kill_all()


async def test_two_controllers_at_once_do_no_harm(world: World) -> None:
    """Compare-and-swap lets one of them win each step: never two attempts live, and every run reaches its end."""
    chance = random.Random(7)
    controllers = Controllers(world, processes=False)
    chaos = Chaos(world, chance)
    async with watched(world, one_writer=False) as watchman:
        await controllers.start()
        await controllers.start()
        deadline = time.monotonic() + CHAOS_SECONDS
        while time.monotonic() < deadline:
            await chaos.act()
            await asyncio.sleep(chance.uniform(0, 0.1))
        await all_end(world, chaos)
        assert not watchman.wrong, watchman.wrong[:5]
