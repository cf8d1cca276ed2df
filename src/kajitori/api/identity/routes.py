"""How people sign in, and who the caller is."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Shared, answer, describes
from kajitori.api.views.people import NamespaceRights, SignInView, TeamList, TeamView, WhoAmI
from kajitori.kube.resources import NODES, ROLE_BINDINGS

router = APIRouter(tags=["people"])

MAX_NAMESPACES = 64
"""Largest number of namespaces in which a caller's rights are asked for."""


@router.get("/v1/sign-in", responses=describes(SignInView), summary="Where people sign in")
async def sign_in(api: Shared) -> Response:
    """For everybody: `kaji login` and browsers ask this before they have credentials."""
    how = api.callers.sign_in
    if how is None:
        return answer(SignInView(issuer="", client_id="", scopes=[], certificate_authority="", namespace=api.namespace))
    return answer(
        SignInView(
            issuer=how.issuer,
            client_id=how.client_id,
            scopes=how.scopes.split(),
            certificate_authority=how.ca,
            namespace=api.namespace,
        )
    )


@router.get("/v1/whoami", responses=describes(WhoAmI), summary="The caller's name, groups and roles")
async def who_am_i(api: Shared, user: Caller) -> Response:
    """The API server's answers, which may be some seconds old."""
    known = {api.namespace, *(namespace for namespace, _ in api.mirror.runs)}
    for name, team in api.policy.current().policy.teams.items():
        known.update(team.namespaces_of(name))
    rights = await asyncio.gather(*(_rights(user, namespace) for namespace in sorted(known)[:MAX_NAMESPACES]))
    operator = await user.may("patch", "", resource=NODES)
    found = [right for right in rights if right is not None]
    return answer(WhoAmI(user=user.name, groups=sorted(user.groups), namespaces=found, operator=operator))


@router.get("/v1/teams", responses=describes(TeamList), summary="The teams of the policy")
async def teams(api: Shared, user: Caller) -> Response:
    """Groups and namespaces, for every caller: as with the rest of the policy, nothing of it is secret."""
    mine = set(user.groups)
    items = [
        TeamView(
            name=name,
            namespaces=list(team.namespaces_of(name)),
            groups=team.groups,
            leads=team.leads,
            viewers=team.viewers,
            yours=not mine.isdisjoint((*team.groups, *team.leads, *team.viewers)),
        )
        for name, team in sorted(api.policy.current().policy.teams.items())
    ]
    return answer(TeamList(items=items))


async def _rights(user: User, namespace: str) -> NamespaceRights | None:
    if not await user.may("list", namespace):
        return None
    if not await user.may("create", namespace):
        return NamespaceRights(namespace=namespace, role="viewer")
    leads = await user.may("create", namespace, resource=ROLE_BINDINGS)
    return NamespaceRights(namespace=namespace, role="lead" if leads else "user")
