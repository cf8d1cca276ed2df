"""The Web API as the bridge uses it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.docker.test_containers import NEVER_STARTED, container

from kajitori.client.target import Target
from kajitori.docker import engine as engine_module
from kajitori.docker import output
from kajitori.docker import platform as module
from kajitori.docker.engine import Engine
from kajitori.docker.hijack import STDERR, STDOUT, Hijacked
from kajitori.docker.output import LogQuery, read_output
from kajitori.docker.platform import Platform
from kajitori.docker.routes import attaching
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, NotFound, Unavailable, WrongState


class SlowServer(Platform):
    """A server that knows of a start only after some answers."""

    def __init__(self, views: list[Mapping[str, Any]]) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.views = views

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self.views.pop(0)

    async def documents(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Any]:
        view = self.views.pop(0)
        yield view
        while self.views and not view["spec"]["stopped"]:
            yield self.views.pop(0)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0)


BEFORE = container("Stopped", spec=NEVER_STARTED["spec"], status=NEVER_STARTED["status"])
STARTED = container("Stopped", spec={"resumes": 2}, status={"attempts": 0})
QUEUED = container("Queued", spec={"resumes": 2})
ENDED = container("Failed", spec={"resumes": 2, "stopped": True}, status={"exitCode": 3})


async def test_a_server_that_does_not_know_the_start_yet_is_asked_again() -> None:
    """`docker start -a` once ended at once, with exit code 0."""
    server = SlowServer([BEFORE.view, BEFORE.view, QUEUED.view])
    assert (await server.refreshed(STARTED)).view == QUEUED.view


async def test_changes_begin_with_the_start() -> None:
    server = SlowServer([BEFORE.view, BEFORE.view, QUEUED.view, QUEUED.view, ENDED.view])
    seen = [one.view async for one in server.changes(STARTED)]
    assert seen[0] == QUEUED.view and seen[-1] == ENDED.view


class Logs(Platform):
    """A server whose attempts have printed a line each."""

    def __init__(self) -> None:
        super().__init__(Target("http://127.0.0.1:1"))

    async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
        assert params is not None
        attempt = params["attempt"] or 3
        yield f"2026-11-28T20:00:0{attempt}.000000000Z {params['stream']} {attempt}\n".encode()


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        (LogQuery((STDOUT,)), [b"stdout 1\n", b"stdout 2\n", b"stdout 3\n"]),
        (LogQuery((STDOUT, STDERR), tail=3), [b"stderr 2\n", b"stdout 3\n", b"stderr 3\n"]),
        (LogQuery((STDOUT,), newest_start=True), [b"stdout 3\n"]),
    ],
)
async def test_logs_are_those_of_all_starts_as_with_docker(query: LogQuery, lines: list[bytes]) -> None:
    """`docker logs` showed the newest start alone."""
    ended = container("Failed", status={"attempts": 3})
    assert [data async for _, data in read_output(Logs(), ended, query)] == lines


class Older(Logs):
    """A server of before the parameter `exactEnd`, which refuses unknown ones."""

    async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
        assert params is not None
        if "exactEnd" in params:
            raise InvalidInput.one("exactEnd", "there is no parameter 'exactEnd'", code="UnknownField")
        if "attempt" not in params:  # it is followed
            raise InvalidInput.one("since", "is no time")
        async for chunk in super().chunks(path, params):
            yield chunk


async def test_a_server_that_is_older_than_the_bridge_shows_its_logs() -> None:
    """`docker logs` said that there is no parameter 'exactEnd'. Other faults are told."""
    ended = container("Failed", status={"attempts": 3})
    query = LogQuery((STDOUT,), newest_start=True)
    assert [data async for _, data in read_output(Older(), ended, query)] == [b"stdout 3\n"]


@pytest.mark.parametrize(
    ("streams", "told"),
    [((STDERR,), [b"kaji: the log can't be read: since: is no time\n"]), ((STDOUT,), [])],
)
async def test_a_log_that_cannot_be_followed_is_told_to_who_asked_for_standard_error(
    streams: tuple[int, ...], told: list[bytes]
) -> None:
    """A client that asked for standard output alone (docker-py's `stderr=False`) got a broken answer."""
    query = LogQuery(streams, follow=True, tail=0, since="x")
    assert [data async for _, data in read_output(Older(), container("Running"), query)] == told


class Printing(Platform):
    """A server with a run that prints these pieces, each line with its time."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.pieces = pieces

    async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
        assert params is not None and params["exactEnd"] == "true"
        for piece in self.pieces if params["stream"] == "stdout" else ():
            yield piece


AT = b"2026-11-28T20:00:01.000000000Z "


async def test_output_is_passed_on_byte_by_byte() -> None:
    """`docker run IMAGE cat FILE > copy` added a line end to each file without one, and `docker logs -f` showed a
    prompt only once its line was complete. A line that the server adds has no time, and lost its first word."""
    pieces = (AT + b"50 %\r100 %\n", AT[:9], AT[9:] + b"Pass", b"word: ", b"\n", b"the log was lost\n", AT + b"end")
    running = container("Running")
    assert [data async for _, data in read_output(Printing(*pieces), running, LogQuery((STDOUT,)))] == [
        b"50 %\r100 %\n",
        b"Password: \n",
        b"the log was lost\n",
        b"end",
    ]
    followed = LogQuery((STDOUT,), follow=True, tail=0, since="2026-11-28T20:00:00.000000000Z")
    shown = [data async for _, data in read_output(Printing(*pieces), running, followed)]
    assert shown == [b"50 %\r100 %\n", b"Pass", b"word: ", b"\n", b"the log was lost\n", b"end"]


class Restarted(Platform):
    """A server that is killed after each of these answers; the last one is complete."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []

    async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
        assert params is not None
        if params.get("follow") != "true" or params["stream"] != "stdout":
            return
        self.asked.append(params)
        yield self.answers.pop(0)
        if self.answers:
            raise Unavailable("the connection broke")


def at(second: int, text: bytes) -> bytes:
    return b"2026-11-28T20:00:0%d.000000000Z " % second + text


async def test_a_log_is_followed_on_after_the_server_was_killed() -> None:
    """`docker logs -f` and `docker run` ended with the connection, the latter with exit code 0. Nothing is lost, and
    nothing comes twice: neither lines of the same time nor the beginning of a line."""
    first = at(1, b"a\n") + at(1, b"b\n") + at(2, b"b\n") + at(2, b"50")
    second = at(2, b"b\n") + at(2, b"50 %\r")
    third = at(2, b"b\n") + at(2, b"50 %\r100 %\n") + at(2, b"b\n") + at(3, b"end\n")
    for timestamps in (False, True):
        server = Restarted(first, second, third)
        query = LogQuery((STDOUT,), follow=True, timestamps=timestamps)
        shown = b"".join([data async for _, data in read_output(server, container("Running"), query)])
        whole = first + b" %\r100 %\n" + at(2, b"b\n") + at(3, b"end\n")
        assert shown == (whole if timestamps else re.sub(rb"2026\S+ ", b"", whole))
    again = {"since": "2026-11-28T20:00:02.000000000Z", "fromAttempt": 1}
    assert [again.items() <= params.items() for params in server.asked] == [False, True, True]


async def test_waiting_goes_on_after_the_server_was_killed() -> None:
    """`docker wait` ended with an answer that no client understands, and --rm, ports and health checks were left."""

    class Killed(SlowServer):
        async def documents(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Any]:
            yield self.views.pop(0)
            if self.views:
                raise Unavailable("the connection broke")

    running = container("Running", spec={"resumes": 2})
    server = Killed([running.view, running.view, ENDED.view])
    assert await Engine(server).exited(running, "not-running") == 3


async def test_a_container_that_was_removed_while_the_server_was_away_is_waited_for_no_longer() -> None:
    class Gone(SlowServer):
        async def documents(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Any]:
            if not self.views:
                raise NotFound("there is no run web")
            yield self.views.pop(0)
            raise Unavailable("the connection broke")

    running = container("Running", spec={"resumes": 2})
    assert [one.view async for one in Gone([running.view]).changes(running)] == [running.view]


async def test_a_log_is_passed_on_while_it_is_read() -> None:
    """`docker logs` held the whole log in memory, several times, before it showed the first line."""

    class Endless(Platform):
        async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
            assert params is not None
            for number in range(10):
                yield at(number, params["stream"].encode() + b"\n")
            if params["stream"] == "stderr":
                yield at(9, b"x" * (output.LONG_LINE_BYTES + 1))
            await asyncio.Event().wait()

    lines = read_output(Endless(Target("http://127.0.0.1:1")), ENDED, LogQuery((STDOUT, STDERR), newest_start=True))
    shown = [await anext(lines) for _ in range(18)]
    assert shown == [(STDOUT, b"stdout\n"), (STDERR, b"stderr\n")] * 9
    await lines.aclose()


class Pulling(Platform):
    """A server with one run: it waits for an image that can't be pulled, then it runs, and then it ends."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.messages = messages
        self.runs = asyncio.Event()

    async def seen_by_controller(self, container: Container) -> None:
        """Return at once."""

    async def changes(self, started: Container) -> AsyncGenerator[Container]:
        for message in self.messages:
            yield container("Starting", status={"message": message})
        self.runs.set()
        yield container("Running")

    async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
        await self.runs.wait()
        yield b"printed\n"


async def test_each_reason_to_wait_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker run` wrote two lines every few seconds: a kubelet reports an image that it can't pull, pulls again, and
    reports it again. A client that asked for stdout alone got them, too."""
    monkeypatch.setattr(output, "QUEUED_AFTER_SECONDS", 0)
    server = Pulling(["it starts", "no such image", "it starts", "no such image"])
    pieces = [piece async for piece in output.follow_start(server, STARTED, (STDOUT, STDERR))]
    told = [text for stream, text in pieces if stream == STDERR and text.startswith(b"kaji: ")]
    assert [b"it starts" in told[0], b"no such image" in told[1], len(told)] == [True, True, 2]
    server = Pulling(["it starts", "no such image"])
    assert [one async for one in output.follow_start(server, STARTED, (STDOUT,))] == [(STDOUT, b"printed\n")]


async def test_a_terminal_is_told_that_its_run_waits_though_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker run -it` showed an empty terminal while its run was queued: only a later change was told."""
    told, lines = asyncio.Event(), list[bytes]()

    class Waiting(SlowServer):
        async def documents(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Any]:
            yield QUEUED.view
            await told.wait()
            yield ENDED.view

    async def write(stream: int, data: bytes) -> None:
        lines.append(data)
        told.set()

    monkeypatch.setattr(attaching, "QUEUED_AFTER_SECONDS", 0.01)
    engine = SimpleNamespace(platform=Waiting([QUEUED.view]), now=lambda: 0.0)
    client = SimpleNamespace(write=write)
    assert not await attaching._until_running(cast(Engine, engine), STARTED, cast(Hijacked, client))
    assert [line.endswith(b"\r\n") and b" is Queued: " in line for line in lines] == [True]


async def test_waiting_for_a_container_that_is_restarted_ends_with_its_program() -> None:
    """`docker wait` returned only once the run had ended, which one with --restart always never does."""
    running = container("Running", spec={"resumes": 2}, status={"restarts": 1})
    ends = [{"rank": 0, "exitCode": 4, "attempt": 2}]
    failed = container("Restarting", spec={"resumes": 2}, status={"restarts": 2, "notable": ends})
    engine = Engine(SlowServer([running.view, failed.view]))
    assert await engine.exited(running, "not-running") == 4
    assert await Engine(SlowServer([running.view, ENDED.view])).exited(running, "not-running") == 3


async def test_an_attached_client_gets_the_exit_code_of_the_last_restart() -> None:
    """`docker run --restart on-failure` showed the output of all restarts, and ended with the first exit code."""
    running = container("Running", spec={"resumes": 2}, status={"restarts": 1})
    failed = container("Restarting", spec={"resumes": 2}, status={"restarts": 2, "notable": []})
    engine = Engine(SlowServer([running.view, failed.view, ENDED.view]))
    with engine.reading(running):
        assert await engine.exited(running, "next-exit") == 3


class Session:
    """A connection to a program: some output, and then its end or a break."""

    def __init__(self, session: str, *output: bytes, breaks: bool = False) -> None:
        self.session, self._output, self._breaks = session, output, breaks

    async def output(self) -> AsyncGenerator[tuple[int, bytes]]:
        for data in self._output:
            yield STDOUT, data
            await asyncio.sleep(0.01)
        if self._breaks:
            raise Unavailable("the connection broke")


@pytest.mark.parametrize(
    ("second", "log", "rest"),
    [
        (Session("a", b"two\r\n$ "), [b"one\r\n"], b"two\r\n$ "),
        (Session("b", b"$ "), [b"one\r\n", b"one\r\nhalf of two\r\n$ "], b"two\r\n$ "),
        (
            Session("b", b"$ "),
            [b"one\r\n", b"99\r\n$ "],
            b"kaji: what it printed meanwhile is not shown here; all of it: ",
        ),
    ],
    ids=["the server keeps it", "another server", "its log was cut off"],
)
async def test_a_terminal_goes_on_where_its_connection_broke(
    monkeypatch: pytest.MonkeyPatch, second: Session, log: list[bytes], rest: bytes
) -> None:
    """`docker run -it` ended with the connection to the server."""
    running = container("Running", notes={"Config": {"Tty": True}})
    first = Session("a", b"one\r\n", b"half of ", breaks=True)
    sessions, urls, printed = [first, second], list[str](), list[bytes]()

    class Server(Platform):
        async def refreshed(self, _: Container) -> Container:
            return running

        async def changes(self, _: Container) -> AsyncGenerator[Container]:
            yield running

        async def chunks(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[bytes]:
            yield log.pop(0)

    @asynccontextmanager
    async def connected(_: Target, url: str) -> AsyncIterator[Session]:
        urls.append(url)
        yield sessions.pop(0)

    async def write(_: int, data: bytes) -> None:
        printed.append(data)

    monkeypatch.setattr(attaching, "running", connected)
    monkeypatch.setattr(attaching, "PROMPT_SECONDS", 0)
    engine = Engine(Server(Target("http://127.0.0.1:1")))
    await attaching._at_terminal(engine, running, cast(Hijacked, SimpleNamespace(write=write)), None)
    assert b"".join(printed).startswith(b"one\r\nhalf of " + rest)
    assert "session" not in urls[0] and "session=a&position=13" in urls[1]


RESTARTING = container("Running", spec={"resumes": 2})
STOPPED = container("Stopped", spec={"resumes": 2}, status={"exitCode": 5})
AGAIN = container("Running", spec={"resumes": 2}, status={"resumes": 2})


class RestartingServer(SlowServer):
    """A server that restarts a run by itself, and shows its last state for ever."""

    asked: Any = None

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self.views[-1]

    async def documents(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Any]:
        for view in self.views:
            yield view

    async def post(self, path: str, body: object = None, params: Mapping[str, Any] | None = None) -> Any:
        assert path == "/v1/runs/default/web/restart", "one request does both"
        self.asked = body
        return RESTARTING.view


async def test_a_restart_is_the_clusters_and_is_answered_once_the_program_runs_again() -> None:
    """`docker restart` stopped a run and started it again by itself: if it was killed meanwhile, the run stayed
    stopped. One with --rm was removed."""
    server = RestartingServer([RESTARTING.view, STOPPED.view, AGAIN.view])
    engine = Engine(server)
    await engine.restart(container("Running"), "3s")
    assert server.asked == {"grace": "3s"}
    events = [event async for event in engine.events.follow(0, time.time())]
    assert [one["Action"] + one["Actor"]["Attributes"].get("exitCode", "") for one in events] == [
        "die5",
        "stop",
        "start",
        "restart",
    ]


class BrokenOff(Platform):
    """A server that carries out requests whose connections break off, from the second one on if the first is lost."""

    def __init__(self, now: list[Container], *, obeys: int) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self._now = now
        self._obeys = obeys
        self.asked: list[str] = []

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self._now[len(self.asked) >= self._obeys].view

    async def post(self, path: str, body: object = None, params: Mapping[str, Any] | None = None) -> Any:
        self.asked.append(path.rpartition("/")[2])
        raise Unavailable("Server disconnected")


@pytest.mark.parametrize("obeys", [1, 2])
async def test_a_restart_whose_request_breaks_off_is_no_error(obeys: int) -> None:
    """The cluster carried it out, and `docker restart` reported an error. One that was lost is asked for again."""
    before = container("Running", spec={"resumes": 1})
    server = BrokenOff([before, RESTARTING], obeys=obeys)
    assert (await server.restart(before, None)).view == RESTARTING.view
    assert server.asked == ["restart"] * obeys


@pytest.mark.parametrize("obeys", [1, 2])
async def test_a_stop_whose_request_breaks_off_is_no_error(obeys: int) -> None:
    before = container("Running", spec={"resumes": 2})
    server = BrokenOff([before, ENDED], obeys=obeys)
    assert (await server.stop(before, "3s")).view == ENDED.view
    assert server.asked == ["stop"] * obeys


async def test_a_container_that_is_stopped_while_it_is_restarted_says_so() -> None:
    server = RestartingServer([RESTARTING.view, ENDED.view])
    with pytest.raises(WrongState, match="was stopped while it was restarted"):
        await Engine(server).restart(container("Running"), None)


@pytest.mark.parametrize(("views", "code"), [([RESTARTING, STOPPED, AGAIN], 5), ([RESTARTING, AGAIN], 143)])
async def test_waiting_ends_with_a_restart_though_the_run_goes_on(views: list[Container], code: int) -> None:
    """Its exit code is that of the start that has ended, unless the run was queued again at once."""
    engine = Engine(SlowServer([one.view for one in views]))
    assert await engine.exited(container("Running"), "not-running") == code


async def test_waiting_for_a_service_ends_with_the_program_of_its_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member restarts in its Pod, and the run shows nothing of it if that is fast."""
    monkeypatch.setattr(engine_module, "EXITED_SECONDS", 0)
    service = container("Running", spec={"resumes": 2, "type": "service"})
    member = {"rank": 0, "phase": "Running", "restarts": 5, "lastExitCode": 1}
    looks = [[member | {"phase": "Pending"}], [member], [member | {"restarts": 6, "lastExitCode": 3}]]

    class Restarting(Platform):
        async def members(self, container: Container) -> list[dict[str, Any]]:
            return looks.pop(0)

        async def changes(self, container: Container) -> AsyncGenerator[Container]:
            yield container
            await asyncio.Event().wait()

    assert await Engine(Restarting(Target("http://127.0.0.1:1"))).exited(service, "not-running") == 3
    assert not looks


async def test_keys_work_while_a_container_waits_for_nodes() -> None:
    """Ctrl-C stops it, and the keys that detach leave it alone; neither did anything. The rest is kept for its
    program, for which Ctrl-C is a key like others."""
    stops: list[str] = []

    class Stoppable(Platform):
        async def post(self, path: str, body: object = None, params: Mapping[str, Any] | None = None) -> Any:
            stops.append(path.rpartition("/")[2])

    reader = asyncio.StreamReader()
    closed: list[bool] = []
    writer = cast(asyncio.StreamWriter, SimpleNamespace(close=lambda: closed.append(True)))
    client = Hijacked(reader, writer, asyncio.Event(), is_raw=True)
    engine = Engine(Stoppable(Target("http://127.0.0.1:1")))
    async with attaching._typing(engine, QUEUED, client, b"\x10\x11") as typed:
        assert typed is not None
        reader.feed_data(b"ls\n")
        await asyncio.sleep(0)
        reader.feed_data(b"\x03")
        while not stops:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for_program = typed.for_program()
        assert await anext(for_program) == b"ls\n"
        reader.feed_data(b"\x03")
        assert await anext(for_program) == b"\x03"
        reader.feed_data(b"\x10\x11")
        while not closed:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (stops, client.is_detached) == (["stop"], True)
