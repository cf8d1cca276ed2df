"""The objects of an installation, computed from the settings and the present state of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kajitori.cluster.platform.applying import find
from kajitori.configuration.option_faults import raise_all
from kajitori.configuration.options.operators import InstallOptions
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.entrypoints.process import existing
from kajitori.errors import Forbidden, InvalidInput, NotFound
from kajitori.install.parts.gateway import with_groups_of
from kajitori.install.parts.monitoring import RULE_KIND
from kajitori.install.parts.objects import Identity, Object
from kajitori.install.parts.teams import team_objects
from kajitori.install.parts.workloads import POLICY
from kajitori.install.record import Record, record_of
from kajitori.install.render import in_order, render
from kajitori.install.settings import (
    RECORD,
    InstallSettings,
    faults_of,
    parse_settings,
)
from kajitori.kube.client import KubeClient

Say = Callable[[str], None]
T = TypeVar("T")

LOOK_SECONDS = 1.0
"""Interval at which parts or runs are read while the command waits for them."""
DEFINITION = custom_resource_definition()["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The objects to apply, and the existing ones."""

    settings: InstallSettings
    files: dict[str, list[Object]]
    record: Record | None

    @property
    def objects(self) -> list[Object]:
        """All objects, in order."""
        return in_order(self.files)


def rendered(options: InstallOptions) -> list[Object]:
    """Return the objects that would be applied to a new cluster, without asking a cluster. Secrets with keys are not
    among them."""
    return in_order(_objects_by_subject(_settings_of(options, None), *_policy_and_networks(options, None)))


def with_client(options: InstallOptions, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run work with a client of the cluster that the options name."""

    async def run() -> T:
        async with existing(options.kubeconfig, options.context) as client:
            return await work(client)

    return asyncio.run(run())


async def plan_of(
    client: KubeClient, options: InstallOptions, *, has_rights: bool = True, with_teams: bool = True
) -> Plan:
    """Return the objects to apply. Without `has_rights`, objects that the caller may not read count as missing.

    Raises InvalidInput if the policy in the cluster is faulty, unless its teams are left out.
    """

    async def config_map(namespace: str, name: str) -> Object | None:
        try:
            return await find(client, Identity("", "ConfigMap", namespace, name))
        except Forbidden:
            if has_rights:
                raise
            return None

    found = await config_map(options.namespace or _settings_of(options, None).namespace, RECORD)
    record = record_of(found) if found is not None else None
    settings = _settings_of(options, record)
    stored = await config_map(settings.namespace, POLICY)
    policy, networks = _policy_and_networks(options, stored)
    resolved = await with_alerts(client, settings)
    files = _objects_by_subject(resolved, policy, networks) if with_teams else render(resolved, policy, networks)
    return Plan(settings, files, record)


class Requester(Protocol):
    """Sends a request to the API server, as KubeClient does."""

    async def request(self, method: str, path: str, /) -> bytes: ...


async def with_alerts(client: Requester, settings: InstallSettings) -> InstallSettings:
    """Return settings that name the form of the alert rules which this cluster reads."""
    if settings.monitoring.alerts != "auto":
        return settings
    try:
        await client.request("GET", f"/apis/{RULE_KIND[0]}")
        form = "prometheusRule"
    except NotFound:
        form = "configMap"
    return settings.model_copy(update={"monitoring": settings.monitoring.model_copy(update={"alerts": form})})


def _objects_by_subject(settings: InstallSettings, policy: str, networks: str) -> dict[str, list[Object]]:
    """Return all objects by subject, with those of the policy's teams. Raises InvalidInput if the policy is faulty."""
    teams = parse_policy(policy).teams
    if settings.gateway.enabled:
        settings = with_groups_of(settings, (group for team in teams.values() for group in team.all_groups))
        if not settings.gateway.groups:
            hint = "name the groups of teams in the policy, or gateway.groups in the settings"
            raise InvalidInput.one("gateway.groups", "the gateway could act for people without groups only", hint=hint)
    files = render(settings, policy, networks)
    if objects := team_objects(teams):
        files["teams"] = objects
    return files


def _settings_of(options: InstallOptions, record: Record | None) -> InstallSettings:
    """Return the settings in the options; without any, the settings of the last installation."""
    if options.settings is not None:
        settings = parse_settings(options.settings.read_bytes())
    else:
        settings = record.settings if record is not None else InstallSettings()
    if options.namespace:
        settings = settings.model_copy(update={"namespace": options.namespace})
    if options.gateway is not None:
        gateway = settings.gateway.model_copy(update={"enabled": options.gateway})
        settings = settings.model_copy(update={"gateway": gateway})
        raise_all(faults_of(settings))
    if options.image_prefix is not None:
        images = settings.images.model_copy(update={"prefix": options.image_prefix})
        settings = settings.model_copy(update={"images": images})
    return settings


def _policy_and_networks(options: InstallOptions, stored: Object | None) -> tuple[str, str]:
    """Return policy and address registry from the options, else from the cluster, where operators edit them."""
    data = (stored or {}).get("data") or {}
    policy = options.policy.read_text() if options.policy is not None else data.get("policy.yaml", "{}\n")
    registry = (
        options.networks.read_text() if options.networks is not None else data.get("networks.yaml", "clusters: []\n")
    )
    if options.policy is not None:
        parse_policy(policy)
    if options.networks is not None:
        parse_networks(registry)
    return policy, registry


def removal_order(one: Identity) -> tuple[int, Identity]:
    """Return a sort key for removal: workloads first, so that no part works without some rights, and definitions
    last."""
    order = {"Deployment": 0, "DaemonSet": 0, "CronJob": 0, "CustomResourceDefinition": 3, "Namespace": 4}
    return order.get(one.kind, 1), one


def secret_id(name: str, namespace: str) -> Identity:
    """Return the identity of a Secret."""
    return Identity("", "Secret", namespace, name)
