"""Streams that go on when a connection breaks: what becomes of a run, and what it prints."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kajitori.cli.connection.http import Api, Broken, run_path
from kajitori.cli.pages.run_words import View, is_final
from kajitori.errors import KajitoriError, NotFound, Unavailable

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
GIVE_UP_SECONDS = 120.0
"""After the first of a row of failures: a server that is started again is waited for."""
TOLD_AFTER_SECONDS = 3.0

FIRST_LOOK_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""How often a command that waits for a run asks whether a controller is at work."""

REMEMBERED_EVENTS = 10_000
"""So many are known again when they are told a second time after a broken connection."""


class Outage:
    """Says once that a server is away and until when it is tried again, and once that it is back, whoever of several
    that talk to it notices. Thread-safe."""

    def __init__(self, say: Callable[[str], None], about: str, goes_on: str = "") -> None:
        """`about` is whose server that is: a run, code; `goes_on` what is not hurt by it."""
        self._say = say
        self._about = about
        self._goes_on = f", and {goes_on}" if goes_on else ""
        self._lasts = False
        self._lock = threading.Lock()

    def begins(self, why: str, until: datetime) -> None:
        with self._lock:
            if not self._lasts:
                self._lasts = True
                when = until.astimezone().strftime("%H:%M:%S")
                self._say(f"{self._about}: {why}; it is tried again until {when}{self._goes_on}")

    def ends(self) -> None:
        with self._lock:
            if self._lasts:
                self._lasts = False
                self._say(f"{self._about}: the server answers again")


def outage_of(run: View, say: Callable[[str], None]) -> Outage:
    """What is said where whoever follows a run loses its server."""
    return Outage(say, run["name"], "the run itself goes on")


class Patience:
    """Pauses between attempts to reach a server again, until it was away for too long."""

    def __init__(self, api: Api, outage: Outage | None = None) -> None:
        """`outage` is told once it has lasted for some seconds."""
        self._api = api
        self._outage = outage
        self._failures = 0
        self._since: datetime | None = None

    def failed(self, error: Unavailable) -> None:
        """Waits, or raises the error where that has lasted for too long."""
        now = self._api.now()
        self._since = self._since or now
        self._failures += 1
        until = self._since + timedelta(seconds=GIVE_UP_SECONDS)
        if now >= until:
            raise error
        if self._outage is not None and (now - self._since).total_seconds() >= TOLD_AFTER_SECONDS:
            self._outage.begins(error.message, until)
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECONDS)
        self._api.sleep(min(pause, (until - now).total_seconds()))

    def answered(self) -> None:
        """The server is there; whether it does what it was asked for, nobody knows yet."""
        if self._outage is not None and self._failures:
            self._outage.ends()

    def worked(self) -> None:
        self.answered()
        self._failures, self._since = 0, None


def watch(api: Api, run: View, outage: Outage | None = None) -> Iterator[dict[str, Any]]:
    """The run's view now and at each change, until it is final or gone, whatever happens to connections.

    Raises NotFound where it is gone before it was final.
    """
    with looking_for_notices(api):
        yield from _watch(api, run, outage)


def _watch(api: Api, run: View, outage: Outage | None) -> Iterator[dict[str, Any]]:
    patience = Patience(api, outage)
    while True:
        try:
            for view in api.documents(run_path(run, "/watch")):
                patience.worked()
                if view.get("uid") != run.get("uid"):
                    raise NotFound("another run has its name", hint="another run has its name now")
                yield view
                if is_final(view):
                    return
            view = api.get(run_path(run))
            if is_final(view):
                yield view
                return
            raise Broken(f"the server stopped telling about {run['name']}")
        except NotFound as error:
            raise NotFound(f"{run['name']} was deleted", hint=error.hint) from error
        except Unavailable as error:
            patience.failed(error)


def events(
    api: Api, run: View, *, known: Iterable[Mapping[str, Any]] = (), outage: Outage | None = None
) -> Iterator[dict[str, Any]]:
    """What happened to a run and what happens until it is final, each once, whatever happens to connections.

    What is `known` is not told again.
    """
    yield from _events(api, run_path(run, "/events"), {"follow": True}, known, outage)


