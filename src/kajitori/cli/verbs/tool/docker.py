"""`kaji docker`: Docker's own client, and programs that use it, on the cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, server_options
from kajitori.cli.process_options import FILE, log_options

CONTEXT = "kaji"


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  kaji docker &\n  kaji docker context\n"
    "  docker run --rm python:3.12 python3 -c 'print(6*7)'\n"
    "  docker run -d --gpus 8 --label kaji.replicas=4 --name bert registry/bert:3",
)
@click.option("--socket", type=FILE, metavar="PATH", help="Unix socket to serve; default: one that only you can open.")
@click.option("--tcp", default="", metavar="HOST:PORT", help="Serve TLS instead, for clients with certificates.")
@click.option("--tls-cert", "certificate", type=FILE, metavar="FILE", help="Certificate for --tcp (PEM).")
@click.option("--tls-key", "key", type=FILE, metavar="FILE", help="Private key of the certificate (PEM).")
@click.option(
    "--tls-client-ca",
    "client_authority",
    type=FILE,
    metavar="FILE",
    help="Authority of the clients' certificates (PEM).",
)
@namespace_option("Namespace of the containers; default: that of the server.")
@log_options("warning")
@server_options
@click.pass_context
def command(ctx: click.Context, /, socket: Path | None, namespace: str | None, **options: Any) -> int | None:
    """Let Docker's own client work on the cluster.

    Serves Docker's Engine API on a socket of yours. Everything is done as you, through the Web API: a container is a
    run, and docker run --gpus 8 --label kaji.replicas=4 is a gang. Nothing is kept here, so it may be ended and started
    at any time. docs/docker.md says what each docker command does.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from kajitori.entrypoints.docker import DockerOptions, serve

    cli: Cli = ctx.obj
    target = cli.find_target()
    if namespace:
        target = replace(target, namespace=namespace)
    return serve(DockerOptions(socket=_socket(socket), is_usual_socket=socket is None, **options), target)


@command.command("context", epilog="\b\nExamples:\n  kaji docker context\n  docker context use default    # back again")
@click.option("--name", default=CONTEXT, show_default=True, metavar="NAME", help="Name of the context.")
@click.option("--socket", type=FILE, metavar="PATH", help="Socket of kaji docker, if it is not the usual one.")
@click.option("--no-use", is_flag=True, help="Make the context, and do not choose it.")
def context(name: str, socket: Path | None, no_use: bool) -> int:
    """Make a context for Docker's client, and choose it.

    From then on plain docker commands go to kaji docker. The context is made with Docker's own command.
    """
    import shutil
    import subprocess

    from kajitori.cli.terminal import say
    from kajitori.errors import Unsupported

    docker = shutil.which("docker")
    path = _socket(socket)
    if docker is None:
        raise Unsupported("docker is not installed here", hint=f"or tell a program: export DOCKER_HOST=unix://{path}")
    known = subprocess.run([docker, "context", "inspect", name], capture_output=True).returncode == 0
    endpoint = ["--docker", f"host=unix://{path}", "--description", "Kajitori's cluster, through kaji docker"]
    verb = "update" if known else "create"
    done = subprocess.run([docker, "context", verb, name, *endpoint], stdout=subprocess.DEVNULL)
    if done.returncode == 0 and not no_use:
        done = subprocess.run([docker, "context", "use", name], stdout=subprocess.DEVNULL)
    if done.returncode == 0:
        say(f"docker uses {path} now" if not no_use else f"docker --context {name} uses {path}")
        if not path.exists():
            say("start the other end: kaji docker")
    return done.returncode


def _socket(path: Path | None) -> Path:
    if path is not None:
        return path.expanduser().absolute()
    import os
    import warnings

    import platformdirs

    from kajitori.cli.terminal import say

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", platformdirs.RuntimeDirWarning)
        folder = Path(platformdirs.user_runtime_dir("kajitori"))
    if os.environ.get("XDG_RUNTIME_DIR"):  # otherwise the warning says that it is not set
        for one in caught:
            say(f"note: ${one.message}")
    return folder / "docker.sock"
