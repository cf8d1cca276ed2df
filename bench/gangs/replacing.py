"""Shared by benchmarks in which one gang replaces another, in turns with a bare script that replaces the Pods."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from tests.harness.servers.real_server import running_real_server

from bench.parts.common import CONSOLE, Limit, median_and_range, print_limits, print_table
from bench.parts.gangs import POOL_LABEL, Platform, label_nodes, lacks, platform, simulated_nodes, spec_of, wait_until
from bench.parts.options import option_parser
from bench.parts.processes import in_words, processor_seconds, since
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES, PODS

NAMESPACE = "replacing"


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    members: int
    rounds: int


Templates = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Contest:
    """The two measurements of a round: seconds of our way and of the bare script."""

    title: str
    policy: Mapping[str, Any]
    ours: Callable[[Platform, Size, str], Awaitable[float]]
    """Measures our way; the last argument is a name that no run had before."""
    bare: Callable[[Platform, Size, str, Templates], Awaitable[float]]
    """Measures the bare script; the last argument is the Pods that it creates."""


def main(
    contest: Contest, full: Size, small: Size, limits: Callable[[float, float], list[Limit]], about: str | None
) -> int:
    """Measure, and compare the medians of ours and bare with the limits; return the exit code."""
    parser = option_parser(about)
    parser.add_argument("--small", action="store_true", help="a quick run; its figures say little")
    size = small if parser.parse_args().small else full
    if lacks("kube-apiserver", "etcd"):
        return 2
    with running_real_server() as cluster:
        seconds, spent = uvloop.run(_measure(contest, cluster.config, cluster.kubeconfig, size))
    rows = [
        (mode, median_and_range(values), f"{size.members / statistics.median(values):.0f}")
        for mode, values in seconds.items()
    ]
    title = f"a gang of {size.members} {contest.title}; {size.rounds} rounds"
    print_table(title, ("", "seconds", "Pods/s"), rows)
    for mode, words in spent.items():
        CONSOLE.print(f"processor seconds of all rounds, first Pods and clearing away included, {mode}: {words}")
    if size is small:
        CONSOLE.print("the limits are those of the full size; nothing is judged here")
        return 0
    return print_limits(limits(statistics.median(seconds["ours"]), statistics.median(seconds["bare"])))


async def _measure(
    contest: Contest, config: KubeConfig, kubeconfig: Path, size: Size
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return seconds by mode, one per round, in turns; and the processor time of all rounds by mode, as text."""
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    spent: dict[str, Counter[str]] = {mode: Counter() for mode in seconds}
    async with KubeClient(config) as client:
        await install(client)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with simulated_nodes(kubeconfig, size.nodes):
            async with platform(client, parse_policy(contest.policy), NAMESPACE) as there:
                await label_nodes(there, size.nodes)
                templates = await _model_pods(there, size)
                for number in range(size.rounds):
                    before = processor_seconds()
                    seconds["ours"].append(await contest.ours(there, size, f"ours-{number}"))
                    between = processor_seconds()
                    seconds["bare"].append(await contest.bare(there, size, f"bare-{number}", templates))
                    spent["ours"].update(since(before, between))
                    spent["bare"].update(since(between, processor_seconds()))
                    said = ", ".join(f"{mode} {values[-1]:.2f}" for mode, values in seconds.items())
                    CONSOLE.print(f"round {number + 1} of {size.rounds}: {said} s")
    return seconds, {mode: in_words(each) for mode, each in spent.items()}


def running(there: Platform, prefix: str) -> int:
    """Return the number of running Pods with this prefix in their name."""
    return sum(pod.status.phase == "Running" for pod in there.pods(prefix))


async def create_all(client: KubeClient, pods: Templates) -> None:
    """Create all Pods at once."""
    await asyncio.gather(*(client.create(PODS, pod, NAMESPACE) for pod in pods))


async def replace_all(there: Platform, run: str, templates: Templates, *, grace_seconds: int) -> None:
    """Run the bare script: delete the Pods of a first attempt by collection, see them gone, and create those of a
    second one."""
    selector = f"{names.LABEL_RUN}={run}"
    await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=grace_seconds)
    await wait_until(lambda: not there.pods(f"{run}-1-"))
    await create_all(there.client, renamed(templates, run, 2))


async def remove_all(there: Platform, run: str, members: int) -> None:
    """Delete the Pods of a second attempt once all of them run."""
    await wait_until(lambda: running(there, f"{run}-2-") == members)
    selector = f"{names.LABEL_RUN}={run}"
    await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=0)
    await wait_until(lambda: not there.pods(f"{run}-"))


def renamed(templates: Templates, run: str, attempt: int) -> list[dict[str, Any]]:
    """Return copies of these Pods for another attempt of a run."""
    return [
        {**pod, "metadata": {"name": names.pod_name(run, attempt, rank), "labels": {names.LABEL_RUN: run}}}
        for rank, pod in enumerate(templates)
    ]


async def _model_pods(there: Platform, size: Size) -> list[dict[str, Any]]:
    """Return the Pods that the controller creates for such a gang, without the fields that the API server adds."""
    await there.submit("model", spec_of(size.members, nodeSelector=POOL_LABEL))
    await there.runs("model", attempt=1)
    found = (await there.client.list(PODS, NAMESPACE, label_selector=f"{names.LABEL_RUN}=model")).items
    await there.client.delete(RUNS, "model", NAMESPACE)
    await wait_until(lambda: not there.pods("model-"))
    by_rank = sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_RANK]))
    return [{"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"]} for pod in by_rank]
