"""`kaji server`: the Web API alone."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.process_options import (
    FILE,
    blobs_option,
    history_options,
    insecure_http_option,
    kubeconfig_options,
    limit_option,
    log_options,
    members_start_options,
    networks_option,
    policy_option,
    sign_in_options,
    tls_options,
)
from kajitori.core.naming.names import AGENT_ACCOUNT


@click.command(epilog="\b\nExample:\n  kaji server --kubeconfig ~/.kube/config --policy policy.yaml")
@kubeconfig_options
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=int, default=8600, show_default=True, metavar="P", help="Port of the server; 0 takes a free one."
)
@policy_option
@networks_option
@blobs_option("else there is neither")
@history_options("else there is none")
@click.option(
    "-N", "--namespace", default="default", show_default=True, metavar="NAME", help="Namespace of runs that name none."
)
@click.option(
    "--controller-namespace",
    default="kajitori",
    show_default=True,
    metavar="NAME",
    help="Namespace of the controller's Lease.",
)
@click.option(
    "--agent-account",
    default=AGENT_ACCOUNT,
    show_default=True,
    metavar="NS/NAME",
    help="Service account of agents that tell traffic.",
)
@click.option(
    "--gateway-account",
    metavar="NS/NAME",
    help="Act for people by impersonation, as this service account; for API servers that cannot have their provider.",
)
@click.option(
    "--gateway-authentication",
    type=FILE,
    metavar="FILE",
    help="AuthenticationConfiguration with the providers whose ID tokens it accepts.",
)
@tls_options
@insecure_http_option("Serve plain HTTP to other machines, if something else encrypts.")
@limit_option
@members_start_options
@sign_in_options
@log_options("info")
def command(**options: Any) -> int | None:
    """Run the Web API alone.

    It keeps no state: several may run side by side. Callers authenticate with their own Kubernetes tokens.
    """
    from kajitori.configuration.options.parts import ServerOptions

    settings = ServerOptions(**options)
    from kajitori.entrypoints.server import server

    return server(settings)
