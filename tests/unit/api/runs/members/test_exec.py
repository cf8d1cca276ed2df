"""Exec: programs inside members, over a WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.harness.waiting import until
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from kajitori.api.runs.members import streams, terminal_notices
from kajitori.api.serving.server import ApiServer
from kajitori.client.members.streams import Channel, attach_url, command_request, running
from kajitori.client.target import Target

PROTOCOL = Subprotocol("v5.channel.k8s.io")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods are in the mirror before the tests call."""
    monkeypatch.setattr(streams, "PODS_PATIENCE_SECONDS", 0.0)


def dial(server: ApiServer, query: str, token: str = "ada", route: str = "exec") -> connect:
    url = f"{server.url.replace('http', 'ws')}/v1/runs/team/bert/{route}?{query}"
    return connect(url, subprotocols=[PROTOCOL], additional_headers={"Authorization": f"Bearer {token}"}, proxy=None)


async def put_member(world: World, phase: str = "Running", **spec: Any) -> None:
    made = world.kubernetes.put("runs", run("bert", **spec) | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made, phase=phase))
    await world.caught_up()


async def test_all_channels_pass_through(world: World) -> None:
    """Output, errors, input and its end, the terminal's size, and the exit code are forwarded."""
    await put_member(world)
    async with ApiServer(world.app) as server:
        socket: ClientConnection
        async with dial(server, "command=echo&command=a+b&stdin=true&tty=false") as socket:
            assert socket.subprotocol == PROTOCOL
            assert await socket.recv() == b"\x01echo a b"
            await socket.send(b"\x00typed")
            assert await socket.recv() == b"\x02typed"
            await socket.send(b'\x04{"Width":80,"Height":24}')
            size = await socket.recv()
            assert isinstance(size, bytes)
            assert json.loads(size.removeprefix(b"\x01size ")) == {"Width": 80, "Height": 24}
            await socket.send(b"\x04not a size")
            await socket.send(b"\xff\x00")
            end = await socket.recv()
            assert isinstance(end, bytes)
            status = json.loads(end.removeprefix(b"\x03"))
            assert (status["reason"], status["details"]["causes"][0]["message"]) == ("NonZeroExitCode", "3")
            await socket.wait_closed()
            assert socket.close_code == 1000


async def test_a_command_may_be_longer_than_an_address(world: World) -> None:
    """Its words are the first message then: proxies refuse long addresses, and this server one of more than 32 KiB."""
    await put_member(world)
    async with ApiServer(world.app) as server:
        async with dial(server, "command=echo&command=" + "x" * 30_000) as socket:
            assert await socket.recv() == b"\x01echo " + b"x" * 30_000
        words = ["echo", *["é" * 20_000] * 5]
        target = Target(server.url, "ada")
        url, message = command_request(target, {"namespace": "team", "name": "bert"}, words)
        assert len(url) < 200
        async with running(target, url, message) as stream:
            assert await anext(stream.output()) == (Channel.STDOUT, " ".join(words).encode())


@pytest.mark.parametrize(
    ("message", "said"),
    [("[]", "command: list should have at least 1 item"), ('["a", 3]', "command[1]: input should be a valid string")],
)
async def test_a_first_message_without_words_is_refused(world: World, message: str, said: str) -> None:
    await put_member(world)
    async with ApiServer(world.app) as server, dial(server, "wordsInMessage=true") as socket:
        await socket.send(message)
        refusal = await socket.recv()
        assert isinstance(refusal, bytes)
        assert said in json.loads(refusal.removeprefix(b"\x03"))["message"]


async def test_attach_uses_the_terminal_of_the_run(world: World) -> None:
    """The caller does not choose between a terminal and pipes: the program has one or the other."""
    await put_member(world, stdin=True, tty=True)
    async with ApiServer(world.app) as server, dial(server, "stdin=true", route="attach") as socket:
        assert await socket.recv() == b"\x01stdin=true tty=true"
        await socket.send(b"\x00typed")
        assert await socket.recv() == b"\x02typed"


@pytest.mark.parametrize(
    ("query", "token", "status"), [("stdin=true", "ada", 409), ("tty=true", "ada", 422), ("", "reader", 403)]
)
async def test_attach_is_refused_before_the_handshake(world: World, query: str, token: str, status: int) -> None:
    """The run has no standard input, the terminal is no parameter, and the caller lacks the right."""
    await put_member(world)
    world.kubernetes.denied.add(("reader", "create", "pods/attach", "team"))
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, query, token, route="attach"):
                pass
    assert refused.value.response.status_code == status


