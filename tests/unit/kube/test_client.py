"""The client's verbs on the wire: what is sent, what is tried again, what a failure is called."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import uvloop
from aiohttp import WSMsgType, web
from tests.unit.kube.fake_api import Naps, client_of, fake_api, serving, status_of

from kajitori.controllers.leadership import NotLeading
from kajitori.errors import InvalidInput, Unauthenticated
from kajitori.kube.client import METADATA_ONLY, KubeClient, PatchKind
from kajitori.kube.config import Credentials, ExecPlugin, KubeConfig
from kajitori.kube.errors import (
    AlreadyExistsError,
    ConnectionFailed,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from kajitori.kube.objects import Pod
from kajitori.kube.resources import NODES, PODS, RUNS, SELF_REVIEWS
from kajitori.kube.retry import NO_RETRY, RetryPolicy
from kajitori.kube.streams import EXEC_PROTOCOL, Channel, exit_of

POD = {"metadata": {"name": "x", "namespace": "a", "uid": "u"}, "status": {"phase": "Running"}}
Answer = web.Response | Callable[[web.Request], Any]


class Script:
    """A server that gives the prepared answers, the last one for ever, and remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: deque[Answer] = deque()
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        body = await request.read()
        self.asked.append((request.method, request.raw_path, json.loads(body) if body else None))
        self.headers.append(dict(request.headers))
        answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        made: web.StreamResponse = await answer(request)
        return made


def ok(document: Any = POD) -> web.Response:
    """A successful answer."""
    return web.json_response(document)


def no(code: int, reason: str = "", message: str = "", retry_after: str = "") -> web.Response:
    """A refusal."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    return web.json_response(status_of(code, message, reason), status=code, headers=headers)


async def hang_up(request: web.Request) -> web.Response:
    """Breaks the connection after the request was read."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def scripted(*answers: Answer) -> AsyncIterator[Script]:
    """A running Script."""
    script = Script()
    script.answers.extend(answers)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    async with serving(app) as script.url:
        yield script


# ---------------------------------------------------------------------------------------------- what is sent


async def test_paths_and_bodies_of_each_verb() -> None:
    """Each verb is the request that the Kubernetes API documents for it."""
    async with scripted(ok()) as server, client_of(server.url) as client:
        await client.get(PODS, "x", "a")
        await client.get(NODES, "n")
        await client.create(PODS, POD)
        await client.create(SELF_REVIEWS, {})
        await client.create(PODS, b'{"raw": 1}', "b", dry_run=True)
        await client.replace(RUNS, {"metadata": {"name": "r", "namespace": "a"}}, subresource="status")
        await client.patch(PODS, "x", {"a": 1}, "a", kind=PatchKind.APPLY, force=True)
        await client.delete(PODS, "x", "a", grace_seconds=0, uid="u", propagation="Foreground")
        await client.delete_collection(PODS, "a", label_selector="l=1", field_selector="status.phase!=Failed")
        await client.bind("x", "a", "n")
        await client.replace(NODES, {"metadata": {"name": "n"}}, metadata_only=True)
        delete = {"apiVersion": "v1", "kind": "DeleteOptions"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "x", "namespace": "a"}}
        assert server.asked == [
            ("GET", "/api/v1/namespaces/a/pods/x", None),
            ("GET", "/api/v1/nodes/n", None),
            ("POST", "/api/v1/namespaces/a/pods", POD),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
            ("POST", "/api/v1/namespaces/b/pods?dryRun=All", {"raw": 1}),
            (
                "PUT",
                "/apis/kajitori.dev/v1alpha1/namespaces/a/runs/r/status",
                {"metadata": {"name": "r", "namespace": "a"}},
            ),
            ("PATCH", "/api/v1/namespaces/a/pods/x?fieldManager=kajitori&force=true", {"a": 1}),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods/x",
                delete | {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}},
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods?labelSelector=l%3D1&fieldSelector=status.phase!%3DFailed",
                delete,
            ),
            (
                "POST",
                "/api/v1/namespaces/a/pods/x/binding",
                binding | {"target": {"apiVersion": "v1", "kind": "Node", "name": "n"}},
            ),
            ("PUT", "/api/v1/nodes/n", {"metadata": {"name": "n"}}),
        ]
        assert [headers["Accept"] for headers in server.headers] == [*["application/json"] * 10, METADATA_ONLY]
        assert server.headers[6]["Content-Type"] == "application/apply-patch+yaml"
        assert {headers["User-Agent"] for headers in server.headers} == {"kajitori"}


