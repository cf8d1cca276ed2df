"""Tokens for robots: a service account, its role in the namespace and a token of it, with the caller's rights."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.rights import User
from kajitori.api.views.base import Deleted
from kajitori.api.views.people import Robot, RobotList, RobotToken
from kajitori.core.documents.faults import Document, show
from kajitori.core.documents.fields import DnsLabel, DurationAboveZero
from kajitori.core.kubernetes.texts import dns_label
from kajitori.core.naming import names
from kajitori.errors import AlreadyExists, Forbidden, KajitoriError, NotFound, Unsupported
from kajitori.install.parts.roles import TEAM_USER, TEAM_VIEWER
from kajitori.kube.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS

router = APIRouter(tags=["people"])

LABEL_ROBOT = f"{names.GROUP}/robot"
"""Label of service accounts that were made for robots; its value is the role."""
_ROLES = {"user": TEAM_USER, "viewer": TEAM_VIEWER}


class RobotRequest(Document):
    """A request for a robot's token."""

    name: DnsLabel
    """Name of the robot. If there is one already, it gets a further token."""
    namespace: DnsLabel | None = None
    """Default: the server's own."""
    role: Literal["user", "viewer"] = "user"
    """Rights of the robot in the namespace. user: those of the team's members. viewer: see runs."""
    ttl_seconds: Annotated[DurationAboveZero, Field(alias="ttl")] = 30 * 86400
    """How long the token is valid, from 10 minutes on. The API server may shorten it."""


class RobotParameters(Parameters):
    namespace: DnsLabel | None = None
    """Default: the server's own."""


@router.get("/v1/tokens", responses=describes(RobotList), summary="The robots of a namespace")
async def list_robots(api: Shared, user: Caller, query: Annotated[RobotParameters, Query()]) -> Response:
    """The API server keeps no tokens, so a robot is listed as long as its account exists."""
    namespace = query.namespace or api.namespace
    accounts = await user.client.list(SERVICE_ACCOUNTS, namespace, label_selector=LABEL_ROBOT)
    note = "" if accounts.items else await _why_impossible(user, namespace)
    robots = [
        Robot(
            name=account["metadata"]["name"],
            namespace=namespace,
            user=_user_name(namespace, account["metadata"]["name"]),
            role=account["metadata"]["labels"][LABEL_ROBOT],
            owner=(account["metadata"].get("annotations") or {}).get(names.ANNOTATION_OWNER, ""),
            created_at=account["metadata"].get("creationTimestamp") or "",
        )
        for account in accounts.items
    ]
    return answer(RobotList(namespace=namespace, items=sorted(robots, key=lambda robot: robot.name), note=note))


async def _why_impossible(user: User, namespace: str) -> str:
    """Return why no robot can be made if the API server has no RoleBindings; else an empty text."""
    try:
        await user.client.list(ROLE_BINDINGS, namespace, label_selector=LABEL_ROBOT)
    except NotFound as error:  # the API server does not serve this kind
        return f"no robot can have rights of its own here: {error.message}"
    except Forbidden:
        pass  # the API server says so when a token is made
    return ""


@router.post(
    "/v1/tokens",
    status_code=201,
    responses=describes(RobotToken, status=201),
    openapi_extra=takes(RobotRequest),
    summary="Make a token for a robot",
)
async def create_token(api: Shared, user: Caller, request: Request) -> Response:
    """Only this answer contains the token, which is not stored. Needs the rights of a team's lead."""
    wanted = await body_of(request, RobotRequest)
    namespace = wanted.namespace or api.namespace
    if why := await _why_impossible(user, namespace):
        raise Unsupported(
            why, hint="programs on this machine use the token that its owner has: kaji finds it by itself"
        )
    account, is_new = await _account(user, wanted, namespace)
    try:
        await _bind(user, account, wanted, namespace)
        made = await _token(user, wanted, namespace)
    except KajitoriError:
        if is_new:  # a robot without a role or a token would be left over
            with contextlib.suppress(KajitoriError):
                await user.client.delete(SERVICE_ACCOUNTS, wanted.name, namespace)
        raise
    status = made["status"]
    return answer(
        RobotToken(
            name=wanted.name,
            namespace=namespace,
            user=_user_name(namespace, wanted.name),
            role=wanted.role,
            token=status["token"],
            expires_at=status["expirationTimestamp"],
        ),
        201,
    )


