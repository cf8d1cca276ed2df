"""Options of the verbs that start processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kajitori.configuration.sign_in import CLIENT_ID, SCOPES

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


def kubeconfig_options(function: F) -> F:
    """`--kubeconfig` and `--context`."""
    context = click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current one.")
    kubeconfig = click.option(
        "--kubeconfig",
        type=FILE,
        metavar="FILE",
        help="Kubeconfig of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own account.",
    )
    return kubeconfig(context(function))


def log_level_option(default: str) -> Callable[[F], F]:
    """`--log-level`."""
    return click.option(
        "--log-level", type=click.Choice(LOG_LEVELS), metavar="|".join(LOG_LEVELS), default=default, show_default=True
    )


def log_options(default: str) -> Callable[[F], F]:
    """`--log-level` and `--log-format`, for processes that run for long."""
    form = click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        metavar="|".join(LOG_FORMATS),
        default="text",
        show_default=True,
        help="json: one document a line.",
    )
    return lambda function: log_level_option(default)(form(function))


def engine_option(function: F) -> F:
    """`--engine`."""
    return click.option(
        "--engine",
        envvar="KAJI_ENGINE",
        default="auto",
        show_default=True,
        metavar="auto|podman|docker|process",
        help="Container engine for images; process: run programs of this machine instead. Default: $KAJI_ENGINE.",
    )(function)


def pod_network_option(function: F) -> F:
    """`--pod-network`."""
    return click.option(
        "--pod-network",
        default="host",
        show_default=True,
        metavar="host|namespace",
        help="namespace: each Pod on this machine gets an address of its own; as root only.",
    )(function)


def policy_option(function: F) -> F:
    """`--policy`."""
    return click.option("--policy", type=FILE, metavar="FILE", help="Policy file; read again when it changes.")(
        function
    )


def networks_option(function: F) -> F:
    """`--networks`."""
    return click.option(
        "--networks", type=FILE, metavar="FILE", help="Address registry of all clusters; read again when it changes."
    )(function)


def blobs_option(default: str) -> Callable[[F], F]:
    """Add `--blobs`. `default` says what happens without it."""
    return click.option(
        "--blobs", metavar="URL", help=f"Store of code and kept logs: file:///…, s3://…, az://…, gs://…; {default}."
    )


def history_options(default: str) -> Callable[[F], F]:
    """Add `--history` and `--history-password-file`. `default` says what happens without them."""

    def options(function: F) -> F:
        url = click.option(
            "--history",
            metavar="URL",
            help=f"Database of ended runs, usage and audit: sqlite:///FILE or postgresql://USER@HOST/NAME; {default}.",
        )
        password = click.option(
            "--history-password-file",
            type=FILE,
            metavar="FILE",
            help="File with the database's password; default: $KAJI_HISTORY_PASSWORD.",
        )
        return url(password(function))

    return options


def tls_options(function: F) -> F:
    """`--tls-cert` and `--tls-key`."""
    key = click.option("--tls-key", "key", type=FILE, metavar="FILE", help="Private key of the certificate (PEM).")
    certificate = click.option(
        "--tls-cert",
        "certificate",
        type=FILE,
        metavar="FILE",
        help="Serve HTTPS with this certificate (PEM); read again when it changes.",
    )
    return certificate(key(function))


def sign_in_options(function: F) -> F:
    """Add `--sign-in-issuer` and the options that belong to it."""
    issuer = click.option("--sign-in-issuer", metavar="URL", help="OpenID provider at which people sign in.")
    client = click.option(
        "--sign-in-client-id",
        default=CLIENT_ID,
        show_default=True,
        metavar="ID",
        help="Client ID of Kajitori at the provider.",
    )
    scopes = click.option(
        "--sign-in-scopes", default=SCOPES, metavar="WORDS", help="Scopes that the provider is asked for."
    )
    authority = click.option(
        "--sign-in-ca", type=FILE, metavar="FILE", help="Authority of the provider's certificate (PEM)."
    )
    secret = click.option(
        "--sign-in-secret", type=FILE, metavar="FILE", help="File with the client's secret, if it has one."
    )
    url = click.option(
        "--sign-in-url", metavar="URL", help="URL of this server for browsers; default: the address that they used."
    )
    key = click.option(
        "--sign-in-key", type=FILE, metavar="FILE", help="Key for browsers' cookies; default: a new one at each start."
    )
    programs = click.option(
        "--programs-url",
        metavar="URL",
        help="Address at which browsers open programs of runs, such as https://*.runs.example.org.",
    )
    return issuer(client(scopes(authority(secret(url(key(programs(function))))))))


def members_start_options(function: F) -> F:
    """`--member-image`, `--member-server` and `--member-ca`."""
    image = click.option(
        "--member-image", metavar="IMAGE", help="Image of members' first step, if the policy sets no start.image."
    )
    server = click.option("--member-server", metavar="URL", help="URL of the Web API for that step.")
    authority = click.option(
        "--member-ca", type=FILE, metavar="FILE", help="Authority of the Web API's certificate (PEM) for that step."
    )
    return image(server(authority(function)))


def insecure_http_option(text: str) -> Callable[[F], F]:
    """`--insecure-http`."""
    return click.option("--insecure-http", is_flag=True, help=text)


def limit_option(function: F) -> F:
    """`--limit`, which may be repeated."""
    return click.option(
        "--limit",
        multiple=True,
        metavar="NAME=VALUE",
        help="Limit of what a caller may use; docs/operate/deploying.md lists the names.",
    )(function)


def gpu_type_option(function: F) -> F:
    """`--gpu-type`, which may be repeated."""
    return click.option(
        "--gpu-type", multiple=True, metavar="TYPE", help="GPU type of the simulated nodes; several are spread evenly."
    )(function)


def data_default() -> Path:
    """Return the default data folder of a local cluster."""
    import platformdirs

    return Path(platformdirs.user_data_dir("kajitori")) / "cluster"
