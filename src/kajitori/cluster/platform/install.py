"""Installs what Kajitori's controller and Web API need in a cluster."""

from __future__ import annotations

import logging

from kajitori.cluster.platform.applying import is_served, put, wait_established
from kajitori.core.admission.member_policy import member_policy, member_policy_binding
from kajitori.core.admission.owner_policy import owner_policy, owner_policy_binding
from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.errors import Forbidden, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import (
    CUSTOM_RESOURCES,
    PRIORITY_CLASSES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)

log = logging.getLogger(__name__)


async def install(client: KubeClient) -> None:
    """Apply the custom resource, the policies for owners and members, and the PriorityClass of members, and wait until
    Runs are served.

    It may be repeated, also by several processes at once. Without sufficient rights, it accepts an existing
    installation; raises Forbidden if there is none.
    """
    definition = custom_resource_definition()
    try:
        await put(client, PRIORITY_CLASSES, manifests.priority_class())
        await _apply_admission_policies(client)
        await put(client, CUSTOM_RESOURCES, definition)
    except Forbidden as error:
        if await is_served(client, (names.API_VERSION, names.PLURAL)):
            log.debug("what was installed before is used: %s", error.message)
            return
        raise Forbidden(
            f"Kajitori is not installed in this cluster, and with these credentials it cannot be: {error.message}",
            hint="an administrator runs `kaji install`; deploy/rbac.yaml says who needs which rights",
        ) from error
    await wait_established(client, definition["metadata"]["name"])


async def _apply_admission_policies(client: KubeClient) -> None:
    """Apply the policies before Runs are served, so that every run's owner is checked. An installer with the role of an
    earlier version may lack this right, and can still do the rest."""
    unprotected = "owners of runs, and labels of members, can be forged"
    try:
        for policy, binding in ((owner_policy(), owner_policy_binding()), (member_policy(), member_policy_binding())):
            await put(client, VALIDATING_POLICIES, policy)
            await put(client, VALIDATING_BINDINGS, binding)
    except NotFound:
        log.warning("this API server has no ValidatingAdmissionPolicy (Kubernetes 1.30): %s", unprotected)
    except Forbidden as error:
        files = "deploy/owner-policy.yaml and deploy/member-policy.yaml are"
        log.warning("%s unless %s applied: %s", unprotected, files, error.message)