async def test_exec_ends_when_its_caller_loses_the_right_to_it(world: World) -> None:
    await put_member(world)
    async with ApiServer(world.app) as server:
        socket: ClientConnection
        async with dial(server, "command=echo&stdin=true") as socket:
            await socket.recv()
            world.kubernetes.denied.add(("ada", "create", "pods/exec", "team"))
            await world.api.callers.sessions.recheck()
            await socket.wait_closed()
            assert (socket.close_code, "may not create pods/exec" in (socket.close_reason or "")) == (1008, True)


async def test_a_running_run_may_be_seen_before_its_pods(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod's state is waited for; `kaji exec` right after the start is not refused."""
    monkeypatch.setattr(streams, "PODS_PATIENCE_SECONDS", 60.0)
    await put_member(world, "Pending")
    async with ApiServer(world.app) as server:
        connecting = asyncio.ensure_future(dial(server, "command=echo&stdin=true").__aenter__())
        while not world.api.runs.hub._waiting:  # noqa: ASYNC110 - the hub has no event for it
            await asyncio.sleep(0)
        await put_member(world, "Running")
        socket = await connecting
        assert await socket.recv() == b"\x01echo"
        await socket.close()


@pytest.mark.parametrize(
    ("query", "token", "phase", "status"),
    [
        ("command=sh", "expired", "Running", 401),
        ("command=sh&rank=5", "ada", "Running", 404),
        ("", "ada", "Running", 422),
        ("command=sh&rank=-1", "ada", "Running", 422),
        ("command=sh&comand=x", "ada", "Running", 422),
        ("command=sh", "ada", "Pending", 409),
        ("command=sh", "nobody", "Running", 403),
        ("command=sh", "reader", "Running", 403),
    ],
)
async def test_exec_is_refused_before_the_handshake(
    world: World, query: str, token: str, phase: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal is an ordinary problem document, and the server logs no error."""
    await put_member(world, phase)
    world.kubernetes.denied |= {("nobody", "get", "runs", "team"), ("reader", "create", "pods/exec", "team")}
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, query, token):
                pass
        response = refused.value.response
        assert response.status_code == status
        assert json.loads(response.body or b"")["detail"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("query", "token", "code", "message"),
    [
        ("command=sh", "ada", 409, "rank 0 of bert is Pending, not running"),
        ("command=sh&rank=5", "ada", 404, "bert has no member of rank 5 now"),
        ("command=sh", "nobody", 403, ""),
    ],
)
async def test_a_browser_is_told_after_the_handshake_why_exec_is_refused(
    world: World, query: str, token: str, code: int, message: str
) -> None:
    """Browsers hide the answer to a refused handshake from the page."""
    await put_member(world, "Pending")
    world.kubernetes.denied.add(("nobody", "get", "runs", "team"))
    async with ApiServer(world.app) as server, dial(server, f"{query}&explain=true", token) as socket:
        end = await socket.recv()
        assert isinstance(end, bytes)
        status = json.loads(end.removeprefix(b"\x03"))
        assert (status["status"], status["code"]) == ("Failure", code)
        assert status["message"].startswith(message) and status["details"]["causes"][0]["message"]
        await socket.wait_closed()
        assert socket.close_code == 1000


@pytest.mark.parametrize("how", ["label", "namespace", "rank"])
async def test_no_program_starts_in_a_pod_that_is_no_member(world: World, how: str) -> None:
    """The Pod has only the run's label, is in another namespace, or has a rank that the run does not have."""
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase="Running")})
    foreign = pod(made, rank=3 if how == "rank" else 0)
    if how == "label":
        del foreign["metadata"]["ownerReferences"]
    if how == "namespace":
        foreign["metadata"]["namespace"] = "mallory"
    world.kubernetes.put("pods", foreign)
    await world.caught_up()
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, f"command=sh&rank={3 if how == 'rank' else 0}"):
                pass
    assert refused.value.response.status_code == 409


async def test_exec_in_a_waiting_run_is_refused_because_it_waits(world: World) -> None:
    """The message does not say that one member is missing."""
    world.kubernetes.put("runs", run("bert", phase="Queued"))
    await world.caught_up()
    async with ApiServer(world.app) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, "command=sh"):
                pass
    problem = json.loads(refused.value.response.body or b"")
    assert (problem["code"], problem["detail"]) == ("WrongState", "bert is Queued: none of its members is running")


