"""`kaji install`, `kaji upgrade` and `kaji uninstall`: what they do to a cluster, with the operator's rights."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_bytes
from typing import Any, Protocol, TypeVar

from kajitori import __version__
from kajitori.cluster.platform.applying import Change, apply, find, remove, wait_established, wait_gone
from kajitori.cluster.platform.survey import survey
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.option_faults import raise_all
from kajitori.configuration.options.operators import InstallOptions
from kajitori.configuration.sign_in import SHORTEST_KEY_BYTES
from kajitori.core.network.registry import parse_networks
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.core.words import names
from kajitori.entrypoints.process import existing
from kajitori.errors import Conflict, Forbidden, InvalidInput, NotFound, Unavailable, WrongState
from kajitori.install.certificates import ends, issue, issued_in, names_in, secret, secrets
from kajitori.install.checks import Finding, findings
from kajitori.install.gateway import with_groups_of
from kajitori.install.objects import Identity, Object, identity
from kajitori.install.record import Record, record_map, record_of
from kajitori.install.render import in_order, render
from kajitori.install.rollout import WORKLOADS, Progress, progress
from kajitori.install.settings import (
    CA_SECRET,
    RECORD,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    TLS_SECRET,
    InstallSettings,
    faults_of,
    parse_settings,
)
from kajitori.install.teams import team_objects
from kajitori.install.versions import breaks, faults_in, is_downgrade, step_fault
from kajitori.install.watching import RULE_KIND
from kajitori.install.workloads import POLICY
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIMS, CUSTOM_RESOURCES, PODS, SECRETS

Say = Callable[[str], None]
T = TypeVar("T")

LOOK_SECONDS = 1.0
SAID_AGAIN_SECONDS = 15.0
"""The progress of parts is told when it changes, and after this time."""
RUN_GONE_SECONDS = 300.0
DEFINITION = custom_resource_definition()["metadata"]["name"]
_DEFINITION = Identity(CUSTOM_RESOURCES.group, CUSTOM_RESOURCES.kind, "", DEFINITION)

_KEPT_WHEN_UNUSED = ("Namespace", "CustomResourceDefinition", "PriorityClass")
"""Kinds that stay if an installation does not need them any more: others may, or data would be lost."""
_OF_RUNS = ("definition", "owner-policy", "member-policy")
"""Objects that stored Runs need. They stay when the parts are removed."""


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
    """Return what would be applied to a new cluster, without asking one. Secrets with keys are not part of it."""
    return in_order(_files(_settings(options, None), *_texts(options, None)))


def check(options: InstallOptions) -> list[Finding]:
    """Return findings about the cluster. Nothing is changed."""

    async def work(client: KubeClient) -> list[Finding]:
        plan = await _plan(client, options, has_rights=False)
        return findings(await survey(client, plan.settings, plan.objects, plan.record), plan.settings, __version__)

    return _with_client(options, work)


def install(options: InstallOptions, say: Say) -> InstallSettings:
    """Apply everything and wait until it works. A second call repairs what a first one left half-done."""

    async def work(client: KubeClient) -> InstallSettings:
        plan = await _plan(client, options)
        if plan.record is not None and plan.record.version != __version__:
            message = f"Kajitori {plan.record.version} is installed in {plan.settings.namespace}; this is {__version__}"
            raise WrongState(message, hint="run kaji upgrade")
        await _apply(client, options, plan, say)
        return plan.settings

    return _with_client(options, work)


def upgrade(options: InstallOptions, say: Say) -> InstallSettings:
    """Replace the installed version by this one. Runs and their Pods are not touched.

    Raises WrongState if nothing is installed, and InvalidInput with every reason why this version cannot follow.
    """

    async def work(client: KubeClient) -> InstallSettings:
        plan = await _plan(client, options)
        if plan.record is None:
            raise WrongState(f"nothing is installed in {plan.settings.namespace}", hint="run kaji install")
        fault = step_fault(plan.record.version, __version__)
        if fault is not None:
            raise InvalidInput([fault])
        if is_downgrade(plan.record.version, __version__):
            say(f"Going back from {plan.record.version} to {__version__}: the newer definition of Runs stays.")
            plan.files.pop("definition")
        else:
            await _require_compatible(client)
            say(f"Upgrading from {plan.record.version} to {__version__}.")
        await _apply(client, options, plan, say)
        return plan.settings

    return _with_client(options, work)


def renew_certificates(options: InstallOptions, say: Say) -> None:
    """Renew the parts' certificate if it ends soon. The parts read it again by themselves."""

    async def work(client: KubeClient) -> None:
        namespace = options.namespace or names.NAMESPACE
        parts = await client.get(SECRETS, TLS_SECRET, namespace)
        authority = await client.get(SECRETS, CA_SECRET, namespace)
        before = issued_in(authority.get("data"), parts.get("data"))
        assert before is not None
        try:
            after = issue(names_in(before.certificate), datetime.now(UTC), before)
        except ValueError as error:
            message = f"the Secret {namespace}/{TLS_SECRET} holds no certificate that can be read: {error}"
            raise Unavailable(message, hint="kaji install makes another one") from error
        agents = f"{namespace}-agents"
        try:
            has_agents = await find(client, _secret(TLS_SECRET, agents)) is not None
        except Forbidden:
            has_agents = False
        for change in after.changes:
            say(change)
        if after.changes:
            for document in secrets(after, namespace, agents if has_agents else ""):
                await apply(client, document)
        say(f"The certificate ends on {ends(after.certificate):%Y-%m-%d}.")

    return _with_client(options, work)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """User data in a cluster."""

    runs: int
    active: int
    claims: int


