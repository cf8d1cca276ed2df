"""The Engine API over HTTP, on a fake Web API: shapes of answers, and sentences of refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.unit.docker.test_containers import container
from tests.unit.docker.test_images import ON_NODES

from kajitori.client.target import Target
from kajitori.docker.engine import Engine
from kajitori.docker.hijack import frame
from kajitori.docker.platform import Platform
from kajitori.docker.translation.container import Container
from kajitori.entrypoints.docker import DockerOptions, served, ways_in
from kajitori.errors import Fault, NotFound, Refused, Unavailable

WEB = container(spec={"image": "python:3.12", "ports": [80]}).view
AMOUNTS = {"cpuMillis": {"total": 4000, "used": 0}, "memoryBytes": {"total": 1 << 30, "used": 0}}
DATA = {"name": "data", "kind": "nfs", "source": "nas:/data", "createdAt": "", "state": "", "usedBy": []}
FOUND: dict[str, Any] = {
    "/v1/runs": {"items": [WEB]},
    "/v1/runs/default/web": WEB,
    "/v1/runs/default/web/members": {"items": []},
    "/v1/runs/default/web/stats": {"ranks": [{"values": {"cpu.used": 0.5, "memory.used": 10.0}}]},
    "/v1/images": {"items": ON_NODES},
    "/v1/nodes": {"items": [AMOUNTS]},
    "/v1/version": {"version": "0.1.0", "kubernetes": "v1.36.0", "user": "ada"},
    "/v1/volumes": {"items": [DATA], "note": ""},
}


class FakePlatform(Platform):
    """A Web API with one run, one node and one volume, whose policy allows every image."""

    def __init__(self) -> None:
        super().__init__(Target("http://127.0.0.1:1"))

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        if path not in FOUND:
            raise NotFound(path)
        return FOUND[path]

    async def post(self, path: str, body: object = None, params: Mapping[str, Any] | None = None) -> Any:
        assert (path, params) == ("/v1/runs", {"dryRun": "true"}), "the fake allows dry runs only"
        return WEB


@pytest.fixture
async def http(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the bridge's socket, whose path is short, as paths of sockets must be."""
    socket = tmp_path_factory.mktemp("d") / "docker.sock"
    engine = Engine(FakePlatform(), now=lambda: 1_795_464_120.0)
    connector = aiohttp.UnixConnector(str(socket))
    async with (
        served(engine, DockerOptions(socket=socket)),
        aiohttp.ClientSession("http://docker", connector=connector) as session,
    ):
        yield session


TEXT, NUMBER, LIST, OBJECT, TRUTH = str, int, list, dict, bool

SHAPES: list[tuple[str, dict[str, type]]] = [
    ("/version", {"Version": TEXT, "ApiVersion": TEXT, "MinAPIVersion": TEXT, "Os": TEXT, "Components": LIST}),
    (
        "/info",
        {"ID": TEXT, "Containers": NUMBER, "Images": NUMBER, "NCPU": NUMBER, "MemTotal": NUMBER, "Swarm": OBJECT},
    ),
    (
        "/containers/json?all=1",
        {
            "Id": TEXT,
            "Names": LIST,
            "Image": TEXT,
            "ImageID": TEXT,
            "Command": TEXT,
            "Created": NUMBER,
            "Ports": LIST,
            "Labels": OBJECT,
            "State": TEXT,
            "Status": TEXT,
            "HostConfig": OBJECT,
            "NetworkSettings": OBJECT,
            "Mounts": LIST,
        },
    ),
    (
        "/containers/my_web/json",
        {
            "Id": TEXT,
            "Created": TEXT,
            "Path": TEXT,
            "Args": LIST,
            "State": OBJECT,
            "Image": TEXT,
            "Name": TEXT,
            "RestartCount": NUMBER,
            "Driver": TEXT,
            "Platform": TEXT,
            "HostConfig": OBJECT,
            "Mounts": LIST,
            "Config": OBJECT,
            "NetworkSettings": OBJECT,
        },
    ),
    (
        "/containers/my_web/stats?stream=0",
        {"read": TEXT, "cpu_stats": OBJECT, "precpu_stats": OBJECT, "memory_stats": OBJECT, "networks": OBJECT},
    ),
    (
        "/images/json",
        {
            "Id": TEXT,
            "ParentId": TEXT,
            "RepoTags": LIST,
            "RepoDigests": LIST,
            "Created": NUMBER,
            "Size": NUMBER,
            "SharedSize": NUMBER,
            "Labels": OBJECT,
            "Containers": NUMBER,
        },
    ),
    ("/images/python:3.12/json", {"Id": TEXT, "RepoTags": LIST, "Created": TEXT, "Size": NUMBER, "Config": OBJECT}),
    ("/networks", {"Name": TEXT, "Id": TEXT, "Created": TEXT, "Scope": TEXT, "Driver": TEXT, "IPAM": OBJECT}),
    ("/networks/bridge", {"Name": TEXT, "Internal": TRUTH, "Containers": OBJECT, "Options": OBJECT, "Labels": OBJECT}),
    ("/volumes", {"Volumes": LIST}),
    ("/volumes/data", {"Name": TEXT, "Driver": TEXT, "Mountpoint": TEXT, "Labels": OBJECT, "Scope": TEXT}),
    ("/system/df", {"LayersSize": NUMBER, "Images": LIST, "Containers": LIST, "Volumes": LIST, "BuildCache": LIST}),
]
"""Fields of answers with the types that moby's `api/swagger.yaml` (version 1.56) gives them. Clients in Go refuse
others."""