@router.delete("/v1/tokens/{name}", status_code=202, responses=describes(Deleted, status=202), summary="Delete a robot")
async def delete_robot(api: Shared, user: Caller, name: str, query: Annotated[RobotParameters, Query()]) -> Response:
    """All of its tokens end: at the API server at once or within seconds, here within a minute."""
    namespace = query.namespace or api.namespace
    hint = "see them all: kaji token ls"
    missing = NotFound(f"there is no robot {show(name)!r} in namespace {namespace}", hint=hint)
    if dns_label(name):
        raise missing
    await user.require("delete", namespace, name, resource=SERVICE_ACCOUNTS)
    try:
        account = await user.client.get(SERVICE_ACCOUNTS, name, namespace)
        if LABEL_ROBOT not in (account["metadata"].get("labels") or {}):
            raise missing
        with contextlib.suppress(NotFound):
            await user.client.delete(ROLE_BINDINGS, _binding_name(name), namespace)
        await user.client.delete(SERVICE_ACCOUNTS, name, namespace)
    except NotFound:
        raise missing from None
    return answer(Deleted(name=name, namespace=namespace), 202)


async def _account(user: User, wanted: RobotRequest, namespace: str) -> tuple[dict[str, Any], bool]:
    """Return the robot's account, and whether it was made now."""
    metadata = {
        "name": wanted.name,
        "namespace": namespace,
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, LABEL_ROBOT: wanted.role},
        "annotations": {names.ANNOTATION_OWNER: user.name},
    }
    document = {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }
    try:
        return await user.client.create(SERVICE_ACCOUNTS, document, namespace), True
    except AlreadyExists:
        account = await user.client.get(SERVICE_ACCOUNTS, wanted.name, namespace)
    except NotFound as error:
        raise NotFound(f"there is no namespace {namespace!r}", hint="name one that you may use") from error
    role = (account["metadata"].get("labels") or {}).get(LABEL_ROBOT)
    if role is None:
        message = f"the service account {wanted.name!r} in namespace {namespace} was not made for a robot"
        raise AlreadyExists(message, hint="choose another name")
    if role != wanted.role:
        hint = f"use --role {role}, choose another name, or delete it first: kaji token rm {wanted.name}"
        raise AlreadyExists(f"the robot {wanted.name!r} has the role {role}", hint=hint)
    return account, False


async def _bind(user: User, account: dict[str, Any], wanted: RobotRequest, namespace: str) -> None:
    """Give the robot its role. The binding goes with the account."""
    owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": wanted.name, "uid": account["metadata"]["uid"]}
    group = ROLE_BINDINGS.group
    binding = {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {
            "name": _binding_name(wanted.name),
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "ownerReferences": [owner],
        },
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _ROLES[wanted.role]},
        "subjects": [{"kind": "ServiceAccount", "name": wanted.name, "namespace": namespace}],
    }
    with contextlib.suppress(AlreadyExists):
        await user.client.create(ROLE_BINDINGS, binding, namespace)


async def _token(user: User, wanted: RobotRequest, namespace: str) -> dict[str, Any]:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(wanted.ttl_seconds)},
    }
    path = f"{SERVICE_ACCOUNTS.path(namespace, wanted.name)}/token"
    answer: dict[str, Any] = msgspec.json.decode(await user.client.request("POST", path, body=body))
    return answer


def _binding_name(robot: str) -> str:
    return f"robot-{robot}"


def _user_name(namespace: str, robot: str) -> str:
    return f"system:serviceaccount:{namespace}:{robot}"
