"""The proxy for runs' programs: who gets through, how browsers come to a program's origin, and what passes.

The program is a real HTTP server on loopback; the stream to it is a TCP connection instead of a port-forward.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from aiohttp import WSMsgType, web
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.test_openapi import assert_fits
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol

from kajitori.api.app import openapi_document
from kajitori.api.proxy import websockets
from kajitori.api.serving.server import ApiServer
from kajitori.core.pods.tickets import Ticket, derive
from kajitori.core.proxy.addresses import Target, host_label, parse_origins
from kajitori.errors import NotFound, Unavailable
from kajitori.history.audit import AuditFilter
from kajitori.kube.client import KubeClient

NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "accept": "text/html"}
FROM_LINK = {**NAVIGATION, "sec-fetch-site": "cross-site"}


class Wire:
    """A TCP connection as a port-forward stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()


@dataclass
class Program:
    """A program of a run, and what it was asked."""

    port: int = 0
    asked: list[web.BaseRequest] = field(default_factory=list)
    opened: int = 0
    is_gone: bool = False
    """Whether the API server no longer has the Pod, while the proxy does not know that yet."""

    async def open(self, client: KubeClient, namespace: str, name: str, port: int) -> Wire:
        self.opened += 1
        if self.is_gone:
            raise NotFound(f"pods {name!r} not found")
        if not self.port:
            raise Unavailable(f"nothing listens on port {port}")
        return Wire(*await asyncio.open_connection("127.0.0.1", self.port))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        match request.path.rpartition("/")[2]:
            case "socket":
                socket = web.WebSocketResponse(protocols=("kernel",))
                await socket.prepare(request)
                async for message in socket:
                    if message.type is WSMsgType.BINARY:
                        await socket.send_bytes(message.data)
                return socket
            case "idle":
                socket = web.WebSocketResponse(autoping=False)
                await socket.prepare(request)
                answers = [await socket.receive() for _ in range(2)]
                await socket.ping(b"mine")
                answers.append(await socket.receive())
                while answers[-1].data != b"mine":
                    answers.append(await socket.receive())
                await socket.send_str(" ".join(sorted({one.type.name for one in answers})))
                return socket
            case "upload":
                return web.json_response({"bytes": len(await request.content.read())})
            case "download":
                response = web.StreamResponse()
                await response.prepare(request)
                for _ in range(64):
                    await response.write(b"x" * 65_536)
                return response
            case "forever":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"first")
                await asyncio.Event().wait()
                return response
            case "strange":
                return web.Response(status=799, headers={"Location": "http://[broken"})
            case "broken":
                return web.Response(status=302, headers={"Location": "http://[broken"})
            case "away":
                raise web.HTTPFound("/elsewhere")
        response = web.Response(text=request.raw_path, headers={"Strict-Transport-Security": "max-age=9"})
        response.headers.add("Set-Cookie", "theme=dark; Path=/; Domain=localhost")
        response.headers.add("Set-Cookie", "__Host-kaji-0=evil; Path=/; Secure")
        return response


