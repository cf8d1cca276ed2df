"""The program that does calls in the members of a run: it takes some, does them, and hands in their outcomes.

It comes to the members with the code, beside a copy of cloudpickle, so an image needs Python and nothing else. It is
therefore one file and imports the standard library alone. A process may be killed at any moment: what it has not handed
in is done again by another one.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import ssl
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

FOLDER = ".kajitori-calls"
"""Folder of this program in the run's code, with everything that it needs."""
SETTINGS_FILE = "settings.json"
FUNCTION_FILE = "function.pickle"
LIBRARY_FOLDER = "lib"

SERVER_ENV = "KAJI_CALLS_SERVER"
CA_ENV = "KAJI_CALLS_CA"

HAND_IN_SECONDS = 0.5
"""Time for which outcomes are collected before they are handed in, and for which calls are taken at once."""
ANSWER_SECONDS = 60.0
GIVE_UP_SECONDS = 600.0
"""Time without the server after which a worker ends; the platform starts it again."""
MAX_WANT = 256
REQUEST_BYTES = 1 << 20
"""Values in base64 that are handed in with one request, unless a single one is larger."""
TRY_AGAIN = frozenset({401, 404, 408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed. 401 and 404: the client has not added the first calls yet, or the
server does not know the run yet."""


LOOK_SECONDS = 2.0
"""Time between two looks of the second thread. A call that lasts from one to the next takes long."""
LOOKS_PER_SECOND = 50.0
"""Most looks of all workers of a run."""


class Cancelled(BaseException):
    """The call that is being done was cancelled. No `except Exception` of the function stops it."""


class TooLarge(Exception):
    """A value is larger than the policy allows."""


class Server:
    """The Web API, on one connection that is opened again when it breaks."""

    def __init__(self, url: str, ca: str, path: str, token: str) -> None:
        self._url = urlsplit(url)
        self._ca = ca
        self._path = self._url.path.rstrip("/") + path
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: HTTPConnection | None = None

    def post(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the server's answer. The request is repeated until the server answers. Raises TooLarge."""
        body, since, pause = json.dumps(document).encode(), time.monotonic(), 0.1
        while True:
            try:
                status, answer = self._once(body)
            except (OSError, HTTPException, ValueError) as error:
                why = str(error) or type(error).__name__
                self._drop()
            else:
                if status == 200:
                    return answer
                why = f"HTTP {status}: {answer.get('detail', '')}"
                if status == 413:
                    raise TooLarge(str(answer.get("detail", "")))
                if status not in TRY_AGAIN:
                    sys.exit(f"the server refused: {why}")
            if time.monotonic() - since > GIVE_UP_SECONDS:
                sys.exit(f"the server did not answer for {GIVE_UP_SECONDS:.0f} s: {why}")
            time.sleep(pause)
            pause = min(pause * 2, 5.0)

    def _once(self, body: bytes) -> tuple[int, dict[str, Any]]:
        connection = self._connection = self._connection or self._connect()
        connection.request("POST", self._path, body=body, headers=self._headers)
        answer = connection.getresponse()
        document = json.loads(answer.read() or b"{}")
        return answer.status, document

    def _connect(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme != "https":
            return HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        trust = ssl.create_default_context(cadata=self._ca or None)
        return HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=trust)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Unusable(Exception):
    """The function cannot be called in this image. The message says why; it has no traceback."""


class Worker:
    """Does calls until all have ended.

    The main thread takes calls and does them. A second thread looks after it while one call takes long: it hands in
    what is there, returns the calls that wait behind the long one, and asks whether the long one was cancelled.
    """

    def __init__(self, server: Server, function: Any, rank: int, attempt: int) -> None:
        self._server = server
        self._function = function
        self._me = {"rank": rank, "attempt": attempt, "process": os.urandom(8).hex()}
        self._lock = threading.Lock()
        """Guards `_outcomes` and `_waiting`, for moments."""
        self._sending = threading.Lock()
        """Held during requests that hand in outcomes, so that they arrive in order."""
        self._outcomes: list[dict[str, Any]] = []
        """Outcomes that were not handed in yet."""
        self._waiting: list[dict[str, Any]] = []
        """Calls that were taken and not begun."""
        self._handed_in = time.monotonic()
        self._mean_seconds = HAND_IN_SECONDS
        self._current = -1
        """The call that is being done; -1 for none."""
        self._stopped: set[int] = set()
        """Taken calls that have ended without this worker: they were cancelled."""
        self._may_stop = False
        """Whether the main thread may leave what it does: it is in the function, not in a request."""

    def run(self) -> None:
        """Take calls and do them until no more come."""
        while True:
            want = max(1, min(MAX_WANT, int(HAND_IN_SECONDS / max(self._mean_seconds, 1e-4))))
            work = self._exchange(self._server, want=want)
            if work["over"] and not work["calls"]:
                return
            self._stopped.clear()
            with self._lock:
                self._waiting = list(work["calls"])
            while (taken := self._next()) is not None:
                if taken["call"] in self._stopped:
                    continue
                began = time.monotonic()
                self._do(taken["call"], base64.b64decode(taken["arguments"]))
                took = time.monotonic() - began
                self._mean_seconds += 0.3 * (took - self._mean_seconds)
                self._hand_in_in_time()

    def look_after(self, server: Server, seconds: float) -> None:
        """Look at intervals whether one call takes long. Runs in a thread of its own, with a connection of its own."""
        while True:
            before = self._current
            time.sleep(seconds)
            if before >= 0 and self._current == before:
                self.look(server, before)

    def look(self, server: Server, current: int) -> None:
        """Do what a long call needs: hand in outcomes, return the calls behind it, interrupt it if it was cancelled."""
        with self._lock:
            waiting, self._waiting = [taken["call"] for taken in self._waiting], []
        about: dict[str, Any] = {"doing": [current]}
        if waiting:
            about["returned"] = waiting
        answer = self._exchange(server, **about)
        self._stopped.update(answer.get("ended", ()))
        if self._current in self._stopped:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)

    def interrupt(self, *_: object) -> None:
        """Leave the function if its call was cancelled. This is the handler of the second thread's signal."""
        if self._may_stop and self._current in self._stopped:
            raise Cancelled

    def _next(self) -> dict[str, Any] | None:
        with self._lock:
            return self._waiting.pop(0) if self._waiting else None

    def _do(self, call: int, pickled: bytes) -> None:
        try:
            self._current, self._may_stop = call, True
            self._call(call, pickled)
            self._may_stop = False
        except Cancelled:
            self._may_stop = False
            with self._lock:
                self._outcomes = [outcome for outcome in self._outcomes if outcome["call"] != call]
            sys.stderr.write(f"call {call} was cancelled\n")
            sys.stderr.flush()
        finally:
            self._current = -1

    def _call(self, call: int, pickled: bytes) -> None:
        try:
            if isinstance(self._function, Unusable):
                raise Unusable(str(self._function))
            arguments, keywords = pickle.loads(pickled)
            value = self._function(*arguments, **keywords)
            if isinstance(value, Iterator):
                self._stream(call, value)
            else:
                self._add(_outcome(call, "value", value))
        except (Exception, SystemExit) as error:
            self._add(_error(call, error))

    def _stream(self, call: int, items: Iterator[Any]) -> None:
        for part, item in enumerate(items):
            self._add(_outcome(call, "item", item, part))
            self._hand_in_in_time()
            if call in self._stopped:
                raise Cancelled
            self._may_stop = True
        self._add(_outcome(call, "end", None))

    def _add(self, outcome: dict[str, Any]) -> None:
        self._may_stop = False  # the lock must not be left by an interrupt
        with self._lock:
            self._outcomes.append(outcome)

    def _hand_in_in_time(self) -> None:
        if time.monotonic() - self._handed_in > HAND_IN_SECONDS:
            self._exchange(self._server)

    def _exchange(self, server: Server, want: int = 0, **more: Any) -> dict[str, Any]:
        """Hand in the collected outcomes and take at most `want` calls. Large outcomes go first, in requests of their
        own, so that the server does not hold them while this worker waits for calls."""
        with self._sending:
            with self._lock:
                outcomes, self._outcomes = self._outcomes, []
            while sum(len(outcome["value"]) for outcome in outcomes) > REQUEST_BYTES:
                size, count = 0, 0
                while count == 0 or (count < len(outcomes) and size + len(outcomes[count]["value"]) <= REQUEST_BYTES):
                    size, count = size + len(outcomes[count]["value"]), count + 1
                self._hand_in(server, outcomes[:count])
                outcomes = outcomes[count:]
            try:
                answer = server.post({**self._me, "outcomes": outcomes, "want": want, **more})
            except TooLarge:
                self._hand_in(server, outcomes)
                answer = server.post({**self._me, "outcomes": [], "want": want, **more})
            self._handed_in = time.monotonic()
            return answer

    def _hand_in(self, server: Server, outcomes: list[dict[str, Any]]) -> None:
        """Hand in outcomes. One that is refused as too large becomes an error of its call."""
        try:
            server.post({**self._me, "outcomes": outcomes, "want": 0})
        except TooLarge as error:
            if len(outcomes) > 1:
                for outcome in outcomes:
                    self._hand_in(server, [outcome])
                return
            server.post({**self._me, "outcomes": [_too_large(outcomes[0], str(error))], "want": 0})


def _outcome(call: int, kind: str, value: Any, part: int = 0) -> dict[str, Any]:
    import cloudpickle

    return {"call": call, "kind": kind, "part": part, "value": base64.b64encode(cloudpickle.dumps(value)).decode()}


def _too_large(outcome: dict[str, Any], refusal: str) -> dict[str, Any]:
    """Return the error that a call has in place of a result that the server refused."""
    # it was too large for a request: the server's message about requests would not help the user
    if "code.value" not in refusal:
        size = len(base64.b64decode(outcome["value"]))
        refusal = f"the result of a call has {size:,} bytes, which is too much for one request"
    return _error(outcome["call"], ValueError(f"{refusal}; put large data on a volume and return its path"))


def _error(call: int, error: BaseException) -> dict[str, Any]:
    """Return the outcome of a call that failed: its exception, and the traceback without the frames of this program.

    The exception is None if it cannot be restored, or should not be: SystemExit would end the caller's process.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    unusable = isinstance(error, Unusable)
    text = str(error) if unusable else "".join(traceback.format_exception(type(error), error, trace))
    sys.stderr.write(f"call {call} failed\n{text.rstrip()}\n")
    sys.stderr.flush()
    pickled = pickle.dumps((None, text), protocol=4)  # Python 3.4 and later can read it
    if not (unusable or isinstance(error, SystemExit)):
        try:
            import cloudpickle

            full = cloudpickle.dumps((error, text))
            pickle.loads(full)
            pickled = full
        except Exception:
            pass  # the text is enough
    return {"call": call, "kind": "error", "part": 0, "value": base64.b64encode(pickled).decode()}


def show_source(function: Any, source: dict[str, Any]) -> None:
    """Let tracebacks show the function's lines: a function that comes as a pickle has no file here.

    `source` has the name of the caller's `file`, the number of the `first` line, and the `lines`.
    """
    import linecache

    def in_file(code: types.CodeType) -> types.CodeType:
        inner = (in_file(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
        return code.replace(co_filename=source["file"], co_consts=tuple(inner))

    if isinstance(function, types.FunctionType):
        lines = ["\n"] * (source["first"] - 1) + source["lines"]
        linecache.cache[source["file"]] = (0, None, lines, source["file"])
        function.__code__ = in_file(function.__code__)


def loaded(folder: str, settings: dict[str, Any]) -> Any:
    """Return the function, or Unusable if this image is not one for it."""
    here = list(sys.version_info[:2])
    if settings["python"] != here:
        caller, image = ".".join(map(str, settings["python"])), ".".join(map(str, here))
        return Unusable(
            f"the function was pickled by Python {caller}, and the image has Python {image}: "
            f'name an image with Python {caller}, such as image="python:{caller}", or call it from Python {image} '
            "(a kaji up without a container engine runs the first python3 of its own PATH)"
        )
    with open(f"{folder}/{FUNCTION_FILE}", "rb") as file:
        try:
            function = pickle.load(file)
        except ModuleNotFoundError as error:
            return Unusable(f'{error}: bring it along with code=".", or use an image that has it')
    if settings.get("source"):
        show_source(function, settings["source"])
    return function


def guard_exit() -> None:
    """Let `os._exit(0)` in a function count as the death of its worker: exit code 0 says that all calls have ended."""
    leave, worker = os._exit, os.getpid()

    def guarded(status: int) -> None:
        leave(1 if status == 0 and os.getpid() == worker else status)  # processes that the function forked end as usual

    os._exit = guarded  # type: ignore[assignment]


def main() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib takes long to import)
    code = os.path.dirname(folder)  # noqa: PTH120
    with open(f"{folder}/{SETTINGS_FILE}", encoding="utf-8") as file:
        settings = json.load(file)
    sys.path[:1] = [code, f"{folder}/{LIBRARY_FOLDER}"]  # the caller's cloudpickle, before one of the image
    rank = int(os.environ.get("KAJI_ARRAY_INDEX") or os.environ["KAJI_RANK"])
    path = f"/v1/members/calls/{quote(settings['namespace'])}/{quote(os.environ['KAJI_RUN'])}"
    server = Server(os.environ[SERVER_ENV], os.environ.get(CA_ENV, ""), path, settings["token"])
    found = Worker(server, loaded(folder, settings), rank, int(os.environ["KAJI_ATTEMPT"]))
    guard_exit()
    signal.signal(signal.SIGUSR2, found.interrupt)
    second = Server(os.environ[SERVER_ENV], os.environ.get(CA_ENV, ""), path, settings["token"])
    seconds = max(LOOK_SECONDS, int(os.environ.get("KAJI_ARRAY_COUNT") or 1) / LOOKS_PER_SECOND)
    threading.Thread(target=found.look_after, args=(second, seconds), name="look-after", daemon=True).start()
    found.run()


if __name__ == "__main__":
    main()
