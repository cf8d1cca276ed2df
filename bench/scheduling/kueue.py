"""Kueue's own benchmark of its scheduler, for the run controller: 15,000 runs that are submitted within a minute.

    python -m bench.scheduling.kueue            Run objects on a real API server; members are mimicked
    python -m bench.scheduling.kueue --pods     a real Pod for each run, on simulated nodes
    python -m bench.scheduling.kueue --small    a tenth of the runs

5 pools of 120 units, 6 submitters each; each submitter's 350 small runs (1 unit, 0.2 s), 100 medium (5 units, 0.5 s)
and 50 large ones (20 units, 1 s) are submitted in the rhythm of Kueue's
`test/performance/scheduler/configs/baseline`. Its priorities are high, normal and low here. A submitter is a namespace,
a pool is six nodes of 20 units, a unit is a core. Use is work done over capacity: the sum of run time times units, over
600 units times the time from the first submission to the last end.

Kueue's figures were recorded on a machine with two cores, beside API server 1.36, with mimicked workloads.
If `$KUEUE_BIN` is a folder with Kueue's `performance-scheduler-runner` and `minimalkueue` (its custom resources in
`$KUEUE_CRDS`), they run in the same session instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml
from tests.harness.binaries import find_binary
from tests.harness.servers.real_server import RealServer, running_real_server

from bench.parts.common import CONSOLE, Limit, print_limits, print_table
from bench.parts.gangs import lacks, simulated_nodes
from bench.parts.options import option_parser
from bench.parts.processes import helper, in_words, processor_seconds, say, since
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.entrypoints.garbage import reduce_garbage_collection
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES, NODES, PODS, SERVICES, Resource
from kajitori.kube.watch import Added, Modified

POOLS, SUBMITTERS, NODES_OF_POOL, UNITS_OF_NODE = 5, 6, 6, 20
CAPACITY = POOLS * NODES_OF_POOL * UNITS_OF_NODE
POOL = "bench.kajitori.dev/pool"
SUBMITTED = "bench.kajitori.dev/submitted"
PATIENCE_SECONDS = 900.0
POLICY: dict[str, Any] = {
    "disruptionBudgets": False,
    "binding": {"directlyOn": [{POOL: f"pool-{number}"} for number in range(POOLS)]},
}


@dataclass(frozen=True, slots=True)
class Class:
    """A size of runs."""

    name: str
    count: int
    every_seconds: float
    seconds: float
    units: int
    priority: str
    kueue_priority: int


CLASSES = (
    Class("large", 50, 1.2, 1.0, 20, "high", 200),
    Class("medium", 100, 0.5, 0.5, 5, "normal", 100),
    Class("small", 350, 0.1, 0.2, 1, "low", 50),
)
RECORDED = {"large": 23.7, "medium": 76.0, "small": 208.0}
"""Seconds that Kueue's workloads waited on average."""
RECORDED_SECONDS, RECORDED_USE = 366.0, 0.18


def runs_of(share: float) -> int:
    """Return the number of runs of all submitters, for this share of them."""
    return POOLS * SUBMITTERS * sum(round(each.count * share) for each in CLASSES)


def class_of(run: str) -> Class:
    """Return the class of a run by its name."""
    return next(each for each in CLASSES if run.startswith(each.name))


@dataclass(slots=True)
class Outcome:
    """Figures of one contender."""

    seconds: float
    use: float
    waits: Mapping[str, float]
    """Mean seconds from submission to start, by class."""
    source: str = ""
    processors: str = ""
    """Processor seconds of each process, as text; on a busy machine they say more than seconds."""


