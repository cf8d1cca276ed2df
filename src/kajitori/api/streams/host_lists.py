"""Addresses of an attempt's members, for members that are starting; read from the mirror alone (rule 9).

However many members ask, no request goes to the API server, and one answer is computed for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kajitori.api.streams.hub import RunHub
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.runs.members import has_started
from kajitori.core.naming import names
from kajitori.core.pods.tickets import Ticket
from kajitori.core.spec.reasons import Phase
from kajitori.errors import Forbidden, Unavailable

UNSEEN_SECONDS = 10.0
"""Time that an up-to-date mirror may need to show the Pods of an attempt; after it, the attempt counts as without Pods.
"""

KEPT_GANGS = 64
"""Number of attempts whose answer is kept for the next request."""

NAMED = 8
"""Largest number of members without an address that an answer names; it counts the others."""

_PAUSE_FACTOR = 4
"""Pause between two looks at a gang, as a multiple of the time that the last look took. It limits the work to a fifth
of a core, however often the gang changes."""

_GZIP = 16 + zlib.MAX_WBITS
_ALIVE = (Phase.STARTING, Phase.RUNNING)


class HostList(msgspec.Struct):
    """Addresses of all members of an attempt, by rank."""

    addresses: list[str]


class HostsMissing(msgspec.Struct):
    """Not all members of the attempt have an address yet."""

    known: int
    total: int
    missing: list[str]
    """Names of the first missing members."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer, ready to be sent."""

    complete: bool
    plain: bytes
    zipped: bytes


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why no member of the attempt gets an answer any more."""

    code: str
    message: str

    def error(self) -> Forbidden:
        hint = "a ticket is valid only while members of its attempt are in their first step"
        return Forbidden(self.message, hint=hint, code=self.code)


class HostLists:
    """Answers members that are starting. It only reads the cluster; its state ends with the process."""

    def __init__(self, mirror: Mirror, hub: RunHub, clock: Callable[[], float]) -> None:
        self._mirror = mirror
        self._hub = hub
        self._clock = clock
        self._gangs: OrderedDict[tuple[str, int], _Gang] = OrderedDict()
        self._closing = False

    def close(self) -> None:
        """Answer all waiting members with Unavailable, because the server shuts down."""
        self._closing = True
        for gang in self._gangs.values():
            gang.forget()
        self._gangs.clear()

    async def wait(self, ticket: Ticket, seconds: float) -> Encoded:
        """Return the addresses of the attempt once all are known, or after `seconds` the missing members.

        Raises Forbidden if no member of the attempt is starting, Unavailable if the server shuts down.
        """
        if self._closing:
            raise _going_down()
        gang = self._gang(ticket)
        current = gang.look()
        if current.complete:
            return current
        try:
            async with asyncio.timeout(seconds):
                return await gang.settled()
        except TimeoutError:
            return gang.look()

    def _gang(self, ticket: Ticket) -> _Gang:
        key = (ticket.run_uid, ticket.attempt)
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = _Gang(self._hub, self._mirror, ticket, self._clock)
            self._forget_old()
        self._gangs.move_to_end(key)
        return gang

    def _forget_old(self) -> None:
        for key, gang in list(self._gangs.items())[:-KEPT_GANGS]:
            if not gang.waiters:
                gang.forget()
                del self._gangs[key]


class _Gang:
    """The current answer for the members of one attempt, computed again after its Pods change."""

    def __init__(self, hub: RunHub, mirror: Mirror, ticket: Ticket, clock: Callable[[], float]) -> None:
        self.waiters: set[asyncio.Future[Encoded]] = set()
        self._follower: asyncio.Task[None] | None = None
        self._changes = hub.subscribe(ticket.namespace, ticket.run, pods=True)
        self._hub = hub
        self._mirror = mirror
        self._ticket = ticket
        self._clock = clock
        self._asked_first_at = clock()
        self._paused_until = 0.0
        self._answer: Encoded | _Refusal | None = None
        hub.add(self._changes)

    def forget(self) -> None:
        """Stop following the attempt, and answer waiting members with Unavailable."""
        self._hub.remove(self._changes)
        if self._follower is not None:
            self._follower.cancel()
        for waiter in self._pending():
            waiter.set_exception(_going_down())

    async def settled(self) -> Encoded:
        """Return the complete list once it is known. One look answers all waiting members.

        Raises Forbidden once the list can never be complete.
        """
        waiter: asyncio.Future[Encoded] = asyncio.get_running_loop().create_future()
        self.waiters.add(waiter)
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow())
        try:
            return await waiter
        finally:
            self.waiters.discard(waiter)

    async def _follow(self) -> None:
        while self.waiters:
            try:
                current = self.look()
            except Forbidden as error:
                for waiter in self._pending():
                    waiter.set_exception(Forbidden(error.message, hint=error.hint, code=error.code))
                return
            if current.complete:
                for waiter in self._pending():
                    waiter.set_result(current)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNSEEN_SECONDS):
                    await self._changes.event.wait()
            pause_seconds = self._paused_until - self._clock()
            if pause_seconds > 0:
                await asyncio.sleep(pause_seconds)

    def _pending(self) -> list[asyncio.Future[Encoded]]:
        return [waiter for waiter in self.waiters if not waiter.done()]

    def look(self) -> Encoded:
        """Return the current answer. Raises Forbidden if the attempt is over or none of its members is starting."""
        now = self._clock()
        if self._answer is None or (self._changes.event.is_set() and now >= self._paused_until):
            self._changes.event.clear()
            self._answer = self._compute_answer(now)
            self._paused_until = self._clock() + _PAUSE_FACTOR * (self._clock() - now)
        if isinstance(self._answer, _Refusal):
            raise self._answer.error()
        return self._answer or _missing(self._ticket, [""] * self._ticket.world_size)

    def _compute_answer(self, now: float) -> Encoded | _Refusal | None:
        """Return the answer to remember; None if the mirror shows no Pod of the attempt yet."""
        ticket = self._ticket
        if self._is_over():
            return _Refusal("AttemptOver", f"attempt {ticket.attempt} of run {ticket.run} is over")
        addresses = [""] * ticket.world_size
        has_pods = has_starting = False
        for pod in self._mirror.owned_pods(ticket.namespace, ticket.run, ticket.run_uid):
            rank = _rank(pod, ticket)
            if rank is None:
                continue
            has_pods = True
            has_starting = has_starting or not (pod.is_finished or has_started(pod))
            if pod.status.phase != "Failed" and not pod.metadata.deletion_timestamp:
                addresses[rank] = pod.status.pod_ip
        if not has_pods and (now < self._asked_first_at + UNSEEN_SECONDS or self._mirror.age_seconds()):
            return None
        if not has_starting:
            return _Refusal("NotStarting", f"no member of attempt {ticket.attempt} of run {ticket.run} is starting")
        return _encoded(HostList(addresses), complete=True) if all(addresses) else _missing(ticket, addresses)

    def _is_over(self) -> bool:
        """Whether the run's status shows that a later attempt has begun or that this one has ended."""
        run = self._mirror.runs.get((self._ticket.namespace, self._ticket.run))
        if run is None or run.metadata.uid != self._ticket.run_uid or run.status is None:
            return False
        attempts = run.status.attempts
        return attempts > self._ticket.attempt or (attempts == self._ticket.attempt and run.status.phase not in _ALIVE)


