"""What an agent makes of what relays tell: one that is behind, or talks nonsense, takes nobody from it."""

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
    """Tells each who comes the next of these texts, then hangs up."""

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


def whole(*pods: Pod, age: float = 0.0) -> bytes:
    return encode_line(Line("other.1", True, pods, (), age)) + b"\n"


@contextlib.contextmanager
def followed(*texts: bytes) -> Iterator[RelayPods]:
    """An agent that has heard all of them."""
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


def test_a_relay_that_is_behind_is_not_believed() -> None:
    """Pods that came since it was cut off stay, and who left does not come back: his address may be theirs."""
    with followed(whole(pod("new", "10.1.0.2")), whole(pod("old", "10.1.0.2"), age=60.0)) as agent:
        assert agent.pods().keys() == {"new"}
        assert agent.age_seconds < 60


def test_relays_that_are_cut_off_alike_are_believed() -> None:
    """While the API server is away all of them grow old, and each is as good as the other."""
    with followed(whole(pod("a"), age=300.0), whole(pod("a"), pod("b"), age=300.4)) as agent:
        assert agent.pods().keys() == {"a", "b"}


class Looked:
    """A node on which interfaces are looked for, and a clock; `asked` counts how often that was done."""

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
        """How often it was looked for while so much time passed, with a round each second."""
        before = self.asked
        for _ in range(seconds):
            self.now += 1
            self.found()
        return self.asked - before


def test_an_interface_that_is_not_there_is_looked_for_ever_less_often() -> None:
    """It may be made at this moment, or never: a node without any must not be busy with looking."""
    node = Looked()
    assert node.rounds(4) >= 2
    assert node.rounds(3600) < 25
    node.interface = "veth1"
    node.now += MAX_LOOK_SECONDS
    assert node.found() == "veth1"
    assert node.rounds(1000) == 0


def test_the_interface_of_a_network_that_was_made_anew_is_found() -> None:
    """Not at once: as a rule the Pod is about to be told as gone, and its address is another's already."""
    node = Looked()
    node.interface = "veth1"
    node.rounds(2)
    assert node.found() == "veth1"
    node.there, node.interface = False, "veth2"
    assert node.found() == "veth1"
    node.now += 30
    assert node.found() == "veth1"
    node.now += 60
    assert node.found() == "veth2"


def test_a_stream_that_breaks_after_it_was_heard_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """However often in its life that happens, an agent comes back soon; nor is it worth a warning."""
    half = whole(pod("a")) + b"{"
    with followed(half, half, half):
        assert not [
            record for record in caplog.records if record.levelno >= logging.WARNING and "503" not in record.message
        ]


def test_nonsense_is_no_end() -> None:
    """A line that can't be read ends its stream, and what was told stays; the next one is heard."""
    spoilt = whole(pod("a")).replace(b"vision", b"\xff\xfe")
    with followed(whole(pod("a")), spoilt, b"{\n", b"no\n", whole(pod("b"))) as agent:
        assert agent.pods().keys() == {"b"}
