"""Evidence about the clients of an API server: DaemonSets, the rights of their accounts, and open watches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kajitori.core.protection.api_clients import DaemonSet
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, DAEMON_SETS, NODES, Resource

WATCHES_METRIC = "apiserver_longrunning_requests"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The findings; `notes` name what could not be read."""

    nodes: int
    kubelets: int
    """Number of nodes with a kubelet that reports their state."""
    daemon_sets: tuple[DaemonSet, ...]
    open_watches: Mapping[str, int]
    """Number of open watches on all objects of a kind, by kind."""
    notes: tuple[str, ...]


async def evidence_of(client: KubeClient) -> Evidence:
    """Read everything from the API server once, in pages. Raises only if nodes cannot be listed."""
    nodes = kubelets = 0
    async for page in client.list_pages(NODES, type=dict[str, Any]):
        if page.first:
            nodes = kubelets = 0
        nodes += len(page.items)
        kubelets += sum(map(_has_kubelet, page.items))
    notes: list[str] = []

    async def all_of(resource: Resource) -> list[dict[str, Any]]:
        try:
            return (await client.list(resource)).items
        except KajitoriError as error:
            notes.append(f"{resource.plural} are not known: {error.message}")
            return []

    sets = await all_of(DAEMON_SETS)
    reads = readable_by_account(await all_of(CLUSTER_ROLES), await all_of(CLUSTER_ROLE_BINDINGS)) if sets else {}
    try:
        watches = open_watches_in((await client.request("GET", "/metrics")).decode(errors="replace"))
    except KajitoriError as error:
        notes.append(f"open watches are not known: {error.message}")
        watches = {}
    return Evidence(
        nodes, kubelets, tuple(_daemon_set(daemon_set, reads) for daemon_set in sets), watches, tuple(notes)
    )


def _has_kubelet(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] != "Unknown" for condition in conditions)


def open_watches_in(metrics: str) -> dict[str, int]:
    """Return the number of open watches on all objects of a kind, by kind, from an API server's `/metrics`."""
    lines = "".join(f"{line}\n" for line in metrics.splitlines() if line.startswith(f"{WATCHES_METRIC}{{"))
    found: dict[str, int] = defaultdict(int)
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("verb") == "WATCH" and labels.get("scope") == "cluster" and sample.value:
                group = labels.get("group")
                found[f"{labels['resource']}.{group}" if group else labels["resource"]] += int(sample.value)
    return dict(found)


def readable_by_account(
    roles: Iterable[Mapping[str, Any]], bindings: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str], frozenset[str]]:
    """Return the kinds that each service account may list or watch cluster-wide, by namespace and name. An empty name
    stands for all accounts of the namespace, an empty namespace for all of the cluster."""
    by_role = {role["metadata"]["name"]: _read_by(role.get("rules") or ()) for role in roles}
    found: dict[tuple[str, str], frozenset[str]] = {}
    for binding in bindings:
        kinds = by_role.get(binding["roleRef"]["name"], frozenset())
        for subject in binding.get("subjects") or ():
            key = _account_of(subject)
            if kinds and key is not None:
                found[key] = found.get(key, frozenset()) | kinds
    return found


def _read_by(rules: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    found: set[str] = set()
    for rule in rules:
        if rule.get("resourceNames") or not {"list", "watch", "*"} & set(rule.get("verbs", ())):
            continue
        found.update(rule.get("resources", ()))
    return frozenset(found)


def _account_of(subject: Mapping[str, Any]) -> tuple[str, str] | None:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "ServiceAccount":
        return subject.get("namespace", ""), name
    prefix = "system:serviceaccounts"
    if kind == "Group" and name in (prefix, "system:authenticated"):
        return "", ""
    if kind == "Group" and name.startswith(f"{prefix}:"):
        return name.removeprefix(f"{prefix}:"), ""
    return None


def _daemon_set(found: Mapping[str, Any], reads: Mapping[tuple[str, str], frozenset[str]]) -> DaemonSet:
    meta = found["metadata"]
    spec = found["spec"]["template"]["spec"]
    account, namespace = spec.get("serviceAccountName") or "default", meta["namespace"]
    nothing: frozenset[str] = frozenset()
    kinds = (
        reads.get((namespace, account), nothing) | reads.get((namespace, ""), nothing) | reads.get(("", ""), nothing)
    )
    if spec.get("automountServiceAccountToken") is False:
        kinds = nothing
    return DaemonSet(
        namespace,
        meta["name"],
        account,
        (found.get("status") or {}).get("desiredNumberScheduled", 0),
        ("*",) if "*" in kinds else tuple(sorted(kinds)),
    )