def user_data(options: InstallOptions) -> Leftovers:
    """Return what users have in the cluster."""
    return _with_client(options, _user_data)


def uninstall(options: InstallOptions, say: Say, *, delete_runs: bool) -> list[str]:
    """Remove the installation; return what stays, in words.

    Runs, the definition that keeps them stored, their claims and blobs stay, unless `delete_runs`. Then the controllers
    first delete all Runs with their Pods.
    """

    async def work(client: KubeClient) -> list[str]:
        plan = await _plan(client, options, with_teams=False)
        if plan.record is None:
            hint = "runs that an earlier call left need their controllers: run kaji install first, to delete them"
            hint = hint if delete_runs else "name its namespace with -N; kaji install --check looks at the cluster"
            raise WrongState(f"nothing is installed in {plan.settings.namespace}", hint=hint)
        if delete_runs:
            await _delete_runs(client, say)
        of_runs = {identity(document) for name in _OF_RUNS for document in plan.files.get(name, ())}
        kept = {one for one in plan.record.objects if one.kind == "Namespace" or _is_policy(one, plan.settings)}
        if not delete_runs:
            kept |= of_runs
        gone = [one for one in (*plan.record.objects, *_secrets(plan.settings, delete_runs)) if one not in kept]
        await apply(client, record_map(plan.settings, plan.record.objects, complete=False, version=plan.record.version))
        for one in sorted(gone, key=_removal_order):
            if await remove(client, one):
                say(f"removed {one.kind} {one.name}")
        if delete_runs and not await wait_gone(client, _DEFINITION, 60):
            raise Unavailable(f"{DEFINITION} is still being deleted", hint="run kaji uninstall again")
        left = await _user_data(client)
        await remove(client, Identity("", "ConfigMap", plan.settings.namespace, RECORD))
        return _stays(plan, left, delete_runs=delete_runs)

    return _with_client(options, work)


# ---------------------------------------------------------------------------------------------- planning


def _with_client(options: InstallOptions, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with existing(options.kubeconfig, options.context) as client:
            return await work(client)

    return asyncio.run(run())


async def _plan(
    client: KubeClient, options: InstallOptions, *, has_rights: bool = True, with_teams: bool = True
) -> Plan:
    """Return what is to be applied. Without `has_rights`, what the caller may not read counts as missing.

    Raises InvalidInput if the policy in the cluster is faulty, unless its teams are left out.
    """

    async def config_map(namespace: str, name: str) -> Object | None:
        try:
            return await find(client, Identity("", "ConfigMap", namespace, name))
        except Forbidden:
            if has_rights:
                raise
            return None

    found = await config_map(options.namespace or _settings(options, None).namespace, RECORD)
    record = record_of(found) if found is not None else None
    settings = _settings(options, record)
    stored = await config_map(settings.namespace, POLICY)
    policy, networks = _texts(options, stored)
    resolved = await with_alerts(client, settings)
    files = _files(resolved, policy, networks) if with_teams else render(resolved, policy, networks)
    return Plan(settings, files, record)


class Asks(Protocol):
    """Sends a request to the API server, as KubeClient does."""

    async def request(self, method: str, path: str, /) -> bytes: ...


async def with_alerts(client: Asks, settings: InstallSettings) -> InstallSettings:
    """Return settings that name the form of the alert rules which this cluster reads."""
    if settings.monitoring.alerts != "auto":
        return settings
    try:
        await client.request("GET", f"/apis/{RULE_KIND[0]}")
        form = "prometheusRule"
    except NotFound:
        form = "configMap"
    return settings.model_copy(update={"monitoring": settings.monitoring.model_copy(update={"alerts": form})})


def _files(settings: InstallSettings, policy: str, networks: str) -> dict[str, list[Object]]:
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


def _settings(options: InstallOptions, record: Record | None) -> InstallSettings:
    """Return the settings of the options; without any, those of the last installation."""
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


def _texts(options: InstallOptions, stored: Object | None) -> tuple[str, str]:
    """Return policy and address registry: those of the options, else those in the cluster, which operators edit."""
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


async def _require_compatible(client: KubeClient) -> None:
    """Raise InvalidInput if stored Runs break under the new schema; all reasons at once."""
    try:
        stored = await client.get(CUSTOM_RESOURCES, DEFINITION)
    except NotFound:
        return
    old, new = _schema(stored), _schema(custom_resource_definition())
    if not any(True for _ in breaks(old, new)):
        return
    faults = []
    for run in (await client.list(RUNS)).items:
        shown = f"{run['metadata']['namespace']}/{run['metadata']['name']}"
        faults += [f"{shown}{fault}" for fault in faults_in(run, new, old)]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise InvalidInput.one(
            "runs",
            f"stored runs break under the new schema: {'; '.join(faults[:5])}{more}",
            hint="change or delete them first; nothing was changed",
        )


def _schema(definition: Object) -> dict[str, Any]:
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == names.VERSION]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


