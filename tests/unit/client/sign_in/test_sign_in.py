"""Signing in from a program: providers, the browser's redirect, and tokens that one process renews for all."""

from __future__ import annotations

import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.unit.openid.test_flows import DESCRIPTION, ISSUER, id_token

from kajitori.client.connection import Request, Response
from kajitori.client.sign_in.asking import Asker
from kajitori.client.sign_in.loopback import Loopback
from kajitori.client.sign_in.refreshing import renewed
from kajitori.client.sign_in.starting import context_name, has_browser, place_of, server_url
from kajitori.client.target import Target
from kajitori.client.web_api import Api
from kajitori.configuration import contexts
from kajitori.configuration.contexts import SignedIn
from kajitori.errors import InvalidInput, Unauthenticated, Unavailable

SERVER = "https://kaji.example.org"


class Provider:
    """Accepts each refresh token once, like providers that rotate them."""

    def __init__(self) -> None:
        self.valid = "r1"
        self.refreshes = 0

    def send(self, request: Request) -> Response:
        if request.method == "GET":
            return Response.of(200, DESCRIPTION)
        given = parse_qs((request.body or b"").decode())["refresh_token"][0]
        if given != self.valid:
            return Response.of(400, {"error": "invalid_grant"})
        self.refreshes += 1
        self.valid = f"r{self.refreshes + 1}"
        token = id_token(exp=2000 + self.refreshes, nonce=str(self.refreshes))
        return Response.of(200, {"id_token": token, "refresh_token": self.valid})

    def close(self) -> None:
        pass

    def asker(self, ca: str) -> Asker:
        return Asker(ca, {}, lambda _: self)


def stored(folder: Path, **more: Any) -> Path:
    context = SignedIn(SERVER, issuer=ISSUER, client_id="kaji", token="old", refresh_token="r1", expires=1.0)
    path = contexts.path_of("kaji", folder)
    contexts.write(path, replace(context, **more))
    return path


def test_tokens_are_stored_in_a_private_file(tmp_path: Path) -> None:
    """A representation of the context does not contain them."""
    path = stored(tmp_path / "contexts")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert contexts.read(path).token == "old" and "old" not in repr(contexts.read(path))
    path.write_text("[]")
    with pytest.raises(Unavailable, match="damaged"):
        contexts.read(path)
    assert contexts.all_contexts(path.parent) == {}
    with pytest.raises(InvalidInput):
        contexts.path_of("../x")


def test_commands_at_the_same_time_refresh_once(tmp_path: Path) -> None:
    """The provider accepts a refresh token once; the other commands use the stored result."""
    provider, path = Provider(), stored(tmp_path)
    found = []

    def command() -> None:
        found.append(renewed(path, "old", asker=provider.asker, clock=lambda: 1000.0).token)

    commands = [threading.Thread(target=command) for _ in range(4)]
    for one in commands:
        one.start()
    for one in commands:
        one.join()
    assert (provider.refreshes, len(set(found)), len(found)) == (1, 1, 4)
    assert contexts.read(path).refresh_token == "r2"
    assert renewed(path, found[0], asker=provider.asker, clock=lambda: 1000.0).refresh_token == "r3"


@pytest.mark.parametrize("lost", [{"refresh_token": "revoked"}, {"refresh_token": ""}])
def test_a_revoked_sign_in_names_the_command(tmp_path: Path, lost: Mapping[str, str]) -> None:
    with pytest.raises(Unauthenticated) as refused:
        renewed(stored(tmp_path, **lost), "old", asker=Provider().asker)
    assert refused.value.hint == f"sign in again: kaji login {SERVER}"


def test_only_the_first_redirect_of_the_browser_counts() -> None:
    """Other addresses answer 404."""
    with Loopback() as loopback:
        base = loopback.address.removesuffix("/callback")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{base}/favicon.ico", timeout=5)
        for query in ("state=a&code=first", "state=a&code=second"):
            with urllib.request.urlopen(f"{loopback.address}?{query}", timeout=5) as page:
                assert b"signed in" in page.read() and page.headers["Cache-Control"] == "no-store"
        assert loopback.wait(5) == "state=a&code=first"
    with Loopback() as silent, pytest.raises(Unauthenticated, match="nobody signed in"):
        silent.wait(0.0)


def test_the_address_of_a_server_may_be_given_without_a_scheme() -> None:
    """Then it is https. Plain HTTP to another machine is refused."""
    assert server_url("kaji.example.org", insecure=False) == "https://kaji.example.org"
    assert server_url("http://127.0.0.1:8600/", insecure=False) == "http://127.0.0.1:8600"
    assert server_url("http://kaji.example.org", insecure=True) == "http://kaji.example.org"
    for wrong in ("http://kaji.example.org", "ftp://x", "https://", "https://me:secret@x"):
        with pytest.raises(InvalidInput):
            server_url(wrong, insecure=False)
    assert (context_name("https://kaji.example.org"), context_name("http://127.0.0.1:86")) == (
        "kaji.example.org",
        "127.0.0.1-86",
    )


def test_a_browser_is_used_only_where_the_user_sees_it() -> None:
    assert not has_browser({}, "linux")
    assert has_browser({"DISPLAY": ":0"}, "linux")
    assert not has_browser({"DISPLAY": ":10", "SSH_CONNECTION": "a b c d"}, "linux")
    assert not has_browser({"SSH_TTY": "/dev/pts/0"}, "darwin")
    assert has_browser({}, "darwin") and has_browser({"BROWSER": "x", "SSH_TTY": "y"}, "linux")


def test_a_server_without_sign_in_says_what_to_do() -> None:
    with pytest.raises(Unavailable, match="offers no sign-in") as refused:
        place_of({"issuer": "", "namespace": "default"})
    assert "--token-stdin" in refused.value.hint


class Server:
    """Accepts one token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.asked = 0

    def send(self, request: Request) -> Response:
        self.asked += 1
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return Response.of(401, {"title": "Unauthenticated", "detail": "expired", "code": "Unauthenticated"})
        return Response.of(200, {"ok": True})

    def close(self) -> None:
        pass


def test_a_command_goes_on_after_its_token_expired(tmp_path: Path) -> None:
    """One that follows a run lives longer than its token: a refused request is sent again with a new one, each time."""
    path = stored(tmp_path, token="second", expires=time.time() + 600)
    server = Server("second")
    with Api(Target(SERVER, "first", signed_in=path), transport=server) as api:
        assert api.get("/v1/x") == {"ok": True} and server.asked == 2
        contexts.write(path, replace(contexts.read(path), token="third"))
        server.token = "third"
        assert api.post("/v1/x") == {"ok": True} and api.target.token == "third"
        server.token = "fourth"
        contexts.write(path, replace(contexts.read(path), refresh_token=""))
        with pytest.raises(Unauthenticated, match="expired"):
            api.get("/v1/x")
