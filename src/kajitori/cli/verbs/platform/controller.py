"""`kaji controller`: the controller alone."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.process_options import (
    blobs_option,
    history_options,
    kubeconfig_options,
    log_options,
    members_start_options,
    policy_option,
    tls_options,
)


@click.command(epilog="\b\nExample:\n  kaji controller --kubeconfig ~/.kube/config --policy policy.yaml")
@kubeconfig_options
@policy_option
@blobs_option("else there is neither")
@history_options("else there is none")
@click.option(
    "-N", "--namespace", default="kajitori", show_default=True, metavar="NAME", help="Namespace of the leader's Lease."
)
@click.option("--identity", default="", metavar="NAME", help="Name in the Lease; default: host and process.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address for metrics and probes."
)
@click.option("--port", type=int, default=0, metavar="P", help="Port of metrics and probes; default: a free one.")
@tls_options
@members_start_options
@log_options("info")
def command(**options: Any) -> int | None:
    """Run the controller alone.

    It plans, starts and restarts runs. Several may run; one of them leads. It serves /metrics, /healthz and /readyz.
    """
    from kajitori.configuration.options.parts import ControllerOptions

    settings = ControllerOptions(**options)
    from kajitori.entrypoints.controller import controller

    return controller(settings)
