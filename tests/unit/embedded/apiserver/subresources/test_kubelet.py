"""Logs and exec, with a kubelet that is a small web server of the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from tests.harness.servers.embedded_server import MERGE, EmbeddedServer, embedded_server
from tests.harness.waiting import until

from kajitori.embedded import names
from kajitori.embedded.apiserver.auth import AllowKnown, Attributes, User
from kajitori.embedded.apiserver.certificates import issue_serving
from kajitori.embedded.fingerprints import fingerprint
from kajitori.embedded.kubelet.http.tls import server_context
from kajitori.embedded.kubelet.settings import ServerSettings

POD = "/api/v1/namespaces/default/pods/p"


class Kubelet:
    """Answers with the request that it received; counts unauthenticated requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[tuple[str, str]]]] = []
        self.peers: list[Any] = []
        self.forwarded = ""
        self.headers: Mapping[str, str] = {}
        self.hung: web.Request | None = None

    async def log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        self.peers.append(request.transport.get_extra_info("peercert") if request.transport else None)
        if request.query.get("previous"):
            return web.Response(status=400, text="previous terminated container not found")
        response = web.StreamResponse()
        await response.prepare(request)
        for line in (b"one\n", b"two\n"):
            await response.write(line)
        return response

    async def stats(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        self.forwarded = request.headers.get("X-Forwarded-Uri", "")
        return web.json_response({"node": {"nodeName": "n"}})

    async def exec(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(b"\x01" + message.data[1:].upper())
            await socket.send_bytes(b'\x03{"status":"Success"}')
            break
        await socket.close()
        return socket

    async def refuse(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        self.headers = request.headers.copy()
        return web.Response(status=int(request.query.get("port", "500")), text="not here\n")

    async def hang(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        self.hung = request
        await asyncio.Event().wait()
        return web.Response()


@asynccontextmanager
async def kubelet_of(api: EmbeddedServer, folder: Path, *, joined: bool = False) -> AsyncIterator[Kubelet]:
    """Start a kubelet with the cluster's certificate, or with a self-signed one that its Node does not name; create its
    Node and a Pod on it."""
    kubelet = Kubelet()
    application = web.Application()
    application.router.add_get("/stats/summary", kubelet.stats)
    application.router.add_get("/containerLogs/{ns}/{pod}/{container}", kubelet.log)
    application.router.add_route("*", "/exec/{ns}/{pod}/{container}", kubelet.exec)
    application.router.add_route("*", "/portForward/{ns}/{pod}", kubelet.refuse)
    application.router.add_route("*", "/attach/{ns}/{pod}/{container}", kubelet.hang)
    if joined:
        context, _ = server_context(ServerSettings(client_ca=api.certificates.ca), folder, "n", "127.0.0.1")
    else:
        certificate, key = issue_serving(api.certificates, folder, "n", ("127.0.0.1",))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(api.certificates.ca))
        context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    await api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
    await api.call("PATCH", "/api/v1/nodes/n/status", {"status": status}, content_type=MERGE)
    body = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    await api.call("POST", POD.rpartition("/")[0], body)
    try:
        yield kubelet
    finally:
        await runner.cleanup()


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


async def test_logs_are_requested_from_the_pods_kubelet(api: EmbeddedServer, tmp_path: Path) -> None:
    """The parameters are unchanged; the API server authenticates with its own client certificate."""
    async with kubelet_of(api, tmp_path) as kubelet:
        answer = await api.call("GET", f"{POD}/log", params={"follow": "true", "tailLines": "5", "unknown": "x"})
        assert (answer.code, answer.body) == (200, b"one\ntwo\n")
        path, query = kubelet.asked[0]
        assert path == "/containerLogs/default/p/c"
        assert sorted(query) == [("follow", "true"), ("tailLines", "5")]
        subject = dict(part for parts in kubelet.peers[0]["subject"] for part in parts)
        assert subject["organizationName"] == "system:masters"
        refused = await api.call("GET", f"{POD}/log", params={"previous": "true"})
        assert (refused.code, refused.body["message"]) == (400, "previous terminated container not found")


async def test_requests_to_a_nodes_proxy_reach_its_kubelet(api: EmbeddedServer, tmp_path: Path) -> None:
    """With path and parameters: one kubelet may serve several nodes."""
    path = "/api/v1/nodes/n/proxy/stats/summary"
    async with kubelet_of(api, tmp_path) as kubelet:
        answer = await api.call("GET", path, params={"only_cpu_and_memory": "true"})
        assert (answer.code, answer.body) == (200, {"node": {"nodeName": "n"}})
        assert kubelet.asked == [("/stats/summary", [("only_cpu_and_memory", "true")])]
        assert kubelet.forwarded == path
        assert (await api.call("GET", "/api/v1/nodes/n/proxy/nonsense")).code == 404
        assert (await api.call("POST", path, {})).code == 405
        assert (await api.call("GET", "/api/v1/nodes/other/proxy/stats/summary")).code == 404
    assert (await api.call("GET", path)).code == 503


async def test_a_self_signed_certificate_is_trusted_if_its_node_names_it(api: EmbeddedServer, tmp_path: Path) -> None:
    """Only that certificate is; nothing is sent to a server with another one."""
    async with kubelet_of(api, tmp_path, joined=True) as kubelet:

        async def named(certificate: str) -> tuple[int, Any]:
            patch = {"metadata": {"annotations": {names.ANNOTATION_SERVING_CERTIFICATE: certificate}}}
            await api.call("PATCH", "/api/v1/nodes/n", patch, content_type=MERGE)
            answer = await api.call("GET", f"{POD}/log")
            return answer.code, answer.body

        refused = await api.call("GET", f"{POD}/log")
        assert (refused.code, "certificate verify failed" in refused.body["message"]) == (500, True)
        code, body = await named(f"sha256:{'0' * 64}")
        assert (code, "not the one that the Node's annotation" in body["message"]) == (500, True)
        assert kubelet.asked == []
        own = x509.load_pem_x509_certificate((tmp_path / "pki/127.0.0.1.crt").read_bytes())
        assert await named(fingerprint(own)) == (200, b"one\ntwo\n")
        subject = dict(part for parts in kubelet.peers[0]["subject"] for part in parts)
        assert subject["organizationName"] == "system:masters"


async def test_exec_forwards_frames_both_ways(api: EmbeddedServer, tmp_path: Path) -> None:
    """Arguments are in order, streams have the kubelet's names, and both sides use a protocol that they share."""
    async with kubelet_of(api, tmp_path) as kubelet:
        url = f"{api.url}{POD}/exec?command=sh&command=-c&command=cat&stdin=true&stdout=true&tty=false"
        headers = {"Authorization": f"Bearer {api.token}"}
        protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        async with api.session.ws_connect(url, headers=headers, protocols=protocols) as socket:
            assert socket.protocol == "v5.channel.k8s.io"
            await socket.send_bytes(b"\x00hello")
            assert [(await socket.receive_bytes())[:7] for _ in range(2)] == [b"\x01HELLO", b'\x03{"stat']
            assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        assert kubelet.asked == [
            (
                "/exec/default/p/c",
                [("command", "sh"), ("command", "-c"), ("command", "cat"), ("input", "1"), ("output", "1")],
            )
        ]


async def test_a_client_that_disconnects_early_leaves_no_connection(api: EmbeddedServer, tmp_path: Path) -> None:
    """This holds before the kubelet has answered."""
    headers = {"Authorization": f"Bearer {api.token}", "Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    async with kubelet_of(api, tmp_path) as kubelet:
        asking = asyncio.create_task(api.session.post(f"{api.url}{POD}/attach?stdout=true", headers=headers))
        await until(lambda: kubelet.hung is not None)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: kubelet.hung is not None and kubelet.hung.transport is None)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("stream", ["exec", "attach", "portforward"])
async def test_streams_need_credentials(api: EmbeddedServer, method: str, stream: str) -> None:
    """A request without credentials is refused with a Status before the Pod is looked up."""
    async with api.session.request(method, f"{api.url}{POD}/{stream}") as answer:
        refused = await answer.json()
    verb = {"GET": "get", "POST": "create"}[method]
    assert (answer.status, refused["reason"]) == (403, "Forbidden")
    assert f'User "system:anonymous" cannot {verb} resource "pods/{stream}"' in refused["message"]


async def test_a_user_who_may_only_read_opens_no_stream(api: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WebSocket begins with a GET, but needs the permission to create."""
    asked: list[str] = []

    def only_get(_authorizer: AllowKnown, user: User, attributes: Attributes) -> str:
        asked.append(attributes.verb)
        return "" if attributes.verb == "get" else "readers only read"

    monkeypatch.setattr(AllowKnown, "refusal", only_get)
    refused = await api.call("GET", f"{POD}/exec?command=ls")
    assert (refused.code, "readers only read" in refused.body["message"], asked) == (403, True, ["get", "create"])


@pytest.mark.parametrize(
    ("port", "code", "message"),
    [
        ("404", 404, "not here"),
        ("400", 400, "not here"),
        ("501", 501, "not here"),
        ("403", 500, "Internal error occurred: the kubelet answered 403: not here"),
    ],
)
async def test_a_kubelets_refusal_to_upgrade_is_a_status(
    api: EmbeddedServer, tmp_path: Path, port: str, code: int, message: str
) -> None:
    """The kubelet receives the protocols that the client offers, but not the client's credentials."""
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
    async with kubelet_of(api, tmp_path) as kubelet:
        answer = await api.call("POST", f"{POD}/portforward?ports={port}", headers=headers)
        assert (answer.code, answer.body["kind"], answer.body["message"]) == (code, "Status", message)
        assert kubelet.asked == [("/portForward/default/p", [("port", port)])]
        assert kubelet.headers["X-Stream-Protocol-Version"] == "portforward.k8s.io"
        assert "Authorization" not in kubelet.headers


def test_streams_are_forwarded_under_uvloop(tmp_path: Path) -> None:
    """`kaji up` runs on uvloop."""

    async def story() -> None:
        async with embedded_server() as api:
            await test_exec_forwards_frames_both_ways(api, tmp_path)

    uvloop.run(story())


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/api/v1/namespaces/default/pods/nope/log", 404, 'pods "nope" not found'),
        (f"{POD}/log?container=x", 400, "container x is not valid for pod p"),
        (f"{POD}/log?tailLines=x", 400, "tailLines must be a number"),
        (f"{POD}/log", 500, "no kubelet endpoint"),
        (f"{POD}/exec?command=ls", 400, "neither WebSocket nor SPDY/3.1"),
        (f"{POD}/exec", 400, "you must specify at least 1 command"),
        (f"{POD}/attach?stdout=1&container=x", 400, "container x is not valid for pod p"),
        (f"{POD}/portforward", 400, "neither WebSocket nor SPDY/3.1"),
        (f"{POD}/portforward?ports=80,web", 400, "'web' is not a port"),
    ],
)
async def test_requests_that_cannot_be_forwarded_are_refused(
    api: EmbeddedServer, path: str, code: int, message: str
) -> None:
    """No kubelet is asked."""
    await api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    body = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    await api.call("POST", POD.rpartition("/")[0], body)
    answer = await api.call("GET", path)
    assert answer.code == code
    assert message in answer.body["message"]


async def test_a_pod_with_several_containers_needs_a_name(api: EmbeddedServer) -> None:
    """The message lists them; the annotation that kubectl reads chooses one. Without a node the log is empty."""
    containers = [{"name": name, "image": "i"} for name in ("a", "b")]
    await api.call("POST", POD.rpartition("/")[0], {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    answer = await api.call("GET", f"{POD}/log")
    assert (answer.code, answer.body["message"]) == (
        400,
        "a container name must be specified for pod p, choose one of: [a b]",
    )
    chosen = {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "b"}}}
    await api.call("PATCH", POD, chosen, content_type=MERGE)
    assert (await api.call("GET", f"{POD}/log")).body == b""
