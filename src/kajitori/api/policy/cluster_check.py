"""Look up the objects that a policy names, with the caller's own rights. Facts about nodes come from the mirror."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

import msgspec

from kajitori.api.context import Api
from kajitori.api.rights import User
from kajitori.cluster.nodes.node_requests import ABSENT
from kajitori.core.policy.cluster_check import (
    MAX_LOOKUPS,
    MISSING,
    CheckedNode,
    Named,
    Shortfall,
    lacking_nodes,
    missing_object,
    missing_resolvers,
    named_objects,
    preempting_class,
)
from kajitori.core.policy.model import Policy
from kajitori.core.queue.guarantees import faults_of_guarantees
from kajitori.errors import Fault, Forbidden, NotFound
from kajitori.kube.client import METADATA_ONLY
from kajitori.kube.decoding import decode
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import (
    CLAIMS,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    PROVISIONING_REQUESTS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
)

_RESOURCES = {
    resource.kind: resource
    for resource in (
        *(STORAGE_CLASSES, PRIORITY_CLASSES, RUNTIME_CLASSES, NAMESPACES),
        *(SERVICES, CLAIMS, CONFIG_MAPS, SECRETS),
    )
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_AT_ONCE = 8
"""Number of objects that are looked up at the same time for one caller."""


class HasMetadata(msgspec.Struct):
    """The metadata of an object of any kind."""

    metadata: ObjectMeta


async def shortfall(api: Api, user: User, policy: Policy, namespace: str) -> Shortfall:
    """Return the objects and nodes that a policy names and the cluster lacks."""
    missing = lacking_nodes(policy, _nodes(api))
    missing += Shortfall(
        notes=tuple(faults_of_guarantees(policy.guarantees, api.cluster.table(), policy.gpu.cpu_runs_on_gpu_nodes))
    )
    missing += await _objects(user, named_objects(policy, namespace))
    if policy.network.enforced:
        missing += await _resolvers(user, policy)
    if policy.node_pools:
        missing += await _provisioning(user)
    return missing


def _nodes(api: Api) -> list[CheckedNode]:
    nodes = []
    for node in api.mirror.nodes.values():
        amounts = node.status.allocatable or node.status.capacity
        resources = frozenset(name for name, amount in amounts.items() if str(amount) != "0")
        offers = api.cluster.devices.offers(node.metadata.name)
        if offers and api.cluster.policy.gpu.resource not in resources:
            ways = {way or api.cluster.policy.gpu.resource for offer in offers for way in offer.ways}
            types = frozenset(offer.type for offer in offers)
            nodes.append(CheckedNode(node.metadata.labels, resources | ways, gpu_types=types))
            continue
        nodes.append(CheckedNode(node.metadata.labels, resources))
    return nodes


async def _objects(user: User, named: list[Named]) -> Shortfall:
    """Look up each object once, although several fields may name it."""
    fields: defaultdict[tuple[str, str, str], list[Named]] = defaultdict(list)
    for object_ in named:
        fields[object_.kind, object_.namespace, object_.name].append(object_)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def looked_up(group: list[Named]) -> Shortfall:
        try:
            async with turns:
                fault_of = await _wrong_with(user, group[0])
        except Forbidden as error:
            return Shortfall(notes=tuple(f"{object_.field} is not checked: {error.message}" for object_ in group))
        return Shortfall(tuple(fault_of(object_) for object_ in group) if fault_of is not None else ())

    answers = await asyncio.gather(*map(looked_up, list(fields.values())[:MAX_LOOKUPS]))
    left_out = len(fields) - len(answers)
    notes = (f"{left_out} of {len(fields)} objects are not checked, because the policy names too many",)
    return sum(answers, Shortfall(notes=notes if left_out else ()))


async def _wrong_with(user: User, named: Named) -> Callable[[Named], Fault] | None:
    """Return the function that makes the fault of an object; None if the object is as it should be. Raises
    Forbidden."""
    resource, is_class = _RESOURCES[named.kind], named.kind == PRIORITY_CLASSES.kind
    try:
        if not named.name:
            classes = (await user.client.list(resource, type=HasMetadata)).items
            has_default = any(
                storage_class.metadata.annotations.get(_DEFAULT_CLASS) == "true" for storage_class in classes
            )
            return None if has_default else missing_object
        path = resource.path(named.namespace or None, named.name)
        body = await user.client.request("GET", path, headers={} if is_class else {"Accept": METADATA_ONLY})
    except NotFound:  # also if the cluster does not serve the kind
        return missing_object
    if is_class and decode(body, dict).get("preemptionPolicy") != "Never":
        return preempting_class
    return None


async def _resolvers(user: User, policy: Policy) -> Shortfall:
    """Runs with restricted network access can resolve names only through these Pods."""
    dns = policy.network.dns
    selector = ",".join(f"{key}={value}" for key, value in dns.labels.items())
    try:
        pods = (await user.client.list(PODS, dns.namespace, label_selector=selector, type=HasMetadata)).items
    except Forbidden as error:
        return Shortfall(notes=(f"network.dns is not checked: {error.message}",))
    return Shortfall() if pods else missing_resolvers(policy)


async def _provisioning(user: User) -> Shortfall:
    """The discovery of an API group needs no rights."""
    try:
        await user.client.request("GET", f"/apis/{PROVISIONING_REQUESTS[0].group}")
    except NotFound:
        return Shortfall((Fault("nodePools", ABSENT, hint="or leave nodePools out", code=MISSING),))
    return Shortfall()
