"""`kaji node`: this machine as a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kajitori.cli.process_options import (
    FILE,
    engine_option,
    insecure_http_option,
    kubeconfig_options,
    log_options,
    pod_network_option,
)
from kajitori.cli.terminal import say

_EXAMPLES = "\b\nExamples:\n  kaji node --kubeconfig node.kubeconfig --data /var/lib/kaji-node --label zone=a\n"
_EXAMPLES += "  kaji node uninstall --data /var/lib/kaji-node"


def _data_option(function: Any) -> Any:
    text = "Folder for Pods, logs and identity; default: one in your home."
    return click.option("--data", type=FILE, metavar="DIR", help=text)(function)


def _folder(data: Path | None) -> Path:
    from kajitori.cli.process_options import data_default

    return (data or data_default().with_name("node")).expanduser().absolute()


@click.group(epilog=_EXAMPLES, invoke_without_command=True)
@kubeconfig_options
@_data_option
@click.option("--name", default="", metavar="NAME", help="Name of the node; default: this machine's.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the node.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="Taint of a new node.")
@click.option("--cpus", metavar="N", help="Cores of the node; default: the machine's.")
@click.option("--memory", metavar="SIZE", help="Memory of the node; default: the machine's.")
@click.option("--gpus", type=int, metavar="N", help="GPUs of the node; default: the machine's.")
@click.option("--gpu-type", default="", metavar="TYPE", help="Type of the GPUs; default: the machine's.")
@click.option(
    "--address",
    default="",
    metavar="IP",
    help="Address of the node; default: the one from which it reaches the API server.",
)
@click.option(
    "--port",
    type=int,
    default=10250,
    show_default=True,
    metavar="P",
    help="Port of the kubelet's API; 0 takes a free one.",
)
@click.option(
    "--client-ca",
    type=FILE,
    metavar="FILE",
    help="Authority of the API server's client certificates; default: the one that it publishes.",
)
@engine_option
@pod_network_option
@click.option(
    "--pod-cidr",
    default="",
    metavar="RANGE",
    help="Range of the Pods' addresses; default: the one that the cluster assigns.",
)
@click.option("--max-pods", type=int, default=110, show_default=True, metavar="N")
@click.option(
    "--max-processes",
    type=int,
    metavar="N",
    help="Processes that each container may have; 0: no limit. Default: 15 % of the machine's.",
)
@click.option("--report", multiple=True, metavar="URL", help="Report telemetry of runs to this Web API.")
@click.option("--report-token", type=FILE, metavar="FILE", help="File with the token for that Web API.")
@click.option(
    "--report-ca", type=FILE, metavar="FILE", help="Authority of the server's certificate (PEM); default: the system's."
)
@insecure_http_option("Send the token over plain HTTP, if something else encrypts.")
@log_options("info")
@click.pass_context
def command(context: click.Context, /, data: Path | None, **options: Any) -> int | None:
    """Make this machine a node.

    A kubelet that runs Pods through Podman or Docker, else as processes. Killed and started again it adopts them.
    """
    if context.invoked_subcommand is not None:
        return None
    from kajitori.configuration.options.nodes import NodeOptions

    settings = NodeOptions(data=_folder(data), **options)
    from kajitori.entrypoints.node import node

    return node(settings)


@command.command(epilog="\b\nExample:\n  kaji node uninstall --data /var/lib/kaji-node")
@_data_option
@click.option("--force", is_flag=True, help="End containers that still run.")
def uninstall(data: Path | None, force: bool) -> None:
    """Leave this machine as it was before.

    Pods' networks, bridge and nftables table, control groups, and the folder with Pods and logs. Stop the kubelet
    first. The Node itself is deleted with kubectl.
    """
    from kajitori.entrypoints.node import remove

    removed = remove(_folder(data), force)
    say(f"Removed: {', '.join(removed)}." if removed else "There was nothing to remove.")
