"""Networks, in which containers find each other by name. The cluster knows a network while a run is in it; one that is
empty is known to this bridge alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from kajitori.docker.engine import Engine, engine_of, json_answer, json_object
from kajitori.docker.platform import run_path
from kajitori.docker.translation.bodies import JoiningBody, NetworkBody
from kajitori.docker.translation.container import BUILT_IN_NETWORKS, NO_TIME, Container, network_id
from kajitori.docker.translation.creation import check_endpoint, marked_internal, network_uses
from kajitori.docker.translation.filters import Filters, has_labels, parse_filters
from kajitori.docker.translation.request import Creation
from kajitori.errors import AlreadyExists, Forbidden, InvalidInput, NotFound

NETWORK_PRUNE_FILTERS = frozenset({"label", "label!", "until"})
NETWORK_FILTERS = frozenset({"dangling", "driver", "id", "label", "name", "scope", "type", "until"})

routes = web.RouteTableDef()


@routes.get("/networks")
async def list_networks(request: web.Request) -> web.Response:
    filters = parse_filters(request.query.get("filters", ""), NETWORK_FILTERS)
    networks = await _networks(engine_of(request))
    return json_answer([one for one in networks.values() if _fits(one, filters)])


@routes.post("/networks/create")
async def create_network(request: web.Request) -> web.Response:
    body = await json_object(request, NetworkBody)
    name, engine = str(body.get("Name") or ""), engine_of(request)
    if not name:
        raise InvalidInput.one("Name", "a network needs a name")
    if name in await _networks(engine):
        raise AlreadyExists(f"network with name {name} already exists")
    driver = body.get("Driver") or "bridge"
    if driver in ("host", "null"):
        raise Forbidden(f'only one instance of "{driver}" network is allowed')
    given = {"Labels": body.get("Labels") or {}, "Driver": driver}
    engine.networks[name] = _network(name) | given | {"Internal": bool(body.get("Internal"))}
    warning = "containers in it find each other by name; it restricts no connections"
    if body.get("Internal"):
        warning = (
            "containers that are in no other network connect within the namespace only, if the cluster enforces it"
        )
    if (body.get("IPAM") or {}).get("Config") or body.get("EnableIPv6"):
        warning += "; --subnet, --gateway, --ip-range and --ipv6 change nothing: the cluster assigns addresses"
    return json_answer({"Id": _network(name)["Id"], "Warning": warning}, status=201)


@routes.post("/networks/prune")
async def prune_networks(request: web.Request) -> web.Response:
    filters = parse_filters(request.query.get("filters", ""), NETWORK_PRUNE_FILTERS)
    engine = engine_of(request)
    used = {name for one in await engine.platform.containers(active=True) for name in engine.networks_of(one)}
    unused = [one for name, one in engine.networks.items() if name not in used and _may_be_pruned(one, filters)]
    for network in unused:
        del engine.networks[str(network["Name"])]
    return json_answer({"NetworksDeleted": [network["Name"] for network in unused]})


def _may_be_pruned(network: dict[str, Any], filters: Filters) -> bool:
    labels, kept = network["Labels"], filters.get("label!", frozenset())
    return has_labels(labels, filters.get("label", ())) and not (kept and has_labels(labels, kept))


@routes.get("/networks/{id}")
async def inspect_network(request: web.Request) -> web.Response:
    engine = engine_of(request)
    network = await network_of(engine, request.match_info["id"])
    members = [one for one in await engine.platform.containers(active=True) if _is_in(engine, one, network)]
    return json_answer(network | {"Containers": {one.id: _member(one) for one in members}})


def _is_in(engine: Engine, container: Container, network: Mapping[str, Any]) -> bool:
    return network["Name"] in engine.networks_of(container)


def _member(container: Container) -> dict[str, str]:
    return {"Name": container.name, "EndpointID": container.id, "MacAddress": "", "IPv4Address": "", "IPv6Address": ""}


@routes.delete("/networks/{id}")
async def remove_network(request: web.Request) -> web.Response:
    engine = engine_of(request)
    network = await network_of(engine, request.match_info["id"])
    name = str(network["Name"])
    if name in BUILT_IN_NETWORKS:
        raise Forbidden(f"{name} is a pre-defined network and cannot be removed")
    used_by = [one.name for one in await engine.platform.containers(active=True) if _is_in(engine, one, network)]
    if used_by:
        raise Forbidden(f"error while removing network: network {name} has active endpoints: {', '.join(used_by)}")
    engine.networks.pop(name, None)
    return web.Response(status=204)


@routes.post("/networks/{id}/connect")
async def connect(request: web.Request) -> web.Response:
    """Connect a container that exists. Others find it by its names there at once; its own program finds names of the
    network after its next start, since a Pod's search domains are fixed."""
    engine, name, container, body = await _joining(request)
    endpoint, made = body.get("EndpointConfig") or {}, Creation(container.name)
    check_endpoint(made, endpoint)
    if made.faults:
        raise InvalidInput(made.faults)
    aliases = list(endpoint.get("Aliases") or ())
    networks = engine.networks_of(container)
    if name in networks:
        raise Forbidden(f"endpoint with name {container.name} already exists in network {name}")
    joined = network_uses(made, {name: aliases})
    await _put(engine, container, name, networks | {name: aliases}, joined)
    return web.Response(status=200)


