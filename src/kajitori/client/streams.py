"""Streams that survive broken connections: the views of a run, its events and its log."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kajitori.client.views import View, is_final
from kajitori.client.web_api import Api, Broken, run_path, split_lines
from kajitori.core.backoff import backoff_seconds
from kajitori.errors import KajitoriError, NotFound, Unavailable

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
GIVE_UP_SECONDS = 120.0
"""Time after the first of several failures in a row. It is long enough for a server to be started again."""
TOLD_AFTER_SECONDS = 3.0
"""Shorter outages are not reported to the user."""

FIRST_LOOK_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""How often a command that waits for a run asks whether a controller is at work."""

REMEMBERED_EVENTS = 10_000
"""Number of events that are recognised when the server sends them again after a broken connection."""


class Outage:
    """Reports an outage of the server once and its end once, however many streams notice it. Thread-safe."""

    def __init__(self, say: Callable[[str], None], about: str, goes_on: str = "") -> None:
        """`about` begins each report: a run's name, or "code". `goes_on` names what continues despite the outage."""
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
    """Return the reports of an outage for a command that follows `run`."""
    return Outage(say, run["name"], "the run itself goes on")


class Patience:
    """Pauses between attempts to reach the server, until the outage has lasted `GIVE_UP_SECONDS`."""

    def __init__(self, api: Api, outage: Outage | None = None) -> None:
        """`outage` reports an outage that lasts longer than `TOLD_AFTER_SECONDS`."""
        self._api = api
        self._outage = outage
        self._failures = 0
        self._since: float | None = None

    def failed(self, error: Unavailable) -> None:
        """Wait before the next attempt. Raises `error` if the outage has lasted too long."""
        now = self._api.ticks()
        self._since = now if self._since is None else self._since
        self._failures += 1
        left_seconds = self._since + GIVE_UP_SECONDS - now
        if left_seconds <= 0:
            raise error
        if self._outage is not None and now - self._since >= TOLD_AFTER_SECONDS:
            self._outage.begins(error.message, self._api.now() + timedelta(seconds=left_seconds))
        pause = backoff_seconds(self._failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._api.sleep(min(pause, left_seconds))

    def answered(self) -> None:
        """Report that the server is back. The request itself may still fail."""
        if self._outage is not None and self._failures:
            self._outage.ends()

    def worked(self) -> None:
        """Reset the pauses: the stream delivers again."""
        self.answered()
        self._failures, self._since = 0, None


def watch(api: Api, run: View, outage: Outage | None = None) -> Iterator[dict[str, Any]]:
    """Yield the run's view now and after each change, until the run is final. Broken connections are opened again.

    Raises NotFound if the run is deleted before it is final, and Unavailable if the server stays away.
    """
    with looking_for_notices(api):
        yield from _follow_views(api, run, outage)


def _follow_views(api: Api, run: View, outage: Outage | None) -> Iterator[dict[str, Any]]:
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
    """Yield each past and future event of a run once, until the run is final. Broken connections are opened again.

    Events in `known` are left out.
    """
    yield from _read_events(api, run_path(run, "/events"), {"follow": True}, known, outage)


def all_events(api: Api, namespace: str | None, last: int, outage: Outage | None = None) -> Iterator[dict[str, Any]]:
    """Yield the `last` events of a namespace's runs and every later one, each once. Does not end by itself."""
    yield from _read_events(api, "/v1/events/watch", {"namespace": namespace, "limit": str(last)}, (), outage)


def _read_events(
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
    """A piece of a member's log: whole lines or parts of lines."""

    rank: int
    attempt: int
    text: bytes


@dataclass
class LogReader:
    """The log of a run. After a broken connection reading continues at the same byte: no line twice, none lost."""

    api: Api
    run: View
    ranks: Sequence[int] = ()
    """Empty means rank 0, or every rank if `all_ranks` is set."""
    all_ranks: bool = False
    follow: bool = False
    tail: int | None = None
    since: str = ""
    """Begin of the log, as a duration before now or as a time; empty for the whole log."""
    attempt: int | None = None
    """None means the newest attempt."""
    first: int | None = None
    """First attempt to show if `follow` is set; None means the newest."""
    timestamps: bool = False
    """Put the time before each line."""
    outage: Outage | None = None
    _cursors: dict[int, str] = field(default_factory=dict)
    """Position in each member's log, by rank, as an opaque text of the server."""

    def parts(self) -> Iterator[LogPart]:
        """Yield the log until it ends, or until the run is final if `follow` is set.

        Raises Unavailable if the server stays away.
        """
        patience = Patience(self.api, self.outage)
        while True:
            try:
                for part in self._read_once(patience.answered):
                    patience.worked()
                    yield part
                return
            except Unavailable as error:
                if not self.follow:
                    raise
                patience.failed(error)

    def lines(self) -> Iterator[str]:
        """Yield the whole lines of one member, without their ends."""
        yield from split_lines(part.text for part in self.parts())

    def _read_once(self, opened: Callable[[], None]) -> Iterator[LogPart]:
        params: dict[str, Any] = {
            "rank": list(self.ranks),
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
        for head, text in _split_frames(self.api.chunks(run_path(self.run, "/logs"), params, opened=opened)):
            self._cursors[head["rank"]] = head["cursor"]
            if text:
                yield LogPart(head["rank"], head["attempt"], text)


def _split_frames(chunks: Iterator[bytes]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Split a log stream into frames: a line of JSON with the number of bytes, then that many bytes of text."""
    rest = b""
    for chunk in chunks:
        rest, begin = rest + chunk if rest else chunk, 0
        while (end := rest.find(b"\n", begin)) >= 0:
            try:
                head = json.loads(rest[begin:end])
                size = int(head["size"])
            except (ValueError, KeyError, TypeError) as error:
                raise Broken("the server sent something else than a log") from error
            if len(rest) <= end + size:  # the frame is not complete yet
                break
            yield head, rest[end + 1 : end + 1 + size]
            begin = end + 1 + size
        rest = rest[begin:]
    if rest:
        raise Broken("the server sent half a log")


@contextmanager
def looking_for_notices(api: Api) -> Iterator[None]:
    """Ask the server for its notices regularly, in a thread: an open stream receives no new headers."""
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