@pytest.mark.parametrize(("path", "fields"), SHAPES, ids=[path.partition("?")[0] for path, _ in SHAPES])
async def test_answers_have_the_fields_of_the_engine_api(
    http: aiohttp.ClientSession, path: str, fields: dict[str, type]
) -> None:
    async with http.get(f"/v1.47{path}") as answer:
        found = await answer.json()
        assert answer.status == 200, found
    first = found[0] if isinstance(found, list) else found
    assert {name: type(first.get(name)) for name in fields} == fields


async def test_a_container_that_runs_has_the_state_of_one(http: aiohttp.ClientSession) -> None:
    async with http.get("/containers/my_web/json") as answer:
        state = (await answer.json())["State"]
    wanted = {"Status": TEXT, "Running": TRUTH, "Paused": TRUTH, "Restarting": TRUTH, "OOMKilled": TRUTH}
    wanted |= {"Dead": TRUTH, "Pid": NUMBER, "ExitCode": NUMBER, "Error": TEXT, "StartedAt": TEXT, "FinishedAt": TEXT}
    assert {name: type(value) for name, value in state.items()} == wanted


async def test_a_rank_has_statistics_of_its_own(http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker stats bert.3` showed those of the whole gang."""
    asked, get = [], FakePlatform.get

    async def noting(platform: FakePlatform, path: str, params: Mapping[str, Any] | None = None) -> Any:
        asked.append((path, params))
        return await get(platform, path, params)

    monkeypatch.setattr(FakePlatform, "get", noting)
    async with http.get("/containers/my_web.0/stats?stream=0") as answer:
        assert (await answer.json())["name"] == "/my_web.0"
    assert asked[-1] == ("/v1/runs/default/web/stats", {"rank": 0})


async def test_a_pull_checks_the_image_and_answers_in_chunks(http: aiohttp.ClientSession) -> None:
    """docker-py reads messages one by one only from such an answer. The image can be inspected from then on."""
    async with http.get("/images/redis:7/json") as answer:
        assert (answer.status, (await answer.json())["message"]) == (404, "No such image: redis:7")
    async with http.post("/images/create?fromImage=docker.io/library/redis&tag=7") as answer:
        assert answer.headers["Transfer-Encoding"] == "chunked"
        lines = [json.loads(line) for line in (await answer.text()).splitlines()]
    message = "docker.io/library/redis:7 may be used: each node pulls it when a container starts there"
    assert lines == [{"status": message}], "it is not downloaded, so it is not called up to date"
    async with http.get("/images/redis:7/json") as answer:
        assert (await answer.json())["RepoTags"] == ["redis:7"]


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The changes of the run's spec, which it then has."""
    made: list[dict[str, Any]] = []

    async def call(self: Platform, method: str, path: str, *, params: object = None, body: dict[str, Any]) -> None:
        assert (method, path) == ("PATCH", "/v1/runs/default/web")
        made.append(body)
        view = FOUND["/v1/runs"]["items"][0]
        changed = {**view, "spec": {**view["spec"], **body}}
        monkeypatch.setitem(FOUND, "/v1/runs/default/web", changed)
        monkeypatch.setitem(FOUND, "/v1/runs", {"items": [changed]})

    monkeypatch.setattr(FakePlatform, "call", call)
    return made


async def test_a_container_that_exists_is_connected_with_a_network(
    http: aiohttp.ClientSession, patches: list[dict[str, Any]]
) -> None:
    """It got no name there. The network is known to every bridge then, and can't be removed meanwhile."""
    async with http.post("/networks/create", json={"Name": "shop"}) as answer:
        assert answer.status == 201
    given = {"Container": "my_web", "EndpointConfig": {"Aliases": ["db", "no_name"]}}
    async with http.post("/networks/shop/connect", json=given) as answer:
        assert answer.status == 200
    async with http.get("/containers/my_web/json") as answer:
        assert list((await answer.json())["NetworkSettings"]["Networks"]) == ["shop"]
    async with http.delete("/networks/shop") as answer:
        assert (answer.status, "active endpoints: my_web" in await answer.text()) == (403, True)
    async with http.post("/networks/shop/disconnect", json={"Container": "my_web"}) as answer:
        assert answer.status == 200
    assert patches == [{"networks": [{"name": "shop", "aliases": ["db"]}]}, {"networks": []}]
    async with http.post("/networks/bridge/disconnect", json={"Container": "my_web"}) as answer:
        assert answer.status == 200
    async with http.get("/containers/my_web/json") as answer:
        assert (await answer.json())["NetworkSettings"]["Networks"] == {}


async def test_addresses_that_a_client_asks_for_in_a_network_are_refused(http: aiohttp.ClientSession) -> None:
    """`docker network connect --ip` was answered as if it were obeyed; `docker run --ip` was refused."""
    for field, value, option in (
        ("IPAMConfig", {"IPv4Address": "10.1.1.1"}, "--ip"),
        ("IPAMConfig", {"LinkLocalIPs": ["169.254.1.1"]}, "--link-local-ip"),
        ("MacAddress", "02:42:ac:11:00:02", "--mac-address"),
        ("Links", ["db:alias"], "--link"),
    ):
        given = {"Container": "my_web", "EndpointConfig": {field: value}}
        async with http.post("/networks/bridge/connect", json=given) as answer:
            assert (answer.status, (await answer.json())["message"].partition(":")[0]) == (400, option)
    ranges = {"Name": "shop", "IPAM": {"Config": [{"Subnet": "10.1.0.0/16"}]}}
    async with http.post("/networks/create", json=ranges) as answer:
        assert "--subnet, --gateway, --ip-range and --ipv6 change nothing" in (await answer.json())["Warning"]
    async with http.post("/networks/create", json={"Name": "mine", "Driver": "host"}) as answer:
        assert (answer.status, (await answer.json())["message"]) == (
            403,
            'only one instance of "host" network is allowed',
        )


async def test_a_container_in_internal_networks_has_a_way_out_only_by_another_one(
    http: aiohttp.ClientSession, patches: list[dict[str, Any]]
) -> None:
    """`bridge` is another one, and the run is in no such network. The run remembers which networks are internal."""
    for name, internal in (("back", True), ("front", False)):
        async with http.post("/networks/create", json={"Name": name, "Internal": internal}) as answer:
            warning = (await answer.json())["Warning"]
            assert ("within the namespace only" in warning, "restricts no" in warning) == (internal, not internal)
    for change in ("back/connect", "bridge/connect", "front/connect", "bridge/disconnect", "front/disconnect"):
        async with http.post(f"/networks/{change}", json={"Container": "my_web"}) as answer:
            assert answer.status == 200
    marked, front = {"name": "back", "internal": True}, {"name": "front"}
    lists = [[marked], [{"name": "back"}], [{"name": "back"}, front], [marked, front], [marked]]
    assert [patch["networks"] for patch in patches] == lists
    async with http.get("/networks/back") as answer:
        assert (await answer.json())["Internal"] is True


async def test_the_restart_policy_of_a_container_is_changed(
    http: aiohttp.ClientSession, patches: list[dict[str, Any]]
) -> None:
    for _ in range(2):  # the second time nothing is to be changed
        async with http.post("/containers/my_web/update", json={"RestartPolicy": {"Name": "on-failure"}}) as answer:
            assert await answer.json() == {"Warnings": []}
    assert patches == [{"restarts": 1_000_000}]


async def test_networks_are_pruned_by_label_unless_a_container_uses_them(
    http: aiohttp.ClientSession, patches: list[dict[str, Any]]
) -> None:
    """`docker network prune --filter label=…` once deleted all of them."""
    for name, labels in (("a", {"x": "1"}), ("b", {}), ("c", {"x": "1"})):
        async with http.post("/networks/create", json={"Name": name, "Labels": labels}) as answer:
            assert answer.status == 201
    async with http.post("/networks/c/connect", json={"Container": "my_web"}) as answer:
        assert answer.status == 200
    async with http.post("/networks/c/connect", json={"Container": "my_web"}) as answer:
        assert answer.status == 403
    for filters, deleted in (({"label": ["x"]}, ["a"]), ({}, ["b"])):
        async with http.post("/networks/prune", params={"filters": json.dumps(filters)}) as answer:
            assert (await answer.json())["NetworksDeleted"] == deleted


@pytest.mark.parametrize("kind", ["images", "networks", "volumes", "build"])
async def test_nothing_is_pruned_but_containers(http: aiohttp.ClientSession, kind: str) -> None:
    """`docker system prune` asks all of them, and once failed at the first that was refused."""
    async with http.post(f"/{kind}/prune") as answer:
        assert answer.status == 200
        assert not any((await answer.json()).values())


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/containers/nope/json", 404, "No such container: nope"),
        ("GET", "/plugins/nope/json", 404, "plugin nope not found"),
        ("POST", "/containers/my_web/rename?name=x", 400, "keeps its name"),
        ("POST", "/containers/my_web.0/stop", 409, "members start and end together"),
        ("POST", "/containers/my_web.0/kill", 409, "name my_web"),
        ("DELETE", "/containers/my_web.0?force=1", 409, "my_web.0 is one member of my_web"),
        ("POST", "/containers/my_web/update", 400, "resources of a run are fixed"),
        ("POST", "/networks/create", 400, "needs a name"),
        ("POST", "/containers/my_web/pause", 400, "would keep its cores"),
        ("POST", "/containers/my_web/kill?signal=NOPE", 400, "invalid signal: NOPE"),
        ("DELETE", "/containers/my_web", 409, "stop the container before removing or force remove"),
        ("GET", "/containers/my_web/export", 400, "docker cp my_web:/PATH ."),
        ("GET", "/containers/my_web/changes", 400, "docker exec"),
        ("POST", "/commit", 501, "come from registries"),
        ("POST", "/images/python/push", 501, "come from registries"),
        ("DELETE", "/images/python", 501, "nodes delete images themselves"),
        ("GET", "/images/python/history", 501, "nodes and registries only"),
        ("POST", "/build", 501, "not built on the cluster"),
        ("POST", "/containers/create?name=buildx_buildkit_default", 501, "not built on the cluster"),
        ("POST", "/volumes/create", 403, "made by the cluster's operators"),
        ("POST", "/swarm/init", 503, "not a swarm manager"),
        ("GET", "/services", 503, "not a swarm manager"),
        ("GET", "/v1.43/containers/json", 400, "Minimum supported API version is 1.44"),
        ("POST", "/volumes/prune?filters={%22scope%22:[%22x%22]}", 400, "invalid filter 'scope'"),
        ("POST", "/images/prune?filters=garbage", 400, "object of lists"),
        ("GET", "/nowhere", 404, "page not found"),
    ],
)
async def test_what_can_not_be_done_is_refused_with_a_sentence(
    http: aiohttp.ClientSession, method: str, path: str, status: int, words: str
) -> None:
    body: dict[str, Any] = {"Memory": 1 << 20} if path.endswith("/update") else {}
    async with http.request(method, path, json=body if method == "POST" else None) as answer:
        message = (await answer.json())["message"]
        assert (answer.status, words in message) == (status, True), message


WRONG: dict[str, Any] = {
    "Image": 5,
    "Cmd": {"a": 1},
    "Entrypoint": [1],
    "Env": {"A": "b"},
    "Labels": ["a"],
    "ExposedPorts": 80,
    "Volumes": "x",
    "StopTimeout": "soon",
    "Healthcheck": {"Test": "true", "Interval": 1 << 70},
    "HostConfig": {
        "Memory": "64m",
        "Binds": "a:b",
        "DeviceRequests": [{"Capabilities": ["gpu"]}],
        "Mounts": ["x"],
        "LogConfig": "none",
        "RestartPolicy": "no",
        "PortBindings": {"80/tcp": [{"HostPort": 80}]},
        "Tmpfs": ["/x"],
    },
    "NetworkingConfig": {"EndpointsConfig": {"x": {"Aliases": "y", "IPAMConfig": "z"}}},
}
"""A request for a container, every value of which has a type that Docker's daemon refuses."""


async def test_values_of_other_types_are_refused_all_at_once(http: aiohttp.ClientSession) -> None:
    """Each of them was a bug of the bridge; some were stored, and broke `docker ps` from then on."""
    async with http.post("/containers/create", json=WRONG) as answer:
        told = (await answer.json())["message"]
        assert answer.status == 400, told
    for field in ("Image", "Cmd", "Entrypoint[0]", "Env", "Labels", "ExposedPorts", "Volumes", "StopTimeout"):
        assert f"{field}: " in told, (field, told)
    for field in WRONG["HostConfig"].keys() - {"DeviceRequests", "Mounts", "PortBindings"}:
        assert f"HostConfig.{field}: " in told, (field, told)
    for field in ("DeviceRequests[0].Capabilities[0]", "Mounts[0]", "PortBindings['80/tcp'][0].HostPort"):
        assert f"HostConfig.{field}: " in told, (field, told)
    for field in ("Healthcheck.Test", "Healthcheck.Interval", "NetworkingConfig.EndpointsConfig.x.IPAMConfig"):
        assert f"{field}: " in told, (field, told)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/containers/create", b"[" * 100_000),
        ("POST", "/containers/create", b"null"),
        ("POST", "/containers/my_web/exec", b"no json"),
        ("POST", "/containers/my_web/exec", b'{"Cmd": {"a": 1}, "Env": "x"}'),
        ("POST", "/containers/my_web/update", b'{"RestartPolicy": 1}'),
        ("POST", "/networks/create", b'{"Name": "x", "Labels": 1}'),
        ("POST", "/networks/bridge/connect", b'{"Container": "my_web", "EndpointConfig": {"Aliases": 1}}'),
        ("POST", "/volumes/create", b'{"Name": [], "Labels": "x"}'),
        ("GET", "/containers/json?limit=many", b""),
        ("GET", "/containers/json?filters=" + "[" * 5_000, b""),
        ("GET", "/containers/my_web/logs?stdout=1&tail=" + "9" * 5_000, b""),
        ("GET", "/containers/my_web/logs?stdout=1&since=0001-01-01T00:00:00%2B14:00", b""),
        ("POST", "/containers/my_web/stop?t=" + "9" * 5_000, b""),
    ],
)
async def test_faulty_requests_are_refused_and_are_no_bugs(
    http: aiohttp.ClientSession, method: str, path: str, body: bytes
) -> None:
    async with http.request(method, path, data=body or None) as answer:
        assert answer.status == 400, await answer.text()


async def test_two_clients_may_start_a_container_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one to end got an error 500."""
    stopped = container("Stopped", spec={"stopped": True, "resumes": 0}, status={"attempts": 0, "startedAt": ""})
    engine, both = Engine(FakePlatform()), asyncio.Barrier(2)

    async def start(_: Container) -> None:
        await both.wait()

    monkeypatch.setattr(engine, "_start", start)
    await asyncio.gather(engine.start(stopped), engine.start(stopped))


async def test_an_answer_that_has_begun_ends_with_the_error(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second head stood in the middle of the answer. Docker's client prints the errors that are where it looks for
    them."""

    async def broken(*_: object, is_away: bool = True) -> AsyncIterator[Any]:
        if is_away:
            raise Unavailable("the server is away", hint="wait")
        yield

    monkeypatch.setattr(FakePlatform, "changes", broken)
    monkeypatch.setattr(FakePlatform, "chunks", broken)
    async with http.post("/containers/my_web/wait") as answer:
        assert await answer.json(content_type=None) == {
            "StatusCode": 125,
            "Error": {"Message": "the server is away (wait)"},
        }
    async with http.get("/containers/my_web/logs?stdout=1") as answer:
        assert await answer.read() == frame(3, b"the server is away (wait)")


async def test_a_volume_of_a_compose_file_is_refused_with_the_line_to_write(http: aiohttp.ClientSession) -> None:
    wanted = {"Name": "shop_db", "Labels": {"com.docker.compose.volume": "db"}}
    async with http.post("/volumes/create", json=wanted) as answer:
        told = (await answer.json())["message"]
        assert "in the Compose file: volumes: {db: {external: true, name: data}}" in told, told


async def test_a_fault_of_a_run_is_told_in_dockers_words(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker compose up` named spec.resources.shm and resources.memory, which are in no Compose file."""

    async def post(*_: object) -> None:
        hint = "set resources.memory as well"
        raise Refused([Fault("spec.resources.shm", "8Gi counts against 2Gi", "8Gi", hint, "ShmAboveMemory")])

    monkeypatch.setattr(FakePlatform, "post", post)
    async with http.post("/containers/create", json={"Image": "busybox"}) as answer:
        told = (await answer.json())["message"]
        assert told.startswith("--shm-size: 8Gi counts against 2Gi") and "mem_limit: 16g" in told, told


async def test_what_is_kept_of_an_ended_container_is_told(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker diff` named `docker exec`, which an ended container takes as little."""
    ended = container("Failed", spec={"checkpoint": {"path": "/ckpt"}}).view
    monkeypatch.setitem(FOUND, "/v1/runs", {"items": [ended]})
    asked = (("GET", "/containers/my_web/changes"), ("GET", "/containers/my_web/export"))
    for method, path in (*asked, ("POST", "/commit?container=my_web")):
        async with http.request(method, path) as answer:
            told = (await answer.json())["message"]
            assert "docker logs my_web" in told and "docker cp my_web:/ckpt ." in told, told


@pytest.mark.parametrize(
    ("query", "spec", "grace"),
    [
        ("", {}, "10s"),
        ("?t=3", {}, "3s"),
        ("?t=3", {"grace": "5m"}, "3s"),
        ("", {"grace": "5m"}, None),
        ("", {"checkpoint": {"path": "/ckpt"}}, None),
        ("?t=-1", {}, None),
    ],
)
async def test_a_program_has_as_long_to_end_as_with_docker(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, query: str, spec: dict[str, Any], grace: str | None
) -> None:
    """`docker stop` took 30 seconds for a program that does not answer SIGTERM. A run with a checkpoint keeps them."""
    view, bodies = container(spec=spec).view, list[object]()

    async def post(_: object, path: str, body: object = None) -> None:
        bodies.append(body)
        raise NotFound(path)

    monkeypatch.setattr(FakePlatform, "post", post)
    monkeypatch.setitem(FOUND, "/v1/runs", {"items": [view]})
    async with http.post(f"/containers/my_web/stop{query}"):
        assert bodies == [{"grace": grace} if grace else None]


@pytest.mark.parametrize(
    ("name", "signal", "body"),
    [
        ("my_web", "HUP", {"signal": "HUP"}),
        ("my_web", "10", {"signal": "USR1"}),
        ("my_web.0", "SIGUSR1", {"signal": "USR1", "ranks": "0"}),
    ],
)
async def test_a_signal_that_ends_nothing_goes_to_the_programs(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, name: str, signal: str, body: object
) -> None:
    """`docker kill -s HUP` was refused. A program that could not be reached is an error."""
    posts, errors = list[object](), ["", "it has no shell"]

    async def post(_: object, path: str, body: object = None) -> object:
        posts.append((path.rpartition("/")[2], body))
        return {"signal": "", "items": [{"rank": 0, "error": errors.pop(0)}]}

    monkeypatch.setattr(FakePlatform, "post", post)
    async with http.post(f"/containers/{name}/kill?signal={signal}") as answer:
        assert (answer.status, posts) == (204, [("signal-programs", body)])
    async with http.post(f"/containers/{name}/kill?signal={signal}") as answer:
        assert (answer.status, "it has no shell" in await answer.text()) == (409, True)


async def test_a_client_that_leaves_is_no_error(
    http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer ends early, and the log has no traceback."""

    async def broken(*_: object, **__: object) -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(FakePlatform, "get", broken)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.post("/containers/my_web/stop")
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_a_bridge_over_tls_does_not_tell_of_a_socket_that_it_does_not_serve(tmp_path: Path) -> None:
    """`kaji docker context` makes a context for the Unix socket."""
    socket = tmp_path / "docker.sock"
    assert any("kaji docker context" in line for line in ways_in(DockerOptions(socket=socket), f"unix://{socket}", "x"))
    elsewhere = ways_in(DockerOptions(socket=socket, is_usual_socket=False), f"unix://{socket}", "x")
    assert elsewhere[-1].endswith(f"kaji docker context --socket {socket}")
    over_tls = ways_in(DockerOptions(socket=socket, tcp="127.0.0.1:0"), "tcp://127.0.0.1:2376", "x")
    assert "DOCKER_TLS_VERIFY=1" in over_tls[0] and not any("context" in line for line in over_tls)