@routes.post("/networks/{id}/disconnect")
async def disconnect(request: web.Request) -> web.Response:
    engine, name, container, _ = await _joining(request)
    networks = engine.networks_of(container)
    if networks.pop(name, None) is None:
        raise Forbidden(f"container {container.id} is not connected to network {name}")
    await _put(engine, container, name, networks, [])
    return web.Response(status=200)


async def _put(
    engine: Engine, container: Container, name: str, networks: Mapping[str, list[str]], uses: list[dict[str, Any]]
) -> None:
    """Let the run use a network in this way. `networks` are all of the container's then."""
    used, then = container.spec.get("networks") or [], container
    if name in BUILT_IN_NETWORKS:
        engine.built_in_networks[container.uid] = {one: networks[one] for one in BUILT_IN_NETWORKS if one in networks}
    else:
        others = [use for use in used if use["name"] != name]
        then = Container({**container.view, "spec": {**container.spec, "networks": [*others, *uses]}})
    internal = [key for key, one in (await _networks(engine)).items() if one["Internal"]]
    changed = marked_internal(then.spec.get("networks") or (), internal, engine.networks_of(then))
    if then is not container or _marks(changed) != _marks(used):
        await engine.platform.call("PATCH", run_path(container), body={"networks": changed})


def _marks(uses: Iterable[Mapping[str, Any]]) -> list[bool]:
    return [bool(use.get("internal")) for use in uses]


async def _joining(request: web.Request) -> tuple[Engine, str, Container, dict[str, Any]]:
    """Return the name of the network and the container that a request names, and the request's body."""
    engine, body = engine_of(request), await json_object(request, JoiningBody)
    name = str((await network_of(engine, request.match_info["id"]))["Name"])
    return engine, name, await engine.platform.find(str(body.get("Container") or "")), body


async def _networks(engine: Engine) -> dict[str, dict[str, Any]]:
    """Return all networks by name: those of runs that have not ended, and those that clients made."""
    networks = {name: _network(name) for name in BUILT_IN_NETWORKS}
    for container in await engine.platform.containers(active=True):
        for name in container.networks.keys() - networks.keys():
            networks[name] = _network(name) | {"Labels": dict(container.network_labels.get(name) or {})}
        for use in container.spec.get("networks") or ():
            networks[use["name"]]["Internal"] |= bool(use.get("internal"))
    return networks | engine.networks


async def network_of(engine: Engine, reference: str) -> dict[str, Any]:
    """Return the network that a name, an id or the beginning of an id means. Raises NotFound."""
    networks = await _networks(engine)
    if reference in networks:
        return networks[reference]
    matching = [one for one in networks.values() if str(one["Id"]).startswith(reference)]
    if len(matching) != 1:
        raise NotFound(f"network {reference} not found")
    return matching[0]


def _fits(network: dict[str, Any], filters: dict[str, frozenset[str]]) -> bool:
    tests = {
        "name": lambda wanted: any(word in network["Name"] for word in wanted),
        "id": lambda wanted: any(network["Id"].startswith(word) for word in wanted),
        "driver": lambda wanted: network["Driver"] in wanted,
        "label": lambda wanted: has_labels(network["Labels"], wanted),
        "type": lambda wanted: ("builtin" if network["Name"] in BUILT_IN_NETWORKS else "custom") in wanted,
        "scope": lambda wanted: "local" in wanted,
        "dangling": lambda wanted: ("true" in wanted) == (network["Name"] not in BUILT_IN_NETWORKS),
    }
    return all(tests[key](wanted) for key, wanted in filters.items() if key in tests)


def _network(name: str) -> dict[str, Any]:
    return {
        "Name": name,
        "Id": network_id(name),
        "Created": NO_TIME,
        "Scope": "local",
        "Driver": {"host": "host", "none": "null"}.get(name, "bridge"),
        "EnableIPv4": True,
        "EnableIPv6": False,
        "IPAM": {"Driver": "default", "Options": None, "Config": []},
        "Internal": False,
        "Attachable": False,
        "Ingress": False,
        "ConfigFrom": {"Network": ""},
        "ConfigOnly": False,
        "Containers": {},
        "Options": {},
        "Labels": {},
    }
