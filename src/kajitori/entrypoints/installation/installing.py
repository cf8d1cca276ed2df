"""`kaji install` and `kaji upgrade`: apply all objects with the operator's rights, and wait for the parts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from kajitori import __version__
from kajitori.cluster.platform.applying import Change, apply, find, remove, wait_established
from kajitori.cluster.platform.survey import secret_faults, survey
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.option_faults import raise_all
from kajitori.configuration.options.operators import InstallOptions
from kajitori.core.naming import names
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.entrypoints.installation.keys import apply_certificates, ensure_sign_in_key
from kajitori.entrypoints.installation.planning import (
    DEFINITION,
    LOOK_SECONDS,
    Plan,
    Say,
    plan_of,
    removal_order,
    with_client,
)
from kajitori.errors import Conflict, InvalidInput, NotFound, Unavailable, WrongState
from kajitori.install.checks import Finding, findings, lacking_faults
from kajitori.install.parts.objects import Identity, Object, identity
from kajitori.install.record import record_map
from kajitori.install.rollout import WORKLOADS, Progress, progress
from kajitori.install.settings import (
    InstallSettings,
)
from kajitori.install.versions import breaks, faults_in, is_downgrade, step_fault
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CUSTOM_RESOURCES, PODS

SAID_AGAIN_SECONDS = 15.0
"""The progress of parts is printed when it changes, and again after this time."""
_KEPT_WHEN_UNUSED = ("Namespace", "CustomResourceDefinition", "PriorityClass")
"""Kinds of objects that stay even if an installation no longer needs them: other programs may need them, or data would
be lost."""


def check(options: InstallOptions) -> list[Finding]:
    """Return findings about the cluster. Nothing is changed."""

    async def work(client: KubeClient) -> list[Finding]:
        plan = await plan_of(client, options, has_rights=False)
        return findings(await survey(client, plan.settings, plan.objects, plan.record), plan.settings, __version__)

    return with_client(options, work)


def install(options: InstallOptions, say: Say) -> InstallSettings:
    """Apply everything and wait until it works. A second call completes an interrupted one."""

    async def work(client: KubeClient) -> InstallSettings:
        plan = await plan_of(client, options)
        if plan.record is not None and plan.record.version != __version__:
            message = f"Kajitori {plan.record.version} is installed in {plan.settings.namespace}; this is {__version__}"
            raise WrongState(message, hint="run kaji upgrade")
        await _apply(client, options, plan, say)
        return plan.settings

    return with_client(options, work)


def upgrade(options: InstallOptions, say: Say) -> InstallSettings:
    """Replace the installed version by this one. Runs and their Pods are not touched.

    Raises WrongState if nothing is installed, and InvalidInput with every reason why this version cannot follow.
    """

    async def work(client: KubeClient) -> InstallSettings:
        plan = await plan_of(client, options)
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

    return with_client(options, work)


async def _require_compatible(client: KubeClient) -> None:
    """Raise InvalidInput if stored Runs break under the new schema; all reasons at once."""
    try:
        stored = await client.get(CUSTOM_RESOURCES, DEFINITION)
    except NotFound:
        return
    old, new = _stored_schema(stored), _stored_schema(custom_resource_definition())
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


def _stored_schema(definition: Object) -> dict[str, Any]:
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == names.VERSION]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


async def _apply(client: KubeClient, options: InstallOptions, plan: Plan, say: Say) -> None:
    """Apply the namespaces, then the record, then all other objects, and wait until the parts are ready. Then remove
    objects that are no longer needed, and mark the record as complete.

    Raises InvalidInput before anything is changed if Secrets that the settings name lack keys.
    """
    _, lacking = await secret_faults(client, plan.settings)
    raise_all(lacking_faults(lacking))  # Pods that mount them could not start
    settings, before = plan.settings, plan.record.objects if plan.record is not None else ()
    wanted = [identity(document) for document in plan.objects]
    wanted += [one for one in before if one.kind in _KEPT_WHEN_UNUSED and one not in wanted]
    version = plan.record.version if plan.record is not None else __version__
    counted = dict.fromkeys(Change, 0)
    for name, objects in plan.files.items():
        if name == "certificates" and settings.tls.certificates == "own":
            await apply_certificates(client, settings, say)
        for document in objects:
            change = await apply(client, document)
            counted[change] += 1
            if change is not Change.UNCHANGED:
                say(f"{change} {document['kind']} {document['metadata']['name']}")
        if name == "namespace":
            await apply(client, record_map(settings, {*before, *wanted}, complete=False, version=version))
            if settings.sign_in.issuer:
                await ensure_sign_in_key(client, settings.namespace, say)
        if name == "definition":
            await wait_established(client, DEFINITION)
    say(", ".join(f"{count} {change}" for change, count in counted.items()))
    if options.wait_seconds:
        workloads = [document for document in plan.objects if document["kind"] in WORKLOADS]
        await _wait(client, [identity(workload) for workload in workloads], options.wait_seconds, say)
    for one in sorted(set(before) - set(wanted), key=removal_order):
        if await remove(client, one):
            say(f"removed {one.kind} {one.name}, which is not needed any more")
    await apply(client, record_map(settings, wanted, complete=True))


async def _wait(client: KubeClient, workloads: Sequence[Identity], seconds: float, say: Say) -> None:
    """Return when all parts are ready in the present version. Raises Unavailable, which names the cause of the
    delay."""
    deadline, said, said_at = time.monotonic() + seconds, "", 0.0
    while True:
        states = [await _progress_of(client, one) for one in workloads]
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


async def _progress_of(client: KubeClient, one: Identity) -> Progress:
    workload = await find(client, one)
    if workload is None:
        raise Conflict(f"{one.kind} {one.name} was deleted meanwhile", hint="run the command again")
    state = progress(workload, ())
    if state.is_done:
        return state
    selector = f"app.kubernetes.io/name={one.name}"
    return progress(workload, (await client.list(PODS, one.namespace, label_selector=selector)).items)
