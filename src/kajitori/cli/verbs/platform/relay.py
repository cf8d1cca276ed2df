"""`kaji relay`: the watch cache between node agents and the API server."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.process_options import (
    FILE,
    insecure_http_option,
    kubeconfig_options,
    log_options,
    tls_options,
)


@click.command(
    epilog="\b\nExample:\n  kaji relay --host 0.0.0.0 --agent-account kajitori/kajitori-agent "
    "--tls-cert tls.crt --tls-key tls.key"
)
@kubeconfig_options
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=int, default=8601, show_default=True, metavar="P", help="Port of the server; 0 takes a free one."
)
@click.option(
    "--agent-account",
    metavar="NS/NAME",
    help="Agents' service account: each shows its own token, and is told its node.",
)
@click.option(
    "--token-file", type=FILE, metavar="FILE", help="File with one token for all agents, instead of --agent-account."
)
@tls_options
@insecure_http_option("Serve plain HTTP to other machines, if something else encrypts.")
@log_options("info")
def command(**options: Any) -> int | None:
    """Tell agents about their nodes' Pods, without the API server.

    It watches Pods and Runs once, and tells each node its own. While the API server is away it goes on with what it
    knows, and says how old that is. Several may run side by side.
    """
    from kajitori.configuration.options.parts import RelayOptions

    settings = RelayOptions(**options)
    from kajitori.entrypoints.relay import relay

    return relay(settings)
