"""Show the policy in force, and check a new one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.policy.cluster_check import shortfall
from kajitori.api.policy.diff import diff
from kajitori.api.policy.pods import audit, enforcement_findings
from kajitori.api.requests.bodies import yaml_body
from kajitori.api.rights import User
from kajitori.api.views.configuration import (
    ClusterCheck,
    PodAudit,
    PolicyCheck,
    PolicyDiff,
    PolicyView,
    RuleGroupView,
    RuleView,
)
from kajitori.core.documents.fields import DnsLabel
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.model import Policy
from kajitori.core.policy.rules import rules_of
from kajitori.core.queue.guarantees import faults_of_guarantees

router = APIRouter(tags=["policy"])


@router.get("/v1/policy", responses=describes(PolicyView), summary="The policy in force")
async def get_policy(api: Shared, user: Caller) -> Response:
    """With the faults of the newest file, if they kept it from being loaded."""
    current = api.policy.current()
    document = current.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    path = str(current.path) if current.path is not None else ""
    findings = current.policy.start.findings
    findings += faults_of_guarantees(
        current.policy.guarantees, api.cluster.table(), current.policy.gpu.cpu_runs_on_gpu_nodes
    )
    findings = [*findings, *await enforcement_findings(api, user, current.policy)]
    view = PolicyView(
        path=path,
        version=current.version,
        policy=document,
        rules=_rule_views(current.policy),
        faults=list(current.faults),
        findings=findings,
    )
    return answer(view)


def _rule_views(policy: Policy) -> list[RuleGroupView]:
    groups = rules_of(policy)
    return [
        RuleGroupView(title=group.title, rules=[RuleView(field=rule.field, text=rule.text) for rule in group.rules])
        for group in groups
    ]


_YAML_BODY = {"requestBody": {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}}


class ClusterCheckParameters(Parameters):
    namespace: DnsLabel | None = None
    """Namespace in which to look for the objects of a run's namespace, such as claims. Default: the server's own."""


@router.post(
    "/v1/policy/check",
    responses=describes(PolicyCheck),
    openapi_extra=_YAML_BODY,
    summary="Check a policy file",
)
async def check_policy(user: Caller, request: Request) -> Response:
    """Lists every fault with its line. The policy in force does not change."""
    policy = parse_policy(await yaml_body(request))
    return answer(PolicyCheck(policy=policy.model_dump(mode="json", by_alias=True, exclude_none=True)))


@router.get(
    "/v1/policy/cluster",
    responses=describes(ClusterCheck),
    summary="Objects that the policy in force names and the cluster lacks",
)
async def check_cluster(api: Shared, user: Caller, query: Annotated[ClusterCheckParameters, Query()]) -> Response:
    """Looks up objects with the caller's rights. `notes` lists the fields that were not checked, and why."""
    return await _checked(api, user, api.policy.current().policy, query)


@router.post(
    "/v1/policy/cluster",
    responses=describes(ClusterCheck),
    openapi_extra=_YAML_BODY,
    summary="Objects that a policy file names and the cluster lacks",
)
async def check_file_against_cluster(
    api: Shared, user: Caller, request: Request, query: Annotated[ClusterCheckParameters, Query()]
) -> Response:
    """The same for a policy file. 422 if the file is faulty. The policy in force does not change."""
    return await _checked(api, user, parse_policy(await yaml_body(request)), query)


class AuditParameters(Parameters):
    namespace: DnsLabel | None = None
    """Only Pods in this namespace. Default: all namespaces in which the rules apply."""


@router.get("/v1/policy/pods", responses=describes(PodAudit), summary="Existing Pods that break the rules for Pods")
async def audit_pods(api: Shared, user: Caller, query: Annotated[AuditParameters, Query()]) -> Response:
    """Looks at Pods that were created without Kajitori, with the caller's rights. Nothing happens to these Pods."""
    return answer(await audit(api, user, api.policy.current().policy, query.namespace))


@router.post(
    "/v1/policy/diff",
    responses=describes(PolicyDiff),
    openapi_extra=_YAML_BODY,
    summary="Compare a new policy file with the policy in force",
)
async def diff_policy(
    api: Shared, user: Caller, request: Request, query: Annotated[ClusterCheckParameters, Query()]
) -> Response:
    """Covers fields, waiting runs, what the cluster lacks, and everybody's Pods. 422 if the file is faulty. The policy
    in force does not change."""
    policy = api.policy.completed(parse_policy(await yaml_body(request)))
    return answer(await diff(api, user, policy, query.namespace or api.namespace))


async def _checked(api: Api, user: User, policy: Policy, query: ClusterCheckParameters) -> Response:
    namespace = query.namespace or api.namespace
    missing = await shortfall(api, user, policy, namespace)
    return answer(ClusterCheck(namespace=namespace, faults=list(missing.faults), notes=list(missing.notes)))
