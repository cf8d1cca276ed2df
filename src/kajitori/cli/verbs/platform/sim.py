"""`kaji sim`: simulated nodes."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.process_options import gpu_type_option, kubeconfig_options, log_options


@click.command(epilog="\b\nExample:\n  kaji sim --kubeconfig kubeconfig --nodes 7500 --gpus 8 --gpu-type h100")
@kubeconfig_options
@click.option("--nodes", type=int, required=True, metavar="N", help="Number of simulated nodes.")
@click.option("--prefix", default="sim-", show_default=True, metavar="TEXT", help="Beginning of the nodes' names.")
@click.option("--first", type=int, default=1, show_default=True, metavar="N", help="Number of the first node.")
@click.option("--gpus", type=int, default=0, show_default=True, metavar="N", help="GPUs of each node.")
@gpu_type_option
@click.option("--cpus", default="32", show_default=True, metavar="N", help="Cores of each node.")
@click.option("--memory", default="256Gi", show_default=True, metavar="SIZE", help="Memory of each node.")
@click.option("--max-pods", type=int, default=110, show_default=True, metavar="N")
@click.option(
    "--heartbeat",
    "heartbeat_seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two heartbeats of a node; 0 sends none.",
)
@click.option(
    "--untaint", "remove_not_ready_taint", is_flag=True, help="For clusters without a node lifecycle controller."
)
@click.option("--delete-nodes", "delete_nodes_at_stop", is_flag=True, help="Remove the Node objects at the end.")
@log_options("info")
def command(**options: Any) -> int | None:
    """Add simulated nodes to a cluster.

    Their Pods run and end as their annotations say; thousands fit in one process.
    """
    from kajitori.configuration.options.nodes import SimOptions

    settings = SimOptions(**options)
    from kajitori.entrypoints.sim import sim

    return sim(settings)
