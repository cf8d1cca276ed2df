"""How people sign in, and who the caller is."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.views.people import NamespaceRights, SignInView, WhoAmI
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


@router.get("/v1/whoami", responses=describes(WhoAmI), summary="Who the caller is, and where they may do what")
async def who_am_i(api: Shared, user: Caller) -> Response:
    """The API server's answers, which may be some seconds old."""
    known = {api.namespace, *(namespace for namespace, _ in api.mirror.runs)}
    rights = await asyncio.gather(*(_rights(user, namespace) for namespace in _first(api, known)))
    operator = await user.may("patch", "", resource=NODES)
    found = [each for each in rights if each is not None]
    return answer(WhoAmI(user=user.name, groups=sorted(user.groups), namespaces=found, operator=operator))


def _first(api: Api, namespaces: set[str]) -> list[str]:
    return sorted(namespaces)[:MAX_NAMESPACES]


async def _rights(user: User, namespace: str) -> NamespaceRights | None:
    if not await user.may("list", namespace):
        return None
    if not await user.may("create", namespace):
        return NamespaceRights(namespace=namespace, role="viewer")
    leads = await user.may("create", namespace, resource=ROLE_BINDINGS)
    return NamespaceRights(namespace=namespace, role="lead" if leads else "user")
