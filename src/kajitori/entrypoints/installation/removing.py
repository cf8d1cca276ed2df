"""`kaji uninstall`: remove the parts, and report which objects stay."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from kajitori.cluster.platform.applying import apply, remove, wait_gone
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.options.operators import InstallOptions
from kajitori.core.naming import names
from kajitori.entrypoints.installation.planning import (
    DEFINITION,
    LOOK_SECONDS,
    Plan,
    Say,
    plan_of,
    removal_order,
    secret_id,
    with_client,
)
from kajitori.errors import NotFound, Unavailable, WrongState
from kajitori.install.parts.objects import Identity, identity
from kajitori.install.parts.workloads import POLICY
from kajitori.install.record import record_map
from kajitori.install.settings import (
    CA_SECRET,
    RECORD,
    SIGN_IN_SECRET,
    TLS_SECRET,
    InstallSettings,
)
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIMS, CUSTOM_RESOURCES

RUN_GONE_SECONDS = 300.0
"""How long to wait for the controllers to remove the next run."""
_DEFINITION = Identity(CUSTOM_RESOURCES.group, CUSTOM_RESOURCES.kind, "", DEFINITION)
_OF_RUNS = ("definition", "owner-policy", "member-policy")
"""Objects that stored Runs need. They stay when the parts are removed."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """User data in a cluster."""

    runs: int
    active: int
    claims: int


def user_data(options: InstallOptions) -> Leftovers:
    """Return the users' data in the cluster."""
    return with_client(options, _user_data)


def uninstall(options: InstallOptions, say: Say, *, delete_runs: bool) -> list[str]:
    """Remove the installation; return sentences about the objects that stay.

    Runs, the definition that keeps them stored, their claims and blobs stay, unless `delete_runs`. Then the controllers
    first delete all Runs with their Pods.
    """

    async def work(client: KubeClient) -> list[str]:
        plan = await plan_of(client, options, with_teams=False)
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
        gone = [one for one in (*plan.record.objects, *_own_secrets(plan.settings, delete_runs)) if one not in kept]
        await apply(client, record_map(plan.settings, plan.record.objects, complete=False, version=plan.record.version))
        for one in sorted(gone, key=removal_order):
            if await remove(client, one):
                say(f"removed {one.kind} {one.name}")
        if delete_runs and not await wait_gone(client, _DEFINITION, 60):
            raise Unavailable(f"{DEFINITION} is still being deleted", hint="run kaji uninstall again")
        left = await _user_data(client)
        await remove(client, Identity("", "ConfigMap", plan.settings.namespace, RECORD))
        return _what_stays(plan, left, delete_runs=delete_runs)

    return with_client(options, work)


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


def _what_stays(plan: Plan, left: Leftovers, *, delete_runs: bool) -> list[str]:
    """Return sentences about the objects that an uninstallation leaves."""
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


def _own_secrets(settings: InstallSettings, delete_runs: bool) -> list[Identity]:
    """Return the Secrets that an installation made."""
    found = [secret_id(SIGN_IN_SECRET, settings.namespace)]
    found += [secret_id(names.TICKETS_SECRET, settings.namespace)] if delete_runs else []
    if settings.tls.certificates == "own":
        found += [secret_id(CA_SECRET, settings.namespace), secret_id(TLS_SECRET, settings.namespace)]
        found += [secret_id(TLS_SECRET, settings.agents_namespace)] if settings.agents.enabled else []
    return found


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _is_policy(one: Identity, settings: InstallSettings) -> bool:
    return one == Identity("", "ConfigMap", settings.namespace, POLICY)
