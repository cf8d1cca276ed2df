"""Writes to the API server for one attempt: the objects that its Pods need, then all Pods at once, and their
deletion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Claim, Pod
from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.belongings import ensure_of_run, owning_run
from kajitori.controllers.runs.network_names import ensure_networks
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.core.admission.quota import members_within, quota_shortage
from kajitori.core.admission.refused_pods import (
    is_webhook_failure,
    may_be_limit_range,
    name_limit_ranges,
    reason_of_refusal,
)
from kajitori.core.gang import Action, DeleteMember, DeleteMembers, HoldMember, ReleaseMember, node_by_rank
from kajitori.core.naming import first_step, names
from kajitori.core.pods import manifests
from kajitori.core.pods.networks import has_own_service
from kajitori.core.pods.tickets import run_of_signed_member
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    LIMIT_RANGES,
    NETWORK_POLICIES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
)

log = logging.getLogger(__name__)

DELETED_TOGETHER = 250
"""Number of members of a large run that one request deletes, which takes about a second."""

SEVERAL_NODES = "ReadWriteMany"
"""Access mode of a claim that Pods on several nodes may mount."""

DELETIONS_AT_A_TIME = 4
"""Number of such requests at a time. The API server works on all of them in turn, so with more none would end early."""


class RunReference(NamedTuple):
    """Namespace, name and UID of a Run, which may be deleted already."""

    namespace: str
    name: str
    uid: str


def reference_to(run: RunObject) -> RunReference:
    """Return the reference to a Run."""
    return RunReference(run.metadata.namespace, run.metadata.name, run.metadata.uid)


class StartRefused(Exception):
    """The API server refused a member for good: trying the same again changes nothing."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.begun = False
        """Whether some of the members may have been created."""


async def prepare(
    client: KubeClient, run: RunObject, spec: RunSpec, claim: Mapping[str, Any] | None, nodes: int
) -> None:
    """Create what the members of all attempts share: the Service for their names, those of their networks, and the
    claim of their checkpoint. `nodes` is the number of nodes of this attempt. Raises StartRefused."""
    namespace = run.metadata.namespace
    with _refusals_of({"kind": SERVICES.kind, "metadata": {"name": "of a network"}}):
        await ensure_networks(client, run, spec)
    if has_own_service(spec):
        service = manifests.headless_service(
            run_name=run.metadata.name, namespace=namespace, run_uid=run.metadata.uid, ports=spec.ports
        )
        with _refusals_of(service), suppress(AlreadyExists):  # a foreign Service of that name stays
            await ensure_of_run(client, SERVICES, service, run)
    if claim is not None:
        with _refusals_of(claim):
            try:
                await client.create(CLAIMS, claim, namespace)
            except AlreadyExists:  # of an earlier attempt, or of an earlier run of this name
                if nodes > 1:
                    await _check_modes(client, run, claim)


async def _check_modes(client: KubeClient, run: RunObject, wanted: Mapping[str, Any]) -> None:
    """Check that the existing claim of a checkpoint can be mounted on several nodes, if a new one could. Otherwise
    members would wait for its volume on all nodes but one. Raises StartRefused with the way out."""
    name = wanted["metadata"]["name"]
    if SEVERAL_NODES not in wanted["spec"]["accessModes"]:
        return
    with suppress(Forbidden, NotFound):  # older manifests do not let the controller read claims
        found = await client.get(CLAIMS, name, run.metadata.namespace, type=Claim)
        if SEVERAL_NODES not in found.spec.access_modes:
            raise StartRefused(
                Reason.STORAGE,
                f"PersistentVolumeClaim {name} can be mounted on one node only ({', '.join(found.spec.access_modes)}), "
                "because a run of one member made it: give this run another name, or delete the claim with all files "
                f"in it (kaji rm -f -v {run.metadata.name}) and start again",
            )


async def prepare_devices(client: KubeClient, run: RunObject, attempt: Attempt) -> None:
    """Create the ResourceClaimTemplate by which the members of an attempt get their GPUs, if they need one.

    It follows from the stored attempt, so every leader that creates the Pods finds or creates the same one.
    """
    meta = run.metadata
    body = manifests.gpu_claim_template(
        attempt.pod_template, run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid
    )
    if body is None:
        return
    name = body["metadata"]["name"]
    with _refusals_of(body):
        try:
            found = await client.create(CLAIM_TEMPLATES, body, meta.namespace)
        except AlreadyExists:  # it exists: an earlier attempt or an earlier leader created it
            found = await client.get(CLAIM_TEMPLATES, name, meta.namespace)
    if owning_run(found) != meta.uid or not _has_all_fields(found["spec"], body["spec"]):
        way_out = f"delete it: kubectl delete resourceclaimtemplate {name} -n {meta.namespace}"
        raise StartRefused(Reason.ADMISSION, f"ResourceClaimTemplate {name} was replaced; {way_out}")


