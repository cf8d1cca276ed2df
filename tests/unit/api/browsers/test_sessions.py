"""Sessions of browsers: cookies, the redirects to the provider and back, requests from other sites."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.requests import HTTPConnection
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.openid.test_flows import DESCRIPTION, ISSUER, id_token

from kajitori.api.browsers import renewals
from kajitori.api.browsers.same_origin import is_same_origin
from kajitori.api.browsers.sealing import PART_BYTES, Seal, TooLong, in_parts, read_parts, set_cookie
from kajitori.api.browsers.sessions import LINK_SECONDS, SESSION, SESSION_SECONDS, SIGNING, BrowserSessions, own_path
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.errors import Forbidden, NotFound, Unauthenticated, Unavailable

NOW = 1_000_000.0
SECRET = b"x" * 32


class Provider:
    """A provider that rotates refresh tokens."""

    def __init__(self) -> None:
        self.nonce = ""
        self.expires = NOW + 600
        self.asked: list[dict[str, str]] = []
        self.valid = "r0"
        self.is_down = False
        self.refusals = 0

    async def send(self, url: str, form: str | None) -> bytes:
        if self.is_down:
            self.refusals += 1
            raise Unavailable("away")
        if form is None:
            return json.dumps(DESCRIPTION | {"revocation_endpoint": f"{ISSUER}/revoke"}).encode()
        given = {name: values[0] for name, values in parse_qs(form).items()}
        self.asked.append(given)
        if url.endswith("/revoke"):
            return b""
        await asyncio.sleep(0)
        if given["grant_type"] == "refresh_token" and given["refresh_token"] != self.valid:
            return b'{"error": "invalid_grant"}'
        self.valid = f"r{len(self.asked)}"
        return json.dumps({"id_token": self.token(), "refresh_token": self.valid}).encode()

    def token(self) -> str:
        return id_token(nonce=self.nonce, exp=int(self.expires), serial=len(self.asked))


class Browser:
    """Keeps cookies and makes requests of a page of this server or of another one."""

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}

    def take(self, headers: list[str]) -> None:
        for header in headers:
            assert {"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} <= set(header.split("; "))
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        self.cookies = {name: value for name, value in self.cookies.items() if value}

    def request(self, path: str = "/v1/runs", method: str = "GET", **headers: str) -> HTTPConnection:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        said = {
            "host": "kaji.test",
            "cookie": cookie,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        raw = [(name.encode(), value.encode()) for name, value in said.items()]
        where, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "scheme": "https", "path": where, "query_string": query.encode()}
        return HTTPConnection(scope | {"headers": raw, "server": ("kaji.test", 443)})


async def signed_in(sessions: BrowserSessions, provider: Provider, browser: Browser, to: str = "/runs") -> str:
    """Go to the provider and back, and return the path where the browser ends."""
    url, cookie = await sessions.begin(browser.request("/sign-in/start"), to)
    browser.take([cookie])
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert asked["redirect_uri"] == "https://kaji.test/sign-in/callback"
    provider.nonce = asked["nonce"]
    query = urlencode({"code": "c", "state": asked["state"], "iss": ISSUER})
    authorization, end, cookies = await sessions.finish(browser.request(f"/sign-in/callback?{query}"))
    assert authorization == f"Bearer {provider_token(provider)}"
    browser.take(cookies)
    return end


def provider_token(provider: Provider) -> str:
    return provider.token()


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def now() -> list[float]:
    return [NOW]


@pytest.fixture
def ticks() -> list[float]:
    """A clock that is never set."""
    return [50.0]


@pytest.fixture
def sessions(provider: Provider, now: list[float], ticks: list[float]) -> BrowserSessions:
    access = BrowserAccess(cookie_secret=SECRET)
    return BrowserSessions(SignIn(ISSUER), access, send=provider.send, clock=lambda: now[0], ticks=lambda: ticks[0])


async def test_a_browser_signs_in_and_gets_a_cookie(sessions: BrowserSessions, provider: Provider) -> None:
    """The cookie is encrypted; a server with the same key can read it, one with another key cannot."""
    browser = Browser()
    assert await signed_in(sessions, provider, browser) == "/runs"
    assert set(browser.cookies) == {f"{SESSION}-0"}
    assert provider.token() not in str(browser.cookies) and "refresh" not in str(browser.cookies)
    for secret, is_known in ((SECRET, True), (b"y" * 32, False)):
        other = BrowserSessions(
            SignIn(ISSUER), BrowserAccess(cookie_secret=secret), send=provider.send, clock=lambda: NOW
        )
        if is_known:
            entered = await other.enter(browser.request())
            assert entered is not None and entered.authorization == f"Bearer {provider.token()}"
        else:
            with pytest.raises(Unauthenticated):
                await other.enter(browser.request())
    assert await sessions.enter(Browser().request()) is None


async def test_only_the_browser_that_started_a_sign_in_can_finish_it(
    sessions: BrowserSessions, provider: Provider
) -> None:
    """Not another browser with its address (login CSRF), not with another state, and not too late."""
    browser = Browser()
    url, cookie = await sessions.begin(browser.request("/sign-in/start"), "/")
    state = parse_qs(urlsplit(url).query)["state"][0]
    back = f"/sign-in/callback?{urlencode({'code': 'c', 'state': state, 'iss': ISSUER})}"
    with pytest.raises(Unauthenticated):
        await sessions.finish(browser.request(back))
    browser.take([cookie])
    with pytest.raises(Unauthenticated):
        await sessions.finish(browser.request(back.replace(state, "other")))
    assert not provider.asked
    sealed = Seal(SECRET, SIGNING)
    begun = sealed.open(browser.cookies[SIGNING])
    assert begun is not None
    browser.cookies[SIGNING] = sealed.close(begun | {"until": NOW - 1})
    with pytest.raises(Unauthenticated):
        await sessions.finish(browser.request(back))


async def test_tabs_with_an_expired_token_renew_it_once(
    sessions: BrowserSessions, provider: Provider, now: list[float]
) -> None:
    """Also a tab that still sends the old cookie; until the end of the session."""
    browser = Browser()
    await signed_in(sessions, provider, browser)
    now[0], provider.expires = NOW + 590, NOW + 1200
    entered = await asyncio.gather(*(sessions.enter(browser.request()) for _ in range(4)))
    late = await sessions.enter(browser.request())
    assert [request["grant_type"] for request in provider.asked] == ["authorization_code", "refresh_token"]
    assert {entry.authorization for entry in (*entered, late) if entry is not None} == {f"Bearer {provider.token()}"}
    assert late is not None
    browser.take(list(late.cookies))
    again = await sessions.enter(browser.request())
    assert again is not None and not again.cookies
    now[0] = NOW + SESSION_SECONDS + 1
    with pytest.raises(Unauthenticated):
        await sessions.enter(browser.request())


async def test_a_clock_that_jumps_ahead_uses_no_refresh_token_twice(
    sessions: BrowserSessions, provider: Provider, now: list[float]
) -> None:
    """A tab that still sends the old cookie would end the sign-in at providers that rotate refresh tokens."""
    browser, old = Browser(), Browser()
    await signed_in(sessions, provider, browser)
    now[0], provider.expires = NOW + 590, NOW + 1200
    old.cookies = dict(browser.cookies)
    entered = await sessions.enter(browser.request())
    assert entered is not None
    browser.take(list(entered.cookies))
    now[0], provider.expires = NOW + 3 * 3600, NOW + 4 * 3600
    assert await sessions.enter(browser.request()) is not None  # renews, and forgets old renewals
    late = await sessions.enter(old.request())
    assert late is not None
    refreshed = [request["refresh_token"] for request in provider.asked if "refresh_token" in request]
    assert sorted(set(refreshed)) == sorted(refreshed)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryBlobs:
    """A store that several servers share, in which nobody waits."""
    monkeypatch.setattr(renewals, "POLL_SECONDS", 0.0)
    return MemoryBlobs(random.Random(3))


def servers_with(store: MemoryBlobs, provider: Provider, now: list[float], count: int = 3) -> list[BrowserSessions]:
    place, access = SignIn(ISSUER), BrowserAccess(cookie_secret=SECRET)
    return [BrowserSessions(place, access, blobs=store, send=provider.send, clock=lambda: now[0]) for _ in range(count)]


async def test_several_servers_use_a_refresh_token_once(
    store: MemoryBlobs, provider: Provider, now: list[float]
) -> None:
    """The store holds no token in the clear."""
    servers, browser = servers_with(store, provider, now), Browser()
    await signed_in(servers[0], provider, browser)
    for _ in range(2):
        before, provider.expires = len(provider.asked), provider.expires + 600
        now[0] += 590
        entered = await asyncio.gather(*(server.enter(browser.request()) for server in servers * 3))
        assert len(provider.asked) == before + 1
        assert len({one.authorization for one in entered if one is not None}) == 1
        assert entered[1] is not None
        browser.take(list(entered[1].cookies))
    texts = [content + key.encode() for key, (content, _) in store.held.items()]
    assert texts and not [text for text in texts if b"r0" in text.split(b"/") or provider.token().encode() in text]


async def test_a_refusal_is_told_to_the_other_servers(store: MemoryBlobs, provider: Provider, now: list[float]) -> None:
    servers, browser = servers_with(store, provider, now), Browser()
    await signed_in(servers[0], provider, browser)
    now[0], provider.valid, before = NOW + 590, "revoked", len(provider.asked)
    answers = await asyncio.gather(*(server.enter(browser.request()) for server in servers), return_exceptions=True)
    assert [type(one) for one in answers] == [Unauthenticated] * 3
    assert len(provider.asked) == before + 1


async def test_the_next_server_renews_if_the_first_died_or_failed(
    store: MemoryBlobs, provider: Provider, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that died leaves its claim without an answer."""
    (first, second), browser = servers_with(store, provider, now, 2), Browser()
    await signed_in(first, provider, browser)
    now[0], provider.expires, provider.is_down = NOW + 590, NOW + 1200, True
    with pytest.raises(Unavailable):
        await first.enter(browser.request())
    provider.is_down = False
    answer = next(key for key in store.held if key.endswith("answer-0"))
    for is_dead in (False, True):
        if is_dead:
            del store.held[answer]
            del store.held[answer.replace("answer-0", "claim-1")]
            del store.held[answer.replace("answer-0", "answer-1")]
            provider.valid = "r1"
            monkeypatch.setattr(renewals, "WAIT_SECONDS", 0.0)
            (second,) = servers_with(store, provider, now, 1)
        assert await second.enter(browser.request()) is not None


