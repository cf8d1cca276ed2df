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


CANCEL_LOOK_SECONDS = 2.0
"""Time between two questions whether the call that this worker does was cancelled."""
LOOKS_PER_SECOND = 50.0
"""Most such questions of all workers of a run."""


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
        """Return the answer, whose request is repeated until the server answers. Raises TooLarge."""
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

    def ask_once(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; an empty one if the server does not answer or refuses."""
        try:
            status, answer = self._once(json.dumps(document).encode())
        except (OSError, HTTPException, ValueError):
            self._drop()
            return {}
        return answer if status == 200 else {}

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


class Worker:
    """Does calls until all have ended."""

    def __init__(self, server: Server, function: Any, rank: int, attempt: int) -> None:
        self._server = server
        self._function = function
        self._me = {"rank": rank, "attempt": attempt, "process": os.urandom(8).hex()}
        self._outcomes: list[dict[str, Any]] = []
        self._handed_in = time.monotonic()
        self._mean_seconds = HAND_IN_SECONDS
        self._waiting: list[int] = []
        """Calls that were taken and not begun."""
        self._current = -1
        """The call that is being done; -1 for none."""
        self._stopped: set[int] = set()
        """Taken calls that have ended without this worker: they were cancelled."""
        self._may_stop = False
        """Whether the present place of the program may be left: that of the function, not that of a request."""

    def run(self) -> None:
        """Take calls and do them until no more come."""
        while True:
            want = max(1, min(MAX_WANT, int(HAND_IN_SECONDS / max(self._mean_seconds, 1e-4))))
            work = self._exchange(want)
            if work["over"] and not work["calls"]:
                return
            self._waiting = [taken["call"] for taken in work["calls"]]
            self._stopped.clear()
            for taken in work["calls"]:
                self._waiting.remove(taken["call"])
                if taken["call"] in self._stopped:
                    continue
                began = time.monotonic()
                self._do(taken["call"], base64.b64decode(taken["arguments"]))
                took = time.monotonic() - began
                self._mean_seconds += 0.3 * (took - self._mean_seconds)
                if time.monotonic() - self._handed_in > HAND_IN_SECONDS:
                    self._exchange(0)

    def watch(self, server: Server, seconds: float) -> None:
        """Ask at intervals whether calls of this worker were cancelled, and interrupt the one that is being done.

        Runs in a thread of its own, with a connection of its own.
        """
        main = threading.main_thread().ident or 0
        while True:
            before = self._current
            time.sleep(seconds)
            if before < 0 or self._current != before:
                continue
            answer = server.ask_once(self._me | {"doing": [before, *self._waiting]})
            self._stopped.update(answer.get("ended", ()))
            if self._current in self._stopped:
                signal.pthread_kill(main, signal.SIGUSR2)

    def interrupt(self, *_: object) -> None:
        """Leave the function if its call was cancelled. This is the handler of the watching thread's signal."""
        if self._may_stop and self._current in self._stopped:
            raise Cancelled

    def _do(self, call: int, pickled: bytes) -> None:
        try:
            self._current, self._may_stop = call, True
            self._call(call, pickled)
            self._may_stop = False
        except Cancelled:
            self._may_stop = False
            self._outcomes = [outcome for outcome in self._outcomes if outcome["call"] != call]
            sys.stderr.write(f"call {call} was cancelled\n")
            sys.stderr.flush()
        finally:
            self._current = -1

    def _call(self, call: int, pickled: bytes) -> None:
        try:
            arguments, keywords = pickle.loads(pickled)
            value = self._function(*arguments, **keywords)
            if isinstance(value, Iterator):
                self._stream(call, value)
            else:
                self._add(call, "value", value)
        except Exception as error:
            self._add_error(call, error)

    def _stream(self, call: int, items: Iterator[Any]) -> None:
        for part, item in enumerate(items):
            self._may_stop = False
            self._add(call, "item", item, part)
            if time.monotonic() - self._handed_in > HAND_IN_SECONDS:
                self._exchange(0)
            if call in self._stopped:
                raise Cancelled
            self._may_stop = True
        self._add(call, "end", None)

    def _add(self, call: int, kind: str, value: Any, part: int = 0) -> None:
        import cloudpickle

        pickled = base64.b64encode(cloudpickle.dumps(value)).decode()
        self._outcomes.append({"call": call, "kind": kind, "part": part, "value": pickled})

    def _add_error(self, call: int, error: BaseException) -> None:
        """Add an exception with its traceback, without the frames of this program."""
        import cloudpickle

        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        sys.stderr.write(f"call {call} failed\n{text}")
        sys.stderr.flush()
        try:
            pickled = cloudpickle.dumps((error, text))
            pickle.loads(pickled)
        except Exception:
            pickled = cloudpickle.dumps((None, text))
        value = base64.b64encode(pickled).decode()
        self._outcomes.append({"call": call, "kind": "error", "part": 0, "value": value})

    def _exchange(self, want: int) -> dict[str, Any]:
        """Hand in the collected outcomes and take at most `want` calls. Large outcomes go first, in requests of their
        own, so that the server does not hold them while this worker waits for calls."""
        outcomes, self._outcomes = self._outcomes, []
        while sum(len(outcome["value"]) for outcome in outcomes) > REQUEST_BYTES:
            size, count = 0, 0
            while count == 0 or (count < len(outcomes) and size + len(outcomes[count]["value"]) <= REQUEST_BYTES):
                size, count = size + len(outcomes[count]["value"]), count + 1
            self._hand_in(outcomes[:count])
            outcomes = outcomes[count:]
        try:
            answer = self._server.post(self._me | {"outcomes": outcomes, "want": want})
        except TooLarge:
            self._hand_in(outcomes)
            answer = self._server.post(self._me | {"outcomes": [], "want": want})
        self._handed_in = time.monotonic()
        return answer

    def _hand_in(self, outcomes: list[dict[str, Any]]) -> None:
        """Hand in outcomes. One that is refused as too large becomes an error of its call."""
        try:
            self._server.post(self._me | {"outcomes": outcomes, "want": 0})
        except TooLarge as error:
            if len(outcomes) > 1:
                for outcome in outcomes:
                    self._hand_in([outcome])
                return
            self._add_error(outcomes[0]["call"], ValueError(str(error)))
            self._server.post(self._me | {"outcomes": [self._outcomes.pop()], "want": 0})


def main() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib takes long to import)
    code = os.path.dirname(folder)  # noqa: PTH120
    with open(f"{folder}/{SETTINGS_FILE}", encoding="utf-8") as file:
        settings = json.load(file)
    here = list(sys.version_info[:2])
    if settings["python"] != here:
        theirs, ours = ".".join(map(str, settings["python"])), ".".join(map(str, here))
        sys.exit(f"the function was pickled by Python {theirs}, and this image has {ours}: use an image with {theirs}")
    sys.path[:1] = [code, f"{folder}/{LIBRARY_FOLDER}"]  # the caller's cloudpickle, before one of the image
    with open(f"{folder}/{FUNCTION_FILE}", "rb") as file:
        try:
            function = pickle.load(file)
        except ModuleNotFoundError as error:
            sys.exit(f'{error}: bring it along with code=".", or use an image that has it')
    rank = int(os.environ.get("KAJI_ARRAY_INDEX") or os.environ["KAJI_RANK"])
    path = f"/v1/members/calls/{quote(settings['namespace'])}/{quote(os.environ['KAJI_RUN'])}"
    server = Server(os.environ[SERVER_ENV], os.environ.get(CA_ENV, ""), path, settings["token"])
    found = Worker(server, function, rank, int(os.environ["KAJI_ATTEMPT"]))
    signal.signal(signal.SIGUSR2, found.interrupt)
    second = Server(os.environ[SERVER_ENV], os.environ.get(CA_ENV, ""), path, settings["token"])
    seconds = max(CANCEL_LOOK_SECONDS, int(os.environ.get("KAJI_ARRAY_COUNT") or 1) / LOOKS_PER_SECOND)
    threading.Thread(target=found.watch, args=(second, seconds), name="watch", daemon=True).start()
    found.run()


if __name__ == "__main__":
    main()
