"""Images, as far as a cluster has them: nodes pull them, so they are checked and named here."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer
from kajitori.docker.translation.container import NO_TIME, Container, image_id, seconds_of
from kajitori.docker.translation.filters import parse_filters
from kajitori.errors import InvalidInput, KajitoriError, NotFound

IMAGE_FILTERS = frozenset({"before", "dangling", "label", "reference", "since", "until"})
TAR_HINT = "push it to a registry that the nodes can reach, with the docker of a machine that has it"

routes = web.RouteTableDef()


@routes.post("/images/create")
async def pull(request: web.Request) -> web.StreamResponse:
    """Check an image: whether it has a valid name, and policy allows it. Nodes pull it when a container starts."""
    name, tag = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise InvalidInput.one("import", "images come from registries", hint=TAR_HINT)
    image = f"{name}@{tag}" if tag.startswith("sha256:") else f"{name}:{tag}" if tag else name
    await _check(engine_of(request), image)
    lines = [
        {"status": f"{image} may be used: each node pulls it when a container starts there"},
        {"status": f"Status: Image is up to date for {image}"},
    ]
    return web.Response(text="".join(json.dumps(line) + "\n" for line in lines), content_type="application/json")


@routes.get("/images/json")
async def list_images(request: web.Request) -> web.Response:
    filters = parse_filters(request.query.get("filters", ""), IMAGE_FILTERS)
    wanted = filters.get("reference", frozenset())
    found = await _known(engine_of(request))
    shown = [
        _summary(image, runs)
        for image, runs in found.items()
        if (not wanted or any(_is_meant(image, one) for one in wanted)) and "true" not in filters.get("dangling", ())
    ]
    return json_answer(shown)


@routes.get("/images/search")
async def search(request: web.Request) -> web.Response:
    raise InvalidInput.one("search", "registries are not searched", hint="use the registry's own page")


@routes.get("/images/{name:.+}/json")
async def inspect(request: web.Request) -> web.Response:
    engine, name = engine_of(request), request.match_info["name"]
    known = await _known(engine)
    image = next((one for one in known if _is_meant(one, name) or image_id(one).endswith(name)), None)
    if image is None:
        if name.startswith("sha256:"):
            raise NotFound(f"No such image: {name}")
        try:
            await _check(engine, name)
        except InvalidInput as error:
            raise NotFound(f"No such image: {name}: {error.message}") from error
        image = name
    runs = known.get(image, [])
    return json_answer(
        {
            "Id": image_id(image),
            "RepoTags": [_with_tag(image)],
            "RepoDigests": [image] if "@" in image else [],
            "Created": runs[-1].view["createdAt"] if runs else NO_TIME,
            "Size": 0,
            "Os": "linux",
            "Architecture": "amd64",
            "Config": {"Cmd": None, "Entrypoint": None, "Env": [], "Labels": {}, "ExposedPorts": {}, "WorkingDir": ""},
            "RootFS": {"Type": "layers", "Layers": []},
            "GraphDriver": {"Name": "kajitori", "Data": None},
            "Metadata": {"LastTagTime": NO_TIME},
        }
    )


@routes.get("/images/{name:.+}/history")
@routes.post("/images/{name:.+}/push")
@routes.post("/images/{name:.+}/tag")
@routes.get("/images/{name:.+}/get")
@routes.delete("/images/{name:.+}")
@routes.get("/images/get")
@routes.post("/images/load")
@routes.post("/images/prune")
@routes.post("/commit")
async def refuse(request: web.Request) -> web.Response:
    raise InvalidInput.one("image", "images stay in registries and on nodes, which delete unused ones", hint=TAR_HINT)


@routes.get("/distribution/{name:.+}/json")
async def distribution(request: web.Request) -> web.Response:
    raise InvalidInput.one("distribution", "nodes ask the registry, not this bridge", hint="docker pull checks a name")


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


async def _known(engine: Engine) -> dict[str, list[Container]]:
    """Return the images of the user's runs, each with its runs, newest first."""
    found: dict[str, list[Container]] = {}
    for container in await engine.platform.containers():
        found.setdefault(str(container.spec.get("image", "")), []).append(container)
    return found


def _summary(image: str, runs: list[Container]) -> dict[str, Any]:
    return {
        "Id": image_id(image),
        "ParentId": "",
        "RepoTags": [_with_tag(image)],
        "RepoDigests": [image] if "@" in image else [],
        "Created": int(seconds_of(str(runs[-1].view["createdAt"]))),
        "Size": 0,
        "SharedSize": -1,
        "Labels": {},
        "Containers": len(runs),
    }


def _with_tag(image: str) -> str:
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"


def _is_meant(image: str, wanted: str) -> bool:
    plain = wanted.removeprefix("docker.io/library/").removeprefix("docker.io/")
    return plain in (image, _with_tag(image), image.partition(":")[0])