def _has_all_fields(found: Any, wanted: Any) -> bool:
    """Whether an object has all wanted fields; the API server may have added defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and _has_all_fields(found[key], wanted[key]) for key in wanted
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_has_all_fields, found, wanted))
    return bool(found == wanted)


async def restrict(networks: NetworkKeeper, run: RunObject, attempt: Attempt, rules: Mapping[str, Any] | None) -> None:
    """Create or update the NetworkPolicy of a run with restricted network access, before its members exist.

    `rules` are those of the present policy; None if the network is not restricted or policy no longer admits the run.
    In the latter case members start with the NetworkPolicy that they have. Raises StartRefused if they need one and
    have none.
    """
    if rules is not None:
        with _refusals_of({"kind": NETWORK_POLICIES.kind, "metadata": {"name": run.metadata.name}}):
            try:
                await networks.ensure(run, rules)
            except AlreadyExists as error:
                raise StartRefused(Reason.ADMISSION, error.message) from error
        return
    was_to_be = names.ANNOTATION_NETWORK in attempt.pod_template.get("metadata", {}).get("annotations", {})
    if was_to_be and not await networks.is_there(run):
        message = "its network has to be restricted, but policy no longer says how"
        raise StartRefused(Reason.ADMISSION, message)


@contextmanager
def _refusals_of(body: Mapping[str, Any]) -> Iterator[None]:
    """Turn a permanent refusal of the API server into StartRefused."""
    try:
        yield
    except (Forbidden, InvalidInput) as error:
        raise StartRefused(Reason.ADMISSION, f"{body['kind']} {body['metadata']['name']}: {error}") from error


async def key_for(attempt: Attempt, key: SigningKey) -> bytes | None:
    """Return the key that signs this attempt's members and their tickets.

    Members without a first step need no ticket: they start unsigned if the key could not be read so far. Raises
    StartRefused if tickets are needed and the controller may not read the key.
    """
    if not first_step.is_part_of(attempt.pod_template.get("spec", {})):
        return key.last
    try:
        return await key.read()
    except (Forbidden, NotFound) as error:
        raise StartRefused(Reason.ADMISSION, f"the key of members' tickets: {error.message}") from error


async def create_members(
    client: KubeClient,
    run: RunObject,
    attempt: Attempt,
    ranks: Sequence[int],
    *,
    key: bytes | None = None,
) -> list[str]:
    """Create the Pods of these ranks, all at once, and return their names.

    Of a sweep, as many are created as the quotas allow. The call can be repeated: a Pod of this attempt that exists
    counts as created. Quotas are summed up and one member is tried with a server-side dry run first, so that a refusal
    comes before any Pod exists (rule 4). Raises StartRefused for a permanent refusal, and other errors if the API
    server does not answer.
    """
    nodes = node_by_rank(attempt)
    pods = manifests.MemberPods(
        attempt.pod_template,
        run_name=run.metadata.name,
        namespace=run.metadata.namespace,
        run_uid=run.metadata.uid,
        attempt=attempt.number,
        world_size=attempt.world_size or len(nodes),
        port=attempt.port,
        launcher=attempt.launcher,
        bind_direct=attempt.bind_direct,
        key=key,
    )
    if len(ranks) > 1:
        ranks = await _within_quota(client, run, attempt, ranks)
        await _create_pod(client, run, pods.pod(ranks[0], nodes[ranks[0]]), key, dry_run=True)
    created = [names.pod_name(run.metadata.name, attempt.number, rank) for rank in ranks]
    try:
        await _all_of(_create_pod(client, run, pods.pod(rank, nodes[rank]), key) for rank in ranks)
    except StartRefused as error:
        error.begun = len(ranks) > 1
        raise
    return created


async def quota_room(client: KubeClient, namespace: str, template: Mapping[str, Any], members: int) -> int:
    """Return how many additional members the namespace's quotas allow now, at most `members`."""
    quotas = await _read_quotas(client, namespace)
    return members_within(quotas, template, members) if quotas else members


async def _read_quotas(client: KubeClient, namespace: str) -> Sequence[Mapping[str, Any]]:
    """Return the namespace's quotas; none if the controller may not read them, since the API server checks each Pod
    anyway."""
    try:
        return (await client.list(RESOURCE_QUOTAS, namespace)).items
    except Forbidden:
        return ()


