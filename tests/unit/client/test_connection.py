"""Connections of the client: reuse, streams, timeouts and proxies, against servers on loopback."""

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

from kajitori.client.connection import (
    HttpTransport,
    Lost,
    NotReached,
    NotTrusted,
    ProxyFailed,
    Request,
    Response,
    with_query,
)
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates

Script = Callable[[socket.socket, bytes], bool]
"""Answers one request, given its head and the body so far; returns whether the connection stays open."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def serving(script: Script, *, tls: Certificates | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Serve `script`'s answers; yield the URL, and the list of requests."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls is not None:
        context.load_cert_chain(tls.server, tls.server_key)

    def serve_connection(raw: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(raw, server_side=True) if tls is not None else raw as connection,
        ):
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                requests.append(head)
                if not script(connection, head):
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve_connection, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls is not None else ''}://127.0.0.1:{listener.getsockname()[1]}", requests
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


def test_a_connection_is_reused_once_its_answer_was_read() -> None:
    connections = set()

    def script(connection: socket.socket, _: bytes) -> bool:
        connections.add(connection.getpeername())
        connection.sendall(OK)
        return True

    with serving(script) as (url, requests):
        transport = HttpTransport(url, environment={})
        assert transport.send(get("/a?b=c", Authorization="Bearer x")).content == b"ok"
        posted = Request("POST", "/d", {"Content-Type": "text/plain"}, b"body", timeout_seconds=10)
        assert transport.send(posted).status == 200
        transport.close()
    assert requests[0].startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"Authorization: Bearer x\r\n" in requests[0]
    assert requests[1].startswith(b"POST /d HTTP/1.1\r\n")
    assert len(connections) == 1


def test_an_idle_connection_closed_by_the_server_is_not_reused() -> None:
    with serving(always(OK, stay=False)) as (url, requests):
        transport = HttpTransport(url, environment={})
        for _ in range(3):
            assert transport.send(get()).content == b"ok"
            wait_until_readable(transport)
    assert len(requests) == 3


def wait_until_readable(transport: HttpTransport) -> None:
    """Wait until the server's close of idle connections has arrived."""
    for connection in transport._idle:
        assert connection.sock is not None
        assert connection.sock.recv(1, socket.MSG_PEEK) == b""


def test_a_stream_is_passed_on_before_the_answer_ends() -> None:
    """Chunked answers, too."""
    first_was_read = threading.Event()

    def script(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert first_was_read.wait(30)
        connection.sendall(b"6\r\nsecond\r\n0\r\n\r\n")
        return True

    with serving(script) as (url, _):
        chunks = HttpTransport(url, environment={}).send(get()).chunks()
        assert next(chunks) == b"first"
        first_was_read.set()
        assert b"".join(chunks) == b"second"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_an_incomplete_body_is_an_error(answer: bytes) -> None:
    with serving(always(answer, stay=False)) as (url, _):
        response = HttpTransport(url, environment={}).send(get())
        with pytest.raises(Lost):
            _ = response.content


@pytest.mark.parametrize("answer", [b"", b"no HTTP at all\r\n\r\n"])
def test_a_request_without_an_answer_is_lost(answer: bytes) -> None:
    """It was sent, so it is unknown whether it was carried out."""
    with serving(always(answer, stay=False)) as (url, _), pytest.raises(Lost):
        HttpTransport(url, environment={}).send(get())


def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    done = threading.Event()
    with serving(lambda *_: done.wait(30) and False) as (url, _):
        with pytest.raises(Lost):
            HttpTransport(url, environment={}).send(Request("GET", "/", timeout_seconds=0.01))
        done.set()


def test_a_refused_connection_means_that_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotReached):
        HttpTransport(f"http://127.0.0.1:{port}", environment={}).send(get())


def test_a_proxy_gets_the_whole_url_and_the_users_password() -> None:
    """$http_proxy is used for servers without TLS."""
    with serving(always(OK)) as (url, requests):
        proxy = url.replace("http://", "http://ada:se%20cret@")
        transport = HttpTransport("http://kaji.test:8080", environment={"http_proxy": proxy})
        assert transport.send(get("/v1/runs")).content == b"ok"
    assert requests[0].startswith(b"GET http://kaji.test:8080/v1/runs HTTP/1.1\r\n")
    assert b"Host: kaji.test:8080\r\n" in requests[0]
    assert b"Proxy-Authorization: Basic YWRhOnNlIGNyZXQ=\r\n" in requests[0]


def test_tls_uses_a_tunnel_through_the_proxy() -> None:
    """A server with TLS is reached with CONNECT. If the proxy refuses, nothing was sent."""
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    with serving(always(refused, stay=False)) as (url, requests):
        transport = HttpTransport("https://kaji.test", environment={"HTTPS_PROXY": url.replace("//", "//ada:secret@")})
        with pytest.raises(ProxyFailed, match=f"the proxy {url} failed: .*403"):
            transport.send(get())
    assert requests[0].startswith(b"CONNECT kaji.test:443 HTTP/1.")


def test_a_proxy_of_another_kind_is_refused() -> None:
    """The message names it, without the user's password."""
    transport = HttpTransport("https://kaji.test", environment={"https_proxy": "socks5://ada:secret@proxy.test:1080"})
    with pytest.raises(ProxyFailed, match=r"^the proxy socks5://proxy.test:1080 can't be used: .* http:// or https://"):
        transport.send(get())