@dataclass
class Browser:
    """A browser with a cookie jar for each host. It follows no redirect by itself."""

    http: httpx2.AsyncClient
    port: int
    jars: dict[str, dict[str, str]] = field(default_factory=dict)

    async def go(self, url: str, method: str = "GET", headers: dict[str, str] | None = None) -> httpx2.Response:
        parts = urlsplit(url)
        jar = self.jars.setdefault(parts.hostname or "", {})
        sent = {**(NAVIGATION if headers is None else headers), "host": parts.netloc}
        if jar:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        answer = await self.http.request(method, f"http://127.0.0.1:{self.port}{path}", headers=sent)
        for cookie in answer.headers.get_list("set-cookie"):
            pair, _, attributes = cookie.partition(";")
            name, _, value = pair.partition("=")
            jar.pop(name, None)
            if "max-age=0" not in attributes.lower():
                jar[name] = value
        return answer

    async def follow(self, url: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Follow redirects."""
        for _ in range(6):
            answer = await self.go(url, headers=headers)
            if answer.status_code != 303:
                return answer
            to = answer.headers["location"]
            url = to if "://" in to else f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{to}"
        raise AssertionError(f"redirected for ever: {url}")

    async def sign_in(self, world: World, user: str) -> None:
        code = world.api.callers.browsers.make_link(user)
        headers = {"Kajitori-Link": code, "sec-fetch-site": "same-origin"}
        assert (await self.go(f"{self.page}/sign-in/link", "POST", headers)).status_code == 204

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://8888--nb--team.localhost:{self.port}"


@dataclass
class Scene:
    world: World
    program: Program
    server: ApiServer
    http: httpx2.AsyncClient

    def browser(self) -> Browser:
        return Browser(self.http, self.server.port)


@pytest.fixture
async def scene(world: World) -> AsyncIterator[Scene]:
    """Ada's notebook in namespace team, with a program; programs have origins of their own."""
    made = world.kubernetes.put("runs", run("nb", type="notebook") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    made = world.kubernetes.put("runs", run("plain") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    await world.caught_up()
    program = Program()
    server = web.Server(program.answer)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    program.port = runner.addresses[0][1]
    world.change("programs", origins=parse_origins("http://*.localhost"), open_port=program.open)
    async with ApiServer(world.app) as web_api, httpx2.AsyncClient(timeout=20.0) as http:
        yield Scene(world, program, web_api, http)
    await runner.cleanup()


def ada(**headers: str) -> dict[str, str]:
    return {"Authorization": "Bearer ada", **headers}


async def test_a_browser_comes_to_the_programs_own_origin(scene: Scene) -> None:
    """From a link in a chat, through the page's session, to a session of the program's origin."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    answer = await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab?reset", headers=FROM_LINK)
    assert (answer.status_code, answer.text) == (200, "/proxy/team/nb/8888/lab?reset")
    assert set(browser.jars["8888--nb--team.localhost"]) == {"__Host-kaji-visit-0", "theme"}
    again = await browser.go(f"{browser.origin}/api", headers={"sec-fetch-site": "same-origin"})
    assert again.text == "/api"
    headers = scene.program.asked[-1].headers
    assert (headers["Cookie"], headers["X-Forwarded-Host"]) == ("theme=dark", urlsplit(browser.origin).netloc)
    assert "strict-transport-security" not in again.headers
    assert (await browser.follow(f"{browser.page}/proxy/team/plain/8888/x")).text == "/x"


async def test_programs_never_answer_browsers_at_the_pages_origin(scene: Scene) -> None:
    """Their scripts would have the rights of the page."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    for headers in (
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {"origin": "http://evil.example.org"},
    ):
        answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/x", headers=headers)
        assert answer.status_code == 403, headers
    assert (await browser.go(f"{browser.page}/proxy/team/nb/8888/x", "POST")).status_code == 403
    scene.world.change("programs", origins=None)
    answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/x")
    assert (answer.status_code, "kaji port-forward" in answer.text) == (403, True)
    assert not scene.program.asked


async def test_pages_of_programs_cannot_use_the_session_of_the_page(scene: Scene) -> None:
    """Browsers send cookies of a host to all of its ports, so the Origin header decides."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "bob")
    for headers in ({"origin": browser.origin}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        answer = await browser.go(f"{browser.page}/v1/runs", headers=headers)
        assert answer.status_code == 403, headers


async def test_other_sites_cannot_use_the_session_at_a_program(scene: Scene) -> None:
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab")
    count = len(scene.program.asked)
    sibling = f"http://8888--evil--team.localhost:{browser.port}"
    for method, headers in (
        ("POST", {"origin": sibling, "sec-fetch-site": "same-site"}),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}),
        ("POST", {**FROM_LINK, "origin": "null"}),
    ):
        assert (await browser.go(f"{browser.origin}/x", method, headers)).status_code == 403, headers
    cookie = "; ".join(f"{k}={v}" for k, v in browser.jars[urlsplit(browser.origin).hostname or ""].items())
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, browser.origin, {"Cookie": cookie, "Origin": sibling})
    assert refused.value.response.status_code == 403
    assert len(scene.program.asked) == count
    async with await dial(scene, browser.origin, {"Cookie": cookie, "Origin": browser.origin}) as socket:
        await socket.send(b"mine")
        assert await socket.recv() == b"mine"


async def test_a_code_works_once_in_one_browser_at_one_origin(scene: Scene) -> None:
    """Otherwise somebody could make others work in a session that is not theirs."""
    browser, other = scene.browser(), scene.browser()
    await browser.sign_in(scene.world, "ada")
    begin = (await browser.go(f"{browser.page}/proxy/team/nb/8888/lab")).headers["location"]
    visit = (await browser.go(begin)).headers["location"]
    enter = (await browser.go(visit)).headers["location"]
    assert urlsplit(enter).path == "/.kaji/enter"
    code = parse_qs(urlsplit(enter).query)["code"][0]
    assert (await other.go(enter)).status_code == 401  # began nothing
    elsewhere = f"http://8888--plain--team.localhost:{browser.port}/.kaji/enter?code={code}"
    assert (await browser.go(elsewhere)).status_code == 401
    assert (await browser.go(enter)).status_code == 303
    assert (await browser.go(enter)).status_code == 401  # a second time
    assert (await browser.go(f"{browser.origin}/.kaji/else")).status_code == 404


async def test_browsers_without_a_session_are_asked_to_sign_in(scene: Scene) -> None:
    browser = scene.browser()
    answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/lab")
    assert "text/html" in answer.headers["content-type"]
    assert "default-src 'none'" in answer.headers.get("content-security-policy", "default-src 'none'")
    at_origin = await browser.go(f"{browser.origin}/lab")
    assert urlsplit(at_origin.headers["location"]).path == "/sign-in/program"
    script = await browser.go(f"{browser.origin}/lab", headers={"sec-fetch-site": "same-origin"})
    assert script.status_code == 401
    assert not scene.program.asked


async def test_callers_with_a_token_are_passed_on_at_the_path(scene: Scene) -> None:
    """Their token does not reach the program. Plain programs get paths without the prefix, notebooks with it."""
    headers = ada(Cookie="a=1")
    for name, path in (("plain", "/x/%2F?q=1"), ("nb", "/proxy/team/nb/8888/x/%2F?q=1")):
        answer = await scene.http.get(f"{scene.server.url}/proxy/team/{name}/8888/x/%2F?q=1", headers=headers)
        assert (answer.text, "authorization" in scene.program.asked[-1].headers) == (path, False)
        assert answer.headers.get_list("set-cookie") == [f"theme=dark; Path=/proxy/team/{name}/8888/"]
    away = await scene.http.get(f"{scene.server.url}/proxy/team/plain/8888/away", headers=headers)
    assert away.headers["location"] == "/proxy/team/plain/8888/elsewhere"
    slash = await scene.http.get(f"{scene.server.url}/proxy/team/plain/8888?q", headers=headers)
    assert slash.headers["location"] == "/proxy/team/plain/8888/?q"
    assert scene.program.opened == 2  # one for each run: connections are kept
    await scene.world.api.audit._flush()
    assert scene.world.api.stores.history is not None
    entries = [entry for _, entry in await scene.world.api.stores.history.audit(AuditFilter(), 10)]
    assert [(entry.action, entry.object) for entry in entries].count(("open program", "run plain port 8888")) == 1


async def test_who_may_not_connect_to_ports_gets_403(scene: Scene) -> None:
    scene.world.kubernetes.denied.add(("eve", "create", "pods/portforward", "team"))
    url = f"{scene.server.url}/proxy/team/nb/8888/"
    answer = await scene.http.get(url, headers={"Authorization": "Bearer eve"})
    assert (answer.status_code, "create pods/portforward" in answer.json()["detail"]) == (403, True)
    browser = scene.browser()
    await browser.sign_in(scene.world, "eve")
    page = await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab")
    assert (page.status_code, "You may not open this" in page.text) == (403, True)
    assert (await scene.http.get(f"{scene.server.url}/proxy/team/none/8888/", headers=ada())).status_code == 404
    assert (await scene.http.get(f"{scene.server.url}/proxy/team/n/8888/", headers=ada())).status_code == 404
    assert (await scene.http.get(url)).status_code == 401
    assert not scene.program.asked


async def test_programs_that_share_an_origin_are_shown_to_their_owners_only(scene: Scene) -> None:
    scene.world.change("programs", origins=parse_origins("http://programs.localhost"))
    for user, status in (("ada", 200), ("bob", 403)):
        browser = scene.browser()
        await browser.sign_in(scene.world, user)
        answer = await browser.follow(f"{browser.page}/proxy/team/plain/8888/x")
        assert answer.status_code == status
        if user == "ada":
            assert answer.text == "/x"
            assert answer.headers.get_list("set-cookie") == ["theme=dark; Path=/proxy/team/plain/8888/"]


async def test_a_program_that_does_not_listen_yet_is_waited_for(scene: Scene) -> None:
    scene.program.port = 0
    world = scene.world
    refused = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/", headers=ada(Accept="text/html"))
    found = (refused.status_code, "nothing listens on port 8888" in refused.text, "refresh" in refused.text)
    assert found == (502, True, True)
    world.kubernetes.put("runs", run("waits", phase="Queued"))
    world.kubernetes.put("runs", run("ended", phase="Succeeded"))
    await world.caught_up()
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/waits/80/", headers=ada(Accept="text/html"))
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text, "Queued" in answer.text) == (503, True, True)
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/ended/80/", headers=ada(Accept="text/html"))
    assert (answer.status_code, "kaji resume ended" in answer.text, "refresh" in answer.text) == (409, True, False)


async def test_a_pod_that_was_just_deleted_may_come_again(scene: Scene) -> None:
    """JupyterLab takes 404 for a folder that is not there: it left the folder, and showed "Directory not found"."""
    scene.program.is_gone = True
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/api/contents/work", headers=ada())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "rank 0 of nb is gone, and may come again" in answer.json()["detail"]
    shown = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/", headers=ada(Accept="text/html"))
    assert (shown.status_code, 'http-equiv="refresh"' in shown.text) == (503, True)


async def test_the_proxy_adds_a_notebooks_token(scene: Scene) -> None:
    """Only at the notebook's port of an attempt that has a token. The visitor's own credentials never pass."""
    world = scene.world
    key = {"key": base64.b64encode(b"k" * 32).decode()}
    world.kubernetes.put("secrets", {"metadata": {"name": "kajitori-tickets", "namespace": "kajitori"}, "data": key})
    await world.api.start.tickets._read()
    made = world.kubernetes.put("runs", run("lab", type="notebook") | {"status": attempts(2, phase="Running")})
    member = pod(made, attempt=2)
    member["metadata"].setdefault("annotations", {})["kajitori.dev/notebook-port"] = "8888"
    world.kubernetes.put("pods", member)
    await world.caught_up()
    ticket = Ticket("team", "lab", made["metadata"]["uid"], 2, 1)
    token = derive(ticket, b"k" * 32, "notebook").hex()
    for port, expected in ((8888, [f"token {token}"]), (8889, [])):
        await scene.http.get(f"{scene.server.url}/proxy/team/lab/{port}/", headers=ada())
        assert scene.program.asked[-1].headers.getall("Authorization", []) == expected
    browser = scene.browser()
    await browser.sign_in(world, "ada")
    await browser.follow(f"{browser.page}/proxy/team/lab/8888/lab")
    assert scene.program.asked[-1].headers["Authorization"] == f"token {token}"
    told = await scene.http.get(f"{scene.server.url}/v1/runs/team/lab/notebook", headers=ada())
    assert told.json() == {"port": 8888, "path": "/proxy/team/lab/8888", "token": token}
    assert told.headers["cache-control"] == "no-store"
    document, path = openapi_document(), "/v1/runs/{namespace}/{name}/notebook"
    described = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert_fits(document, described, told.json(), path)
    plain = await scene.http.get(f"{scene.server.url}/v1/runs/team/nb/notebook", headers=ada())
    assert plain.status_code == 409
    await world.api.audit._flush()
    assert world.api.stores.history is not None
    entries = [entry for _, entry in await world.api.stores.history.audit(AuditFilter(), 10)]
    assert ("read notebook token", "run lab") in [(entry.action, entry.object) for entry in entries]
    assert token not in repr(entries)
    world.kubernetes.denied.add(("eve", "create", "pods/portforward", "team"))
    refused = await scene.http.get(
        f"{scene.server.url}/v1/runs/team/lab/notebook", headers={"Authorization": "Bearer eve"}
    )
    assert refused.status_code == 403


async def test_the_hash_of_a_run_tells_only_its_readers_that_it_exists(scene: Scene) -> None:
    """Visitors without a session were sent to sign in for a run that exists, with its names in the address, and got
    404 for any other."""
    named = "a-run-with-a-name-that-does-not-fit-into-a-host-name-at-all"
    made = scene.world.kubernetes.put("runs", run(named) | {"status": attempts(1, phase="Running")})
    scene.world.kubernetes.put("pods", pod(made))
    await scene.world.caught_up()
    label = host_label(Target("team", named, 8888, 0))
    other = host_label(Target("team", f"{named}-2", 8888, 0))
    for wanted in (label, other):
        answer = await scene.browser().go(f"http://{wanted}.localhost:{scene.server.port}/")
        assert (answer.status_code, named in answer.headers["location"]) == (303, False)
    scene.world.kubernetes.denied.add(("eve", "get", "runs", "*"))
    for user, statuses in (("ada", (200, 404)), ("eve", (404, 404))):
        asked = [
            await scene.http.get(
                f"{scene.server.url}/x",
                headers={"Authorization": f"Bearer {user}", "host": f"{wanted}.localhost:{scene.server.port}"},
            )
            for wanted in (label, other)
        ]
        assert tuple(answer.status_code for answer in asked) == statuses, user
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    assert (await browser.follow(f"http://{label}.localhost:{scene.server.port}/x")).text.startswith("/x")


async def test_strange_answers_of_programs_are_no_bugs(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A status that HTTP does not know and an address that is none were bugs of the server, with a traceback in its
    log for each request."""
    place = f"{scene.server.url}/proxy/team/plain/8888"
    answer = await scene.http.get(f"{place}/strange", headers=ada())
    assert (answer.status_code, "799" in answer.text) == (502, True)
    answer = await scene.http.get(f"{place}/broken", headers=ada())
    assert (answer.status_code, answer.headers["location"]) == (302, "http://[broken")
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/strange")
    assert refused.value.response.status_code == 502
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_large_bodies_pass_both_ways(scene: Scene) -> None:
    base = f"{scene.server.url}/proxy/team/plain/8888"

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    up = await scene.http.post(f"{base}/upload", content=parts(), headers=ada())
    assert up.json() == {"bytes": 64 * 65_536}
    up = await scene.http.put(f"{base}/upload", content=b"x" * (3 << 20), headers=ada())
    assert up.json() == {"bytes": 3 << 20}
    down = await scene.http.get(f"{base}/download", headers=ada())
    assert len(down.content) == 64 * 65_536
    head = await scene.http.head(f"{base}/x", headers=ada())
    assert (head.status_code, head.content) == (200, b"")


async def test_answers_without_an_end_stop_with_their_reader(scene: Scene) -> None:
    """And with the right to connect."""
    url = f"{scene.server.url}/proxy/team/plain/8888/forever"
    async with scene.http.stream("GET", url, headers=ada()) as answer:
        assert await anext(answer.aiter_raw()) == b"first"
    while scene.world.api.callers.sessions._streaming:  # noqa: ASYNC110 - nothing tells of its end
        await asyncio.sleep(0)
    async with scene.http.stream("GET", url, headers=ada()) as answer:
        parts = answer.aiter_raw()
        await anext(parts)
        scene.world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
        await scene.world.api.callers.sessions.recheck()
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(parts)


async def test_websockets_pass_as_bytes(scene: Scene) -> None:
    """Large messages and sub-protocols too; they end with the right to connect."""
    async with await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/socket") as socket:
        assert socket.subprotocol == "kernel"
        large = b"x" * (3 << 20)
        await socket.send(large)
        assert await socket.recv() == large
        scene.world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
        await scene.world.api.callers.sessions.recheck()
        await socket.wait_closed()
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, scene.server.url, ada(), path="/proxy/team/none/8888/socket")
    assert refused.value.response.status_code == 404


async def test_an_idle_websocket_is_pinged_and_the_programs_own_pings_are_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program gets the browser's answers; it never has to ping by itself."""
    monkeypatch.setattr(websockets, "PING_SECONDS", 0.01)
    async with await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/idle") as socket:
        assert await socket.recv() == "PONG"


@given(st.lists(st.sampled_from([0, 1, 125, 126, 65_535, 65_536]), max_size=4), st.lists(st.integers(0, 140_000)))
def test_a_ping_goes_between_frames_however_their_bytes_are_split(sizes: list[int], cuts: list[int]) -> None:
    """Frames end where the library for WebSockets ends them, masked or not."""
    sent, ends = b"", {0}
    for number, size in enumerate(sizes):
        sent += Frame(Opcode.BINARY, bytes(size)).serialize(mask=bool(number % 2))
        ends.add(len(sent))
    frames, position = websockets.FrameEnds(), 0
    for cut in sorted({*(min(cut, len(sent)) for cut in cuts), *ends}):
        frames.passed(sent[position:cut])
        position = cut
        assert frames.is_between == (cut in ends)


async def dial(scene: Scene, origin: str, headers: dict[str, str], path: str = "/socket") -> Any:
    """Open a WebSocket at an origin of the server."""
    url = f"{origin.replace('http', 'ws', 1)}{path}"
    place: dict[str, Any] = {"host": "127.0.0.1", "port": scene.server.port}
    return await connect(
        url,
        subprotocols=[Subprotocol("kernel")],
        additional_headers=headers,
        proxy=None,
        max_size=None,
        **place,
    )
