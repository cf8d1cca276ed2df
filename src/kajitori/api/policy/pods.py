"""Everybody's Pods beside the policy's rules for them: which of those in the cluster break one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.api.auth import User
from kajitori.api.context import Api
from kajitori.api.views.configuration import BrokenRule, PodAudit
from kajitori.core.admission.plain_pods.policies import PODS, pod_policies
from kajitori.core.admission.plain_pods.rules import Circumstances, PodView, Rule, applies_in, faults_of, rules_of
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
    rules = rules_of(policy, Circumstances(has_cpu_nodes=api.cluster.has_cpu_nodes()))
    chosen = await _namespaces(api, user, policy, namespace)
    found: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    pods, broken = 0, 0
    for name in chosen:
        for pod in (await user.client.list(POD_OBJECTS, name)).items:
            faults = await asyncio.to_thread(_faults, pod, rules)
            pods += 1
            broken += bool(faults)
            for rule, message in faults:
                found[name, _owner_of(pod), rule, message].append(pod["metadata"]["name"])
    items = [
        BrokenRule(
            namespace=where, owner=owner, rule=rule, message=message, pods=len(names), examples=names[:_EXAMPLES]
        )
        for (where, owner, rule, message), names in sorted(found.items())
    ]
    return PodAudit(namespaces=chosen, rules=[rule.name for rule in rules], pods=pods, broken_pods=broken, items=items)


async def _namespaces(api: Api, user: User, policy: Policy, only: str | None) -> list[str]:
    """Return the namespaces in which the rules apply, sorted."""
    if only is not None:
        return [only] if applies_in(policy, only) else []
    if not policy.pods.namespaces:
        return []
    names = [item["metadata"]["name"] for item in (await user.client.list(NAMESPACES)).items]
    return sorted(name for name in names if applies_in(policy, name))


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
    """Return why the policy's rules for Pods are not in force as they should be; nothing if the caller may not know."""
    if not policy.pods.namespaces:
        return []
    findings = []
    if policy.gpu.cpu_runs_on_gpu_nodes != "always" and "gpuNodes" in policy.pods.rules:
        labels = policy.gpu.type_labels
        bare = [
            node.name
            for node in api.cluster.table().nodes
            if node.gpus and not any(node.labels.get(label) for label in labels)
        ]
        if bare:
            more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
            findings.append(
                f"pods.rules: {bare[0]}{more} have GPUs but none of the labels {', '.join(labels)}, so nothing keeps "
                "other people's Pods without GPUs off"
            )
    try:
        stored = await user.client.get(VALIDATING_POLICIES, PODS)
    except Forbidden:
        return findings
    except NotFound:
        stored = {}
    facts = [Circumstances(api.cluster.has_cpu_nodes(), is_completed) for is_completed in (True, False)]
    wanted = [body for fact in facts for body in pod_policies(policy, fact) if _is_about_pods(body)]
    if wanted and not any(_says_the_same(stored, body) for body in wanted):
        how = "differ from" if stored else "are not"
        findings.append(
            f"the rules for Pods in the cluster {how} {'the policy' if stored else 'applied'}: "
            "kaji policy render | kubectl apply --server-side -f -"
        )
    return findings


def _is_about_pods(body: Mapping[str, Any]) -> bool:
    return (body["kind"], body["metadata"]["name"]) == ("ValidatingAdmissionPolicy", PODS)


def _says_the_same(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    spec = stored.get("spec") or {}
    parts = ("variables", "matchConditions", "validations")
    return all(spec.get(part) == wanted["spec"][part] for part in parts)