async def test_an_answer_of_another_session_is_ignored(
    store: MemoryBlobs, provider: Provider, now: list[float]
) -> None:
    """Whoever can write the store must not give one person the session of another one."""
    (first, second), browser = servers_with(store, provider, now, 2), Browser()
    await signed_in(first, provider, browser)
    now[0], provider.expires = NOW + 590, NOW + 1200
    entered = await first.enter(browser.request())
    assert entered is not None
    (answer,) = [key for key in store.held if key.endswith("answer-0")]
    browser.take(list(entered.cookies))
    now[0], provider.expires = NOW + 1190, NOW + 1800
    await second.enter(browser.request())
    (other,) = [key for key in store.held if key.endswith("answer-0") and key != answer]
    mine = provider.token()
    store.held[other], provider.expires = store.held[answer], NOW + 2400
    (third,) = servers_with(store, provider, now, 1)
    provider.valid = "r2"
    found = await third.enter(browser.request())
    assert found is not None and found.authorization not in (entered.authorization, f"Bearer {mine}")


async def test_a_server_renews_by_itself_without_its_store(
    store: MemoryBlobs, provider: Provider, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are accepted as well."""

    async def fails(*_: object) -> bool:
        raise Unavailable("the store does not answer")

    (server,), browser = servers_with(store, provider, now, 1), Browser()
    await signed_in(server, provider, browser)
    now[0], provider.expires = NOW + 590, NOW + 1200
    monkeypatch.setattr(store, "create", fails)
    assert await server.enter(browser.request()) is not None
    link = browser.request("/sign-in/link", "POST", origin="https://kaji.test")
    assert await server.open_link(link, server.make_link("opaque"))


async def test_old_claims_and_answers_are_removed(store: MemoryBlobs, provider: Provider, now: list[float]) -> None:
    (first, second), browser = servers_with(store, provider, now, 2), Browser()
    link = browser.request("/sign-in/link", "POST", origin="https://kaji.test")
    await first.open_link(link, first.make_link("opaque"))
    (old,) = store.held
    store.time += timedelta(minutes=16)
    await second.open_link(link, second.make_link("opaque"))
    assert len(store.held) == 1 and old not in store.held


async def test_a_link_is_accepted_by_one_of_several_servers(
    store: MemoryBlobs, provider: Provider, now: list[float]
) -> None:
    (first, second), browser = servers_with(store, provider, now, 2), Browser()
    link, code = browser.request("/sign-in/link", "POST", origin="https://kaji.test"), first.make_link("opaque")
    assert await second.open_link(link, code)
    with pytest.raises(Unauthenticated, match="used before"):
        await first.open_link(link, code)


@pytest.mark.parametrize("call", ["head", "delete"])
async def test_a_used_link_is_refused_if_old_claims_cannot_be_removed(
    call: str, store: MemoryBlobs, provider: Provider, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise Unavailable("the store does not answer")

    (first, second), browser = servers_with(store, provider, now, 2), Browser()
    link, code = browser.request("/sign-in/link", "POST", origin="https://kaji.test"), first.make_link("opaque")
    monkeypatch.setattr(store, call, fails)
    assert await second.open_link(link, code)
    with pytest.raises(Unauthenticated, match="used before"):
        await first.open_link(link, code)


async def test_a_claim_whose_answer_was_lost_is_recognised(
    store: MemoryBlobs, provider: Provider, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the store repeats the request, and finds the blob that it made itself."""
    create = store.create

    async def repeats(key: str, content: bytes) -> bool:
        await create(key, content)
        return await create(key, content)

    (server,), browser = servers_with(store, provider, now, 1), Browser()
    await signed_in(server, provider, browser)
    now[0], provider.expires = NOW + 590, NOW + 1200
    monkeypatch.setattr(store, "create", repeats)
    assert await server.enter(browser.request()) is not None
    assert [key[-1] for key in store.held] == ["0", "0"]


async def test_a_failed_renewal_is_repeated_with_the_next_request(
    sessions: BrowserSessions, provider: Provider, now: list[float]
) -> None:
    browser = Browser()
    await signed_in(sessions, provider, browser)
    now[0], provider.expires, provider.is_down = NOW + 590, NOW + 1200, True
    with pytest.raises(Unavailable):
        await sessions.enter(browser.request())
    await asyncio.sleep(0)
    provider.is_down = False
    assert await sessions.enter(browser.request()) is not None


async def test_a_provider_that_is_away_is_left_alone_for_seconds(
    sessions: BrowserSessions, provider: Provider, now: list[float], ticks: list[float]
) -> None:
    """Anybody may ask for a sign-in, without credentials. A clock that is set back makes the time no longer."""
    provider.is_down = True
    for _ in range(3):
        with pytest.raises(Unavailable):
            await sessions.begin(Browser().request("/sign-in/start"), "/")
    assert provider.refusals == 1
    provider.is_down = False
    now[0] -= 3 * 3600
    ticks[0] += 6
    assert (await sessions.begin(Browser().request("/sign-in/start"), "/"))[0].startswith(ISSUER)


async def test_signing_out_revokes_and_removes_the_cookies(sessions: BrowserSessions, provider: Provider) -> None:
    browser = Browser()
    await signed_in(sessions, provider, browser)
    with pytest.raises(Forbidden):
        await sessions.leave(browser.request("/sign-out", "POST", origin="https://evil.test"))
    browser.take(await sessions.leave(browser.request("/sign-out", "POST", origin="https://kaji.test")))
    assert provider.asked[-1]["token"] == provider.valid and not browser.cookies


async def test_signing_out_works_while_the_provider_is_away(sessions: BrowserSessions, provider: Provider) -> None:
    browser = Browser()
    await signed_in(sessions, provider, browser)
    provider.is_down = True
    browser.take(await sessions.leave(browser.request("/sign-out", "POST", origin="https://kaji.test")))
    assert provider.refusals == 1 and not browser.cookies


async def test_a_cookie_of_a_started_sign_in_is_no_session(sessions: BrowserSessions) -> None:
    browser = Browser()
    _, cookie = await sessions.begin(browser.request("/sign-in/start"), "/")
    browser.take([cookie])
    browser.cookies = {f"{SESSION}-0": browser.cookies[SIGNING]}
    with pytest.raises(Unauthenticated):
        await sessions.enter(browser.request())


@pytest.mark.parametrize(
    ("headers", "method", "allowed"),
    [
        ({"origin": "https://kaji.test"}, "POST", True),
        ({"origin": "https://KAJI.test"}, "DELETE", True),
        ({"origin": "https://evil.test"}, "POST", False),
        ({"origin": "null"}, "POST", False),
        ({"origin": "https://kaji.test.evil.test"}, "GET", False),
        ({"sec-fetch-site": "same-origin"}, "POST", True),
        ({"sec-fetch-site": "none"}, "GET", True),
        ({"sec-fetch-site": "same-site"}, "POST", False),
        ({"sec-fetch-site": "cross-site"}, "GET", False),
        ({"origin": "https://evil.test", "sec-fetch-site": "same-origin"}, "POST", False),
        ({}, "GET", True),
        ({}, "POST", False),
    ],
)
def test_requests_of_other_sites_are_refused(headers: Mapping[str, str], method: str, allowed: bool) -> None:
    assert is_same_origin(headers, method, host="kaji.test") is allowed


def test_a_websocket_needs_an_origin() -> None:
    """It starts with GET and can run programs."""
    assert not is_same_origin({}, "GET", host="kaji.test", is_websocket=True)
    assert is_same_origin({"origin": "https://kaji.test"}, "GET", host="kaji.test", is_websocket=True)


def test_long_texts_are_split_into_several_cookies() -> None:
    """A shorter text removes the cookies that it does not need; a text that is too long is refused."""
    text = "a" * (PART_BYTES + 1)
    stored = [header.partition(";")[0].partition("=") for header in in_parts("c", text, 60)]
    cookies = {name: value for name, _, value in stored if value not in ("", '""')}
    assert list(cookies) == ["c-0", "c-1"] and read_parts(cookies, "c") == text
    assert all("Max-Age=0" in header for header in list(in_parts("c", "short", 60))[1:])
    assert read_parts({}, "c") == ""
    with pytest.raises(TooLong):
        list(in_parts("c", "a" * PART_BYTES * 6, 60))
    assert set_cookie("c", "v", 5).startswith("c=v; ")


@pytest.mark.parametrize("text", ["", "a", "a.b.c.d.e", "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..AAAA.AAAA.AAAA"])
def test_a_foreign_or_damaged_cookie_is_ignored(text: str) -> None:
    seal = Seal(SECRET, "c")
    assert seal.open(text) is None and Seal(SECRET, "other").open(seal.close({"a": 1})) is None
    whole = seal.close({"a": 1})
    assert seal.open(whole) == {"a": 1} and seal.open(whole[:-4] + "AAAA") is None


@pytest.mark.parametrize("to", ["https://evil.test", "//evil.test", "/\\evil.test", "", "runs", "/a\nb"])
def test_a_sign_in_redirects_only_to_this_server(to: str) -> None:
    assert own_path(to) == "/"
    assert own_path("/runs?x=1") == "/runs?x=1"


async def test_a_link_signs_a_browser_in_once_and_soon() -> None:
    """Without a provider too. The session is as long as the token, at most SESSION_SECONDS."""
    now = [NOW]
    sessions = BrowserSessions(None, BrowserAccess(cookie_secret=SECRET), clock=lambda: now[0])
    browser = Browser()
    code = sessions.make_link("opaque")
    own = browser.request("/sign-in/link", "POST", origin="https://kaji.test")
    with pytest.raises(Forbidden):
        await sessions.open_link(browser.request("/sign-in/link", "POST", origin="https://evil.test"), code)
    authorization, cookies = await sessions.open_link(own, code)
    assert authorization == "Bearer opaque"
    browser.take(cookies)
    entered = await sessions.enter(browser.request())
    assert entered is not None and entered.authorization == "Bearer opaque"
    for again in (code, "", "none", code[:-2]):
        with pytest.raises(Unauthenticated, match="used before or has expired"):
            await sessions.open_link(own, again)
    late = sessions.make_link("opaque")
    now[0] += LINK_SECONDS + 1
    with pytest.raises(Unauthenticated):
        await sessions.open_link(own, late)
    now[0] += SESSION_SECONDS
    with pytest.raises(Unauthenticated) as ended:
        await sessions.enter(browser.request())
    assert "kaji open" in ended.value.hint
    with pytest.raises(NotFound):
        await sessions.begin(browser.request("/sign-in/start"), "/")


async def test_a_session_by_link_ends_with_its_token() -> None:
    """There is nothing with which the server could renew it."""
    now = [NOW]
    sessions = BrowserSessions(None, BrowserAccess(cookie_secret=SECRET), clock=lambda: now[0])
    browser = Browser()
    code = sessions.make_link(id_token(exp=int(NOW + 600)))
    link = browser.request("/sign-in/link", "POST", origin="https://kaji.test")
    browser.take((await sessions.open_link(link, code))[1])
    assert await sessions.enter(browser.request()) is not None
    now[0] += 601
    with pytest.raises(Unauthenticated):
        await sessions.enter(browser.request())