def all_events(api: Api, namespace: str | None, last: int, outage: Outage | None = None) -> Iterator[dict[str, Any]]:
    """What happened last to the runs of a namespace and what happens from now on, each once; ends never."""
    yield from _events(api, "/v1/events/watch", {"namespace": namespace, "limit": str(last)}, (), outage)


def _events(
    api: Api, path: str, params: Mapping[str, Any], known: Iterable[Mapping[str, Any]], outage: Outage | None
) -> Iterator[dict[str, Any]]:
    patience = Patience(api, outage)
    seen = OrderedDict.fromkeys(json.dumps(event, sort_keys=True) for event in known)
    while True:
        try:
            for event in api.documents(path, params, opened=patience.answered):
                patience.worked()
                key = json.dumps(event, sort_keys=True)
                if key not in seen:
                    seen[key] = None
                    if len(seen) > REMEMBERED_EVENTS:
                        seen.popitem(last=False)
                    yield event
            return
        except Unavailable as error:
            patience.failed(error)


class LogPart(NamedTuple):
    """What a member printed, lines or parts of them."""

    rank: int
    attempt: int
    text: bytes


@dataclass
class LogReader:
    """What a run prints. After a broken connection it goes on where it was: no line twice, none lost."""

    api: Api
    run: View
    rank: int | None = None
    """None: rank 0, or every rank with `all_ranks`."""
    all_ranks: bool = False
    follow: bool = False
    tail: int | None = None
    since: str = ""
    """A duration or a time."""
    attempt: int | None = None
    """None: the newest."""
    first: int | None = None
    """With `follow`: begin with this attempt instead of with the newest."""
    timestamps: bool = False
    """Lines begin with their times."""
    outage: Outage | None = None
    _cursors: dict[int, str] = field(default_factory=dict)
    """How far each member's log was read, in the server's words."""

    def parts(self) -> Iterator[LogPart]:
        """Until the log ends; with `follow`, until the run is final. Raises Unavailable where the server stays away."""
        patience = Patience(self.api, self.outage)
        while True:
            try:
                for part in self._once(patience.answered):
                    patience.worked()
                    yield part
                return
            except Unavailable as error:
                if not self.follow:
                    raise
                patience.failed(error)

    def lines(self) -> Iterator[str]:
        """The lines of one member, whole."""
        rest = b""
        for part in self.parts():
            *whole, rest = (rest + part.text).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _once(self, opened: Callable[[], None]) -> Iterator[LogPart]:
        params: dict[str, Any] = {
            "rank": self.rank,
            "attempt": self.attempt,
            "allRanks": self.all_ranks,
            "follow": self.follow,
            "tail": self.tail,
            "since": self.since,
            "fromAttempt": self.first,
            "timestamps": self.timestamps,
            "frames": True,
            "resume": list(self._cursors.values()),
        }
        for head, text in _frames(self.api.chunks(run_path(self.run, "/logs"), params, opened=opened)):
            self._cursors[head["rank"]] = head["cursor"]
            if text:
                yield LogPart(head["rank"], head["attempt"], text)


def _frames(chunks: Iterator[bytes]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The frames of a log: a line of JSON, which says how many bytes of text follow."""
    rest = b""
    for chunk in chunks:
        rest, begin = rest + chunk if rest else chunk, 0
        while (end := rest.find(b"\n", begin)) >= 0:
            try:
                head = json.loads(rest[begin:end])
                size = int(head["size"])
            except (ValueError, KeyError, TypeError) as error:
                raise Broken("the server sent something else than a log") from error
            if len(rest) <= end + size:
                break
            yield head, rest[end + 1 : end + 1 + size]
            begin = end + 1 + size
        rest = rest[begin:]
    if rest:
        raise Broken("the server sent half a log")


@contextmanager
def looking_for_notices(api: Api) -> Iterator[None]:
    """Ask the server now and then, in a thread: a stream that is open for hours carries no new header."""
    over = threading.Event()

    def look() -> None:
        pause = FIRST_LOOK_SECONDS
        while not over.wait(pause):
            pause = LOOK_SECONDS
            try:
                api.get("/v1/controller", tries=1, timeout_seconds=LOOK_SECONDS)
            except KajitoriError:
                pass  # the stream itself tells that a server is away
            except RuntimeError:
                return  # the client was closed meanwhile

    threading.Thread(target=look, name="notices", daemon=True).start()
    try:
        yield
    finally:
        over.set()