# ---------------------------------------------------------------------------------------------- applying


async def _apply(client: KubeClient, options: InstallOptions, plan: Plan, say: Say) -> None:
    """Apply namespaces, then the record, then all else; wait; remove what is not needed any more; close the record."""
    settings, before = plan.settings, plan.record.objects if plan.record is not None else ()
    wanted = [identity(document) for document in plan.objects]
    wanted += [one for one in before if one.kind in _KEPT_WHEN_UNUSED and one not in wanted]
    version = plan.record.version if plan.record is not None else __version__
    counted = dict.fromkeys(Change, 0)
    for name, objects in plan.files.items():
        if name == "certificates" and settings.tls.certificates == "own":
            await _apply_certificates(client, settings, say)
        for document in objects:
            change = await apply(client, document)
            counted[change] += 1
            if change is not Change.UNCHANGED:
                say(f"{change} {document['kind']} {document['metadata']['name']}")
        if name == "namespace":
            await apply(client, record_map(settings, {*before, *wanted}, complete=False, version=version))
            if settings.sign_in.issuer:
                await _ensure_sign_in_key(client, settings.namespace, say)
        if name == "definition":
            await wait_established(client, DEFINITION)
    say(", ".join(f"{count} {change}" for change, count in counted.items()))
    if options.wait_seconds:
        workloads = [document for document in plan.objects if document["kind"] in WORKLOADS]
        await _wait(client, [identity(workload) for workload in workloads], options.wait_seconds, say)
    for one in sorted(set(before) - set(wanted), key=_removal_order):
        if await remove(client, one):
            say(f"removed {one.kind} {one.name}, which is not needed any more")
    await apply(client, record_map(settings, wanted, complete=True))


async def _apply_certificates(client: KubeClient, settings: InstallSettings, say: Say) -> None:
    authority = await find(client, _secret(CA_SECRET, settings.namespace))
    parts = await find(client, _secret(TLS_SECRET, settings.namespace))
    before = issued_in(authority.get("data"), (parts or {}).get("data")) if authority is not None else None
    after = issue(settings.certificate_names, datetime.now(UTC), before)
    for change in after.changes:
        say(change)
    for document in secrets(after, settings.namespace, settings.agents_namespace if settings.agents.enabled else ""):
        await apply(client, document)


async def _ensure_sign_in_key(client: KubeClient, namespace: str, say: Say) -> None:
    """Make the key that encrypts the cookies of browsers, unless there is one: a new key ends all sessions."""
    found = await find(client, _secret(SIGN_IN_SECRET, namespace))
    key = base64.b64decode(((found or {}).get("data") or {}).get(SIGN_IN_KEY, ""))
    if len(key) >= SHORTEST_KEY_BYTES:
        return
    await apply(client, secret(SIGN_IN_SECRET, namespace, {SIGN_IN_KEY: token_bytes(SHORTEST_KEY_BYTES)}))
    say(f"made the key of browsers' sessions, Secret {SIGN_IN_SECRET}")


