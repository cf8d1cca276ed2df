"""`kaji up`: the whole platform on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kajitori.cli.process_options import (
    FILE,
    blobs_option,
    data_default,
    engine_option,
    gpu_type_option,
    history_options,
    insecure_http_option,
    limit_option,
    log_options,
    networks_option,
    pod_network_option,
    policy_option,
    sign_in_options,
)


@click.command(
    epilog="\b\nExamples:\n  kaji up\n  kaji up --nodes 16 --gpus 8 --gpu-type h100 --gpu-type a100\n"
    "  kaji up --kubeconfig ~/.kube/config    # serve an existing cluster"
)
@click.option("--data", type=FILE, metavar="DIR", help="Folder for everything that is kept; default: one in your home.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=int, default=0, metavar="P", help="Port of the Web API; default: a free one.")
@click.option("--kube-port", type=int, default=0, metavar="P", help="Port of the Kubernetes API; default: a free one.")
@click.option("--nodes", type=int, default=0, metavar="N", help="Simulated nodes beside this machine.")
@click.option("--gpus", type=int, default=8, show_default=True, metavar="N", help="GPUs of each simulated node.")
@gpu_type_option
@engine_option
@pod_network_option
@click.option("--no-kubelet", is_flag=True, help="Do not use this machine as a node.")
@click.option("--memory", is_flag=True, help="Keep objects in memory only.")
@click.option("--repair", is_flag=True, help="First save what can be read of damaged objects.")
@click.option(
    "--cluster-cidr",
    default="10.244.0.0/16",
    show_default=True,
    metavar="RANGE",
    help="Range from which nodes get their Pod ranges.",
)
@click.option(
    "--node-cidr-mask-size",
    type=int,
    default=24,
    show_default=True,
    metavar="BITS",
    help="Prefix length of each node's range.",
)
@click.option("--kubeconfig", type=FILE, metavar="FILE", help="Serve this cluster instead of an embedded one.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current one.")
@policy_option
@networks_option
@blobs_option("else a folder beside the rest")
@history_options("else a file beside the rest")
@click.option(
    "-N", "--namespace", default="default", show_default=True, metavar="NAME", help="Namespace of runs that name none."
)
@insecure_http_option("With --host: plain HTTP instead of TLS.")
@limit_option
@click.option(
    "--authentication-config", type=FILE, metavar="FILE", help="Providers whose ID tokens the API server accepts."
)
@sign_in_options
@log_options("warning")
def command(data: Path | None, no_kubelet: bool, memory: bool, gpu_type: tuple[str, ...], **options: Any) -> int | None:
    """Start the whole platform on this machine.

    An embedded Kubernetes, the Web API and the controller in one process, with this machine as a node. Other kaji
    commands find it by themselves; kubectl uses DIR/kubeconfig. Runs until Ctrl-C; a later kaji up goes on.
    """
    from kajitori.configuration.options.own_cluster import UpOptions

    folder = (data or data_default()).expanduser().absolute()
    settings = UpOptions(data=folder, kubelet=not no_kubelet, in_memory=memory, gpu_type=gpu_type, **options)
    from kajitori.cli.terminal import say
    from kajitori.client.target import others_that_run
    from kajitori.configuration.cluster_file import claimed

    if others := others_that_run(folder):
        say(f"note: another cluster runs in {', '.join(map(str, others))}; commands ask which one they are to use")
        say(f"      choose this one: kaji context use {folder}")
    with claimed(folder):  # first, so that commands know of the cluster while its libraries are imported
        from kajitori.entrypoints.up import up

        return up(settings)
