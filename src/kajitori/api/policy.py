"""Show the policy in force, and check a new one."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.bodies import yaml_body
from kajitori.api.context import Shared, answer, describes
from kajitori.api.runs.views import PolicyCheck, PolicyView
from kajitori.core.policy.file import parse_policy
from kajitori.core.queue.guarantees import beyond

router = APIRouter(tags=["policy"])


@router.get("/v1/policy", responses=describes(PolicyView), summary="The policy in force")
async def get_policy(api: Shared, user: Caller) -> Response:
    """With the faults of the newest file, if they kept it from being loaded."""
    current = api.policy.current()
    document = current.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    path = str(current.path) if current.path is not None else ""
    findings = current.policy.start.findings
    findings += beyond(current.policy.guarantees, api.cluster.table(), current.policy.gpu.cpu_runs_on_gpu_nodes)
    faults = list(current.faults)
    return answer(PolicyView(path=path, version=current.version, policy=document, faults=faults, findings=findings))


@router.post(
    "/v1/policy/check",
    responses=describes(PolicyCheck),
    openapi_extra={"requestBody": {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}},
    summary="Check a policy file",
)
async def check_policy(user: Caller, request: Request) -> Response:
    """Lists every fault with its line. The policy in force does not change."""
    policy = parse_policy(await yaml_body(request))
    return answer(PolicyCheck(policy=policy.model_dump(mode="json", by_alias=True, exclude_none=True)))
