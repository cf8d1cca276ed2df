"""Chaos tests: a stream of random work, kills of parts while it runs, and checks of the rules that must hold at all
times."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tests.harness.cluster import THIS_MACHINE, Cluster
from tests.harness.platform.part_processes import PartProcesses
from tests.harness.platform.parts import GPUS

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.errors import AlreadyExists, KajitoriError
from kajitori.kube.resources import NODES, PODS, Resource

MAX_RUNS = 8
CHANGES_BETWEEN_KILLS = 8
"""Changes of runs and Pods that are seen between two kills, on average."""
QUIET_SECONDS = 3.0
"""The next kill comes after this time even if fewer changes are seen."""

MEMBER = """
cd "$LOCKS"; me="$KAJI_ATTEMPT.$KAJI_RANK"; echo $$ > "$me.pid"
exec 9> "$me.lock"; flock 9
for other in *.lock; do
  case $other in "$KAJI_ATTEMPT".*) continue;; esac
  flock -n -s "$other" true || echo "$me beside $other in $LOCKS" >> ../wrong
done
trap 'sleep 0.4; exit 1' TERM
sleep 600 & wait
"""
"""Program of a member. Its processes hold a lock, and it reports members of other attempts that hold a lock at the same
time. It takes 0.4 s to end after SIGTERM."""


class InvariantChecker:
    """Checks every change of a Pod or a Run, in the API server's order, and records forbidden ones.

    With `one_writer`, a deleted Pod must not be created again after its attempt is stored as created. If two
    controllers create the same attempt, the slower one may do so: leadership is there to prevent it.
    """

    def __init__(self, cluster: Cluster, *, one_writer: bool) -> None:
        self.cluster = cluster
        self.wrong: list[str] = []
        self.ends = 0
        self._one_writer = one_writer
        self._lost: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._ended: dict[tuple[str, int], tuple[Phase, str]] = {}
        self._done: dict[tuple[str, int], str] = {}
        """The Pods of members of sweeps that succeeded, by run and index."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[InvariantChecker]:
        """Check changes until the end of the context."""
        unsubscribe = self.cluster.mirror.on_change(self._note)
        try:
            yield self
        finally:
            unsubscribe()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if namespace != self.cluster.namespace:
            return
        if resource == RUNS:
            run = self.cluster.run(name)
            if run is not None and run.status is not None:
                self._note_run(run)
        elif resource == PODS:
            if self.cluster.mirror.trouble:  # it lists again, and is complete once the list is read
                asyncio.get_running_loop().call_soon(self._note_pod, name)
            else:
                self._note_pod(name)

    def _note_run(self, run: RunObject) -> None:
        """Check that the number of attempts never falls, and that a run ends again only after it was resumed."""
        assert run.status is not None
        uid, status = run.metadata.uid, run.status
        if status.attempts < self._attempts.get(uid, 0):
            self.wrong.append(f"{run.metadata.name} went back from attempt {self._attempts[uid]} to {status.attempts}")
        self._attempts[uid] = status.attempts
        ended = self._ended.get((uid, status.resumes))
        if ended is not None and (status.phase, status.finished_at) != ended:
            self.wrong.append(f"{run.metadata.name} had ended as {ended}, and is {status.phase}, {status.finished_at}")
        if ended is None and status.phase.is_final:
            self._ended[uid, status.resumes] = status.phase, status.finished_at
            self.ends += 1

    def _note_pod(self, name: str) -> None:
        cluster = self.cluster
        pod = cluster.mirror.pods.get((cluster.namespace, name))
        if pod is None:
            run_name, attempt_number, _ = name.rsplit("-", 2)
            attempt = cluster.status(run_name).attempt
            if attempt is not None and attempt.number == int(attempt_number) and attempt.created:
                self._lost.add(f"{_uid(cluster, run_name)}/{name}")
            return
        if self._one_writer and f"{cluster.mirror.run_uid_of(pod)}/{name}" in self._lost:
            self.wrong.append(f"{name} was lost, and made again")
        self._note_members(pod)
        if pod.spec.node_name:
            usage = cluster.mirror.usage_of(pod.spec.node_name)
            used = usage.other(names.GPU_RESOURCE) if usage else 0
            if used > GPUS:
                self.wrong.append(f"{used} GPUs are taken on {pod.spec.node_name}, {name} is there")

    def _note_members(self, pod: Pod) -> None:
        """Check that no two attempts of a gang run at once, nor two members of a sweep or service with the same rank,
        nor a member of a sweep that has already succeeded."""
        cluster = self.cluster
        uid = cluster.mirror.run_uid_of(pod)
        alive = [
            each
            for each in cluster.mirror.owned_pods(pod.metadata.namespace, pod.metadata.labels[names.LABEL_RUN], uid)
            if not each.is_finished
        ]
        run = cluster.run(pod.metadata.labels[names.LABEL_RUN])
        spec = msgspec.json.decode(run.spec) if run is not None and run.metadata.uid == uid else {}
        ranks = [each.metadata.labels[names.LABEL_RANK] for each in alive]
        if "array" not in spec and spec.get("type") != "service":
            ranks = ["of one attempt"] * len({each.metadata.labels[names.LABEL_ATTEMPT] for each in alive})
        if len(set(ranks)) < len(ranks):
            self.wrong.append(f"alive at once: {sorted(each.metadata.name for each in alive)}")
        if "array" in spec and pod.member is not None:
            member = uid, pod.member.rank
            if pod.status.phase == "Succeeded" and not pod.metadata.deletion_timestamp:
                self._done.setdefault(member, pod.metadata.name)
            elif self._done.get(member, pod.metadata.name) != pod.metadata.name:
                self.wrong.append(f"{self._done[member]} had succeeded, and there is {pod.metadata.name}")