async def _wait(client: KubeClient, workloads: Sequence[Identity], seconds: float, say: Say) -> None:
    """Return when all parts are ready in the present version. Raises Unavailable, with what holds them up."""
    deadline, said, said_at = time.monotonic() + seconds, "", 0.0
    while True:
        states = [await _progress(client, one) for one in workloads]
        text, now = "; ".join(map(str, states)), time.monotonic()
        if text != said or now - said_at > SAID_AGAIN_SECONDS:
            say(text)
            said, said_at = text, now
        if all(state.is_done for state in states):
            return
        if now >= deadline:
            late = "; ".join(str(state) for state in states if not state.is_done)
            hint = "mend that and run the command again: it continues; --wait sets how long it waits"
            raise Unavailable(f"not ready after {seconds:.0f} s: {late}", hint=hint)
        await asyncio.sleep(LOOK_SECONDS)


async def _progress(client: KubeClient, one: Identity) -> Progress:
    workload = await find(client, one)
    if workload is None:
        raise Conflict(f"{one.kind} {one.name} was deleted meanwhile", hint="run the command again")
    state = progress(workload, ())
    if state.is_done:
        return state
    selector = f"app.kubernetes.io/name={one.name}"
    return progress(workload, (await client.list(PODS, one.namespace, label_selector=selector)).items)


# ---------------------------------------------------------------------------------------------- removing


async def _user_data(client: KubeClient) -> Leftovers:
    try:
        runs = (await client.list(RUNS)).items
    except NotFound:
        runs = []
    selector = names.MANAGED
    claims = (await client.list(CLAIMS, label_selector=selector)).items
    final = ("Succeeded", "Failed", "Stopped")
    active = sum((run.get("status") or {}).get("phase") not in final for run in runs)
    return Leftovers(len(runs), active, len(claims))


async def _delete_runs(client: KubeClient, say: Say) -> None:
    """Delete all Runs and wait until the controllers have removed what belongs to them."""
    deadline, said = time.monotonic() + RUN_GONE_SECONDS, -1
    while True:
        try:
            runs = (await client.list(RUNS)).items
        except NotFound:
            return
        if len(runs) != said:
            say(f"{_counted(len(runs), 'run')} left")
            said, deadline = len(runs), time.monotonic() + RUN_GONE_SECONDS
        if not runs:
            return
        for run in runs:
            if "deletionTimestamp" not in run["metadata"]:
                await client.delete(RUNS, run["metadata"]["name"], run["metadata"]["namespace"])
        if time.monotonic() > deadline:
            hint = "look at the controllers' logs, and run kaji uninstall again"
            raise Unavailable(f"{_counted(len(runs), 'run')} left: the controllers do not remove them", hint=hint)
        await asyncio.sleep(LOOK_SECONDS)


def _stays(plan: Plan, left: Leftovers, *, delete_runs: bool) -> list[str]:
    """Return what an uninstallation leaves, in words."""
    spaces = " ".join(document["metadata"]["name"] for document in plan.files["namespace"])
    found = []
    if left.runs:
        found.append(
            f"{_counted(left.runs, 'run')}, {left.active} of them active: Pods continue, and nothing restarts them"
        )
    if not delete_runs:
        found.append(f"the resource {DEFINITION} and the policy that protects runs' owners")
    if left.claims:
        found.append(f"{_counted(left.claims, 'volume claim')} with checkpoints")
    found.append(f"policy and address registry, in ConfigMap {plan.settings.namespace}/{POLICY}")
    found.append(f"the namespaces: kubectl delete namespace {spaces}")
    if plan.settings.store.url:
        found.append(f"code, logs and results in {plan.settings.store.url}")
    if plan.settings.agents.enabled:
        found.append("counters in the kernels of nodes: kaji agent uninstall on each, or a restart")
    return found


def _secrets(settings: InstallSettings, delete_runs: bool) -> list[Identity]:
    """Return the Secrets that an installation made."""
    found = [_secret(SIGN_IN_SECRET, settings.namespace)]
    found += [_secret(names.TICKETS_SECRET, settings.namespace)] if delete_runs else []
    if settings.tls.certificates == "own":
        found += [_secret(CA_SECRET, settings.namespace), _secret(TLS_SECRET, settings.namespace)]
        found += [_secret(TLS_SECRET, settings.agents_namespace)] if settings.agents.enabled else []
    return found


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _removal_order(one: Identity) -> tuple[int, Identity]:
    """Workloads go first, so that no part works with half of its rights; definitions go last."""
    order = {"Deployment": 0, "DaemonSet": 0, "CronJob": 0, "CustomResourceDefinition": 3, "Namespace": 4}
    return order.get(one.kind, 1), one


def _is_policy(one: Identity, settings: InstallSettings) -> bool:
    return one == Identity("", "ConfigMap", settings.namespace, POLICY)


def _secret(name: str, namespace: str) -> Identity:
    return Identity("", "Secret", namespace, name)
