"""`kaji install`: everything that a cluster needs for Kajitori."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option
from kajitori.cli.process_options import FILE, kubeconfig_options
from kajitori.cli.terminal import echo, say

if TYPE_CHECKING:
    from kajitori.install.checks import Finding
    from kajitori.install.settings import InstallSettings

F = TypeVar("F", bound=Callable[..., Any])


def installation_options(function: F) -> F:
    """Options that `kaji install` and `kaji upgrade` share."""
    settings = click.option(
        "--settings", type=FILE, metavar="FILE", help="Settings of the installation; default: those of the last call."
    )
    policy = click.option(
        "--policy", type=FILE, metavar="FILE", help="Policy file; default: the one in the cluster stays."
    )
    networks = click.option(
        "--networks", type=FILE, metavar="FILE", help="Address registry; default: the present one stays."
    )
    prefix = click.option("--image-prefix", metavar="PREFIX", help="Registry and path of both images.")
    gateway = click.option(
        "--gateway/--no-gateway",
        default=None,
        help="Verify ID tokens in the Web API and impersonate, if the API server cannot have your provider.",
    )
    wait = click.option(
        "--wait",
        "wait_seconds",
        type=int,
        default=300,
        show_default=True,
        metavar="SECONDS",
        help="Longest wait until all parts are ready; 0 does not wait.",
    )
    return kubeconfig_options(settings(policy(networks(prefix(gateway(wait(namespace_of_parts(function))))))))


def namespace_of_parts(function: F) -> F:
    """`--namespace`."""
    return click.option(
        "-N",
        "--namespace",
        default="",
        metavar="NAME",
        help="Namespace of the parts; default: the settings', or kajitori.",
    )(function)


@click.command(
    epilog="\b\nExamples:\n  kaji install --check\n"
    "  kaji install --image-prefix registry.example.org/ml --policy policy.yaml\n"
    "  kaji install --settings settings.yaml --dry-run -o yaml"
)
@installation_options
@click.option("--check", is_flag=True, help="Only look whether the cluster has what is needed.")
@click.option("--dry-run", is_flag=True, help="Only print what would be applied to a new cluster; asks none.")
@output_option("yaml", "json")
@click.pass_obj
def command(cli: Cli, /, check: bool, dry_run: bool, output: str | None, **options: Any) -> int:
    """Install Kajitori in a cluster, or check whether it can be.

    Applies definitions, roles, policies, Deployments, Services and certificates with your kubeconfig, in an order that
    works, and waits until all parts are ready. Calling it again repairs or changes an installation. --check makes
    nothing, shows what is fine, missing or in the way, and ends with 2 if something prevents the installation.
    """
    from kajitori.configuration.options.operators import InstallOptions

    if check and dry_run:
        raise click.UsageError("--check and --dry-run are two different questions: choose one")
    if output is not None and not (check or dry_run):
        raise click.UsageError("-o needs --dry-run or --check")
    settings = InstallOptions(**options)
    from kajitori.entrypoints.installation import installing, planning

    if dry_run:
        _print_objects(planning.rendered(settings), output or "yaml")
        say("Not shown: the Secrets with certificates and keys, which are made when this is applied.")
        return 0
    if check:
        return _print_findings(cli, installing.check(settings), output)
    installed = installing.install(settings, say)
    if settings.wait_seconds:
        say_done(installed)
    else:
        echo("Everything is applied. Whether it works was not waited for: kaji install --wait 300 does.")
    return 0


def say_done(settings: InstallSettings) -> None:
    """Print how to reach what was installed."""
    namespace, scheme = settings.namespace, "https" if settings.encrypts else "http"
    echo("Kajitori is installed. Let people use it: name teams in the policy and run kaji install --policy again, or")
    echo("  kubectl -n NAMESPACE create rolebinding ada --clusterrole kajitori-user --user ada")
    echo("Reach it from here:")
    echo(f"  kubectl -n {namespace} port-forward service/server 8600 &")
    if settings.tls.certificates in ("own", "certManager"):
        secret = "kajitori-tls -o jsonpath='{.data.ca\\.crt}'"
        echo(f"  kubectl -n {namespace} get secret {secret} | base64 -d >kajitori-ca.crt")
        echo("  export KAJI_CA=$PWD/kajitori-ca.crt")
    echo(f"  export KAJI_SERVER={scheme}://localhost:8600 KAJI_TOKEN=…  # your Kubernetes token")
    echo("  kaji gpus")


def _print_objects(objects: list[dict[str, Any]], form: str) -> None:
    from kajitori.cli.terminal import json_text
    from kajitori.install.parts.objects import as_yaml

    if form == "yaml":
        echo(as_yaml(objects), nl=False)
    else:
        echo(json_text({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))


def _print_findings(cli: Cli, found: list[Finding], output: str | None) -> int:
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.install.checks import State

    if output is not None:
        rows = [{"name": one.name, "state": str(one.state), "text": one.text, "wayOut": one.way_out} for one in found]
        print_document({"items": rows}, output)
    else:
        columns = [Column("CHECK"), Column("STATE", styled=True), Column("FOUND"), Column("WAY OUT")]
        print_table(
            cli, columns, [(finding.name, finding.state, finding.text, finding.way_out) for finding in found], cut=False
        )
    return 2 if any(finding.state is State.FAIL for finding in found) else 0