async def _within_quota(client: KubeClient, run: RunObject, attempt: Attempt, ranks: Sequence[int]) -> Sequence[int]:
    """Return the ranks that the namespace's quotas allow: all of them for a gang, at least one for a sweep.

    Raises StartRefused if the quotas allow less.
    """
    namespace = run.metadata.namespace
    quotas = await _read_quotas(client, namespace)
    if not quotas:
        return ranks
    selector = f"{names.LABEL_RUN_UID}={run.metadata.uid},{names.LABEL_ATTEMPT}={attempt.number}"
    existing = {pod["metadata"]["name"] for pod in (await client.list(PODS, namespace, label_selector=selector)).items}
    missing = [rank for rank in ranks if names.pod_name(run.metadata.name, attempt.number, rank) not in existing]
    template = attempt.pod_template
    shortage = quota_shortage(quotas, template, len(missing))
    if not shortage:
        return ranks
    if attempt.launcher == manifests.SWEEP:
        left = set(missing[members_within(quotas, template, len(missing)) :])
        if left != set(ranks):
            return [rank for rank in ranks if rank not in left]
    raise StartRefused(Reason.QUOTA, shortage)


async def _create_pod(
    client: KubeClient, run: RunObject, pod: Mapping[str, Any], key: bytes | None, *, dry_run: bool = False
) -> None:
    name, namespace = pod["metadata"]["name"], run.metadata.namespace
    try:
        await client.create(PODS, pod, namespace, dry_run=dry_run)
    except AlreadyExists:
        await _check_ours(client, run, name, key)
    except (Forbidden, InvalidInput) as error:
        message = await _with_limit_range(client, namespace, error.message)
        raise StartRefused(reason_of_refusal(message), message) from error
    except Unavailable as error:
        if is_webhook_failure(error.message):
            raise StartRefused(Reason.ADMISSION, error.message) from error
        raise


async def _with_limit_range(client: KubeClient, namespace: str, refusal: str) -> str:
    """Return the refusal, with the name of the LimitRange if one caused it."""
    if not may_be_limit_range(refusal):
        return refusal
    try:
        return name_limit_ranges(refusal, (await client.list(LIMIT_RANGES, namespace)).items)
    except KajitoriError:
        return refusal  # the message is clear without the name


async def _check_ours(client: KubeClient, run: RunObject, name: str, key: bytes | None) -> None:
    """Check by owner reference or signature that an existing Pod belongs to the run (rule 1).

    Raises StartRefused if it does not. The next attempt has other names.
    """
    namespace = run.metadata.namespace
    try:
        found = await client.get(PODS, name, namespace)
    except NotFound:
        raise Unavailable(f"Pod {namespace}/{name} existed and was deleted; it is created again") from None
    meta, signature = found["metadata"], (found["metadata"].get("annotations") or {}).get(names.ANNOTATION_SIGNATURE)
    signed_by = run_of_signed_member(signature, namespace, name, key) if signature and key is not None else ""
    if run.metadata.uid not in (msgspec.convert(found, Pod).owner_run_uid, signed_by):
        why = "is left from an earlier run of this name" if _is_of_run(meta, run) else "belongs to something else"
        raise StartRefused(Reason.ADMISSION, f"Pod {namespace}/{name} is there already, and {why}")


def _is_of_run(meta: Mapping[str, Any], run: RunObject) -> bool:
    """Whether a Pod was created for a Run of this name, possibly an earlier one."""
    owners = meta.get("ownerReferences", ())
    return any((owner.get("kind"), owner.get("name")) == (names.KIND, run.metadata.name) for owner in owners)


def lacks_metadata(run: RunObject, pod: Pod) -> bool:
    """Whether a member of the run has lost its owner or one of its labels."""
    return not _has_owner(run, pod) or not _labels_of(run, pod).items() <= pod.metadata.labels.items()


