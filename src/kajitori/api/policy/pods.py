"""The policy's rules for everybody's Pods: which existing Pods break one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.api.context import Api
from kajitori.api.rights import User
from kajitori.api.views.configuration import BrokenRule, PodAudit
from kajitori.core.admission.enforced import enforced_policies
from kajitori.core.admission.plain_pods.pod_view import PodView
from kajitori.core.admission.plain_pods.rules import Circumstances, Rule, applies_in, faults_of, rules_of
from kajitori.core.policy.model import Policy
from kajitori.errors import Forbidden, NotFound
from kajitori.kube.resources import NAMESPACES, VALIDATING_POLICIES
from kajitori.kube.resources import PODS as POD_OBJECTS

_EXAMPLES = 3
"""Number of Pods that are named for each broken rule."""


async def audit(api: Api, user: User, policy: Policy, namespace: str | None) -> PodAudit:
    """Return which Pods that exist would be refused if they were created now, with the caller's rights.

    `namespace`: only Pods there. Raises Forbidden if the caller may not list them.
    """
    rules = _rules(api, policy)
    chosen = await _namespaces(api, user, policy, namespace)
    items, pods, broken_pods = list[BrokenRule](), 0, 0
    for name in chosen:
        listed = (await user.client.list(POD_OBJECTS, name)).items
        broken_rules, broken = await asyncio.to_thread(_broken_rules, name, listed, rules)
        items += broken_rules
        pods += len(listed)
        broken_pods += broken
    return PodAudit(
        namespaces=chosen, rules=[rule.name for rule in rules], pods=pods, broken_pods=broken_pods, items=items
    )


async def newly_broken(api: Api, user: User, before: Policy, after: Policy) -> list[BrokenRule]:
    """Return the rules that existing Pods break under the policy `after`, but do not break under `before`.

    Raises Forbidden if the caller may not list the Pods.
    """
    old_rules, new_rules = _rules(api, before), _rules(api, after)
    items = list[BrokenRule]()
    for name in await _namespaces(api, user, after, None):
        listed = (await user.client.list(POD_OBJECTS, name)).items
        broken, _ = await asyncio.to_thread(_broken_rules, name, listed, new_rules)
        broken_before = set[tuple[str, str]]()
        if broken and applies_in(before, name):
            old, _ = await asyncio.to_thread(_broken_rules, name, listed, old_rules)
            broken_before = {(item.owner, item.rule) for item in old}
        items += [item for item in broken if (item.owner, item.rule) not in broken_before]
    return items


def _rules(api: Api, policy: Policy) -> Sequence[Rule]:
    return rules_of(policy, Circumstances(has_cpu_nodes=api.cluster.has_cpu_nodes()))


async def _namespaces(api: Api, user: User, policy: Policy, only: str | None) -> list[str]:
    """Return the namespaces in which the rules apply, sorted."""
    if only is not None:
        return [only] if applies_in(policy, only) else []
    if not policy.pods.namespaces:
        return []
    names = [item["metadata"]["name"] for item in (await user.client.list(NAMESPACES)).items]
    return sorted(name for name in names if applies_in(policy, name))


def _broken_rules(
    namespace: str, pods: Sequence[Mapping[str, Any]], rules: Sequence[Rule]
) -> tuple[list[BrokenRule], int]:
    """Return the rules that Pods of a namespace break, and how many Pods break one. Thousands of Pods take seconds, so
    this runs in a thread."""
    pods_by_rule: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    broken_pods = 0
    for pod in pods:
        faults = _faults(pod, rules)
        broken_pods += bool(faults)
        for rule, message in faults:
            pods_by_rule[_owner_of(pod), rule, message].append(pod["metadata"]["name"])
    return [
        BrokenRule(
            namespace=namespace, owner=owner, rule=rule, message=message, pods=len(names), examples=names[:_EXAMPLES]
        )
        for (owner, rule, message), names in sorted(pods_by_rule.items())
    ], broken_pods


def _faults(pod: Mapping[str, Any], rules: Sequence[Rule]) -> list[tuple[str, str]]:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return []
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner["kind"] == "Node" for owner in owners):
        return []  # a Pod from a file of its node, which no API server could refuse
    from_daemon_set = any(owner["kind"] == "DaemonSet" for owner in owners)
    return [(rule, message) for rule, message in faults_of(PodView(pod["spec"], from_daemon_set), rules)]


def _owner_of(pod: Mapping[str, Any]) -> str:
    """Return the kind and name of the object that made a Pod: `Deployment web`; `Pod` if nothing did."""
    owners = pod["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return f"Pod {pod['metadata']['name']}"
    hashed = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    if owner["kind"] == "ReplicaSet" and hashed and owner["name"].endswith(f"-{hashed}"):
        return f"Deployment {owner['name'].removesuffix(f'-{hashed}')}"
    return f"{owner['kind']} {owner['name']}"


async def enforcement_findings(api: Api, user: User, policy: Policy) -> list[str]:
    """Return why the API server does not enforce the policy as it should; nothing if the caller may not know."""
    findings = []
    if policy.pods.namespaces and policy.gpu.cpu_runs_on_gpu_nodes != "always" and "gpuNodes" in policy.pods.rules:
        labels = policy.gpu.type_labels
        bare = [
            node.name
            for node in api.cluster.table().nodes
            if node.has_gpus and not any(node.labels.get(label) for label in labels)
        ]
        if bare:
            more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
            findings.append(
                f"pods.rules: {bare[0]}{more} have GPUs but none of the labels {', '.join(labels)}, so nothing keeps "
                "other people's Pods without GPUs off"
            )
    try:
        missing = [
            name for name, forms in _enforced_forms(api, policy).items() if not await _is_stored(user, name, forms)
        ]
    except Forbidden:
        return findings
    if missing:
        findings.append(
            f"the API server does not enforce the policy, because {', '.join(missing)} is missing or differs: "
            "kaji policy render | kubectl apply --server-side -f -"
        )
    return findings


def _enforced_forms(api: Api, policy: Policy) -> dict[str, list[Mapping[str, Any]]]:
    """Return the validating policies by name, in the forms for API servers that can and that cannot change Pods."""
    forms: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for is_completed in (True, False):
        for body in enforced_policies(policy, Circumstances(api.cluster.has_cpu_nodes(), is_completed)):
            if body["kind"] == VALIDATING_POLICIES.kind:
                forms[body["metadata"]["name"]].append(body["spec"])
    return forms


async def _is_stored(user: User, name: str, forms: Sequence[Mapping[str, Any]]) -> bool:
    try:
        stored = (await user.client.get(VALIDATING_POLICIES, name)).get("spec") or {}
    except NotFound:
        return False
    parts = ("variables", "matchConditions", "validations")
    return any(all(stored.get(part) == form.get(part) for part in parts) for form in forms)