@dataclass(slots=True)
class Record:
    """Moments of runs, by namespace and name; seconds since the epoch."""

    mirror: Mirror
    submitted: dict[tuple[str, str], float] = field(default_factory=dict)
    started: dict[tuple[str, str], float] = field(default_factory=dict)
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    failure: str = ""

    def start(self, pod: Pod) -> float:
        """Note that a run's Pod runs from now on; return for how many seconds it will."""
        member = pod.member
        assert member is not None
        self.started.setdefault((pod.metadata.namespace, member.run), time.time())
        return class_of(member.run).seconds

    def note(self, resource: Resource, namespace: str, name: str) -> None:
        """Follow the mirror: submitted runs, running Pods, ended runs."""
        key = (namespace, name)
        if resource == PODS:
            pod = self.mirror.pods.get(key)
            if pod is not None and pod.status.phase == "Running":
                self.start(pod)
        run = self.mirror.runs.get(key) if resource == RUNS else None
        if run is None:
            return
        if key not in self.submitted:
            self.submitted[key] = float(run.metadata.annotations[SUBMITTED])
        if run.status is not None and run.status.phase.is_final and key not in self.ended:
            self.ended[key] = time.time()
            if run.status.phase is not Phase.SUCCEEDED:
                self.failure = f"{name} ended as {run.status.phase}: {run.status.message}"

    def outcome(self, source: str) -> Outcome:
        """Return the figures once all runs have ended."""
        seconds = max(self.ended.values()) - min(self.submitted.values())
        waits: dict[str, list[float]] = defaultdict(list)
        work = 0.0
        for key, submitted in self.submitted.items():
            each = class_of(key[1])
            waits[each.name].append(self.started[key] - submitted)
            work += each.seconds * each.units
        means = {name: statistics.mean(values) for name, values in waits.items()}
        return Outcome(seconds, work / (CAPACITY * seconds), means, source)


class TimingClient(KubeClient):
    """A client that tells simulated nodes how long each Pod runs."""

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        if resource == PODS and not isinstance(body, bytes):
            seconds = class_of(body["metadata"]["name"]).seconds
            told = {"sim.kajitori.dev/duration": f"{seconds * 1000:.0f}ms"}
            body = {**body, "metadata": {**body["metadata"], "annotations": told}}
        return await super().create(resource, body, namespace, dry_run=dry_run)


class MimickingClient(KubeClient):
    """A client that creates no Pods: it pretends that each runs at once and ends when its run's time is over."""

    mirror: Mirror
    record: Record

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        if resource not in (PODS, SERVICES) or isinstance(body, bytes):
            return await super().create(resource, body, namespace, dry_run=dry_run)
        document = {**body, "status": {"phase": "Running"}}
        document["metadata"] = {**body["metadata"], "uid": body["metadata"]["name"]}
        if resource == PODS:
            pod = msgspec.convert(document, Pod)
            self.show(pod)
            asyncio.get_running_loop().call_later(self.record.start(pod), self.end, pod)
        return document

    async def delete_collection(self, resource: Resource, *arguments: Any, **more: Any) -> None:
        if resource != PODS:
            await super().delete_collection(resource, *arguments, **more)

    def end(self, pod: Pod) -> None:
        """End the Pod's program."""
        ended = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))
        self.show(ended, before=pod)

    def show(self, pod: Pod, before: Pod | None = None) -> None:
        """Put the Pod into the mirror, as a watch would."""
        key = (pod.metadata.namespace, pod.metadata.name)
        self.mirror.pods[key] = pod
        self.mirror._index(Added(pod) if before is None else Modified(pod, before))
        self.mirror._notify(PODS, *key)


async def generate(kubeconfig: Path, share: float) -> None:
    """Submit all runs in their rhythm, in a separate process like Kueue's runner."""
    async with KubeClient(KubeConfig.from_file(kubeconfig)) as client:
        submitters = [(pool, number) for pool in range(POOLS) for number in range(SUBMITTERS)]
        await asyncio.gather(
            *(_submit(client, each, pool, number, share) for pool, number in submitters for each in CLASSES)
        )
    say({"submitted": True})


async def _submit(client: KubeClient, each: Class, pool: int, number: int, share: float) -> None:
    namespace, began = f"queue-{pool}-{number}", time.monotonic()
    for count in range(round(each.count * share)):
        await asyncio.sleep(began + (count + 1) * each.every_seconds - time.monotonic())
        resources = {"cpu": each.units, "memory": "1Gi"}
        run = {
            "metadata": {
                "name": f"{each.name}-{count}",
                "namespace": namespace,
                "annotations": {SUBMITTED: str(time.time())},
                "finalizers": [names.FINALIZER],  # as the Web API makes them
            },
            "spec": {
                "image": "any",
                "command": [each.name],
                "resources": resources,
                "priority": each.priority,
                "nodeSelector": {POOL: f"pool-{pool}"},
            },
        }
        await client.create(RUNS, {"apiVersion": names.API_VERSION, "kind": names.KIND, **run}, namespace)


