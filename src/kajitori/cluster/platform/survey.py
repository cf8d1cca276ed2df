"""Reads from a cluster what `kaji install --check` needs to know. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from kajitori.cluster.platform.applying import Change, apply, find, resource_of
from kajitori.core.gpus.offers import counts_of
from kajitori.core.naming import names
from kajitori.core.policy.runs.members import Gpu
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.install.checks import Survey, wanted_secrets
from kajitori.install.parts.objects import Identity, Object
from kajitori.install.record import Record
from kajitori.install.settings import InstallSettings, SignInSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.device_objects import ResourceSlice
from kajitori.kube.devices import node_devices
from kajitori.kube.resources import NODES, RESOURCE_SLICES, SELF_ACCESS_REVIEWS, STORAGE_CLASSES
from kajitori.openid.authentication_config import Issuer
from kajitori.openid.issuer_keys import NoKeys, fetch_keys

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_ADMISSION = "admissionregistration.k8s.io/v1"


async def survey(
    client: KubeClient, settings: InstallSettings, objects: Sequence[Object], record: Record | None
) -> Survey:
    """Return the state of the cluster, and the effect that applying these objects would have."""
    await client.set_clock()
    skew = (datetime.now(UTC) - client.now()).total_seconds()
    version = msgspec.json.decode(await client.request("GET", "/version"))
    unreadable: list[str] = []
    classes = await _list_objects(client, STORAGE_CLASSES, unreadable)
    nodes = await _list_objects(client, NODES, unreadable)
    served = await _served_kinds(client)
    refused, changes = await _try_applying(client, objects)
    missing, lacking = await secret_faults(client, settings)
    return Survey(
        version=str(version.get("gitVersion", "")),
        skew_seconds=skew,
        served=served,
        refused=refused,
        changes={str(change): count for change, count in changes.items()},
        storage_classes=[storage_class["metadata"]["name"] for storage_class in classes],
        default_storage=next(
            (storage_class["metadata"]["name"] for storage_class in classes if _is_default(storage_class)), ""
        ),
        nodes=len(nodes),
        gpus=_count_gpus(nodes, await _read_devices(client, served)),
        missing_secrets=missing,
        lacking_secrets=lacking,
        provider_fault=await _provider_fault(settings.sign_in),
        unreadable=unreadable,
        installed=record.version if record is not None else "",
        incomplete=record is not None and not record.complete,
    )


async def _served_kinds(client: KubeClient) -> frozenset[str]:
    groups = msgspec.json.decode(await client.request("GET", "/apis"))
    versions = {version["groupVersion"] for group in groups["groups"] for version in group["versions"]}
    found = msgspec.json.decode(await client.request("GET", f"/apis/{_ADMISSION}")) if _ADMISSION in versions else {}
    kinds = {f"{_ADMISSION} {kind['name']}" for kind in found.get("resources", ())}
    return frozenset(versions | kinds)


async def _list_objects(client: KubeClient, resource: Any, unreadable: list[str]) -> list[Object]:
    try:
        return (await client.list(resource)).items
    except (Forbidden, NotFound):
        unreadable.append(resource.plural)
        return []


async def _try_applying(client: KubeClient, objects: Iterable[Object]) -> tuple[dict[str, str], Counter[Change]]:
    """Apply each object as a dry run; return which are refused, and how many would be created, changed or stay."""
    refused: dict[str, str] = {}
    changes: Counter[Change] = Counter(dict.fromkeys(Change, 0))
    for document in objects:
        shown = f"{document['kind']} {document['metadata']['name']}"
        try:
            changes[await apply(client, document, dry_run=True)] += 1
        except NotFound as error:
            if not await _is_in_new_namespace(client, document):  # the API server does not have its kind
                refused[shown] = error.message
            elif await _may_create(client, document):
                changes[Change.CREATED] += 1
            else:
                refused[shown] = "no right to create it"
        except KajitoriError as error:
            refused[shown] = error.message
    return refused, changes


async def _is_in_new_namespace(client: KubeClient, document: Object) -> bool:
    namespace = document["metadata"].get("namespace")
    return bool(namespace) and await find(client, Identity("", "Namespace", "", namespace)) is None


async def _may_create(client: KubeClient, document: Object) -> bool:
    resource = resource_of(document)
    attributes = {
        "group": resource.group,
        "resource": resource.plural,
        "verb": "create",
        "namespace": document["metadata"].get("namespace", ""),
    }
    answer = await client.create(SELF_ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes}})
    return bool((answer.get("status") or {}).get("allowed"))


async def secret_faults(client: KubeClient, settings: InstallSettings) -> tuple[list[str], dict[str, list[str]]]:
    """Return the Secrets that the settings name and the cluster lacks, and those that lack keys, with these keys."""
    missing: list[str] = []
    lacking: dict[str, list[str]] = {}
    for where, keys in wanted_secrets(settings).items():
        namespace, name = where.split("/")
        try:
            secret = await find(client, Identity("", "Secret", namespace, name))
        except Forbidden:
            continue
        if secret is None:
            missing.append(where)
        elif absent := [key for key in keys if not (secret.get("data") or {}).get(key)]:
            lacking[where] = absent
    return missing, lacking


async def _provider_fault(sign_in: SignInSettings) -> str:
    """Return why the provider cannot be used, as seen from this machine; empty if it can or there is none."""
    if not sign_in.issuer:
        return ""
    issuer = {"url": sign_in.issuer, "certificateAuthority": sign_in.ca, "audiences": [sign_in.client_id]}
    try:
        await fetch_keys(Issuer.model_validate(issuer))
    except NoKeys as error:
        return str(error)
    return ""


async def _read_devices(client: KubeClient, served: Collection[str]) -> dict[str, list[ResourceSlice]]:
    """Return the slices of GPU drivers by node; none if they cannot be read."""
    found: dict[str, list[ResourceSlice]] = {}
    if RESOURCE_SLICES.api_version not in served:
        return found
    with suppress(Forbidden):
        for published in (await client.list(RESOURCE_SLICES, type=ResourceSlice)).items:
            if Gpu().is_driver(published.spec.driver):
                found.setdefault(published.spec.node_name, []).append(published)
    return found


def _count_gpus(nodes: Iterable[Object], devices: Mapping[str, Sequence[ResourceSlice]]) -> dict[str, int]:
    """Return the GPUs by type. A GPU without a label for its type counts under an empty name.

    Devices of dynamic resource allocation count on nodes without GPUs of a device plugin.
    """
    found: Counter[str] = Counter()
    for node in nodes:
        count = int((node.get("status") or {}).get("allocatable", {}).get(names.GPU_RESOURCE, 0))
        labels = node["metadata"].get("labels") or {}
        if count:
            found[next((labels[key] for key in Gpu().type_labels if key in labels), "")] += count
            continue
        found.update(counts_of(node_devices(devices.get(node["metadata"]["name"], ()), ()), Gpu()))
    return dict(found)


def _is_default(storage_class: Object) -> bool:
    return (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
