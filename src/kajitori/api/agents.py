"""Identify the agent of a node."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import Depends
from starlette.requests import Request

from kajitori.api.auth import address_of, authenticated
from kajitori.api.context import Api, Shared
from kajitori.api.requests.middleware import note_caller
from kajitori.errors import InvalidInput, Unauthenticated
from kajitori.kube.resources import NODES


async def require_agent(api: Shared, request: Request, node: str) -> None:
    """Return if the request is from the agent of this node, or from a user who may patch the status of that Node.

    Raises Unauthenticated or Forbidden, and InvalidInput if there is no such node.
    """
    await _authenticate(api, request, node)
    if node not in api.mirror.nodes:
        raise InvalidInput.one(
            "node", f"this cluster has no node {node!r:.80}", value=node[:253], hint="see kaji nodes"
        )


async def _authenticate(api: Api, request: Request, node: str) -> None:
    header = request.headers.get("authorization", "")
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer":
        try:
            async with AsyncExitStack() as stack:
                if not api.traffic.agents.is_cached(token.strip()):
                    await stack.enter_async_context(api.callers.questions.one(address_of(request)))
                await api.traffic.agents.require(token.strip(), node)
        except Unauthenticated:
            pass  # not an agent's token: a user may have the right to patch the Node's status
        else:
            note_caller(request, f"agent of {node}")
            return
    async with asynccontextmanager(authenticated)(request) as user:
        await user.require("patch", "", node, resource=NODES, subresource="status")


NodeAgent = Depends(require_agent)
"""Dependency of routes for agents. As a dependency it comes before the route's own parameters are judged."""