async def measure(cluster: RealServer, share: float, *, pods: bool) -> Outcome:
    """Run all of it, from the first submission to the last end."""
    stop = asyncio.Event()
    reduce_garbage_collection()  # as the process of a controller does
    async with KubeClient(cluster.config) as admin:
        await install(admin)
        for pool in range(POOLS):
            for number in range(SUBMITTERS):
                await admin.create(NAMESPACES, {"metadata": {"name": f"queue-{pool}-{number}"}})
        with _simulated_nodes(cluster) if pods else contextlib.nullcontext():
            await _make_nodes(admin, pods=pods)
            client = TimingClient(cluster.config) if pods else MimickingClient(cluster.config)
            async with client, Mirror(client, (NODES, PODS, RUNS) if pods else (NODES, RUNS)) as mirror:
                record = Record(mirror)
                if isinstance(client, MimickingClient):
                    client.mirror, client.record = mirror, record
                mirror.on_change(record.note)
                await mirror.wait_synced()
                view = ClusterView(mirror, PolicyFile(None, without_file=parse_policy(POLICY)))
                before = processor_seconds()
                controller = asyncio.create_task(run_controller(client, mirror, view).run(stop))
                generator = helper(
                    "bench.scheduling.kueue", "--generate", str(cluster.kubeconfig), "--share", str(share)
                )
                try:
                    await _until_all_ended(record, runs_of(share), controller)
                    spent = in_words(since(before, processor_seconds()))
                finally:
                    generator.kill()
                    generator.wait()
                    stop.set()
                    await controller
    outcome = record.outcome("measured")
    outcome.processors = spent
    return outcome


async def _until_all_ended(record: Record, expected: int, controller: asyncio.Task[None]) -> None:
    began = told = time.monotonic()
    while len(record.ended) < expected:
        await asyncio.sleep(0.5)
        if record.failure:
            raise RuntimeError(record.failure)
        if controller.done():
            controller.result()
        now = time.monotonic()
        if now - told >= 10:
            told = now
            CONSOLE.print(
                f"{now - began:4.0f} s: {len(record.submitted)} submitted, {len(record.started)} started, "
                f"{len(record.ended)} over"
            )
        if now - began > PATIENCE_SECONDS:
            raise TimeoutError(f"{expected - len(record.ended)} runs are not over after {PATIENCE_SECONDS:.0f} s")


def _simulated_nodes(cluster: RealServer) -> contextlib.AbstractContextManager[None]:
    options = ("--cpus", str(UNITS_OF_NODE), "--max-pods", "250")
    return simulated_nodes(cluster.kubeconfig, POOLS * NODES_OF_POOL, *options, gpus=0)


async def _make_nodes(client: KubeClient, *, pods: bool) -> None:
    """Create six nodes for each pool, or label those of `kaji sim` if Pods run on them."""
    if pods:
        while len(found := (await client.list(NODES)).items) < POOLS * NODES_OF_POOL:  # noqa: ASYNC110 — no watch for it
            await asyncio.sleep(0.2)  # the harness must not disturb the measurement
        for number, node in enumerate(found):
            label = {POOL: f"pool-{number // NODES_OF_POOL}"}
            await client.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": label}})
        return
    for number in range(POOLS * NODES_OF_POOL):
        name = f"node-{number}"
        labels = {POOL: f"pool-{number // NODES_OF_POOL}"}
        await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        room = {"cpu": str(UNITS_OF_NODE), "memory": "1Ti", "pods": "1000"}
        ready = [{"type": "Ready", "status": "True", "reason": "Mimicked", "message": ""}]
        status = {"status": {"capacity": room, "allocatable": room, "conditions": ready}}
        await client.patch(NODES, name, status, subresource="status")
        await client.patch(NODES, name, {"spec": {"taints": None}})


