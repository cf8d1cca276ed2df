"""The Pods of this node as a relay reports them, for nodes with a network that writes no folder of Pods."""

from __future__ import annotations

import contextlib
import http.client
import logging
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec

from kajitori.agent.servers import Servers
from kajitori.core.backoff import backoff_seconds
from kajitori.core.traffic.node_feed import MAX_SILENCE_SECONDS, PATH, SINCE, Line, decode_line
from kajitori.core.traffic.totals import Pod

log = logging.getLogger(__name__)

PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 15.0
"""Limits of the pause before the next connection. It doubles with each failure and is random, to spread the nodes."""
_BEHIND_SECONDS = 1.0
"""Tolerated age difference between relays: times are rounded, and lines need time to arrive."""


FIRST_LOOK_SECONDS, GONE_LOOK_SECONDS, MAX_LOOK_SECONDS = 1.0, 60.0, 600.0
"""Pauses before a Pod's interface that was not found, or has disappeared, is looked up again; they double each time."""


def _exists(interface: str) -> bool:
    try:
        return bool(socket.if_nametoindex(interface))
    except OSError:
        return False


@dataclass
class _Lookup:
    """When a Pod's interface or groups are looked up again."""

    at: float
    pause_seconds: float


class RelayPods:
    """A `PodSource` that follows one node's Pods in a thread of its own, from `start` to `stop`.

    `interface_of` returns the node's end of a Pod's network by the Pod's addresses, empty if it has none of its
    own. `cgroups_of` returns the control groups of a Pod on the node's network by its UID. `is_there` returns
    whether an interface exists.
    """

    def __init__(
        self,
        relays: Servers,
        node: str,
        *,
        interface_of: Callable[[Sequence[str]], str],
        cgroups_of: Callable[[str], tuple[str, ...]] = lambda _: (),
        is_there: Callable[[str], bool] = _exists,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        silence_seconds: float = MAX_SILENCE_SECONDS,
    ) -> None:
        self._relays = relays
        self._node = node
        self._interface_of = interface_of
        self._cgroups_of = cgroups_of
        self._is_there = is_there
        self._chance = chance
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] | None = None
        """None until the first line of a relay."""
        self._lookups: dict[str, _Lookup] = {}
        """By UID, for Pods with an unknown or vanished place on the node."""
        self._changes = 0
        self._lines = 0
        """Number of lines received."""
        self._stamp = ""
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self.age_seconds = 0.0
        """Age of the known state, as the relay last said."""
        self._state_at = -math.inf
        """Time of the known state, by our own clock."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the connection and wait for the thread."""
        self._stop.set()
        open_now = self._socket
        if open_now is not None:
            with contextlib.suppress(OSError):  # it was closed meanwhile
                open_now.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def stamp(self) -> object:
        return self._changes

    def pods(self) -> dict[str, Pod]:
        """Return the Pods by UID. Raises OSError before the first line of a relay, so that no Pod is forgotten."""
        with self._lock:
            if self._pods is None:
                raise ConnectionError(f"no relay has reported yet which Pods are on node {self._node}")
            for uid, pod in self._pods.items():
                if pod.interface and not self._is_there(pod.interface):
                    # Usually the Pod has ended. The relay reports that soon; its address may be reused before.
                    self._pods[uid] = self._look_up(pod, GONE_LOOK_SECONDS)
                elif not pod.interface and not pod.cgroups:  # they may be created right now
                    self._pods[uid] = self._look_up(pod, FIRST_LOOK_SECONDS)
                else:
                    self._lookups.pop(uid, None)
            return dict(self._pods)

    def _look_up(self, pod: Pod, pause_seconds: float) -> Pod:
        """Return the Pod with its place, if it is found now. A lookup starts processes, so it is not done each time."""
        now = self._clock()
        lookup = self._lookups.setdefault(pod.uid, _Lookup(now + pause_seconds, pause_seconds))
        if now < lookup.at:
            return pod
        lookup.pause_seconds = min(MAX_LOOK_SECONDS, 2 * lookup.pause_seconds)
        lookup.at = now + lookup.pause_seconds
        found = self._with_place(pod)
        return found if found.interface or found.cgroups else pod

    # ------------------------------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            before, url = self._lines, random.choice(self._relays.urls)
            try:
                self._follow(url)
            except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: an invalid line
                if not self._stop.is_set():
                    level = logging.WARNING if failures else logging.INFO
                    log.log(level, "relay %s: %s; the known Pods of node %s are kept", url, error, self._node)
            failures = 0 if self._lines != before else failures + 1
            longest = backoff_seconds(failures + 1, PAUSE_SECONDS, MAX_PAUSE_SECONDS)
            self._stop.wait(self._chance() * longest)

    def _follow(self, url: str) -> None:
        """Follow one stream until `stop`, or until the relay ends it.

        A relay ends a stream when its token has expired, for example. Raises OSError, HTTPException or ValueError if
        the stream breaks.
        """
        connection = self._relays.connection(url, self._silence_seconds)
        connection.connect()
        self._socket = connection.sock
        try:
            query = f"?{urlencode({SINCE: self._stamp})}" if self._stamp else ""
            answer = self._relays.ask(connection, url, "GET", PATH.format(node=quote(self._node, safe="")) + query)
            while not self._stop.is_set() and (text := answer.readline()):
                self._apply(decode_line(text), url)
                self._lines += 1
        finally:
            self._socket = None
            connection.close()

    def _apply(self, line: Line, url: str) -> None:
        state_at = self._clock() - line.age_seconds
        if line.whole and state_at < self._state_at - _BEHIND_SECONDS:
            raise ConnectionError(f"{url} has a state from {line.age_seconds:g} s ago, older than other relays had")
        self._state_at = max(self._state_at, state_at)
        with self._lock:
            pods = {} if line.whole or self._pods is None else self._pods
            for uid in line.gone:
                pods.pop(uid, None)
            for pod in line.pods:
                pods[pod.uid] = self._with_place(pod)
                self._lookups.pop(pod.uid, None)
            self._pods = pods
            self._lookups = {uid: lookup for uid, lookup in self._lookups.items() if uid in pods}
            self._stamp = line.stamp
            self.age_seconds = line.age_seconds
            self._changes += bool(line.whole or line.pods or line.gone)

    def _with_place(self, pod: Pod) -> Pod:
        if pod.addresses:
            return msgspec.structs.replace(pod, interface=self._interface_of(pod.addresses))
        return msgspec.structs.replace(pod, cgroups=self._cgroups_of(pod.uid))
