"""The one HTTP client: retries what is safe, and turns problem+json into the errors of `kajitori.errors`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote, urlsplit

from kajitori import __version__
from kajitori.client.connection import (
    HttpTransport,
    Lost,
    NotReached,
    NotTrusted,
    ProxyFailed,
    Request,
    Response,
    Transport,
    with_query,
)
from kajitori.client.target import Target
from kajitori.core.backoff import backoff_seconds
from kajitori.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Fault,
    Forbidden,
    InvalidInput,
    KajitoriError,
    NotFound,
    Refused,
    StorageFull,
    TooLarge,
    TooSlow,
    Unauthenticated,
    Unavailable,
    Unsupported,
    WrongMediaType,
    WrongState,
)

if TYPE_CHECKING:
    from kajitori.codepack.uploading import Ask, Reply

Params = Mapping[str, Any]

TRIES = 4
FIRST_PAUSE_SECONDS = 0.25
LONGEST_RETRY_AFTER_SECONDS = 10.0
ANSWER_SECONDS = 60.0
UPLOAD_SECONDS = 300.0
"""Time limit for one part of an upload on a slow line, and for the check of the whole upload."""
_BUSY = frozenset({429, 500, 502, 503, 504})

_NO_PROGRAM = frozenset({409, 502, 503, 504})
"""Answers of the proxy while a run has no program that listens, or a program that is still loading."""

_CLASSES: dict[int, type[KajitoriError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    408: TooSlow,
    413: TooLarge,
    415: WrongMediaType,
    429: Busy,
    501: Unsupported,
    507: StorageFull,
}


NOTICE = "Kajitori-Notice"
"""The header of answers with a notice to all callers, such as that no controller is at work."""
OWN_NOTICE = "Kajitori-Own-Notice"
"""The header of answers to a user with an open question, for example whether a run with idle GPUs may be parked."""


class Notices(Protocol):
    """Receives the notices in the headers of answers. May be called from several threads."""

    def note(self, words: str) -> None:
        """Record the notice to all callers in an answer; empty if it has none."""
        ...

    def note_own(self, words: str) -> None:
        """Record the question to this user in an answer; empty if it has none."""
        ...


class Broken(Unavailable):
    """A stream ended in the middle."""


class Api:
    """The Web API of one server. Use it as a context manager."""

    def __init__(
        self,
        target: Target,
        *,
        transport: Transport | None = None,
        debug: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        ticks: Callable[[], float] = time.monotonic,
        notices: Notices | None = None,
    ) -> None:
        """`debug` receives a line for each request and answer. `ticks` returns seconds of a clock that is never set;
        `sleep`, `now` and `ticks` are replaced in tests."""
        self.target = target
        self._notices = notices
        self._debug = debug
        self.sleep = sleep
        self.now = now
        self.ticks = ticks
        self._transport = transport or HttpTransport(target.url, use_proxies=not target.is_local, tls=target.tls)
        self._headers = _headers(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def get(
        self, path: str, params: Params | None = None, *, timeout_seconds: float | None = None, tries: int = TRIES
    ) -> Any:
        """Return the JSON of a GET. Tried again while the server is busy or away."""
        return self._call("GET", path, params, None, tries=tries, timeout_seconds=timeout_seconds)

    def post(
        self, path: str, body: object = None, params: Params | None = None, *, tries: int = TRIES, uid: str = ""
    ) -> Any:
        """Return the JSON of a POST. Tried again only if the server did nothing (not reached, or 429).

        With the `uid` of a run, nothing is done if another run has its name by now, which raises NotFound. Servers
        before this was added do it in any case.
        """
        return self._call("POST", path, params, body, tries=tries, uid=uid)

    def patch(self, path: str, body: object, *, uid: str = "") -> Any:
        """Return the JSON of a PATCH, which is tried again as a POST is; `uid` as for `post`."""
        return self._call("PATCH", path, None, body, uid=uid)

    def delete(self, path: str, params: Params | None = None, *, uid: str = "") -> Any:
        """Return the JSON of a DELETE, which is tried again as a POST is; `uid` as for `post`."""
        return self._call("DELETE", path, params, None, uid=uid)

    def exchange(self, ask: Ask) -> Reply:
        """One step of an upload; any may be repeated. Raises as `post` does, but for refusals that the conversation
        expects, and Unavailable where the server is busy."""
        from kajitori.codepack.uploading import Reply

        body = ask.body if ask.method != "GET" else None
        request = self._request(ask.method, ask.path, ask.params, body, ask.media_type, UPLOAD_SECONDS)
        try:
            response = self._send(request)
        except (_NotReached, _Lost) as error:
            raise error.shown from error
        if response.status == 429:
            busy = error_of(response)
            raise Unavailable(busy.message, hint=busy.hint)
        if response.status >= 300 and response.status not in ask.expects:
            raise self._error(response)
        if response.status < 300:
            self._answer(response)  # raises Unavailable for the page of a proxy
        return Reply(response.status, response.content)

    def program_answers(self, path: str) -> bool:
        """Whether a program of a run answers at this path of the proxy, with any status. Raises Unsupported if none can
        answer, because a simulated node runs no programs."""
        try:
            response = self._send(self._request("GET", path, {}))
        except (_NotReached, _Lost):
            return False
        if response.status == Unsupported.http_status:
            raise self._error(response)
        return response.status not in _NO_PROGRAM

    def all_items(self, path: str, params: Params | None = None, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the items of all pages, or the first `limit` items."""
        return list(self.each_item(path, params, limit=limit))

    def each_item(
        self, path: str, params: Params | None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages, or the first `limit` items. A page is asked for when its first item is."""
        page, count = dict(params or {}), 0
        while True:
            page["limit"] = 500 if limit is None else min(500, limit - count)
            answer = self.page(path, page)
            yield from answer["items"]
            count += len(answer["items"])
            page["continue"] = answer.get("continue")
            if not page["continue"] or (limit is not None and count >= limit):
                return

    def page(self, path: str, params: Params | None = None) -> dict[str, Any]:
        """Return one page of a list. Raises Unavailable for an answer of another server, which has no `items`."""
        answer: dict[str, Any] = self.get(path, params)
        if not isinstance(answer.get("items"), list):
            raise _other_server(urlsplit(self.target.url).hostname or "the server")
        return answer

    def documents(
        self, path: str, params: Params | None = None, *, opened: Callable[[], None] = lambda: None
    ) -> Iterator[dict[str, Any]]:
        """Yield the documents of a newline-delimited JSON stream; arguments as for `chunks`."""
        for line in self.lines(path, params, opened=opened):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise Broken("the server sent half a line") from error

    def lines(
        self, path: str, params: Params | None = None, *, opened: Callable[[], None] = lambda: None
    ) -> Iterator[str]:
        """Yield the lines of a stream without their ends; arguments as for `chunks`."""
        yield from split_lines(self.chunks(path, params, opened=opened))

    def chunks(
        self, path: str, params: Params | None = None, *, opened: Callable[[], None] = lambda: None
    ) -> Iterator[bytes]:
        """Yield the bytes of a stream as they arrive on one connection.

        `opened` is called once the server has begun to answer. Raises Broken if the stream ends in the middle.
        """
        with self._stream(path, params) as response:
            opened()
            try:
                yield from response.chunks()
            except Lost as error:
                raise Broken(f"the connection to {self.target.url} broke") from error

    @contextmanager
    def _stream(self, path: str, params: Params | None) -> Iterator[Response]:
        request = self._request("GET", path, _given_params(params))
        response = self._send(request, stream=True)
        try:
            if response.status >= 300:
                raise self._error(response)
            yield response
        finally:
            response.close()

    def _call(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: object,
        *,
        tries: int = TRIES,
        timeout_seconds: float | None = None,
        uid: str = "",
    ) -> Any:
        content, media_type = _encode_body(body)
        seconds = ANSWER_SECONDS if timeout_seconds is None else timeout_seconds
        request = self._request(method, path, _given_params(params), content, media_type, seconds, uid=uid)
        for attempt in range(1, tries + 1):
            last = attempt == tries
            pause = backoff_seconds(attempt, FIRST_PAUSE_SECONDS, ANSWER_SECONDS)
            try:
                response = self._send(request)
            except _NotReached as error:
                if last or self.target.is_local:
                    raise error.shown from error
                wait = pause
            except _Lost as error:
                if last or method != "GET":
                    raise error.shown from error
                wait = pause
            else:
                retry = response.status == 429 or (method == "GET" and response.status in _BUSY)
                if not retry or last:
                    return self._answer(response)
                wait = max(pause, _retry_after(response))
            from random import uniform

            self.sleep(wait * uniform(0.8, 1.2))
        raise AssertionError("unreachable")

    def _request(
        self,
        method: str,
        path: str,
        params: Params,
        body: bytes | None = None,
        media_type: str = "",
        timeout_seconds: float | None = None,
        *,
        uid: str = "",
    ) -> Request:
        headers = self._headers | ({"Content-Type": media_type} if media_type else {})
        headers |= {"If-Match": f'"{uid}"'} if uid else {}
        return Request(method, with_query(path, params), headers, body, timeout_seconds)

    def _send(self, request: Request, *, stream: bool = False) -> Response:
        """Return the answer, with its whole body unless it is a stream. Raises _NotReached and _Lost."""
        response = self._send_once(request, stream=stream)
        if response.status == 401 and self.target.signed_in is not None:  # the token expired meanwhile
            response.close()
            self.target = self.target.renewed()
            self._headers = _headers(self.target)
            again = Request(
                request.method,
                request.path,
                {**request.headers, **self._headers},
                request.body,
                request.timeout_seconds,
            )
            return self._send_once(again, stream=stream)
        return response

    def _send_once(self, request: Request, *, stream: bool) -> Response:
        began = time.monotonic()
        self._print_notice(f"> {request.method} {self.target.url}{request.path}")
        try:
            response = self._transport.send(request)
            if not stream:
                _ = response.content
        except NotTrusted as error:
            self._print_notice(f"< {error}")
            hint = "check its address; a certificate of one's own authority is trusted through a PEM file in $KAJI_CA"
            raise Unavailable(f"{self.target.url} can't be trusted: {error}", hint=hint) from error
        except NotReached as error:
            self._print_notice(f"< {error}")
            if isinstance(error, ProxyFailed):
                hint = "check $HTTPS_PROXY and $HTTP_PROXY; servers that $NO_PROXY names are reached directly"
                shown = Unavailable(f"{self.target.url} can't be reached: {error}", hint=hint)
            else:
                shown = Unavailable(f"nothing answers at {self.target.url}", hint=self.target.way_out)
            raise _NotReached(shown) from error
        except Lost as error:
            self._print_notice(f"< {type(error).__name__}: {error}")
            message = f"{self.target.url} did not answer {request.method} {request.path.partition('?')[0]}"
            hint = "whether it was done is not known: look with kaji ps -a" if request.method != "GET" else "try again"
            raise _Lost(Unavailable(message, hint=hint)) from error
        self._print_notice(f"< {response.status} after {(time.monotonic() - began) * 1000:.0f} ms")
        if self._notices is not None:
            self._notices.note(response.headers.get(NOTICE.lower(), ""))
            self._notices.note_own(response.headers.get(OWN_NOTICE.lower(), ""))
        return response

    def _answer(self, response: Response) -> Any:
        if response.status >= 300:  # a proxy leads people to its own page for signing in
            raise self._error(response)
        if response.status != 200 and not response.content:
            return None
        try:
            document = response.json()
            if not isinstance(document, dict):
                raise ValueError
        except ValueError as error:
            raise _other_server(_host(response)) from error
        return document

    def _error(self, response: Response) -> KajitoriError:
        """Return the error for an answer. The server does not know where the caller's token is from."""
        error = error_of(response)
        if isinstance(error, Unauthenticated):
            return Unauthenticated(error.message, hint=self.target.way_in, code=error.code)
        return error

    def _print_notice(self, text: str) -> None:
        if self._debug is not None:
            self._debug(text)


def _headers(target: Target) -> dict[str, str]:
    named = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    return named | {"User-Agent": f"kaji/{__version__}"}


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in pieces of a text, without their ends."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def _encode_body(body: object) -> tuple[bytes | None, str]:
    """Return a request's body and its media type: bytes are YAML, everything else becomes JSON."""
    if body is None:
        return None, ""
    if isinstance(body, bytes):
        return body, "application/yaml"
    return json.dumps(body).encode(), "application/json"


class _Failed(Unavailable):
    """A call that got no answer; `shown` is the error for the user."""

    def __init__(self, shown: Unavailable) -> None:
        super().__init__(shown.message, hint=shown.hint)
        self.shown = shown


class _NotReached(_Failed):
    """The request was not sent."""


class _Lost(_Failed):
    """The request may have been sent."""


def run_path(run: Mapping[str, Any], rest: str = "") -> str:
    """Return the path of a run, `/v1/runs/{namespace}/{name}`, followed by `rest`. A removed run is named by its UID,
    since another run may have its name now."""
    name = run["uid"] if run.get("removedAt") else run["name"]
    return f"/v1/runs/{quote(run['namespace'], safe='')}/{quote(name, safe='')}{rest}"


def error_of(response: Response) -> KajitoriError:
    """Return the error for an answer with a status of 400 or more."""
    try:
        problem = response.json()
        if not isinstance(problem, dict) or not ("detail" in problem or "title" in problem):
            raise ValueError
    except ValueError:
        return Unavailable(
            f"{_host(response)} answered {response.status}, and not as a Kajitori server does",
            hint="check the address of the server and the proxies before it",
        )
    status = response.status
    code, hint = str(problem.get("code") or ""), str(problem.get("hint") or "")
    detail = problem.get("detail") or problem.get("title")
    faults = [_parse_fault(fault) for fault in problem.get("faults") or () if isinstance(fault, dict)]
    if status in (400, 422) or faults:
        kind = Refused if code == Refused.code else InvalidInput
        return kind(faults or [Fault("", str(detail), hint=hint)], hint=hint if faults else "")
    message = str(detail)
    if status == 409:
        return {AlreadyExists.code: AlreadyExists, WrongState.code: WrongState}.get(code, Conflict)(message, hint=hint)
    # A server that failed once may succeed later, so a command that follows a run tries again.
    error_class = _CLASSES.get(status, Unavailable if status >= 500 else KajitoriError)
    return error_class(message, hint=hint, code=code or None)


def _parse_fault(each: Mapping[str, Any]) -> Fault:
    words = {key: str(each.get(key) or "") for key in ("field", "message", "value", "hint")}
    return Fault(**words, code=str(each.get("code") or "Invalid"))


def _other_server(host: str) -> Unavailable:
    hint = "check the address of the server and the proxies before it"
    return Unavailable(f"{host} answered, but not as a Kajitori server does", hint=hint)


def _host(response: Response) -> str:
    return urlsplit(response.url).hostname or "the server"


def _retry_after(response: Response) -> float:
    try:
        return min(float(response.headers.get("retry-after", "0")), LONGEST_RETRY_AFTER_SECONDS)
    except ValueError:
        return 0.0


def _given_params(params: Params | None) -> dict[str, Any]:
    """Return the query parameters that are set; True becomes `true`."""
    return {
        key: "true" if value is True else value
        for key, value in (params or {}).items()
        if value is not None and value is not False and value != "" and value != []
    }