def run_kueue(folder: Path) -> Outcome:
    """Run Kueue's own runner with its own control plane."""
    crds = Path(os.environ.get("KUEUE_CRDS", folder.parent / "config/components/crd/bases"))
    sets = [
        {
            "count": each.count,
            "creationIntervalMs": round(each.every_seconds * 1000),
            "workloads": [
                {
                    "className": each.name,
                    "runtimeMs": round(each.seconds * 1000),
                    "priority": each.kueue_priority,
                    "request": str(each.units),
                }
            ],
        }
        for each in CLASSES
    ]
    queues = {
        "className": "cq",
        "count": SUBMITTERS,
        "nominalQuota": str(CAPACITY // POOLS // SUBMITTERS),
        "borrowingLimit": str(CAPACITY // POOLS - CAPACITY // POOLS // SUBMITTERS),
        "reclaimWithinCohort": "Any",
        "withinClusterQueue": "LowerPriority",
        "workloadsSets": sets,
    }
    with tempfile.TemporaryDirectory() as out:
        config = Path(out) / "generator.yaml"
        config.write_text(
            yaml.safe_dump({"cohorts": [{"className": "cohort", "count": POOLS, "queuesSets": [queues]}]})
        )
        program = [str(folder / "performance-scheduler-runner"), "--o", out, "--crds", str(crds)]
        program += ["--generatorConfig", str(config), "--minimalKueue", str(folder / "minimalkueue")]
        assets = str(Path(str(find_binary("kube-apiserver"))).parent)
        subprocess.run(program, check=True, env={**os.environ, "KUBEBUILDER_ASSETS": assets})
        summary = yaml.safe_load((Path(out) / "summary.yaml").read_text())
    queue = summary["clusterQueueClasses"]["cq"]
    first, last = (datetime.fromisoformat(str(queue[name])) for name in ("firstEventTime", "lastEventTime"))
    seconds = (last - first).total_seconds()
    work = sum(each.count * each.seconds * each.units for each in CLASSES) * POOLS * SUBMITTERS
    waits = {name: found["averageTimeToAdmissionMs"] / 1000 for name, found in summary["workloadClasses"].items()}
    return Outcome(seconds, work / (CAPACITY * seconds), waits, "measured")


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--pods", action="store_true", help="a real Pod for each run, on simulated nodes")
    parser.add_argument("--small", action="store_true", help="a tenth of the runs; its figures say little")
    parser.add_argument("--generate", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, default=1.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        uvloop.run(generate(options.generate, options.share))
        return 0
    if lacks("kube-apiserver", "etcd"):
        return 2
    share = 0.1 if options.small else 1.0
    with running_real_server() as cluster:
        ours = uvloop.run(measure(cluster, share, pods=options.pods))
    CONSOLE.print(f"processor seconds: {ours.processors} (bench: run controller and mirror; the other: submitters)")
    kueue = Outcome(RECORDED_SECONDS, RECORDED_USE, RECORDED, "recorded")
    if os.environ.get("KUEUE_BIN"):
        kueue = run_kueue(Path(os.environ["KUEUE_BIN"]))
    else:
        CONSOLE.print("no $KUEUE_BIN: Kueue's figures are recorded ones, not of this session")
    _print(ours, kueue, runs_of(share))
    if options.small:
        CONSOLE.print("the limits are those of the full size; nothing is judged here")
        return 0
    if options.pods:
        return print_limits([Limit("all runs, with Pods", ours.seconds, most=kueue.seconds, unit=" s")])
    return print_limits(
        [
            Limit("all runs", ours.seconds, most=122, unit=" s"),
            Limit("mean wait of large runs", ours.waits["large"], most=5, unit=" s"),
            Limit("mean wait of small runs", ours.waits["small"], most=40, unit=" s"),
        ]
    )


def _print(ours: Outcome, kueue: Outcome, runs: int) -> None:
    rows = [
        (name, f"{each.seconds:.0f}", f"{each.use:.0%}", *(f"{each.waits[c.name]:.1f}" for c in CLASSES))
        for name, each in (("Kajitori", ours), (f"Kueue ({kueue.source})", kueue))
    ]
    title = f"{runs:,} runs on {CAPACITY} units (Kueue's: {runs_of(1):,}); seconds"
    print_table(title, ("", "all", "use", *(f"mean wait, {each.name}" for each in CLASSES)), rows)


if __name__ == "__main__":
    sys.exit(main())
