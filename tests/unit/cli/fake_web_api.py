"""A Web API that answers from memory: behind a transport in most tests, on a loopback port in others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner, Result
from tests.helpers.http_server import http_server

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli
from kajitori.client.connection import Lost, Request, Response
from kajitori.client.target import Target

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
URL = "http://kaji.test"
TOKEN = "token-of-the-test"

Query = dict[str, list[str]]


def view(name: str, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """Return the view of a Run; `status`, `spec` and other fields are merged into it."""
    spec: dict[str, Any] = {"type": "batch", "image": "registry/bert:3", "replicas": 1, "launcher": "none"}
    spec |= {"resources": {"gpu": 0, "wholeNode": False}, "restarts": 3}
    status: dict[str, Any] = {"phase": phase, "attempts": 0 if phase == "Queued" else 1}
    status["members"] = {"total": 1, "running": int(phase == "Running")}
    spec |= more.pop("spec", {})
    status |= more.pop("status", {})
    document = {"name": name, "namespace": "vision", "uid": f"uid-{name}", "owner": "alice", "labels": {}}
    document |= {"createdAt": "2026-11-21T10:00:00Z"} | more
    return {**document, "spec": spec, "status": status}


def problem(status: int, code: str, detail: str, **more: Any) -> tuple[int, Any]:
    return status, {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail, **more}


RUNS = [
    view(
        "bert",
        "Queued",
        spec={"replicas": 4, "resources": {"gpu": 8, "gpuType": "h100"}},
        status={"reason": "WaitingForGPU", "members": {"total": 4}},
    ),
    view(
        "gpt",
        spec={"replicas": 2},
        status={
            "members": {"total": 2, "running": 2},
            "restarts": 1,
            "attempt": {"number": 2, "nodes": "cpu-[1-2]"},
        },
        createdAt="2026-11-21T11:55:00Z",
    ),
    view("mnist", "Failed", status={"reason": "ProgramFailed", "exitCode": 3, "members": {"total": 1, "failed": 1}}),
]
"""A waiting run, a running one that was restarted, and a failed one."""
GRID = view(
    "grid",
    spec={"array": "0-99%8", "resources": {"gpu": 2, "gpuType": "h100"}},
    status={"members": {"total": 100, "running": 8, "succeeded": 35, "failed": 2}},
)
"""A sweep in progress."""


def printed(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


class Cut(Exception):
    """Raised by a body where the connection breaks."""


@dataclass
class Call:
    method: str
    path: str
    query: Query
    body: Any
    authorization: str


@dataclass
class FakeWebApi:
    """Answers by exact `METHOD path`.

    An answer is a document, a (status, document) pair, a list or iterator of lines for streams, or a function of the
    call that returns one of these. Answers in `queues` are used up first.
    """

    runs: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    queues: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """UIDs of deleted runs."""
    naps: list[float] = field(default_factory=list)
    notice: str = ""
    """The notice header of every answer, which `kaji` shows to its user."""
    own_notice: str = ""
    """The header with the question to this user."""

    def calls_to(self, method: str, ending: str = "") -> list[Call]:
        return [call for call in self.calls if call.method == method and call.path.endswith(ending)]

    def answer(self, call: Call) -> tuple[int, Any]:
        """Return the status, and a document or an iterable of bytes."""
        self.calls.append(call)
        key = f"{call.method} {call.path}"
        queued = self.queues.get(key)
        found = queued.pop(0) if queued else self.answers.get(key)
        if callable(found):
            found = found(call)
        if isinstance(found, tuple):
            return found
        if found is not None:
            return 200, found
        return self._from_runs(call)

    def _from_runs(self, call: Call) -> tuple[int, Any]:
        if call.path == "/v1/runs" and call.method == "GET":
            name = call.query.get("name", [""])[0]
            namespace = call.query.get("namespace", [""])[0]
            present = [run for run in self.runs if run["uid"] not in self.gone]
            fit = [run for run in present if not namespace or run["namespace"] == namespace]
            exact = [run for run in fit if run["name"] == name]
            return 200, {"items": exact or [run for run in fit if run["name"].startswith(name)]}
        for run in [run for run in self.runs if run["uid"] not in self.gone]:
            path = f"/v1/runs/{run['namespace']}/{run['name']}"
            if call.path == path and call.method == "DELETE":
                self.gone.add(str(run["uid"]))
                return 202, None
            if call.path == path:
                return 200, run
            if call.path in (f"{path}/stop", f"{path}/resume", f"{path}/labels"):
                return 200, {**run, "graceSeconds": 30}
            if call.path == f"{path}/restart":
                return 200, {**run, "spec": {**run["spec"], "resumes": 1}, "graceSeconds": 30}
            if call.path == f"{path}/watch":
                return 200, ndjson([run])
            if call.path == f"{path}/members":
                return 200, {"items": []}
            if call.path in (f"{path}/events", f"{path}/logs"):
                return 200, []
        return problem(404, "NotFound", f"there is no {call.path}")

    def send(self, request: Request) -> Response:
        """Answer a request as the client's transport."""
        url = urlsplit(request.path)
        body = _decoded(request.body or b"")
        call = Call(request.method, url.path, parse_qs(url.query), body, request.headers["Authorization"])
        status, document = self.answer(call)
        if isinstance(document, list | Iterator):
            return Response(status, self._headers(), _cutting(document), URL)
        headers = {"Content-Type": "application/problem+json"} if status >= 400 else {}
        extra = document.pop("headers", {}) if isinstance(document, dict) else {}
        content = b"" if document is None else json.dumps(document).encode()
        return Response(status, {**headers, **extra, **self._headers()}, iter([content]), URL)

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _headers(self) -> dict[str, str]:
        told = {"Kajitori-Notice": self.notice, "Kajitori-Own-Notice": self.own_notice}
        return {name: words for name, words in told.items() if words}


