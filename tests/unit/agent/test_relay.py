"""An agent and its relays: a relay that is behind or sends nonsense removes no Pod."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kajitori.agent.relay import MAX_LOOK_SECONDS, RelayPods
from kajitori.agent.servers import Servers
from kajitori.core.traffic.node_feed import Line, encode_line
from kajitori.core.traffic.totals import Pod


class Relay(ThreadingHTTPServer):
    """Sends the next of these texts to each client, then closes the connection."""

    daemon_threads = True

    def __init__(self, *texts: bytes) -> None:
        self.texts = list(texts)
        self.all_told = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Relay

    def do_GET(self) -> None:
        if not self.server.texts:
            self.server.all_told.set()
            self.send_error(503)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.texts.pop(0))

    def log_message(self, format: str, *args: object) -> None:
        pass


def pod(uid: str, *addresses: str) -> Pod:
    return Pod(uid=uid, namespace="vision", name=uid, addresses=addresses)


def snapshot_line(*pods: Pod, age: float = 0.0) -> bytes:
    return encode_line(Line("other.1", True, pods, (), age)) + b"\n"


@contextlib.contextmanager
def connected_agent(*texts: bytes) -> Iterator[RelayPods]:
    """Return an agent that has received all these lines."""
    relay = Relay(*texts)
    thread = threading.Thread(target=relay.serve_forever, args=(0.01,))
    thread.start()
    pods = RelayPods(Servers([relay.url]), "n1", interface_of=lambda _: "", chance=lambda: 0.01)
    pods.start()
    try:
        assert relay.all_told.wait(30)
        yield pods
    finally:
        pods.stop()
        relay.shutdown()
        relay.server_close()
        thread.join()


def test_a_relay_that_is_behind_is_ignored() -> None:
    """Newer Pods stay, and Pods that left do not return: their addresses may have been reused."""
    with connected_agent(
        snapshot_line(pod("new", "10.1.0.2")), snapshot_line(pod("old", "10.1.0.2"), age=60.0)
    ) as agent:
        assert agent.pods().keys() == {"new"}
        assert agent.age_seconds < 60


def test_relays_with_equally_old_states_are_accepted() -> None:
    """While the API server is unreachable all of them grow old, and each is as good as the others."""
    with connected_agent(snapshot_line(pod("a"), age=300.0), snapshot_line(pod("a"), pod("b"), age=300.4)) as agent:
        assert agent.pods().keys() == {"a", "b"}


class LookupNode:
    """A node on which interfaces are looked up, and a clock; `asked` counts the lookups."""

    def __init__(self) -> None:
        self.now, self.asked, self.interface, self.there = 0.0, 0, "", True
        self.pods = RelayPods(
            Servers(["http://unused"]),
            "n1",
            interface_of=self.look,
            is_there=lambda _: self.there,
            clock=lambda: self.now,
        )
        self.pods._apply(Line("1", True, (pod("a", "10.1.0.2"),)), "relay")

    def look(self, _: Sequence[str]) -> str:
        self.asked += 1
        return self.interface

    def found(self) -> str:
        return self.pods.pods()["a"].interface

    def rounds(self, seconds: int) -> int:
        """Return the number of lookups in this many seconds, with a round each second."""
        before = self.asked
        for _ in range(seconds):
            self.now += 1
            self.found()
        return self.asked - before


def test_a_missing_interface_is_looked_up_ever_less_often() -> None:
    """It may be created right now, or never: lookups must not keep a node busy."""
    node = LookupNode()
    assert node.rounds(4) >= 2
    assert node.rounds(3600) < 25
    node.interface = "veth1"
    node.now += MAX_LOOK_SECONDS
    assert node.found() == "veth1"
    assert node.rounds(1000) == 0


def test_a_recreated_interface_is_found() -> None:
    """Not at once: usually the Pod is about to be reported as gone, and its address is already reused."""
    node = LookupNode()
    node.interface = "veth1"
    node.rounds(2)
    assert node.found() == "veth1"
    node.there, node.interface = False, "veth2"
    assert node.found() == "veth1"
    node.now += 30
    assert node.found() == "veth1"
    node.now += 60
    assert node.found() == "veth2"


def test_a_stream_that_breaks_after_a_line_is_not_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """However often that happens, the agent reconnects soon, without a warning."""
    half = snapshot_line(pod("a")) + b"{"
    with connected_agent(half, half, half):
        assert not [
            record for record in caplog.records if record.levelno >= logging.WARNING and "503" not in record.message
        ]


def test_an_invalid_line_ends_only_its_stream() -> None:
    """The known Pods stay, and the next stream is read."""
    spoilt = snapshot_line(pod("a")).replace(b"vision", b"\xff\xfe")
    with connected_agent(snapshot_line(pod("a")), spoilt, b"{\n", b"no\n", snapshot_line(pod("b"))) as agent:
        assert agent.pods().keys() == {"b"}