def _has_owner(run: RunObject, pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == run.metadata.uid


def _labels_of(run: RunObject, pod: Pod) -> dict[str, str]:
    """Return the labels that a member of the run must have."""
    member = pod.member
    if member is None:
        return {}
    return names.member_labels(run.metadata.name, run.metadata.uid, member.attempt, member.rank)


async def restore_metadata(client: KubeClient, run: RunObject, pod: Pod) -> None:
    """Restore the owner and the labels of a member, since deletion finds members by these. Its program goes on.

    Another controlling owner stays as an owner that does not control it.
    """
    meta = pod.metadata
    patch: dict[str, Any] = {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "labels": _labels_of(run, pod),
    }
    if not _has_owner(run, pod):
        found, uid = await client.get(PODS, meta.name, meta.namespace), run.metadata.uid
        references = found["metadata"].get("ownerReferences", ())
        others = [reference | {"controller": False} for reference in references if reference["uid"] != uid]
        patch["ownerReferences"] = [*others, manifests.owner_of_members(run.metadata.name, uid)]
    await client.patch(PODS, meta.name, {"metadata": patch}, meta.namespace)


async def hold_and_release(client: KubeClient, namespace: str, actions: Iterable[Action]) -> None:
    """Carry out the actions among these that hold or release Pods, all at the same time."""
    holds = [_hold_member(client, namespace, action) for action in actions if isinstance(action, HoldMember)]
    releases = [release_member(client, namespace, action) for action in actions if isinstance(action, ReleaseMember)]
    await _all_of((*holds, *releases))


async def _hold_member(client: KubeClient, namespace: str, action: HoldMember) -> None:
    """Put the finalizer on a Pod that keeps it until its log is kept, and the exit code of rank 0 was read."""
    patch = {"metadata": {"uid": action.uid, "finalizers": [names.FINALIZER_EXIT_CODE]}}
    try:
        await client.patch(PODS, action.pod, patch, namespace, kind=PatchKind.STRATEGIC)
    except (NotFound, Conflict, Forbidden, InvalidInput) as error:  # for example: it is being deleted already
        log.info("Pod %s/%s is not kept for its log and exit code: %s", namespace, action.pod, error.message)


async def release_member(client: KubeClient, namespace: str, action: ReleaseMember) -> None:
    """Remove that finalizer."""
    field = "$deleteFromPrimitiveList/finalizers"
    patch = {"metadata": {"uid": action.uid, field: [names.FINALIZER_EXIT_CODE]}}
    with suppress(NotFound, Conflict):
        await client.patch(PODS, action.pod, patch, namespace, kind=PatchKind.STRATEGIC)


async def delete_members(
    client: KubeClient, mirror: Mirror, run: RunReference, action: DeleteMembers | None = None
) -> None:
    """Delete a run's Pods by collection (rule 10). Without `action`, all of them are deleted with their own grace.

    The API server deletes the Pods of a collection one by one, so a large run is deleted in several requests at a time,
    each of which ends within the client's time limit. If other Pods carry the run's label, the members are deleted one
    by one by UID instead.
    """
    pods = mirror.owned_pods(*run)
    if mirror.mislabelled_pods(*run):
        await _all_of(_delete_one(client, pod, action) for pod in pods if _is_meant(pod, action))
        return
    selector, fields, grace_seconds = f"{names.LABEL_RUN_UID}={run.uid}", "", None
    if action is not None:
        selector += f",{names.LABEL_ATTEMPT}={action.attempt}" if action.attempt is not None else ""
        fields = "status.phase!=Succeeded,status.phase!=Failed" if action.unfinished_only else ""
        grace_seconds = action.grace_seconds
    parts = [""]
    if len(pods) > DELETED_TOGETHER:
        ranks = sorted({pod.member.rank for pod in pods if pod.member is not None})
        starts = range(0, len(ranks), DELETED_TOGETHER)
        parts = [f",{names.LABEL_RANK} in ({','.join(map(str, ranks[i : i + DELETED_TOGETHER]))})" for i in starts]
    turns = asyncio.Semaphore(DELETIONS_AT_A_TIME)

    async def delete(part: str) -> None:
        async with turns:
            await client.delete_collection(
                PODS, run.namespace, label_selector=selector + part, field_selector=fields, grace_seconds=grace_seconds
            )

    await _all_of(delete(part) for part in parts)


def _is_meant(pod: Pod, action: DeleteMembers | None) -> bool:
    """Whether the action deletes this Pod of the run."""
    if action is None:
        return True
    is_of_attempt = action.attempt is None or (pod.member is not None and pod.member.attempt == action.attempt)
    return is_of_attempt and not (action.unfinished_only and pod.is_finished)


async def _delete_one(client: KubeClient, pod: Pod, action: DeleteMembers | None) -> None:
    grace_seconds, meta = action.grace_seconds if action is not None else None, pod.metadata
    with suppress(NotFound, Conflict):
        await client.delete(PODS, meta.name, meta.namespace, grace_seconds=grace_seconds, uid=meta.uid)


async def _all_of(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all requests at the same time. If one fails, the others are cancelled."""
    tasks = [asyncio.create_task(request) for request in requests]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def delete_member(client: KubeClient, run: RunObject, action: DeleteMember) -> None:
    """Delete one Pod, unless another Pod has its name now."""
    try:
        await client.delete(
            PODS, action.pod, run.metadata.namespace, grace_seconds=action.grace_seconds, uid=action.uid
        )
    except (NotFound, Conflict):
        return