def clock_in(seconds: float) -> str:
    """Return the local time of day this many seconds after NOW."""
    return (NOW + timedelta(seconds=seconds)).astimezone().strftime("%H:%M:%S")


def ndjson(documents: Iterable[Any]) -> list[bytes]:
    return [json.dumps(document).encode() + b"\n" for document in documents]


def log_frames(*lines: str, rank: int = 0, attempt: int = 1, end: str = "\n") -> list[bytes]:
    """Return the frames of a member's log, one for each line; the cursor contains the line."""
    return [frame(f"{line}{end}", f"{rank}.{attempt}.{line}", rank, attempt) for line in lines]


def frame(text: str, cursor: str = "0.1", rank: int = 0, attempt: int = 1) -> bytes:
    """Return a part of a log as the server sends it to programs."""
    head = {"rank": rank, "attempt": attempt, "size": len(text.encode()), "cursor": cursor}
    return json.dumps(head).encode() + b"\n" + text.encode()


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body


def _cutting(lines: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except Cut as error:
        raise Lost("cut") from error


def cut_after(*lines: bytes) -> Iterator[bytes]:
    """Yield these bytes, then break the connection."""
    yield from lines
    raise Cut


def cli_of(api: FakeWebApi, environment: Mapping[str, str] | None = None, **more: Any) -> Cli:
    """Return a command line that uses `api` as its server, with an empty environment."""
    return Cli(
        environment=environment or {},
        transport=api,
        target=Target(more.pop("url", URL), TOKEN, more.pop("namespace", "vision")),
        now=lambda: NOW + timedelta(seconds=sum(api.naps)),
        ticks=lambda: sum(api.naps),
        sleep=api.naps.append,
        settle_seconds=more.pop("settle_seconds", 0),
        **more,
    )


def invoke(api: FakeWebApi, *args: str, stdin: str | None = None, **more: Any) -> Result:
    """Run `kaji ARGS`. The result's `output` has stdout and stderr mixed, and it has both separately.

    A bug of kaji fails the test, unless it names a folder for the report (`state_dir`).
    """
    result = CliRunner().invoke(kaji, list(args), obj=cli_of(api, **more), input=stdin, prog_name="kaji")
    assert "state_dir" in more or "this is a bug in kaji" not in result.stderr, result.stderr
    return result


@contextmanager
def served(api: FakeWebApi) -> Iterator[str]:
    """Serve the API on a loopback port; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def _serve(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization", "")
            call = Call(self.command, url.path, parse_qs(url.query), _decoded(body), authorization)
            status, document = api.answer(call)
            self.send_response(status)
            self.end_headers()
            if document is None:
                return
            parts = document if isinstance(document, list | Iterator) else [json.dumps(document).encode()]
            try:
                for part in parts:
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:
                return

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            return

    with http_server(Handler) as url:
        yield url


Answer = Callable[[Call], Any]
