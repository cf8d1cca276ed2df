"""Volumes that runs of a namespace can mount, and checkpoints that earlier runs left."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import active_runs
from kajitori.api.rendering.runs import phase_of
from kajitori.api.views.base import Deleted
from kajitori.api.views.storage import VolumeKind, VolumeList, VolumeView
from kajitori.cluster.objects import Claim
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import show
from kajitori.core.documents.fields import DnsLabel
from kajitori.core.formats.quantities import QuantityError, format_memory, parse_memory_bytes
from kajitori.core.naming import names
from kajitori.core.policy.runs.mounts import EmptyFolder, Volume
from kajitori.errors import Forbidden, NotFound, WrongState
from kajitori.kube.resources import CLAIMS

router = APIRouter(tags=["volumes"])


class VolumeParameters(Parameters):
    namespace: DnsLabel | None = None
    """Default: the server's own."""


@router.get(
    "/v1/volumes", responses=describes(VolumeList), summary="Volumes that runs can mount, and existing checkpoints"
)
async def list_volumes(api: Shared, user: Caller, query: Annotated[VolumeParameters, Query()]) -> Response:
    """The volumes and folders that the policy offers, and checkpoints that are kept in claims. Needs the right to list
    the namespace's runs. Without the right to list PersistentVolumeClaims, the answer has no checkpoints, and `note`
    says so."""
    namespace = query.namespace or api.namespace
    await user.require("list", namespace)
    policy, note = api.cluster.policy, ""
    claims: dict[str, Claim] | None = None
    try:
        listing = await user.client.list(CLAIMS, namespace, type=Claim)
        claims = {claim.metadata.name: claim for claim in listing.items}
    except Forbidden:
        note = f"{user.name} may not list claims in namespace {namespace}: checkpoints are not shown"
    if policy.checkpoint.kind == "folder":
        note = f"checkpoints are folders below {policy.checkpoint.root}/{namespace}"
    uses = _Uses(api, namespace)
    views = [_offered(name, volume, claims, uses) for name, volume in sorted(policy.volumes.items())]
    views += [_folder(path) for path in policy.mounts.host_paths]
    views += [_checkpoint(claim, uses) for _, claim in sorted((claims or {}).items()) if _run_of(claim)]
    return answer(VolumeList(items=views, namespace=namespace, note=note))


@router.delete(
    "/v1/volumes/{name}",
    status_code=202,
    responses=describes(Deleted, status=202),
    summary="Delete a checkpoint",
)
async def delete_volume(api: Shared, user: Caller, name: str, query: Annotated[VolumeParameters, Query()]) -> Response:
    """Deletes the claim of a checkpoint with its contents; other claims can't be deleted here. 409 if the run has not
    ended."""
    namespace = query.namespace or api.namespace
    try:
        claim = await user.client.get(CLAIMS, name, namespace, type=Claim)
    except NotFound:
        claim = None
    run_name = _run_of(claim) if claim is not None else ""
    if claim is None or not run_name:
        message = f"there is no checkpoint {show(name)!r} in namespace {show(namespace)}"
        raise NotFound(message, hint="see them all: kaji volumes")
    run = api.mirror.runs.get((namespace, run_name))
    if run is not None and not phase_of(run).is_final:
        raise WrongState(f"the run {run_name} uses it and is {phase_of(run).value}", hint=f"kaji stop {run_name}")
    with suppress(NotFound):
        await user.client.delete(CLAIMS, name, namespace, uid=claim.metadata.uid)
    return answer(Deleted(name=name, namespace=namespace), 202)


def _run_of(claim: Claim) -> str:
    """Name of the run that a checkpoint belongs to; empty for any other claim."""
    labels = claim.metadata.labels
    run = labels.get(names.LABEL_RUN, "") if labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY else ""
    return run if claim.metadata.name == names.checkpoint_claim(run) else ""


class _Uses:
    """The runs of a namespace that have not ended, and the volumes that they use."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.volumes: dict[str, list[str]] = {}
        self.runs: set[str] = set()
        for name, run in active_runs(api, namespace):
            self.runs.add(name)
            for volume in _volume_names(run):
                self.volumes.setdefault(volume, []).append(name)


def _volume_names(run: RunObject) -> set[str]:
    with suppress(msgspec.DecodeError, KeyError, TypeError, AttributeError):  # the spec is refused anyway
        uses: list[dict[str, Any]] = msgspec.json.decode(run.spec).get("volumes") or []
        return {str(use["name"]) for use in uses if use.get("name")}
    return set()


def _offered(name: str, volume: Volume, claims: dict[str, Claim] | None, uses: _Uses) -> VolumeView:
    kind, source = _source(volume)
    size_bytes, state = None, ""
    if volume.claim is not None and claims is not None:
        claim = claims.get(volume.claim)
        size_bytes = _size_of(claim) if claim is not None else None
        state = claim.status.phase if claim is not None else "Missing"
    return VolumeView(
        name=name,
        kind=kind,
        source=source + (f"/{volume.sub_path}" if volume.sub_path else ""),
        read_only=volume.read_only,
        in_memory=volume.empty_dir is not None and volume.empty_dir.memory,
        state=state,
        size_bytes=size_bytes,
        used_by=uses.volumes.get(name, []),
    )


def _source(volume: Volume) -> tuple[VolumeKind, str]:
    """Return the kind of the volume's source, and the source as a text."""
    if volume.claim is not None:
        return "claim", volume.claim
    if volume.host_path is not None:
        return "hostPath", volume.host_path
    if volume.nfs is not None:
        return "nfs", f"{volume.nfs.server}:{volume.nfs.path}"
    if volume.config_map is not None:
        return "configMap", volume.config_map
    if volume.secret is not None:
        return "secret", volume.secret
    folder = volume.empty_dir or EmptyFolder()
    where = "memory" if folder.memory else "the node's disk"
    return "emptyDir", where if folder.size_bytes is None else f"{where}, at most {format_memory(folder.size_bytes)}"


def _folder(path: str) -> VolumeView:
    return VolumeView(name=path, kind="folder", source="the node's own, with all below it", used_by=[])


def _checkpoint(claim: Claim, uses: _Uses) -> VolumeView:
    run = _run_of(claim)
    return VolumeView(
        name=claim.metadata.name,
        kind="checkpoint",
        source=f"of the run {run}",
        run=run,
        state=claim.status.phase,
        size_bytes=_size_of(claim),
        created_at=claim.metadata.creation_timestamp,
        used_by=[run] if run in uses.runs else [],
    )


def _size_of(claim: Claim) -> int | None:
    """Return the claim's capacity, or its requested size until it is bound."""
    for amounts in (claim.status.capacity, claim.spec.resources.requests):
        with suppress(QuantityError):
            if amounts.get("storage"):
                return parse_memory_bytes(amounts["storage"])
    return None
