"""`kaji policy render`, `audit` and `check -f`: the policy's rules for Pods that people create without Kajitori."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    complete_file,
    namespace_option,
    output_option,
    read_file,
    server_options,
)
from kajitori.cli.terminal import echo, say

if TYPE_CHECKING:
    from kajitori.core.policy.model import Policy


@click.command(
    epilog="\b\nExamples:\n  kaji policy render | kubectl apply --server-side -f -\n"
    "  kaji policy render policy.yaml --without-defaults"
)
@click.argument("file", metavar="[FILE]", required=False, shell_complete=complete_file)
@click.option("--without-defaults", is_flag=True, help="For API servers that cannot change Pods (before 1.36).")
@click.option("--only-gpu-nodes", is_flag=True, help="All nodes of the cluster have GPUs.")
@server_options
@click.pass_obj
def render(cli: Cli, file: str | None, without_defaults: bool, only_gpu_nodes: bool) -> None:
    """Print the admission policies by which the API server enforces the policy.

    They are for the sections `pods` and `security.runChanges` of the policy in force, or of FILE. `kaji up` and a
    controller with the role kajitori-policy-keeper apply them by themselves.
    """
    from kajitori.cli.terminal import yaml_text
    from kajitori.core.admission.enforced import enforced_policies
    from kajitori.core.admission.plain_pods.rules import Circumstances

    policy = policy_of(cli, file)
    circumstances = Circumstances(has_cpu_nodes=not only_gpu_nodes, is_completed=not without_defaults)
    objects = enforced_policies(policy, circumstances)
    if not objects:
        say("note: the policy has nothing for the API server to enforce: set pods.namespaces or security.runChanges")
    echo("---\n".join(yaml_text(body) for body in objects), nl=False)


@click.command(epilog="\b\nExamples:\n  kaji policy audit\n  kaji policy audit -N vision -o json")
@namespace_option("Look in this namespace only.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def audit(cli: Cli, namespace: str | None, output: str | None) -> None:
    """Show which existing Pods break the rules for everybody's Pods.

    They were created before the rules, or while these only warned. Nothing happens to them until they are created
    again.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table

    with cli.api() as api:
        answer = api.get("/v1/policy/pods", {"namespace": namespace} if namespace else {})
    if output is not None:
        print_document(answer, output)
        return
    items, namespaces = answer["items"], answer["namespaces"]
    if not namespaces:
        echo("The rules for other Pods apply nowhere (policy: pods.namespaces).")
        return
    where = f"in {len(namespaces)} namespaces" if len(namespaces) > 1 else f"in namespace {namespaces[0]}"
    if not items:
        echo(f"No Pod breaks a rule: {answer['pods']} Pods {where}.")
        return
    columns = (Column("NAMESPACE"), Column("OWNER"), Column("PODS", right=True), Column("RULE"), Column("FAULT"))
    rows = [
        (item["namespace"], item["owner"], str(item["pods"]), item["rule"], item["message"].rpartition(" [")[0])
        for item in items
    ]
    print_table(cli, columns, rows)
    say(f"{answer['brokenPods']} of {answer['pods']} Pods {where} would be refused if they were created now.")


def check_manifests(cli: Cli, file: str | None, manifests: Sequence[str], namespace: str | None, *, quiet: bool) -> int:
    """Check the Pods of manifests against the policy in force, or that of `file`; return the exit code."""
    from kajitori.core.admission.plain_pods.rules import Circumstances, applies_in, faults_of, rules_of

    policy = policy_of(cli, file)
    rules = rules_of(policy, Circumstances())
    usual = namespace or ("" if file is not None else cli.find_target().namespace) or "default"
    checked, broken = 0, 0
    for where, found in _pods_in(manifests):
        target = found.namespace or usual
        title = f"{where}: {found.kind} {found.name or '(without a name)'}"
        if not applies_in(policy, target):
            if not quiet:
                say(f"note: {title}: the rules do not apply in namespace {target}")
            continue
        checked += 1
        faults = faults_of(found.pod, rules)
        broken += bool(faults)
        for _, message in faults:
            say(f"{title}: {message}")
    if not quiet:
        echo(f"{checked} checked, {broken} would be refused." if checked else "Nothing to check.")
    return 2 if broken else 0


def policy_of(cli: Cli, file: str | None) -> Policy:
    """Return the policy of a file, or the one in force."""
    from kajitori.core.policy.file import parse_policy

    if file is not None:
        return parse_policy(read_file(file))
    with cli.api() as api:
        return parse_policy(api.get("/v1/policy")["policy"])


def _pods_in(files: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield each Pod of the files with the name of its file. Runs get a note, and other kinds nothing."""
    import yaml

    from kajitori.core.admission.plain_pods.manifests import pods_of
    from kajitori.core.naming.names import KIND
    from kajitori.errors import InvalidInput

    for file in files:
        try:
            documents = list(yaml.safe_load_all(read_file(file)))
            for document in documents:
                if isinstance(document, dict) and document.get("kind") == KIND:
                    say(f"note: {file}: a Run is checked by: kaji run --dry-run -f {file}")
                for found in pods_of(document):
                    yield file, found
        except (yaml.YAMLError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise InvalidInput.one("-f", f"{file}: {first}", hint="write manifests of Kubernetes in YAML") from error
