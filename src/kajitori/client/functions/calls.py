"""Calls of functions on the client's side: adding them, and reading their outcomes."""

from __future__ import annotations

import base64
import contextlib
import pickle
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from kajitori.client.streams import Patience
from kajitori.errors import InvalidInput, KajitoriError, NotFound, TooLarge, Unavailable, WrongState

if TYPE_CHECKING:
    from kajitori.client.client import Client, Run

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Item = TypeVar("Item")

IMAGE = f"python:{sys.version_info[0]}.{sys.version_info[1]}"
"""Image of workers if the caller names none: its Python has to be that of the caller."""

WAIT_SECONDS = 10.0
"""Longest wait of one request for outcomes."""
LOOK_SECONDS = 2.0
"""Time without outcomes after which the run itself is asked for."""
REQUEST_BYTES = 1 << 20
"""Arguments that are sent with one request, unless a single call has more."""
REQUEST_CALLS = 5000


class CallFailed(KajitoriError):
    """A call has no result: its workers died, its run ended, or its exception cannot be read here."""

    code = "CallFailed"


class CallCancelled(CallFailed):
    """A call has no result, because it was cancelled."""

    code = "CallCancelled"


class RemoteTraceback(Exception):
    """The traceback of an exception in a worker, as its cause."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass
class _Outcome:
    """The state of one call."""

    items: dict[int, bytes] = field(default_factory=dict)
    """Items of a generator by number. A call that is done again sends them again."""
    kind: str = ""
    """value, error, end, lost or cancelled; empty while the call has not ended."""
    value: bytes = b""


class CallQueue:
    """The calls of one run. Outcomes are read by whoever waits for one; no thread is needed. Thread-safe."""

    def __init__(self, client: Client, run: Run, token_sha256: str = "") -> None:
        """`token_sha256` is required to add calls to a new run."""
        self.client = client
        self.run = run
        self._token = token_sha256
        self._added = 0
        self._outcomes: dict[int, _Outcome] = {}
        self._ended: list[int] = []
        self._after = 0
        self._looked_at = time.monotonic()
        self._known: int | None = None
        """Number of calls of the run, once no more can be added."""
        self._over = ""
        """Why no more outcomes come; empty while the run goes on."""
        self._lock = threading.Lock()

    @property
    def added(self) -> int:
        """Number of calls that were added."""
        return self._added

    def add(self, calls: Sequence[bytes], *, closed: bool = False) -> range:
        """Add calls with these pickled arguments, and return their numbers. `closed`: no more will be added.

        Raises TooLarge for arguments over the policy's limit.
        """
        begin, left = self._added, list(calls)
        while True:
            batch = _first_batch(left)
            del left[: len(batch)]
            arguments = [base64.b64encode(one).decode() for one in batch]
            body = {"first": self._added, "arguments": arguments, "closed": closed and not left, "token": self._token}
            try:
                self._send_calls(body)
            except TooLarge as error:
                if len(batch) > 1 or "code.value" in error.message:  # the server named the call's own limit
                    raise
                message = f"the arguments of a call have {len(batch[0]):,} bytes, which is too much for one request"
                raise TooLarge(message, hint="put large data on a volume and pass its path") from error
            self._added += len(batch)
            if not left:
                return range(begin, self._added)

    def cancel(self, calls: Sequence[int]) -> None:
        """Cancel calls. The run is ended at once if no other call is left in it. Calls that have ended stay as they
        are."""
        left = list(calls)
        while left:
            batch, left = left[:REQUEST_CALLS], left[REQUEST_CALLS:]
            answer = self._send_calls({"cancel": batch})
            if answer.get("cancelled") and answer.get("over"):
                with contextlib.suppress(WrongState):
                    self.client.kill(self.run)

    def close(self) -> None:
        """Say that no more calls come: the workers end once all are done."""
        self.add([], closed=True)

    def outcome(self, call: int, *, items: int | None = None, timeout: float | None = None) -> _Outcome:
        """Wait until a call has ended, or until a generator has `items` items; return its outcome so far.

        Raises TimeoutError, NotFound for a call that was never made, and CallFailed if the run ended without it.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._outcomes.get(call)
            if found is not None and (found.kind or (items is not None and items in found.items)):
                return found
            left = WAIT_SECONDS if until is None else until - time.monotonic()
            if self._known is not None and call >= self._known:
                raise NotFound(f"{self.run.name} has no call {call}", hint=f"its calls are 0 to {self._known - 1}")
            if self._over:
                raise CallFailed(
                    f"call {call} of {self.run.name} has no result: {self._over}", hint=self._hint_about_end()
                )
            if left < 0:
                from kajitori.client.phases import progress_words

                words = progress_words(self.run.state)
                raise TimeoutError(f"call {call} of {self.run.name} has not ended after {timeout:g} s; {words}")
            self.read(min(left, WAIT_SECONDS))

    def ended(self, calls: int) -> Iterator[int]:
        """Yield the first `calls` calls as they end. Raises CallFailed if the run ends before."""
        for position in range(calls):
            while len(self._ended) <= position:
                if self._over:
                    message = f"{calls - position} calls of {self.run.name} have no result: {self._over}"
                    raise CallFailed(message, hint=self._hint_about_end())
                self.read(WAIT_SECONDS)
            yield self._ended[position]

    def has_ended(self, call: int) -> bool:
        """Whether a call is known to have ended, or will never; asks nothing."""
        return bool(self._over) or (call in self._outcomes and bool(self._outcomes[call].kind))

    def read(self, seconds: float) -> None:
        """Read the outcomes that came since the last time, and wait for one if there is none."""
        before = self._after, len(self._ended)
        with self._lock:
            if (self._after, len(self._ended)) != before:
                return  # another thread read some while this one waited
            answer = self._read_outcomes(min(seconds, LOOK_SECONDS))
            self._after = answer["next"]
            self._known = answer["added"] if answer["closed"] else None
            for one in answer["items"]:
                self._take_outcome(one)
            if answer["items"]:
                self._looked_at = time.monotonic()
            elif time.monotonic() - self._looked_at >= LOOK_SECONDS:
                self._check_run()

    def _hint_about_end(self) -> str:
        """Return a hint about the end of the run."""
        if self.run.reason == "CommandNotFound":
            return f"the image has no python3; one that fits: image={IMAGE!r}"
        return f"kaji describe {self.run.name} tells more"

    def _check_run(self) -> None:
        """Find out whether the run has ended. Outcomes that came before its end are read first."""
        if self.run.is_final:
            words = ": ".join(filter(None, (self.run.phase, self.run.reason, self.run.message)))
            self._over = f"the run is {words}"
        else:
            self.run.refresh()
            self._looked_at = time.monotonic() - (LOOK_SECONDS if self.run.is_final else 0)

    def _take_outcome(self, one: dict[str, Any]) -> None:
        found = self._outcomes.setdefault(one["call"], _Outcome())
        value = base64.b64decode(one.get("value", ""))
        if one["kind"] == "item":
            found.items.setdefault(one.get("part", 0), value)
        elif not found.kind:
            found.kind, found.value = one["kind"], value
            self._ended.append(one["call"])

    def _read_outcomes(self, seconds: float) -> dict[str, Any]:
        patience = Patience(self.client.api)
        while True:
            try:
                answer: dict[str, Any] = self.client.api.get(
                    self._calls_path(), {"after": self._after, "wait": seconds}
                )
                return answer
            except Unavailable as error:
                patience.failed(error)

    def _send_calls(self, body: dict[str, Any]) -> dict[str, Any]:
        """Add or cancel calls. The request may be repeated, since the calls are numbered."""
        patience = Patience(self.client.api)
        while True:
            try:
                answer: dict[str, Any] = self.client.api.post(self._calls_path(), body)
                return answer
            except Unavailable as error:
                patience.failed(error)

    def _calls_path(self) -> str:
        return f"/v1/runs/{quote(self.run.namespace, safe='')}/{quote(self.run.name, safe='')}/calls"