async def test_no_token_is_logged_even_at_debug_level(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Neither tokens of WebSockets nor those of other requests, accepted or refused."""
    await put_member(world)
    token = "a-token-that-nobody-may-read"
    world.kubernetes.unknown_tokens.add(f"{token}-unknown")
    logging.getLogger("websockets.client").setLevel(logging.INFO)  # the test's own client
    try:
        with caplog.at_level(logging.DEBUG):
            async with ApiServer(world.app) as server:
                async with dial(server, "command=echo&command=x", token) as socket:
                    assert await socket.recv() == b"\x01echo x"
                with pytest.raises(InvalidStatus):
                    async with dial(server, "command=sh", f"{token}-unknown"):
                        pass
                headers = {"Authorization": f"Bearer {token}"}
                assert (await world.http.get("/v1/gpus", headers=headers)).status_code == 200
    finally:
        logging.getLogger("websockets.client").setLevel(logging.NOTSET)
    assert token not in caplog.text


@pytest.mark.parametrize(
    ("route", "query", "spec"),
    [("exec", "command=echo&stdin=true&tty=true", {}), ("attach", "stdin=true", {"stdin": True, "tty": True})],
)
async def test_a_terminal_shows_that_its_run_is_preempted(
    world: World, route: str, query: str, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes once, as standard error, which no program with a terminal uses."""
    monkeypatch.setattr(terminal_notices, "QUIET_SECONDS", 0.0)
    await put_member(world, **spec)
    async with ApiServer(world.app) as server, dial(server, query, route=route) as socket:
        await socket.recv()
        asked = {"by": "nlp/gpt", "uid": "u1", "since": "2026-11-28T10:00:00Z"}
        for message in ("first", "second"):
            status = attempts(1, phase="Running") | {"preemption": asked, "message": message}
            world.kubernetes.put("runs", run("bert", **spec) | {"status": status})
        notice = await socket.recv()
        assert (
            notice == b"\x02\r\n\akaji: this run is preempted now, for nlp/gpt; it starts again when it gets nodes\r\n"
        )
        await socket.send(b"\x00typed")
        assert await socket.recv() == b"\x02typed"


async def test_a_pipe_gets_no_notices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be bytes in somebody's data."""
    monkeypatch.setattr(terminal_notices, "QUIET_SECONDS", 0.0)
    made = run("bert") | {"status": attempts(1, phase="Running") | {"preemption": {"by": "a/b", "uid": "u"}}}
    world.kubernetes.put("pods", pod(world.kubernetes.put("runs", made)))
    await world.caught_up()
    async with ApiServer(world.app) as server, dial(server, "command=echo&stdin=true") as socket:
        assert await socket.recv() == b"\x01echo"
        await socket.send(b"\x00typed")
        assert await socket.recv() == b"\x02typed"


async def test_a_caller_whose_connection_broke_gets_the_bytes_that_it_missed(world: World) -> None:
    """The program prints on while nobody is attached, and even identical bytes come once each: the caller names its
    position. A caller that comes back from another user, from an unknown session or after it has left begins anew."""
    await put_member(world, stdin=True, tty=True)
    async with ApiServer(world.app) as server:
        first = await dial(server, "stdin=true", route="attach")
        session = first.response.headers["Kaji-Session"]  # type: ignore[union-attr]
        begin = await first.recv()
        await first.send(b"\x00....")
        assert await first.recv() == b"\x02...."
        await first.send(b"\x00........")
        [kept] = world.api.runs.attachments._by_id.values()
        await until(lambda: kept.has(len(begin) - 1 + 12))
        first.transport.abort()
        await until(lambda: world.api.runs.attachments._waiting)

        back = f"stdin=true&session={session}&position={len(begin) - 1 + 4 + 3}"
        world.kubernetes.denied.add(("ada", "create", "pods/attach", "team"))
        world.clock.now += 3600  # a right that was asked about is remembered for a while
        with pytest.raises(InvalidStatus):
            await dial(server, back, route="attach")
        assert world.api.runs.attachments._waiting, "a refused caller keeps no connection to the program"
        world.kubernetes.denied.clear()
        world.clock.now += 3600
        async with dial(server, back, token="grace", route="attach") as other:
            assert other.response.headers["Kaji-Session"] != session  # type: ignore[union-attr]
        async with dial(server, back, route="attach") as second:
            assert second.response.headers["Kaji-Session"] == session  # type: ignore[union-attr]
            assert await second.recv() == b"\x02....."
            await second.send(b"\x00typed")
            assert await second.recv() == b"\x02typed"
            async with dial(server, back, route="attach") as third:  # the server has not noticed that the second broke
                assert await third.recv() == b"\x02.....typed"
        await until(lambda: not world.api.runs.attachments._by_id)
        async with dial(server, back, route="attach") as anew:
            assert anew.response.headers["Kaji-Session"] != session  # type: ignore[union-attr]
            assert await anew.recv() == begin


async def test_a_caller_that_detaches_keeps_nothing_on_the_server(world: World) -> None:
    """The client says that it does not come back. It once hung up without a word, and the server kept the program's
    output for a minute."""
    await put_member(world, stdin=True, tty=True)
    async with ApiServer(world.app) as server:
        target = Target(server.url, "ada")
        url = attach_url(target, {"namespace": "team", "name": "bert"}, stdin=True)
        with pytest.raises(asyncio.CancelledError):
            async with running(target, url) as stream:
                await anext(stream.output())
                raise asyncio.CancelledError
        assert world.api.runs.attachments._by_id
        await until(lambda: not world.api.runs.attachments._by_id)
        assert not world.api.runs.attachments._waiting


async def test_a_command_at_a_terminal_goes_on_after_its_connection_broke(world: World) -> None:
    """`docker exec -it` and `kaji exec -it` once ended with the connection. The command waits for its caller, and none
    of its output is lost, however much it prints meanwhile. No other user, and no attach, gets its session."""
    await put_member(world, stdin=True, tty=True)
    async with ApiServer(world.app) as server:
        first = await dial(server, "command=echo&stdin=true&tty=true")
        session = first.response.headers["Kaji-Session"]  # type: ignore[union-attr]
        begin = await first.recv()
        [kept] = world.api.runs.attachments._by_id.values()
        await first.send(b"\x00" + b"." * 40_000)
        await until(lambda: kept.has(len(begin) - 1 + 40_000))
        first.transport.abort()
        await until(lambda: world.api.runs.attachments._waiting)
        for _ in range(20):
            await kept.program.write(b"." * 40_000)

        back = f"stdin=true&tty=true&session={session}&position={len(begin) - 1}"
        for token, route, rest in (("grace", "exec", ""), ("ada", "exec", "0000000"), ("ada", "exec", "&rank=1")):
            with pytest.raises(InvalidStatus) as refused:
                await dial(server, back + rest, token=token, route=route)
            assert refused.value.response.status_code == 404
        world.kubernetes.denied.add(("ada", "create", "pods/exec", "team"))
        world.clock.now += 3600  # a right that was asked about is remembered for a while
        with pytest.raises(InvalidStatus):
            await dial(server, back)
        world.kubernetes.denied.clear()
        world.clock.now += 3600
        async with dial(server, f"stdin=true&session={session}&position=3", route="attach") as attached:
            assert attached.response.headers["Kaji-Session"] != session  # type: ignore[union-attr]
        async with dial(server, back) as second:
            assert second.response.headers["Kaji-Session"] == session  # type: ignore[union-attr]
            missed = b""
            while len(missed) < 21 * 40_000:
                missed += (await second.recv())[1:]  # type: ignore[operator]
            assert missed == b"." * 21 * 40_000
            await second.send(b"\x00typed")
            assert await second.recv() == b"\x02typed"
        await until(lambda: not world.api.runs.attachments._by_id)
        with pytest.raises(InvalidStatus):
            await dial(server, back)


async def test_a_command_without_a_terminal_ends_with_its_connection(world: World) -> None:
    """Nobody knows how much of its input has arrived."""
    await put_member(world)
    async with ApiServer(world.app) as server, dial(server, "command=echo&stdin=true") as socket:
        assert await socket.recv() == b"\x01echo"
        assert "Kaji-Session" not in socket.response.headers  # type: ignore[union-attr]
        assert not world.api.runs.attachments._by_id


async def test_a_caller_that_can_not_come_back_keeps_nothing_on_the_server(world: World) -> None:
    """The words were the first message, after the header that would name the session."""
    await put_member(world)
    async with ApiServer(world.app) as server:
        socket = await dial(server, "wordsInMessage=true&stdin=true&tty=true")
        await socket.send('["echo"]')
        assert await socket.recv() == b"\x01echo"
        socket.transport.abort()
        await until(lambda: not world.api.runs.attachments._by_id)
        assert not world.api.runs.attachments._waiting