async def test_the_configurations_namespace_is_the_default() -> None:
    """Without a namespace one object is looked for in the configuration's; a collection in all."""
    async with scripted(ok({"items": []})) as server:
        async with KubeClient(KubeConfig(server=server.url, namespace="mine")) as client:
            await client.get(PODS, "x")
            await client.list(PODS)
        assert [path for _, path, _ in server.asked] == ["/api/v1/namespaces/mine/pods/x", "/api/v1/pods?limit=500"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../nodes", "a%2fb", "a?b", "a#b", "a b", "ä", "a\n"])
async def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    """What is not one part of a path is refused before anything is sent."""
    async with client_of("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidInput):
            await client.get(PODS, name, "a")
        with pytest.raises(InvalidInput):
            await client.get(PODS, "x", name or "..")


async def test_objects_are_decoded_to_what_is_asked_for() -> None:
    """A dictionary, or a struct of the needed fields; nulls mean absent; garbage is an error of the server's."""
    with_nulls = {"metadata": {"name": "x", "labels": None}, "spec": None, "status": {"conditions": None}}
    async with scripted(ok(), ok(with_nulls), web.Response(text="<html>")) as server, client_of(server.url) as client:
        assert (await client.get(PODS, "x", type=Pod)).status.phase == "Running"
        assert (await client.get(PODS, "x", type=Pod)).status.conditions == ()
        with pytest.raises(ServerError, match="cannot be understood"):
            await client.get(PODS, "x")


async def test_a_list_is_followed_to_its_end() -> None:
    """All pages are one listing, at the version of the last; an object that is no Pod is left out."""
    pages = [
        ok({"metadata": {"resourceVersion": "7", "continue": "t/1="}, "items": [POD, {"metadata": 5}]}),
        ok({"metadata": {"resourceVersion": "7"}, "items": None}),
    ]
    async with scripted(*pages) as server, client_of(server.url) as client:
        listing = await client.list(PODS, "a", label_selector="k=v", type=Pod)
        assert ([pod.metadata.name for pod in listing.items], listing.resource_version) == (["x"], "7")
        assert server.asked[1][1] == "/api/v1/namespaces/a/pods?labelSelector=k%3Dv&limit=500&continue=t/1%3D"


# ---------------------------------------------------------------------------------------------- trying again


async def test_reads_are_tried_again() -> None:
    """A broken connection, 500 and 429 pass while reading."""
    naps = Naps()
    answers: list[Answer] = [no(500), no(429), hang_up, ok()]
    async with scripted(*answers) as server, client_of(server.url, naps, RetryPolicy()) as client:
        assert (await client.get(PODS, "x"))["metadata"]["name"] == "x"
        assert len(server.asked) == 4
    assert naps.taken[:2] == [0.1, 0.2]


async def test_a_create_is_not_repeated_after_a_broken_connection() -> None:
    """It may have happened. The error says so, and names the server."""
    async with scripted(hang_up, ok()) as server, client_of(server.url, retry=RetryPolicy()) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.create(PODS, POD)
        assert caught.value.maybe_applied
        assert server.url in str(caught.value)
        assert len(server.asked) == 1


async def test_a_write_that_was_stopped_on_its_way_is_not_sent_afterwards() -> None:
    """Whoever leads is asked again when there is a connection, new or old, and when the body follows; not to read."""
    permits = 0

    def permit() -> float:
        nonlocal permits
        if not permits:
            raise NotLeading("it leads no more")
        permits -= 1
        return 9.0

    async with scripted(ok()) as script:
        async with KubeClient(KubeConfig(server=script.url), write_permit=permit) as client:
            for permits in (0, 1, 2):
                for _ in ("a new connection", "one that is there"):
                    before = permits
                    with pytest.raises(NotLeading):
                        await client.create(PODS, POD, "a")
                    permits = before
                    await client.get(PODS, "x", "a")
            permits = 3
            await client.create(PODS, POD, "a")
        assert [method for method, _, _ in script.asked] == ["GET"] * 6 + ["POST"]


async def test_a_create_is_repeated_when_the_server_asks_for_it() -> None:
    """429 with Retry-After says that nothing was done; the wait is at least as long as asked."""
    naps = Naps()
    async with scripted(no(429, retry_after="2"), ok()) as server:
        async with client_of(server.url, naps, RetryPolicy()) as client:
            await client.create(PODS, POD)
        assert len(server.asked) == 2
    assert naps.taken[0] >= 2.0


async def test_refusals_are_not_repeated() -> None:
    """What the server refuses for good is raised at once."""
    for answer, kind in [
        (no(403), ForbiddenError),
        (no(404), NotFoundError),
        (no(409, "AlreadyExists"), AlreadyExistsError),
    ]:
        async with scripted(answer) as server, client_of(server.url, retry=RetryPolicy()) as client:
            with pytest.raises(kind):
                await client.get(PODS, "x")
            assert len(server.asked) == 1


async def test_patience_ends() -> None:
    """A server that answers 429 for ever ends in its own error, after a bounded time."""
    naps = Naps()
    async with scripted(no(429, retry_after="9")) as server, client_of(server.url, naps, RetryPolicy()) as client:
        with pytest.raises(TooManyRequestsError):
            await client.get(PODS, "x")
    assert sum(naps.taken) < 40


async def test_a_server_that_does_not_answer() -> None:
    """The time limit ends the request; it may have been applied."""

    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted(never) as server, client_of(server.url, timeout_seconds=0.1) as client:
        with pytest.raises(ConnectionFailed, match="did not answer in time") as caught:
            await client.create(PODS, POD)
        assert caught.value.maybe_applied


async def test_a_closed_client_asks_nothing() -> None:
    """Whoever forgot to stop learns that the client is closed; no new connection is opened behind anybody's back."""
    async with scripted(ok()) as server:
        async with client_of(server.url) as client:
            await client.get(PODS, "x")
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.get(PODS, "x")
        assert len(server.asked) == 1


async def test_nobody_listens() -> None:
    """An unreachable server is named, with a way out; the request certainly was not applied."""
    async with serving(web.Application()) as url:
        pass
    async with client_of(url) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.create(PODS, POD)
    assert url in caught.value.message
    assert caught.value.hint
    assert not caught.value.maybe_applied


# ---------------------------------------------------------------------------------------------- credentials


def bearer(valid: str) -> Callable[[web.Request], Any]:
    """Answers 401 to all tokens but one."""

    async def answer(request: web.Request) -> web.Response:
        return (
            ok()
            if request.headers.get("Authorization") == f"Bearer {valid}"
            else no(401, "Unauthorized", "Unauthorized")
        )

    return answer


def plugin(folder: Path, script: str, **options: Any) -> ExecPlugin:
    """A credential plugin that is a shell script; it counts its runs in the file `runs`."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\ncd {folder}\necho run >> runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin("client.authentication.k8s.io/v1", str(path), **options)


def runs(folder: Path) -> int:
    """How often the plugin ran."""
    return len((folder / "runs").read_text().splitlines())


def credential(token: str, **more: str) -> str:
    """A plugin's answer as a shell command."""
    status = json.dumps({"token": token, **more})
    return f"""echo '{{"kind": "ExecCredential", "status": {status}}}'"""


async def test_a_token_file_is_read_again_after_401(tmp_path: Path) -> None:
    """The kubelet renews tokens in place; the next request after a refusal carries the new one."""
    file = tmp_path / "token"
    file.write_text("old\n")

    async def renew(request: web.Request) -> web.Response:
        file.write_text("new\n")
        return no(401)

    async with scripted(renew, bearer("new")) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(token_file=file))
        async with KubeClient(config, retry=NO_RETRY) as client:
            await client.get(PODS, "x")
        assert [h["Authorization"] for h in server.headers] == ["Bearer old", "Bearer new"]


async def test_a_fixed_token_that_expired() -> None:
    """Nothing can be renewed: one request, a typed error, a hint, and no token in the words."""
    async with scripted(bearer("other")) as server:
        async with KubeClient(KubeConfig(server=server.url).with_token("s3cret"), retry=NO_RETRY) as client:
            with pytest.raises(UnauthorizedError) as caught:
                await client.get(PODS, "x")
        assert len(server.asked) == 1
    assert "log in" in caught.value.hint
    assert "s3cret" not in f"{caught.value!r} {caught.value.hint}"


async def test_a_plugin_runs_once_for_many_requests_and_again_after_401(tmp_path: Path) -> None:
    """Its token is kept; a refusal runs it once more, and a second refusal is final."""
    async with scripted(bearer("first")) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(plugin=plugin(tmp_path, credential("first"))))
        async with KubeClient(config, retry=NO_RETRY) as client:
            await asyncio.gather(*(client.get(PODS, "x") for _ in range(5)))
            assert runs(tmp_path) == 1
            plugin(tmp_path, credential("second"))
            server.answers.append(bearer("second"))
            server.answers.popleft()
            await client.get(PODS, "x")
            assert runs(tmp_path) == 2
            server.answers.append(bearer("third"))
            server.answers.popleft()
            with pytest.raises(UnauthorizedError):
                await client.get(PODS, "x")
            assert runs(tmp_path) == 3