class Call(Generic[T_co]):
    """A call of a function. It goes on if this process ends: `Call.from_id` finds it again by its `id`."""

    def __init__(self, queue: CallQueue, number: int) -> None:
        self._queue = queue
        self._number = number

    @classmethod
    def from_id(cls, text: str, client: Client | None = None) -> Call[Any]:
        """Return the call with this `id`, of another process as well. Raises NotFound if its run was removed."""
        from kajitori.client.client import Client

        run, _, number = text.rpartition("/") if isinstance(text, str) else ("", "", "")
        if not number.isdecimal() or "/" not in run:
            raise InvalidInput.one(
                "id",
                f"{text!r:.80} is not the id of a call",
                value=text,
                hint="write NAMESPACE/RUN/NUMBER, as in call.id",
            )
        client = client or Client()
        found = client.get(run)
        if f"{found.namespace}/{found.name}" != run:  # the beginning of a name would do otherwise
            raise NotFound(f"there is no run {run}", hint="calls are kept as long as their run")
        return cls(CallQueue(client, found), int(number))

    @property
    def id(self) -> str:
        """The call's name: `NAMESPACE/RUN/NUMBER`."""
        return f"{self.run.namespace}/{self.run.name}/{self._number}"

    @property
    def run(self) -> Run:
        """The run that does the call."""
        return self._queue.run

    @property
    def queue(self) -> CallQueue:
        """The calls of its run."""
        return self._queue

    @property
    def has_ended(self) -> bool:
        """Whether the call was known to have ended at the last request; asks nothing."""
        return self._queue.has_ended(self._number)

    def __repr__(self) -> str:
        return f"<Call {self.id}>"

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result and return it; of a generator, the list of its items.

        Raises the exception that the function raised, whose cause has the remote traceback; TimeoutError; CallCancelled
        if it was cancelled; CallFailed if its workers died three times or its run ended.
        """
        value: T_co = result_of(self._queue.outcome(self._number, timeout=timeout), f"call {self.id}")
        return value

    def __iter__(self: Call[list[Item]]) -> Iterator[Item]:
        """Yield the items of a generator as they come."""
        part = 0
        while True:
            found = self._queue.outcome(self._number, items=part)
            if part in found.items:
                yield pickle.loads(found.items[part])
                part += 1
            elif found.kind == "value":
                raise TypeError(f"call {self.id} returned a value, not a generator: read it with result()")
            else:
                result_of(found, f"call {self.id}")
                return

    def cancel(self) -> None:
        """Cancel this call: `result()` raises CallCancelled. Does nothing if it has ended.

        A worker that does the call interrupts it within seconds. Other calls of the run go on; without others, the run
        is ended at once.
        """
        self._queue.cancel([self._number])


def as_completed(calls: Iterable[Call[T]], timeout: float | None = None) -> Iterator[Call[T]]:
    """Yield calls as they end, of any pools and maps. Their `result()` then returns or raises at once.

    Raises TimeoutError if some have not ended after `timeout` seconds.
    """
    left = list(calls)
    until = None if timeout is None else time.monotonic() + timeout
    while left:
        ended = [call for call in left if call.has_ended]
        left = [call for call in left if not call.has_ended] if ended else left
        yield from ended
        if ended or not left:
            continue
        seconds = LOOK_SECONDS if until is None else until - time.monotonic()
        queues = {id(call.queue): call.queue for call in left}
        for queue in queues.values():
            queue.read(min(max(seconds, 0.0), LOOK_SECONDS) / len(queues))
        if seconds < 0 and not any(call.has_ended for call in left):
            raise TimeoutError(f"{len(left)} calls have not ended after {timeout:g} s")


def result_of(found: _Outcome, what: str) -> Any:
    """Return the result of a call that has ended, or raise its exception."""
    if found.kind == "value":
        return pickle.loads(found.value)
    if found.kind == "end":
        return [pickle.loads(found.items[part]) for part in sorted(found.items)]
    if found.kind == "cancelled":
        raise CallCancelled(f"{what} was cancelled")
    if found.kind == "lost":
        hint = "kaji events and kaji logs RUN tell why: memory may be too small, or the function ends its process"
        raise CallFailed(f"{what} was given up: three workers died while they did it", hint=hint)
    try:
        error, text = pickle.loads(found.value)
    except Exception as unreadable:
        raise CallFailed(f"{what} failed with an exception that cannot be read here: {unreadable}") from unreadable
    if error is None:  # it cannot be restored, or has no traceback
        *before, last = text.strip().splitlines() or [""]
        raise CallFailed(f"{what} failed: {last}") from (RemoteTraceback(text) if before else None)
    raise error from RemoteTraceback(text)


def _first_batch(calls: Sequence[bytes]) -> Sequence[bytes]:
    size, count = 0, 0
    for call in calls[:REQUEST_CALLS]:
        size += len(call)
        if count and size > REQUEST_BYTES:
            break
        count += 1
    return calls[:count]