@dataclass
class Promise:
    """The state of one Run that the API server acknowledged."""

    uid: str
    spec: dict[str, Any] | None = field(default_factory=dict)
    """The acknowledged changes of its spec; None if an answer was lost, so that they are unknown."""
    deletion: str = ""
    """`asked` or `promised`."""


class Chaos:
    """A stream of submissions, failures, stops, resumptions and deletions, with a record of those that were
    acknowledged."""

    def __init__(self, cluster: Cluster, chance: random.Random, *, processes: bool = False) -> None:
        self.cluster = cluster
        self.chance = chance
        self.acknowledged = 0
        self._processes = processes
        self._drained = ""
        self._promises: dict[str, Promise] = {}
        """By name of the Run; a later Run of the same name replaces an earlier one."""
        self._count = 0
        self._actions: list[Callable[[], Awaitable[None]]] = [
            *(self.submit, self.submit, self.fail, self.fail, self.fail, self.lose, self.lose),
            *(self.stop, self.resume, self.delete, self.drain),
        ]

    async def act(self) -> None:
        """Do one random action. Refusals are expected, because controllers act at the same time."""
        with contextlib.suppress(KajitoriError):
            await self.chance.choice(self._actions)()

    async def stream(self, until: asyncio.Event, *, pause_seconds: float = 0.15) -> None:
        """Do random actions with pauses of random length, until `until` is set."""
        while not until.is_set():
            await self.act()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.chance.uniform(0, pause_seconds)):
                    await until.wait()

    # ------------------------------------------------------------------------------------------ actions

    async def submit(self) -> None:
        if len(self.unfinished()) >= MAX_RUNS:
            return
        here = self._processes and self.chance.random() < 0.5
        name = f"run-{self._count - self.chance.choice([0, 0, 5]) if self._count > 5 else self._count}"
        self._count += 1
        resources = {"cpu": "100m", "memory": "16Mi", "gpu": self.chance.choice([2, 4, 8]), "gpuType": "h100"}
        spec: dict[str, Any] = {"restarts": 100, "grace": "1s"} | self._some_shape()
        if here:
            locks = self.cluster.folder / "locks" / f"{name}.{self._count}"
            locks.mkdir(parents=True)
            command = ["sh", "-c", MEMBER]
            resources = {"cpu": "10m", "memory": "16Mi"}
            spec = {"restarts": 100, "grace": "1s", "replicas": self.chance.randint(2, 3), "nodeSelector": THIS_MACHINE}
            spec |= {"command": command, "env": {"LOCKS": str(locks)}}
        before = self._promises.pop(name, None)
        try:
            made = await self.cluster.submit(name, resources=resources, **spec)
        except AlreadyExists:
            if before is not None:
                self._promises[name] = before
            raise
        self._promises[name] = Promise(made["metadata"]["uid"])
        self.acknowledged += 1

    def _some_shape(self) -> dict[str, Any]:
        """Return a gang in half of the cases, else an elastic gang, a service or a sweep."""
        members = self.chance.randint(1, 4)
        gang: dict[str, Any] = {"replicas": members}
        others = {"replicas": 4, "minReplicas": 2}, gang | {"type": "service"}, {"array": f"0-{members + 2}%{members}"}
        return self.chance.choice([gang, gang, gang, *others])

    async def drain(self) -> None:
        """Drain a node, or undo the drain."""
        node = self._drained or self.chance.choice([each for each in self.cluster.mirror.nodes if each[:4] == "gpu-"])
        who = None if self._drained else "ada"
        patch = {"metadata": {"annotations": {names.ANNOTATION_DRAIN: who}}, "spec": {"unschedulable": bool(who)}}
        self._drained = node  # also if the answer is lost
        await self.cluster.client.patch(NODES, node, patch)
        self._drained = node if who else ""

    async def fail(self) -> None:
        pod = self._some_pod()
        if pod is None:
            return
        if pod.spec.node_name.startswith("gpu-"):
            await self.cluster.behave(pod.metadata.name, exit_code="1")
        else:
            attempt, rank = (pod.metadata.labels[label] for label in (names.LABEL_ATTEMPT, names.LABEL_RANK))
            run = self.cluster.run(pod.metadata.labels[names.LABEL_RUN])
            if run is not None:
                locks = Path(msgspec.json.decode(run.spec)["env"]["LOCKS"])
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((locks / f"{attempt}.{rank}.pid").read_text()), signal.SIGKILL)

    async def lose(self) -> None:
        """Delete a Pod. On a simulated node, which has no processes, the grace is 0."""
        if pod := self._some_pod():
            grace = 0 if pod.spec.node_name.startswith("gpu-") else 1
            await self.cluster.client.delete(PODS, pod.metadata.name, self.cluster.namespace, grace_seconds=grace)

    async def stop(self) -> None:
        await self._change(self.unfinished(), stopped=True)

    async def resume(self) -> None:
        over = [name for name in self._known() if self.cluster.status(name).phase.is_final]
        await self._change(over, stopped=False, resumes=self._count)

    async def _change(self, names: list[str], **spec: Any) -> None:
        name = self.chance.choice(names) if names else ""
        promise = self._promises.get(name)
        if promise is None or promise.deletion:
            return
        promised, promise.spec = promise.spec, None
        await self.cluster.change(name, **spec)
        promise.spec = (promised or {}) | spec
        self.acknowledged += 1

    async def delete(self) -> None:
        known = [name for name, promise in self._promises.items() if not promise.deletion]
        if known:
            await self._delete(self.chance.choice(known))

    async def _delete(self, name: str) -> None:
        promise = self._promises[name]
        promise.deletion = "asked"
        await self.cluster.client.delete(RUNS, name, self.cluster.namespace, uid=promise.uid)
        promise.deletion = "promised"
        self.acknowledged += 1

    # ------------------------------------------------------------------------------------------ checks

    def unfinished(self) -> list[str]:
        """Return the runs in the mirror that have not ended."""
        return [name for name in self._known() if not self.cluster.status(name).phase.is_final]

    def _known(self) -> list[str]:
        """Return all runs in the mirror, including those that were submitted without an answer."""
        return [name for namespace, name in self.cluster.mirror.runs if namespace == self.cluster.namespace]

    def _some_pod(self) -> Pod | None:
        pods = [pod for name in self.unfinished() for pod in self.cluster.pods(name) if pod.status.phase == "Running"]
        return self.chance.choice(pods) if pods else None

    async def broken_promises(self) -> list[str]:
        """Return the acknowledged changes that the API server has lost."""
        listing = await self.cluster.client.list(RUNS, self.cluster.namespace)
        found = {run["metadata"]["uid"]: run for run in listing.items}
        wrong = []
        for name, promise in self._promises.items():
            run = found.get(promise.uid)
            if run is None and not promise.deletion:
                wrong.append(f"{name} ({promise.uid}) was accepted, and is gone")
            elif run is not None and promise.deletion == "promised" and not run["metadata"].get("deletionTimestamp"):
                wrong.append(f"{name} was deleted, and is there")
            elif run is not None and promise.spec is not None:
                has = {key: run["spec"].get(key) for key in promise.spec}
                wrong += [f"{name} was told {promise.spec}, and has {has}"] if has != promise.spec else []
        return wrong

    async def all_end(self, seconds: float = 30.0) -> None:
        """Bring every run to its end: members on simulated nodes succeed, runs on this machine are stopped."""
        cluster, deadline = self.cluster, time.monotonic() + seconds
        while self._drained:
            await self.drain()
        while unfinished := self.unfinished():
            assert time.monotonic() < deadline, cluster.describe()
            for name in unfinished:
                with contextlib.suppress(KajitoriError):
                    nodes = {pod.spec.node_name for pod in cluster.pods(name)} - {""}
                    run = cluster.run(name)
                    endless = run is not None and msgspec.json.decode(run.spec).get("type") == "service"
                    if endless or any(not node.startswith("gpu-") for node in nodes):
                        await cluster.change(name, stopped=True)
                    elif cluster.status(name).phase is Phase.RUNNING:
                        for pod in cluster.pods(name):
                            if not pod.is_finished:
                                await cluster.behave(pod.metadata.name, exit_code="0")
            with contextlib.suppress(AssertionError):
                await cluster.until(lambda: not self.unfinished(), "everything ended", seconds=0.5)
        for name in self._known():
            status = cluster.status(name)
            assert status.phase in (Phase.SUCCEEDED, Phase.STOPPED), (name, status)

    async def all_gone(self) -> None:
        """Delete all runs, and wait until no Pod is left."""
        cluster = self.cluster
        for name in self._known():
            await cluster.client.delete(RUNS, name, cluster.namespace)
        await cluster.until(
            lambda: not any(space == cluster.namespace for space, _ in [*cluster.mirror.runs, *cluster.mirror.pods]),
            "nothing is left",
        )


