"""How people sign in, and who the caller is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters, ShortName
from kajitori.api.auth import Caller
from kajitori.api.browsers.sessions import LINK_SECONDS
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.rights import User
from kajitori.api.views.people import NamespaceRights, SignInLink, SignInView, TeamList, TeamView, WhoAmI
from kajitori.core.policy.teams import Team
from kajitori.errors import Forbidden
from kajitori.kube.resources import NODES, PODS, ROLE_BINDINGS, SECRETS

router = APIRouter(tags=["people"])

_SERVICE_ACCOUNT = "system:serviceaccount:"
"""Beginning of the names of service accounts; the namespace follows."""

_EVERYWHERE = ""
"""Stands for all namespaces in a question about rights."""

MAX_NAMESPACES = 64
"""Largest number of namespaces in which the API server is asked for a caller's rights."""


@dataclass(frozen=True)
class KnownNamespaces:
    """Namespaces in which a caller may have rights."""

    first: list[str]
    """At most MAX_NAMESPACES, those that concern the caller first."""
    own_beyond: int
    """Number of those beyond them that concern the caller: of their teams, runs and RoleBindings."""
    others_beyond: int
    """Number of the others beyond them."""


@router.get("/v1/sign-in", responses=describes(SignInView), summary="Where people sign in")
async def sign_in(api: Shared) -> Response:
    """For everybody: `kaji login` and browsers ask this before they have credentials."""
    provider = api.callers.sign_in
    if provider is None:
        return answer(SignInView(issuer="", client_id="", scopes=[], certificate_authority="", namespace=api.namespace))
    return answer(
        SignInView(
            issuer=provider.issuer,
            client_id=provider.client_id,
            scopes=provider.scopes.split(),
            certificate_authority=provider.ca,
            namespace=api.namespace,
        )
    )


@router.post(
    "/v1/sign-in-links",
    status_code=201,
    responses=describes(SignInLink, status=201),
    summary="Make a link that signs a browser in",
)
async def make_link(api: Shared, user: Caller, request: Request) -> Response:
    """For `kaji open`: the page sends the code back, once and soon, and the browser gets a session as this caller. Only
    callers with a token of their own can make a link, not browsers."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if not scheme:
        raise Forbidden("the session of a browser cannot make links", hint="use the command line: kaji open")
    code = api.callers.browsers.make_link(token.strip())
    return answer(SignInLink(code=code, user=user.name, expires_in_seconds=LINK_SECONDS), 201)


class WhoAmIParameters(Parameters):
    namespace: ShortName = ""
    """Also look into this namespace, which may be that of no team and no run."""


@router.get("/v1/whoami", responses=describes(WhoAmI), summary="The caller's name, groups and roles")
async def who_am_i(api: Shared, user: Caller, query: Annotated[WhoAmIParameters, Query()]) -> Response:
    """The API server's answers, which may be some seconds old. Namespaces are those of teams and runs, those with
    a RoleBinding of the caller or of a group of the caller, and the one that is asked for. In a cluster of many
    namespaces, some in which the caller has neither a team nor a run nor a RoleBinding are left out."""
    known = await namespaces_for(api, user, query.namespace)
    rights, everywhere = await asyncio.gather(
        asyncio.gather(*(_rights(user, name) for name in known.first)), _rights(user, _EVERYWHERE)
    )
    return answer(
        WhoAmI(
            user=user.name,
            groups=sorted(user.groups),
            namespaces=sorted((right for right in rights if right is not None), key=lambda right: right.namespace),
            everywhere=everywhere.role if everywhere is not None else "",
            operator=await user.may("patch", "", resource=NODES),
        )
    )


@router.get("/v1/teams", responses=describes(TeamList), summary="The teams of the policy")
async def teams(api: Shared, user: Caller) -> Response:
    """Groups and namespaces, for every caller: as with the rest of the policy, nothing of it is secret."""
    items = [
        TeamView(
            name=name,
            namespaces=list(team.namespaces_of(name)),
            groups=team.groups,
            leads=team.leads,
            viewers=team.viewers,
            yours=_is_in(team, user),
        )
        for name, team in sorted(api.policy.current().policy.teams.items())
    ]
    return answer(TeamList(items=items))


async def namespaces_for(api: Api, user: User, asked: str = "") -> KnownNamespaces:
    """Return the namespaces in which the caller may have rights: those of teams, of runs and of RoleBindings."""
    teams = api.policy.current().policy.teams
    own = {api.namespace} | ({asked} if asked else set())
    if user.name.startswith(_SERVICE_ACCOUNT):
        own.add(user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0])
    own |= {namespace for (namespace, _), run in api.mirror.runs.items() if run.owner == user.name}
    others = {namespace for namespace, _ in api.mirror.runs}
    for name, team in teams.items():
        (own if _is_in(team, user) else others).update(team.namespaces_of(name))
    bound = await api.callers.bound.of(user) - own
    concern = [*sorted(own), *sorted(bound)]
    known = [*concern, *sorted(others - own - bound)]
    own_beyond = max(0, len(concern) - MAX_NAMESPACES)
    beyond = max(0, len(known) - MAX_NAMESPACES)
    return KnownNamespaces(known[:MAX_NAMESPACES], own_beyond, beyond - own_beyond)


def _is_in(team: Team, user: User) -> bool:
    return not set(user.groups).isdisjoint(team.all_groups)


async def _rights(user: User, namespace: str) -> NamespaceRights | None:
    if not await user.may("list", namespace):
        return None
    logs = await user.may("get", namespace, resource=PODS, subresource="log")
    secrets = await user.may("create", namespace, resource=SECRETS)
    role: Literal["viewer", "user", "lead"] = "viewer"
    if await user.may("create", namespace):
        role = "lead" if await user.may("create", namespace, resource=ROLE_BINDINGS) else "user"
    return NamespaceRights(namespace=namespace, role=role, logs=logs, secrets=secrets)