async def test_a_token_about_to_expire_is_renewed_before_it_is_used(tmp_path: Path) -> None:
    """The plugin says until when its token is good."""
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    async with scripted(bearer("t")) as server:
        made = plugin(tmp_path, credential("t", expirationTimestamp=soon))
        async with KubeClient(KubeConfig(server=server.url, credentials=Credentials(plugin=made))) as client:
            await client.get(PODS, "x")
            await client.get(PODS, "x")
    assert runs(tmp_path) == 2


async def test_a_plugin_is_told_about_the_cluster(tmp_path: Path) -> None:
    """KUBERNETES_EXEC_INFO holds version, whether questions may be asked, and the server, where it wants to know."""
    script = 'printf %s "$KUBERNETES_EXEC_INFO" > info; printf %s "$PROFILE" > profile\n' + credential("t")
    made = plugin(tmp_path, script, provide_cluster_info=True, interactive_mode="Never", env=(("PROFILE", "ml"),))
    async with scripted(ok()) as server:
        config = KubeConfig(server=server.url, credentials=Credentials(plugin=made))
        async with KubeClient(config) as client:
            await client.get(PODS, "x")
        info = json.loads((tmp_path / "info").read_text())
        assert info["apiVersion"] == "client.authentication.k8s.io/v1"
        assert info["spec"] == {"interactive": False, "cluster": {"server": server.url}}
        assert (tmp_path / "profile").read_text() == "ml"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo please log in >&2; exit 3", "exit code 3: please log in"),
        ("echo nonsense", "printed no credentials"),
        ("""echo '{"status": {}}'""", "printed no credentials"),
    ],
)
async def test_a_plugin_that_fails(tmp_path: Path, script: str, said: str) -> None:
    """Its last words and its exit code are told; what it printed as an answer is not."""
    made = plugin(tmp_path, script)
    async with KubeClient(KubeConfig(server="http://127.0.0.1:1", credentials=Credentials(plugin=made))) as client:
        with pytest.raises(Unauthenticated, match=said):
            await client.get(PODS, "x")