def members_alive(locks: Path) -> list[str]:
    """Return the members with living processes, by the locks that these hold."""
    alive = []
    for path in locks.glob("*/*.lock"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                alive.append(f"{path.parent.name}/{path.name}")
    return alive


async def kill_parts(
    cluster: Cluster, parts: PartProcesses, victims: Sequence[tuple[str, ...]], kills: int, chance: random.Random
) -> None:
    """Kill parts `kills` times, and start them again at once.

    The time between kills is counted in changes of runs and Pods. On a busy machine, times by the clock would all fall
    into the start of the parts.
    """
    seen, killed = _Seen(), 0
    unsubscribe = cluster.mirror.on_change(seen.note)
    try:
        while killed < kills:
            await seen.changes(int(chance.expovariate(1 / CHANGES_BETWEEN_KILLS)))
            await asyncio.sleep(chance.uniform(0, 0.02))
            together = chance.choice(victims)
            for name in together:
                parts.kill(name)
            killed += len(together)
            for name in together:
                parts.start(name)
    finally:
        unsubscribe()


class _Seen:
    """Counts changes of runs and Pods."""

    def __init__(self) -> None:
        self._left = 0
        self._enough = asyncio.Event()

    def note(self, resource: Resource, namespace: str, name: str) -> None:
        """Count a change; a callback of the mirror."""
        self._left -= resource in (PODS, RUNS)
        if self._left <= 0:
            self._enough.set()

    async def changes(self, count: int) -> None:
        """Wait for `count` more changes, or for QUIET_SECONDS without enough."""
        self._left = count
        self._enough.clear()
        if count:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), QUIET_SECONDS)


def _uid(cluster: Cluster, name: str) -> str:
    run = cluster.run(name)
    return run.metadata.uid if run else ""
