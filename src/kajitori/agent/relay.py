"""The Pods of this node, as a relay tells them: for nodes whose network leaves no files that say so."""

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
from kajitori.core.traffic.node_feed import MAX_SILENCE_SECONDS, PATH, SINCE, Line, decode_line
from kajitori.core.traffic.totals import Pod

log = logging.getLogger(__name__)

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0
"""Before it asks again, at most; longer after each failure, and by chance, so that not all nodes ask at once."""
_BEHIND_SECONDS = 1.0
"""By so much less than what was told before may be known now: relays round, and lines take their time."""


FIRST_LOOK_SECONDS, GONE_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 60.0, 600.0
"""Before a Pod's interface is looked for again that was not found, or is there no more; longer each time."""


def _is_there(interface: str) -> bool:
    try:
        return bool(socket.if_nametoindex(interface))
    except OSError:
        return False


@dataclass
class _Look:
    """When a Pod's interface or groups are looked for again."""

    at: float
    pause_seconds: float


class RelayPods:
    """Follows one node, in a thread of its own, from `start` to `stop`; a `PodSource`.

    interface_of: the node's end of a Pod's network, by the Pod's addresses; empty where it has none of its own.
    cgroups_of: the control groups of a Pod on the node's network, by its UID. is_there: whether there is such an
    interface.
    """

    def __init__(
        self,
        relays: Servers,
        node: str,
        *,
        interface_of: Callable[[Sequence[str]], str],
        cgroups_of: Callable[[str], tuple[str, ...]] = lambda _: (),
        is_there: Callable[[str], bool] = _is_there,
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
        """None before a relay was heard."""
        self._looks: dict[str, _Look] = {}
        """By UID: of Pods whose place on the node is not known, or was there and is not."""
        self._told = 0
        self._heard = 0
        """So many lines."""
        self._stamp = ""
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self.age_seconds = 0.0
        """How long ago what is known was so, as the relay said last."""
        self._so_at = -math.inf
        """When that was, by our own clock."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the connection is closed."""
        self._stop.set()
        open_now = self._socket
        if open_now is not None:
            with contextlib.suppress(OSError):  # it was closed just now
                open_now.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def stamp(self) -> object:
        return self._told

    def pods(self) -> dict[str, Pod]:
        """Raises OSError where no relay was heard yet: nobody is forgotten for that."""
        with self._lock:
            if self._pods is None:
                raise ConnectionError(f"no relay has told yet which Pods are on node {self._node}")
            for uid, pod in self._pods.items():
                if pod.interface and not self._is_there(pod.interface):
                    # As a rule the Pod is over: soon that is told, and its address may be another's before.
                    self._pods[uid] = self._looked_for(pod, GONE_LOOK_SECONDS)
                elif not pod.interface and not pod.cgroups:  # they may be made at this moment
                    self._pods[uid] = self._looked_for(pod, FIRST_LOOK_SECONDS)
                else:
                    self._looks.pop(uid, None)
            return dict(self._pods)

    def _looked_for(self, pod: Pod, pause_seconds: float) -> Pod:
        """The Pod with its place, where that is found now; looking costs some processes, and is not done each time."""
        now = self._clock()
        look = self._looks.setdefault(pod.uid, _Look(now + pause_seconds, pause_seconds))
        if now < look.at:
            return pod
        look.pause_seconds = min(LONGEST_LOOK_SECONDS, 2 * look.pause_seconds)
        look.at = now + look.pause_seconds
        found = self._placed(pod)
        return found if found.interface or found.cgroups else pod

    # ------------------------------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            before = self._heard
            try:
                self._follow(random.choice(self._relays.urls))
            except (OSError, http.client.HTTPException, ValueError) as error:  # the last: nonsense
                if not self._stop.is_set():
                    level = logging.WARNING if failures else logging.INFO
                    log.log(level, "relay: %s; what was told of node %s stays", error, self._node)
            failures = 0 if self._heard != before else failures + 1
            longest = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(failures, 10))
            self._stop.wait(self._chance() * longest)

    def _follow(self, url: str) -> None:
        """One stream, until it ends: by our stop, with the relay or with our token, of which there is a newer one then.
        Raises OSError, HTTPException or ValueError where it breaks."""
        connection = self._relays.connection(url, self._silence_seconds)
        connection.connect()
        self._socket = connection.sock
        try:
            query = f"?{urlencode({SINCE: self._stamp})}" if self._stamp else ""
            answer = self._relays.ask(connection, url, "GET", PATH.format(node=quote(self._node, safe="")) + query)
            while not self._stop.is_set() and (text := answer.readline()):
                self._hear(decode_line(text), url)
                self._heard += 1
        finally:
            self._socket = None
            connection.close()

    def _hear(self, line: Line, url: str) -> None:
        so_at = self._clock() - line.age_seconds
        if line.whole and so_at < self._so_at - _BEHIND_SECONDS:
            raise ConnectionError(f"{url} knows only what was so {line.age_seconds:g} s ago, which is behind others")
        self._so_at = max(self._so_at, so_at)
        with self._lock:
            pods = {} if line.whole or self._pods is None else self._pods
            for uid in line.gone:
                pods.pop(uid, None)
            for pod in line.pods:
                pods[pod.uid] = self._placed(pod)
                self._looks.pop(pod.uid, None)
            self._pods = pods
            self._looks = {uid: look for uid, look in self._looks.items() if uid in pods}
            self._stamp = line.stamp
            self.age_seconds = line.age_seconds
            self._told += bool(line.whole or line.pods or line.gone)

    def _placed(self, pod: Pod) -> Pod:
        if pod.addresses:
            return msgspec.structs.replace(pod, interface=self._interface_of(pod.addresses))
        return msgspec.structs.replace(pod, cgroups=self._cgroups_of(pod.uid))
