"""`kaji agent`: counts the traffic of a node's Pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kajitori.cli.process_options import FILE, insecure_http_option, log_options, policy_option, tls_options
from kajitori.cli.terminal import say

DATA = Path("/var/lib/kajitori-agent")

_EXAMPLES = "\b\nExamples:\n  kaji agent --pods /var/lib/kaji-node/network --policy policy.yaml\n"
_EXAMPLES += "  kaji agent --relay https://relay.kajitori:8601 --node gpu-00012\n  kaji agent uninstall"


def _data_option(function: Any) -> Any:
    text = "Folder of the counters; an agent that starts again has to get the same one."
    return click.option("--data", type=FILE, default=DATA, show_default=True, metavar="DIR", help=text)(function)


@click.group(epilog=_EXAMPLES, invoke_without_command=True)
@_data_option
@click.option("--pods", type=FILE, metavar="DIR", help="Folder with a file for each Pod; default: that of kaji node.")
@click.option("--relay", multiple=True, metavar="URL", help="A relay that knows this node's Pods; may be repeated.")
@click.option("--relay-token", type=FILE, metavar="FILE", help="File with the token for the relay.")
@click.option(
    "--relay-ca", type=FILE, metavar="FILE", help="Authority of the server's certificate (PEM); default: the system's."
)
@click.option("--node", envvar="KAJI_NODE", default="", metavar="NAME", help="Name of this node; default: $KAJI_NODE.")
@click.option("--report", multiple=True, metavar="URL", help="A Web API that is told totals; may be repeated.")
@click.option("--report-token", type=FILE, metavar="FILE", help="Token that identifies this agent to it.")
@click.option(
    "--report-ca", type=FILE, metavar="FILE", help="Authority of the server's certificate (PEM); default: the system's."
)
@click.option(
    "--telemetry/--no-telemetry",
    default=True,
    show_default=True,
    help="With --report: also report what members of runs use.",
)
@click.option("--dcgm", default="", metavar="URL", help="Metrics of this node's dcgm-exporter, for more GPU figures.")
@click.option(
    "--host-root", type=FILE, default="/", metavar="DIR", help="Folder where the node's own file system is mounted."
)
@insecure_http_option("Send tokens over plain HTTP, if something else encrypts.")
@policy_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address that serves /metrics.")
@click.option(
    "--port", type=int, default=9465, show_default=True, metavar="P", help="Port of the server; 0 takes a free one."
)
@tls_options
@click.option("--metrics-token", type=FILE, metavar="FILE", help="Token that readers of /metrics have to send.")
@log_options("info")
@click.pass_context
def command(context: click.Context, /, pods: Path | None, **options: Any) -> int | None:
    """Watch this node's Pods: their traffic and what members use.

    Traffic is bytes and packets, in and out, by the classes of addresses in policy's section traffic, for Prometheus
    and, with --report, for kaji traffic. With --report it also samples the members of runs, for kaji stats and kaji
    metrics. Needs root and nft. Killed and started again it loses nothing.
    """
    if context.invoked_subcommand is not None:
        return None
    from kajitori.cli.process_options import data_default
    from kajitori.configuration.options.nodes import AgentOptions

    if pods is None and not options["relay"]:
        pods = data_default().with_name("node") / "network"
    folder = pods.expanduser().absolute() if pods is not None else None
    settings = AgentOptions(pods=folder, **options)
    from kajitori.entrypoints.agent import agent

    return agent(settings)


@command.command(epilog="\b\nExample:\n  kaji agent uninstall")
@_data_option
def uninstall(data: Path) -> None:
    """Leave this node as it was before.

    The rules that count, and what was counted. Stop the agent first.
    """
    from kajitori.entrypoints.agent import remove

    removed = remove(data)
    say(f"Removed: {', '.join(removed)}." if removed else "There was nothing to remove.")