def _going_down() -> Unavailable:
    return Unavailable("this server is shutting down", hint="send the request again")


def _rank(pod: Pod, ticket: Ticket) -> int | None:
    """Return the rank of a Pod; None if it is no member of the ticket's attempt."""
    member = pod.member
    if member is None or (member.run, member.attempt) != (ticket.run, ticket.attempt):
        return None
    return member.rank if member.rank < ticket.world_size else None


def require_starting(mirror: Mirror, ticket: Ticket, rank: int) -> None:
    """Raise Forbidden unless this member of the ticket's attempt is in its first step, and Unavailable if the mirror
    does not show the member yet."""
    pod = mirror.pods.get((ticket.namespace, names.pod_name(ticket.run, ticket.attempt, rank)))
    if pod is None:
        message = f"this server does not see member {rank} of run {ticket.run} yet"
        raise Unavailable(message, hint="send the request again")
    member_name = names.MemberName(ticket.run, ticket.attempt, rank)  # a sweep's member passes its index as the rank
    if mirror.run_uid_of(pod) != ticket.run_uid or pod.member != member_name or pod.is_finished or has_started(pod):
        message = f"member {rank} of attempt {ticket.attempt} of run {ticket.run} is not starting"
        raise _Refusal("NotStarting", message).error()


def _missing(ticket: Ticket, addresses: list[str]) -> Encoded:
    unknown = [rank for rank, address in enumerate(addresses) if not address]
    named = [names.pod_name(ticket.run, ticket.attempt, rank) for rank in unknown[:NAMED]]
    return _encoded(HostsMissing(len(addresses) - len(unknown), len(addresses), named), complete=False)


def _encoded(answer: HostList | HostsMissing, *, complete: bool) -> Encoded:
    plain = msgspec.json.encode(answer)
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return Encoded(complete, plain, packer.compress(plain) + packer.flush())
