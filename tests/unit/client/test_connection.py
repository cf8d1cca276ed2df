"""Connections of the client: kept alive, streamed, given up, and through proxies; against servers on loopback."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kajitori.client.connection import HttpTransport, Lost, NotReached, NotTrusted, Request, Response, with_query
from kajitori.embedded.apiserver.certificates import ensure_certificates

Script = Callable[[socket.socket, bytes], bool]
"""Answers one request (its head and body so far); whether the connection stays open."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def serving(script: Script) -> Iterator[tuple[str, list[bytes]]]:
    """A server whose answers are `script`'s; its URL, and the requests that came, one after the other."""
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                asked.append(head)
                if not script(connection, head):
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def always(answer: bytes, *, stay: bool = True) -> Script:
    def script(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(answer)
        return stay

    return script


def get(path: str = "/", **more: str) -> Request:
    return Request("GET", path, headers=more, timeout_seconds=10)


def test_a_connection_is_used_again_once_its_answer_was_read() -> None:
    """Two requests need one connection; headers and body arrive."""
    connections = set()

    def script(connection: socket.socket, _: bytes) -> bool:
        connections.add(connection.getpeername())
        connection.sendall(OK)
        return True

    with serving(script) as (url, asked):
        transport = HttpTransport(url, environment={})
        assert transport.send(get("/a?b=c", Authorization="Bearer x")).content == b"ok"
        posted = Request("POST", "/d", {"Content-Type": "text/plain"}, b"body", timeout_seconds=10)
        assert transport.send(posted).status == 200
        transport.close()
    assert asked[0].startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"Authorization: Bearer x\r\n" in asked[0]
    assert asked[1].startswith(b"POST /d HTTP/1.1\r\n")
    assert len(connections) == 1


def test_an_idle_connection_that_the_server_closed_is_not_used() -> None:
    """A server that closes after each answer is asked anew; nothing is lost."""
    with serving(always(OK, stay=False)) as (url, asked):
        transport = HttpTransport(url, environment={})
        for _ in range(3):
            assert transport.send(get()).content == b"ok"
            wait_until_readable(transport)
    assert len(asked) == 3


def wait_until_readable(transport: HttpTransport) -> None:
    """Until the end of idle connections has arrived."""
    for connection in transport._idle:
        assert connection.sock is not None
        assert connection.sock.recv(1, socket.MSG_PEEK) == b""


def test_a_stream_is_passed_on_piece_by_piece() -> None:
    """Bytes are there before the answer ends, with chunks as well."""
    told = threading.Event()

    def script(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert told.wait(30)
        connection.sendall(b"6\r\nsecond\r\n0\r\n\r\n")
        return True

    with serving(script) as (url, _):
        chunks = HttpTransport(url, environment={}).send(get()).chunks()
        assert next(chunks) == b"first"
        told.set()
        assert b"".join(chunks) == b"second"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_a_body_that_ends_early_is_lost(answer: bytes) -> None:
    """Half an answer is never taken for a whole one."""
    with serving(always(answer, stay=False)) as (url, _):
        response = HttpTransport(url, environment={}).send(get())
        with pytest.raises(Lost):
            _ = response.content


@pytest.mark.parametrize("answer", [b"", b"no HTTP at all\r\n\r\n"])
def test_a_server_that_hangs_up_may_have_done_it(answer: bytes) -> None:
    """The request was sent: whether it was done is not known."""
    with serving(always(answer, stay=False)) as (url, _), pytest.raises(Lost):
        HttpTransport(url, environment={}).send(get())


def test_a_silent_server_is_given_up() -> None:
    """The time of the request is what it may be silent."""
    done = threading.Event()
    with serving(lambda *_: done.wait(30) and False) as (url, _):
        with pytest.raises(Lost):
            HttpTransport(url, environment={}).send(Request("GET", "/", timeout_seconds=0.01))
        done.set()


def test_nothing_listens() -> None:
    """A connection that cannot be made is told apart: nothing was sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotReached):
        HttpTransport(f"http://127.0.0.1:{port}", environment={}).send(get())


def test_a_proxy_is_told_the_whole_url_and_who_asks() -> None:
    """$http_proxy carries requests to servers without TLS, with the person's password."""
    with serving(always(OK)) as (url, asked):
        proxy = url.replace("http://", "http://ada:se%20cret@")
        transport = HttpTransport("http://kaji.test:8080", environment={"http_proxy": proxy})
        assert transport.send(get("/v1/runs")).content == b"ok"
    assert asked[0].startswith(b"GET http://kaji.test:8080/v1/runs HTTP/1.1\r\n")
    assert b"Host: kaji.test:8080\r\n" in asked[0]
    assert b"Proxy-Authorization: Basic YWRhOnNlIGNyZXQ=\r\n" in asked[0]


def test_tls_goes_through_a_tunnel_of_the_proxy() -> None:
    """A server with TLS is reached by CONNECT; a proxy that refuses means that nothing was sent."""
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    with serving(always(refused, stay=False)) as (url, asked):
        transport = HttpTransport("https://kaji.test", environment={"HTTPS_PROXY": url})
        with pytest.raises(NotReached, match="403"):
            transport.send(get())
    assert asked[0].startswith(b"CONNECT kaji.test:443 HTTP/1.")


@pytest.mark.parametrize("names", ["127.0.0.1", "*", "example.com, 127.0.0.1"])
def test_no_proxy_names_servers_that_are_asked_directly(names: str) -> None:
    with serving(always(OK)) as (url, _):
        environment = {"http_proxy": "http://127.0.0.1:1", "NO_PROXY": names}
        assert HttpTransport(url, environment=environment).send(get()).content == b"ok"


def test_no_proxy_names_domains() -> None:
    """A domain stands for all hosts in it, and for no other that ends alike."""
    environment = {"http_proxy": "http://127.0.0.1:1", "no_proxy": ".kaji.test"}
    assert HttpTransport("http://a.kaji.test", environment=environment)._proxy is None
    assert HttpTransport("http://akaji.test", environment=environment)._proxy is not None


def test_an_answer_that_is_given_up_takes_its_connection_with_it() -> None:
    """Nothing of its rest is taken for the next answer."""
    with serving(always(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok" + b"HTTP/1.", stay=True)) as (url, _):
        transport = HttpTransport(url, environment={})
        response = transport.send(get())
        assert next(response.chunks())
        response.close()
        assert not transport._idle


def test_parameters_become_a_query() -> None:
    assert with_query("/v1/runs", {"a": "b c", "d": [1, 2]}) == "/v1/runs?a=b+c&d=1&d=2"
    assert with_query("/v1/runs", {}) == "/v1/runs"


def test_an_answer_is_made_of_json_or_bytes() -> None:
    assert Response.of(200, {"a": 1}).json() == {"a": 1}
    assert Response.of(200, b"x", {"Content-Type": "y"}).headers == {"content-type": "y"}


def test_a_server_may_lie_below_a_path() -> None:
    """A reverse proxy serves it there: requests keep that path."""
    with serving(always(OK)) as (url, asked):
        HttpTransport(f"{url}/kaji/", environment={}).send(get("/v1/runs"))
    assert asked[0].startswith(b"GET /kaji/v1/runs HTTP/1.1\r\n")


def test_a_certificate_that_nobody_vouches_for_is_told_from_a_server_that_is_away(tmp_path: Path) -> None:
    """And one whose authority is named is trusted, for the names in it."""
    made = ensure_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server, made.server_key)

    listener = socket.create_server(("", 0))
    port = listener.getsockname()[1]

    def accept() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
                connection.recv(65536)
                connection.sendall(OK)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    trusting = partial(ssl.create_default_context, cafile=str(made.ca))
    try:
        with pytest.raises(NotTrusted, match="unable to get local issuer"):
            HttpTransport(f"https://127.0.0.1:{port}", environment={}).send(get())
        with pytest.raises(NotTrusted, match=r"mismatch|not valid"):
            HttpTransport(f"https://127.0.0.2:{port}", environment={}, tls=trusting).send(get())
        assert HttpTransport(f"https://127.0.0.1:{port}", environment={}, tls=trusting).send(get()).content == b"ok"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