@contextmanager
def tls_proxy(made: Certificates, answer: bytes | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that is spoken to by TLS: it takes CONNECT and leads every host to the port of this machine that the host
    names, or gives the same `answer` to each request."""

    def script(connection: socket.socket, head: bytes) -> bool:
        if answer is not None:
            connection.sendall(answer)
            return False
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        with socket.create_connection(("127.0.0.1", port)) as server:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=copy, args=(server, connection), daemon=True)
            back.start()
            copy(connection, server)
            back.join(10)
        return False

    with serving(script, tls=made) as (url, requests):
        yield url, requests


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_tls_to_the_server_goes_through_tls_to_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's certificate is verified by the authorities of this machine, the server's by those that were given.
    The connection is kept for the next request, and an answer may be longer than a record of TLS."""
    of_proxy, of_server = ensure_certificates(tmp_path / "proxy"), ensure_certificates(tmp_path / "server")
    monkeypatch.setenv("SSL_CERT_FILE", str(of_proxy.ca))
    body = b"long" * 100_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    trusting = partial(ssl.create_default_context, cafile=str(of_server.ca))
    with tls_proxy(of_proxy) as (proxy, asked), serving(always(answer), tls=of_server) as (url, requests):
        environment = {"https_proxy": proxy.replace("//", "//ada:secret@")}
        transport = HttpTransport(url, environment=environment, tls=trusting)
        assert transport.send(get("/a")).content == body
        assert transport.send(get("/b")).content == body
        transport.close()
        with pytest.raises(NotTrusted, match="unable to get local issuer"):
            HttpTransport(url, environment=environment, tls=partial(ssl.create_default_context)).send(get())
    (connect, _) = asked
    assert connect.startswith(b"CONNECT %s HTTP/1.1\r\n" % url.removeprefix("https://").encode())
    assert b"Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n" in connect
    assert [head.split(b" ")[1] for head in requests] == [b"/a", b"/b"]


def test_a_server_without_tls_is_reached_through_tls_to_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ensure_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    with tls_proxy(made, OK) as (proxy, asked):
        transport = HttpTransport("http://kaji.test:8080", environment={"http_proxy": proxy})
        assert transport.send(get("/v1/runs")).content == b"ok"
    assert asked[0].startswith(b"GET http://kaji.test:8080/v1/runs HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        (b"no HTTP at all\r\n\r\n", "Tunnel connection failed"),
        (b"HTTP/1.1 200", "did not answer CONNECT"),
    ],
)
def test_the_answer_of_a_proxy_with_tls_that_refuses_is_told(
    answer: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ensure_certificates(tmp_path)
    with tls_proxy(made, answer) as (proxy, _):
        transport = HttpTransport("https://kaji.test", environment={"https_proxy": proxy})
        with pytest.raises(ProxyFailed, match=rf"^the proxy {proxy} can't be trusted: .*\$SSL_CERT_FILE"):
            transport.send(get())
        monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
        with pytest.raises(ProxyFailed, match=f"^the proxy {proxy} failed: .*{why}"):
            transport.send(get())


@pytest.mark.parametrize(
    "names",
    ["127.0.0.1", "*", "example.com, 127.0.0.1", "10.0.0.0/8, 127.0.0.0/8", "::/0,127.0.0.1/31"],
)
def test_no_proxy_names_servers_that_are_reached_directly(names: str) -> None:
    with serving(always(OK)) as (url, _):
        environment = {"http_proxy": "http://127.0.0.1:1", "NO_PROXY": names}
        assert HttpTransport(url, environment=environment).send(get()).content == b"ok"


def test_a_domain_in_no_proxy_covers_all_its_hosts() -> None:
    """It does not cover hosts that only end alike."""
    environment = {"http_proxy": "http://127.0.0.1:1", "no_proxy": ".kaji.test"}
    assert HttpTransport("http://a.kaji.test", environment=environment)._proxy is None
    assert HttpTransport("http://akaji.test", environment=environment)._proxy is not None


@pytest.mark.parametrize("server", ["http://11.0.0.1", "http://kaji.test", "http://[fd00::1]"])
def test_a_network_in_no_proxy_covers_its_addresses_only(server: str) -> None:
    environment = {"http_proxy": "http://127.0.0.1:1", "no_proxy": "10.0.0.0/8, no/network"}
    assert HttpTransport(server, environment=environment)._proxy is not None


def test_closing_an_unread_answer_closes_its_connection() -> None:
    """Its rest is not taken for the next answer."""
    with serving(always(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok" + b"HTTP/1.", stay=True)) as (url, _):
        transport = HttpTransport(url, environment={})
        response = transport.send(get())
        assert next(response.chunks())
        response.close()
        assert not transport._idle


def test_parameters_become_a_query() -> None:
    assert with_query("/v1/runs", {"a": "b c", "d": [1, 2]}) == "/v1/runs?a=b+c&d=1&d=2"
    assert with_query("/v1/runs", {}) == "/v1/runs"


def test_a_response_is_built_from_json_or_bytes() -> None:
    assert Response.of(200, {"a": 1}).json() == {"a": 1}
    assert Response.of(200, b"x", {"Content-Type": "y"}).headers == {"content-type": "y"}


def test_a_server_may_be_below_a_path() -> None:
    """A reverse proxy serves it there, so requests keep that path."""
    with serving(always(OK)) as (url, requests):
        HttpTransport(f"{url}/kaji/", environment={}).send(get("/v1/runs"))
    assert requests[0].startswith(b"GET /kaji/v1/runs HTTP/1.1\r\n")


def test_an_untrusted_certificate_is_a_different_error_than_an_outage(tmp_path: Path) -> None:
    """A certificate of the named authority is trusted for the names in it."""
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
