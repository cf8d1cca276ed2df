"""`kaji sim`: simulated nodes in an existing cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kajitori.configuration.options.nodes import SimOptions
from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.embedded.simulator.behaviour import PREFIX
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.process import GPU_TYPE_LABEL, existing, node_name, run_until_told, stop_signal, supervise

HEARTBEATS_PER_SECOND = 250
"""Largest number of heartbeats of all simulated nodes of `kaji up`, because one process also does all other work."""
SHORTEST_HEARTBEAT_SECONDS = 10.0
HEARTBEATS_IN_GRACE = 4
LABEL_OF_UP = f"{PREFIX}of-kaji-up"
"""Label of the simulated nodes of `kaji up`. The next `kaji up` removes those that it does not simulate."""


def sim(options: SimOptions) -> int:
    """Run simulated nodes in an existing cluster."""

    async def work() -> None:
        stop = stop_signal()
        async with existing(options.kubeconfig, options.context) as client:
            pools = [("simulated nodes", SimulatedNodes(client, pool).run) for pool in pools_of(options)]
            say(f"{options.nodes} simulated nodes.")
            await supervise(pools, stop)

    return run_until_told(work(), options)


def heartbeat_seconds(nodes: int) -> float:
    """Return the interval at which each simulated node of `kaji up` renews its Lease: 10 s up to 2,500 nodes."""
    return max(SHORTEST_HEARTBEAT_SECONDS, nodes / HEARTBEATS_PER_SECOND)


def grace_seconds(heartbeat_seconds: float) -> float:
    """Return the time without a heartbeat after which a node counts as silent: four intervals."""
    return HEARTBEATS_IN_GRACE * heartbeat_seconds


def pools_of(options: UpOptions | SimOptions) -> list[SimSettings]:
    """Return one pool of simulated nodes per GPU type, with the nodes spread evenly."""
    types: Sequence[str] = options.gpu_type or (("h100",) if options.gpus else ("",))
    pools = []
    for index, gpu_type in enumerate(types):
        count = options.nodes // len(types) + (index < options.nodes % len(types))
        if not count:
            continue
        pool = SimSettings(
            count=count,
            prefix=f"{node_name(gpu_type)}-" if gpu_type else "cpu-",
            digits=len(str(count)),
            gpus=options.gpus,
            labels={GPU_TYPE_LABEL: gpu_type} if gpu_type else {},
            pod_network=10 + index,
        )
        if isinstance(options, SimOptions):
            pool = replace(
                pool,
                prefix=options.prefix if len(types) == 1 else f"{options.prefix}{gpu_type}-",
                digits=5,
                first=options.first,
                cpu=options.cpus,
                memory=options.memory,
                max_pods=options.max_pods,
                heartbeat_seconds=options.heartbeat_seconds,
                remove_not_ready_taint=options.remove_not_ready_taint,
                delete_nodes_at_stop=options.delete_nodes_at_stop,
            )
        else:
            interval = heartbeat_seconds(options.nodes)
            pool = replace(
                pool,
                labels={**pool.labels, LABEL_OF_UP: "true"},
                heartbeat_seconds=interval,
                lease_seconds=round(grace_seconds(interval)),
            )
        pools.append(pool)
    return pools
