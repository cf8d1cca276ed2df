"""Routes for features that a cluster does not have: builds, swarms, plugins and a registry's sign-in. Each answers with
a sentence that says so."""

from __future__ import annotations

from aiohttp import web

from kajitori.docker.engine import json_answer
from kajitori.errors import NotFound, Unavailable, Unsupported

routes = web.RouteTableDef()


BUILDER_NAME = "buildx_buildkit_"
"""Beginning of the name of the container in which Docker's client builds if the engine can't."""


def no_builds() -> Unsupported:
    """Return the refusal of a build."""
    hint = "build it with another docker context or in CI, and push it to a registry that the nodes can reach"
    return Unsupported(f"images are not built on the cluster: {hint}; docker context use default")


@routes.post("/build")
@routes.post("/build/cancel")
@routes.post("/session")
@routes.post("/grpc")
async def build(request: web.Request) -> web.Response:
    raise no_builds()


@routes.post("/build/prune")
async def prune_builds(request: web.Request) -> web.Response:
    return json_answer({"CachesDeleted": [], "SpaceReclaimed": 0})


@routes.route("*", r"/{kind:swarm|nodes|services|tasks|secrets|configs}{rest:(/.*)?}")
async def swarm(request: web.Request) -> web.Response:
    raise Unavailable(
        "This node is not a swarm manager. Kubernetes runs this cluster: a gang is docker run --label kaji.replicas=4, "
        "and a secret is kaji secret create"
    )


@routes.get("/plugins")
async def plugins(request: web.Request) -> web.Response:
    return json_answer([])


@routes.get("/plugins/{name:.+}/json")
async def inspect_plugin(request: web.Request) -> web.Response:
    """Answer that there is none: `docker inspect` of an unknown name also asks for a plugin."""
    raise NotFound(f"plugin {request.match_info['name']} not found")


@routes.route("*", "/plugins/{rest:.*}")
async def plugin(request: web.Request) -> web.Response:
    raise Unsupported("a cluster has no plugins of Docker: ask its operators for volumes and networks")


@routes.post("/auth")
async def auth(request: web.Request) -> web.Response:
    hint = "a registry's credentials are with the cluster: ask its operators (policy's images)"
    raise Unsupported(f"nodes pull images, not this bridge: {hint}")
