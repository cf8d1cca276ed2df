"""Headers and cookies that pass between a browser and a program, and those that must not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.proxy.headers import Forwarding, is_navigation, program_cookie, to_browser, to_program, wants_page

OWN = Forwarding("https", "8888--nb--team.runs.example.org", "192.0.2.7", "", "/")
SHARED = Forwarding("https", "programs.example.org", "192.0.2.7", "/proxy/team/nb/8888", "/proxy/team/nb/8888")


def as_bytes(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def as_text(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


def test_programs_get_neither_credentials_nor_internal_headers() -> None:
    sent = {
        "Host": "8888--nb--team.runs.example.org",
        "Accept": "text/html",
        "Authorization": "Bearer secret",
        "Cookie": "__Host-kaji-visit-0=secret; _xsrf=2|a; __HOST-KAJI-0=secret; =__Host-kaji-1=secret; theme=dark",
        "X-Forwarded-For": "10.0.0.1",
        "X_Forwarded_Host": "evil",
        "X-Real-IP": "10.0.0.1",
        "Forwarded": "for=10.0.0.1",
        "Impersonate-User": "root",
        "X-Remote-User": "root",
        "Kajitori-Link": "secret",
        "Connection": "keep-alive, X-Secret-Hop",
        "X-Secret-Hop": "secret",
        "Transfer-Encoding": "chunked",
        "Upgrade": "h2c",
        "Proxy-Authorization": "secret",
    }
    found = as_text(to_program(as_bytes(sent), OWN))
    assert found == {
        "host": "8888--nb--team.runs.example.org",
        "accept": "text/html",
        "cookie": "_xsrf=2|a; theme=dark",
        "x-forwarded-for": "192.0.2.7",
        "x-forwarded-proto": "https",
        "x-forwarded-host": "8888--nb--team.runs.example.org",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("X-Forwarded-Access-Token", "X-Auth-Request-Access-Token", "Remote-User", "Remote-Groups", "X-WebAuth-User"),
        *("X-Amzn-Oidc-AccessToken", "X-Amzn-Oidc-Data", "X-Goog-IAP-JWT-Assertion", "X-Goog-Authenticated-User-Email"),
        *("Cf-Access-Jwt-Assertion", "Cf-Access-Token", "X-MS-Token-AAD-Access-Token", "X-MS-Client-Principal"),
        *("X-Authentik-Jwt", "X-Pomerium-Jwt-Assertion", "X-Pomerium_Jwt_Assertion", "X-Id-Token"),
    ],
)
def test_programs_get_no_headers_of_proxies_that_sign_people_in(name: str) -> None:
    """A program could use such a token as the person who looks at its page."""
    assert name.lower() not in as_text(to_program(as_bytes({name: "secret"}), OWN))


@pytest.mark.parametrize(
    "name",
    [
        *("_oauth2_proxy", "_oauth2_proxy_1", "_oauth2_proxy_csrf", "__Host-oauth2_proxy", "CF_Authorization"),
        *("AWSELBAuthSessionCookie-0", "GCP_IAP_UID", "GCP_IAAP_AUTH_TOKEN_1", "AppServiceAuthSession"),
        *("authelia_session", "authentik_proxy_ab12", "_pomerium"),
    ],
)
def test_programs_get_no_cookies_of_proxies_that_sign_people_in(name: str) -> None:
    """They hold for all names of a domain, or for the shared origin, and one is enough to act as the person."""
    assert as_text(to_program(as_bytes({"Cookie": f"a=1; {name}=secret"}), OWN))["cookie"] == "a=1"


def test_programs_learn_the_prefix_that_was_removed() -> None:
    assert as_text(to_program([], SHARED))["x-forwarded-prefix"] == "/proxy/team/nb/8888"


def test_handshakes_of_websockets_pass() -> None:
    sent = as_bytes({"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "abc"})
    found = as_text(to_program(sent, OWN, upgrade=True))
    assert (found["connection"], found["upgrade"], found["sec-websocket-key"]) == ("Upgrade", "websocket", "abc")
    answer = to_browser(as_bytes({"Connection": "upgrade", "Upgrade": "websocket"}), OWN, upgrade=True)
    assert as_text(answer) == {"connection": "Upgrade", "upgrade": "websocket"}


@pytest.mark.parametrize(
    ("cookie", "at_own", "at_shared"),
    [
        ("a=1", "a=1; Path=/", "a=1; Path=/proxy/team/nb/8888/"),
        ("a=1; Path=/; HttpOnly", "a=1; HttpOnly; Path=/", "a=1; HttpOnly; Path=/proxy/team/nb/8888/"),
        ("a=1; path=/x", "a=1; Path=/x", "a=1; Path=/proxy/team/nb/8888/x"),
        (
            "a=1; Path=/proxy/team/nb/8888/x",
            "a=1; Path=/proxy/team/nb/8888/x",
            "a=1; Path=/proxy/team/nb/8888/x",
        ),
        (
            "a=1; Path=/proxy/team/nb/88889",
            "a=1; Path=/proxy/team/nb/88889",
            "a=1; Path=/proxy/team/nb/8888/proxy/team/nb/88889",
        ),
        ("a=1; Domain=example.org; Max-Age=5", "a=1; Max-Age=5; Path=/", "a=1; Max-Age=5; Path=/proxy/team/nb/8888/"),
        *((text, None, None) for text in ("__Host-kaji-0=x", " __host-KAJI-visit-0 =x", "__Secure-kaji=x")),
        *((text, None, None) for text in ("=__Host-kaji-0=x", "__Host-kaji-0", "", "  =x")),
    ],
)
def test_cookies_of_programs_stay_with_them(cookie: str, at_own: str | None, at_shared: str | None) -> None:
    assert program_cookie(cookie, OWN) == at_own
    assert program_cookie(cookie, SHARED) == at_shared


@settings(max_examples=60)
@given(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=60))
def test_no_cookie_of_a_program_ever_looks_like_the_platforms(text: str) -> None:
    """Neither when it is set, nor when the browser sends it back with others."""
    cookie = program_cookie(text, SHARED)
    assert cookie is None or (not cookie.lower().lstrip().startswith("__host-kaji") and "domain=" not in cookie.lower())
    sent = to_program([(b"cookie", f"{text}; __Host-kaji-0=secret".encode("latin-1"))], SHARED)
    assert b"secret" not in dict(sent).get(b"cookie", b"")


def test_answers_lose_what_reaches_beyond_the_program() -> None:
    sent = {
        "Content-Type": "text/html",
        "Date": "then",
        "Strict-Transport-Security": "max-age=1; includeSubDomains",
        "Alt-Svc": "h3",
        "Service-Worker-Allowed": "/",
        "Clear-Site-Data": '"*"',
        "Kajitori-Notice": "pay here",
        "Keep-Alive": "timeout=5",
        "Set-Cookie": "__Host-kaji-0=evil; Path=/; Secure",
    }
    assert as_text(to_browser(as_bytes(sent), SHARED)) == {
        "content-type": "text/html",
        "content-security-policy": "frame-ancestors 'self'",
    }


@pytest.mark.parametrize(
    ("location", "passed"),
    [
        ("/login?next=/", "/proxy/team/nb/8888/login?next=/"),
        ("https://programs.example.org/login", "/proxy/team/nb/8888/login"),
        ("/proxy/team/nb/8888/lab", "/proxy/team/nb/8888/lab"),
        ("lab", "lab"),
        ("https://elsewhere.example.org/x", "https://elsewhere.example.org/x"),
        ("//elsewhere.example.org/x", "//elsewhere.example.org/x"),
    ],
)
def test_redirects_stay_below_the_prefix(location: str, passed: str) -> None:
    assert as_text(to_browser([(b"location", location.encode())], SHARED))["location"] == passed
    assert as_text(to_browser([(b"location", location.encode())], OWN))["location"] == location


def test_navigations_are_told_from_what_scripts_and_frames_send() -> None:
    opened = as_bytes({"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"})
    framed = as_bytes({"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Accept": "text/html"})
    fetched = as_bytes({"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Accept": "text/html"})
    assert [is_navigation(headers, "GET") for headers in (opened, framed, fetched)] == [True, False, False]
    assert not is_navigation(opened, "POST")
    assert [wants_page(headers, "GET") for headers in (opened, framed, fetched)] == [True, True, False]
