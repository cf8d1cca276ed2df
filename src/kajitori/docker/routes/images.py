"""Images, as far as a cluster has them: nodes pull them, so they are checked and listed here."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer
from kajitori.docker.translation.filters import parse_filters
from kajitori.docker.translation.images import Image, familiar_name, find, fits, gathered
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unsupported

PRUNE_FILTERS = frozenset({"dangling", "label", "label!", "until"})
IMAGE_FILTERS = frozenset({"before", "dangling", "label", "reference", "since", "until"})
IN_REGISTRIES = "push it to a registry that the nodes can reach, with the docker of a machine that has it"

routes = web.RouteTableDef()


@routes.post("/images/create")
async def pull(request: web.Request) -> web.StreamResponse:
    """Check an image: whether it has a valid name, and policy allows it. Nodes pull it when a container starts."""
    name, tag = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise Unsupported("images come from registries", hint=IN_REGISTRIES)
    image = f"{name}@{tag}" if tag.startswith("sha256:") else f"{name}:{tag}" if tag else name
    engine = engine_of(request)
    await _check(engine, image)
    engine.checked_images[familiar_name(image)] = None
    lines = [{"status": f"{image} may be used: each node pulls it when a container starts there"}]
    response = web.StreamResponse(headers={"Content-Type": "application/json"})  # docker-py reads chunks only
    await response.prepare(request)
    for line in lines:
        await response.write(json.dumps(line).encode() + b"\n")
    await response.write_eof()
    return response


@routes.get("/images/json")
async def list_images(request: web.Request) -> web.Response:
    filters = parse_filters(request.query.get("filters", ""), IMAGE_FILTERS)
    if "true" in filters.get("dangling", ()) or filters.get("label"):
        return json_answer([])  # only images with names are known, and no labels of them
    wanted = filters.get("reference", frozenset())
    images = await known_images(engine_of(request))
    return json_answer([one.summary() for one in images if not wanted or any(fits(one, text) for text in wanted)])


@routes.get("/images/search")
async def search(request: web.Request) -> web.Response:
    raise Unsupported("registries are not searched", hint="use the registry's own page")


@routes.get("/images/{name:.+}/json")
async def inspect(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    image = find(await known_images(engine_of(request)), name)
    if image is None:
        raise NotFound(f"No such image: {name}")
    return json_answer(image.inspection())


@routes.post("/images/prune")
async def prune(request: web.Request) -> web.Response:
    """Answer that nothing was deleted: nodes delete images that they no longer use. `docker system prune` asks this."""
    parse_filters(request.query.get("filters", ""), PRUNE_FILTERS)
    return json_answer({"ImagesDeleted": None, "SpaceReclaimed": 0})


@routes.delete("/images/{name:.+}")
async def remove(request: web.Request) -> web.Response:
    raise Unsupported("nodes delete images themselves, once they need the space and no container uses them")


@routes.post("/images/{name:.+}/push")
@routes.post("/images/{name:.+}/tag")
@routes.post("/images/load")
async def make(request: web.Request) -> web.Response:
    raise Unsupported("images are made elsewhere, and come from registries", hint=IN_REGISTRIES)


@routes.post("/commit")
async def commit(request: web.Request) -> web.Response:
    name = request.query.get("container", "")
    kept = (await engine_of(request).platform.find(name)).what_is_kept if name else ""
    raise Unsupported("images are made elsewhere, and come from registries", hint=kept or IN_REGISTRIES)


@routes.get("/images/{name:.+}/history")
@routes.get("/images/{name:.+}/get")
@routes.get("/images/get")
@routes.get("/distribution/{name:.+}/json")
async def look_into(request: web.Request) -> web.Response:
    hint = "ask the registry with the docker of another machine; docker pull checks a name here"
    raise Unsupported("what is in an image is known to nodes and registries only", hint=hint)


async def known_images(engine: Engine) -> list[Image]:
    """Return the images that nodes have, those of the user's runs, and those that were checked by a pull."""
    return gathered(await engine.images_on_nodes(), await engine.platform.containers(), engine.checked_images)


async def _check(engine: Engine, image: str) -> None:
    """Raise InvalidInput or NotFound unless a run may use the image."""
    body: dict[str, Any] = {"spec": {"image": image, "args": ["true"]}}
    if engine.platform.namespace:
        body["namespace"] = engine.platform.namespace
    try:
        await engine.platform.post("/v1/runs", body, {"dryRun": "true"})
    except InvalidInput as error:
        faults = [fault for fault in error.faults if fault.field == "spec.image"]
        if faults:
            raise InvalidInput(faults) from error
    except NotFound as error:
        raise KajitoriError(error.message, hint=error.hint) from error
