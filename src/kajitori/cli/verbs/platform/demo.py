"""`kaji demo`: a short story."""

from __future__ import annotations

from pathlib import Path

import click

from kajitori.cli.process_options import FILE, log_level_option


@click.command(epilog="\b\nExample:\n  kaji demo")
@click.option(
    "--data", type=FILE, metavar="DIR", help="Folder of its cluster; default: one that is removed at the end."
)
@click.option("--nodes", type=int, default=16, show_default=True, metavar="N", help="Simulated nodes.")
@click.option("--gpus", type=int, default=8, show_default=True, metavar="N", help="GPUs of each node.")
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end, until Ctrl-C.")
@log_level_option("error")
def command(data: Path | None, nodes: int, gpus: int, keep: bool, log_level: str) -> int | None:
    """See a training survive the loss of a member.

    Starts a cluster of its own on this machine, tells its story in about a minute, and takes everything down again.
    """
    from kajitori.configuration.options.own_cluster import DemoOptions

    folder = data.expanduser().absolute() if data is not None else None
    settings = DemoOptions(data=folder, nodes=nodes, gpus=gpus, keep=keep, log_level=log_level)
    from kajitori.entrypoints.demo import demo

    return demo(settings)