async def test_a_plugin_that_is_not_there() -> None:
    """Its own install hint is the way out."""
    made = ExecPlugin("client.authentication.k8s.io/v1", "/no/such/plugin", install_hint="install it so")
    async with KubeClient(KubeConfig(server="http://127.0.0.1:1", credentials=Credentials(plugin=made))) as client:
        with pytest.raises(Unauthenticated) as caught:
            await client.get(PODS, "x")
    assert caught.value.hint == "install it so"


# ---------------------------------------------------------------------------------------------- streams


async def test_a_log_comes_in_pieces() -> None:
    """Options are sent as Kubernetes names them; the bytes come as they are."""

    async def log(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await response.write(b"o\n")
        return response

    async with scripted(log) as server, client_of(server.url) as client:
        async with await client.open_log("a", "x", follow=True, tail_lines=5, timestamps=True) as stream:
            assert b"".join([chunk async for chunk in stream]) == b"one\ntwo\n"
        assert server.asked[0][1] == (
            "/api/v1/namespaces/a/pods/x/log?container=main&tailLines=5&follow=true&timestamps=true"
        )


async def test_a_log_that_is_refused_or_breaks() -> None:
    """A refusal is raised when opening; a broken connection while reading."""

    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await hang_up(request)
        return response

    async with (
        scripted(no(400, "BadRequest", "container is waiting"), breaks) as server,
        client_of(server.url) as client,
    ):
        with pytest.raises(InvalidInput, match="waiting"):
            await client.open_log("a", "x")
        with pytest.raises(ConnectionFailed):
            _ = [chunk async for chunk in await client.open_log("a", "x")]


async def test_exec_speaks_the_channels() -> None:
    """Input, its end and the terminal's size go out; output, errors and the exit code come in."""
    heard: list[bytes] = []

    async def run(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=[EXEC_PROTOCOL])
        await socket.prepare(request)
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            heard.append(message.data)
            if message.data[:1] == b"\xff":
                break
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02err")
        status = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": "command terminated with exit code 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    async with scripted(run) as server, client_of(server.url) as client:
        async with await client.open_exec("a", "x", command=["sh", "-c", "a b"], stdin=True) as program:
            await program.write(b"hello")
            await program.resize(80, 24)
            await program.close_stdin()
            assert [piece async for piece in program] == [(Channel.STDOUT, b"out"), (Channel.STDERR, b"err")]
            assert (program.exit_code, program.message) == (3, "command terminated with exit code 3")
        assert server.asked[0][1] == (
            "/api/v1/namespaces/a/pods/x/exec?command=sh&command=-c&command=a+b&container=main"
            "&stdin=true&stdout=true&stderr=true&tty=false"
        )
    assert heard == [b"\x00hello", b'\x04{"Width":80,"Height":24}', b"\xff\x00"]


async def test_exec_that_is_refused_says_why() -> None:
    """The server's own words come through, although a refused handshake has no body for us."""
    async with scripted(no(404, "NotFound", 'pods "x" not found')) as server, client_of(server.url) as client:
        with pytest.raises(NotFoundError, match='pods "x" not found'):
            await client.open_exec("a", "x", command=["sh"])


async def test_exec_that_breaks_is_not_taken_for_its_end() -> None:
    """Without a word about the end there is no exit code but an error."""

    async def run(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=[EXEC_PROTOCOL])
        await socket.prepare(request)
        await socket.close()
        return socket

    async with scripted(run) as server, client_of(server.url) as client:
        program = await client.open_exec("a", "x", command=["sh"])
        with pytest.raises(ConnectionFailed, match="before the program ended"):
            _ = [piece async for piece in program]
        assert program.exit_code is None


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (b'{"status":"Success"}', (0, "")),
        (b'{"status":"Failure","message":"no shell"}', (None, "no shell")),
        (b'{"status":"Failure","reason":"NonZeroExitCode","message":"m"}', (None, "m")),
        (b"gibberish", (None, "gibberish")),
    ],
)
def test_how_a_program_ended(payload: bytes, answer: tuple[int | None, str]) -> None:
    """Only a number that was told is an exit code."""
    assert exit_of(payload) == answer


def test_raw_parts_of_a_body_stay_as_they_are() -> None:
    """A Run's spec goes back to the server byte by byte."""
    assert msgspec.json.encode({"spec": msgspec.Raw(b'{"a":  1}')}) == b'{"spec":{"a":  1}}'


def test_a_descriptor_that_the_event_loop_still_has_is_a_failed_connection() -> None:
    """Where a server dies during a handshake, aiohttp closes the socket before uvloop knows; the next one gets the same
    number, and uvloop refuses it. Nothing was sent, and it passes."""

    async def work() -> None:
        async with fake_api() as api, KubeClient(KubeConfig(server=api.url), retry=NO_RETRY) as client:
            url = urlsplit(api.url)
            held = socket.create_connection((url.hostname, url.port))
            number = held.fileno()
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=held)
            os.close(number)
            with pytest.raises(ConnectionFailed) as caught:
                await client.list(PODS)
            assert not caught.value.maybe_applied
            transport.abort()

    uvloop.run(work())
