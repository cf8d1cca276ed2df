"""Volumes, which policy offers."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer, json_object
from kajitori.docker.translation.bodies import VolumeBody
from kajitori.docker.translation.container import NO_TIME
from kajitori.docker.translation.filters import parse_filters
from kajitori.errors import Forbidden, NotFound

PRUNE_FILTERS = frozenset({"all", "label", "label!"})
COMPOSE_LABEL = "com.docker.compose.volume"
"""Label of a volume that Docker Compose makes: its name in the Compose file."""
VOLUME_FILTERS = frozenset({"dangling", "driver", "label", "name"})

routes = web.RouteTableDef()


@routes.get("/volumes")
async def list_volumes(request: web.Request) -> web.Response:
    wanted = parse_filters(request.query.get("filters", ""), VOLUME_FILTERS).get("name", frozenset())
    volumes, note = await _volumes(engine_of(request))
    shown = [one for name, one in volumes.items() if not wanted or any(word in name for word in wanted)]
    return json_answer({"Volumes": shown, "Warnings": [note] if note else None})


@routes.post("/volumes/create")
async def create_volume(request: web.Request) -> web.Response:
    """Answer with a volume that policy offers. Others can't be made."""
    body = await json_object(request, VolumeBody)
    name = str(body.get("Name") or "")
    volumes, _ = await _volumes(engine_of(request))
    if name not in volumes:
        offered = ", ".join(volumes) or "none"
        hint = f"policy offers {offered}; ask the operators for another, or use --label kaji.checkpoint=/PATH"
        if volumes and (key := (body.get("Labels") or {}).get(COMPOSE_LABEL)):
            hint += f"; in the Compose file: volumes: {{{key}: {{external: true, name: {next(iter(volumes))}}}}}"
        missing = f"no volume {name}" if name else "no anonymous volume"
        raise Forbidden(f"volumes are made by the cluster's operators, and there is {missing}: {hint}")
    return json_answer(volumes[name], status=201)


@routes.get("/volumes/{name}")
async def inspect_volume(request: web.Request) -> web.Response:
    volumes, _ = await _volumes(engine_of(request))
    try:
        return json_answer(volumes[request.match_info["name"]])
    except KeyError:
        raise NotFound(f"get {request.match_info['name']}: no such volume") from None


@routes.post("/volumes/prune")
async def prune_volumes(request: web.Request) -> web.Response:
    """Answer that nothing was deleted. `docker system prune --volumes` asks this."""
    parse_filters(request.query.get("filters", ""), PRUNE_FILTERS)
    return json_answer({"VolumesDeleted": [], "SpaceReclaimed": 0})


@routes.delete("/volumes/{name}")
async def remove_volume(request: web.Request) -> web.Response:
    hint = "checkpoints: docker rm -v CONTAINER, or kaji volumes rm"
    raise Forbidden(f"volumes are kept by the cluster's operators; {hint}")


async def _volumes(engine: Engine) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the volumes that policy offers by name, and what is missing from them."""
    namespace = engine.platform.namespace
    answer = await engine.platform.get("/v1/volumes", {"namespace": namespace} if namespace else None)
    volumes = {
        one["name"]: {
            "Name": one["name"],
            "Driver": "kajitori",
            "Mountpoint": one["source"],
            "CreatedAt": one["createdAt"] or NO_TIME,
            "Labels": {},
            "Scope": "global",
            "Options": {"kind": one["kind"]},
            "Status": {"state": one["state"], "usedBy": one["usedBy"]},
        }
        for one in answer["items"]
        if one["kind"] not in ("folder", "checkpoint")
    }
    return volumes, str(answer["note"])
