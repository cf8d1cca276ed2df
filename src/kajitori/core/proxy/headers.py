"""The headers and cookies that pass between a browser and a run's program. The program never sees the credentials of
its visitors. Its answers can set neither cookies of the platform nor cookies for other programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""

RESERVED_COOKIES = ("__host-kaji", "__secure-kaji")
"""Beginnings of the names of the platform's cookies, in lower case, since browsers ignore the case of prefixes."""

_SIGN_IN_COOKIES = (
    *("_oauth2_proxy", "__host-oauth2_proxy", "__secure-oauth2_proxy", "cf_authorization", "cf_appsession"),
    *("awselbauthsessioncookie", "gcp_iap_", "gcp_iaap_", "appserviceauthsession"),
    *("authelia_session", "authentik_proxy", "_pomerium"),
)
"""Beginnings of the names of cookies, in lower case, by which common proxies in front of a server know people."""

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_NOT_TO_PROGRAMS = frozenset(
    {
        *(b"authorization", b"cookie", b"forwarded", b"x-real-ip", b"expect", b"x-id-token"),
        *(b"remote-user", b"remote-groups", b"remote-name", b"remote-email"),
    }
)
_NOT_TO_PROGRAMS_BEGINNINGS = (
    *(b"x-forwarded-", b"x-original-", b"x-remote-", b"x-auth-request-", b"x-envoy-", b"impersonate-", b"kajitori-"),
    *(b"x-amzn-oidc-", b"x-goog-iap-", b"x-goog-authenticated-user-", b"cf-access-", b"x-ms-token-"),
    *(b"x-ms-client-principal", b"x-authentik-", b"x-pomerium-", b"x-webauth-"),
)
"""Beginnings of headers in which proxies in front of the server tell who a person is, and pass the person's tokens."""
_NOT_TO_BROWSERS = frozenset(
    {
        b"date",  # the server writes its own
        b"strict-transport-security",  # would hold for names of other programs, and break plain HTTP on localhost
        b"alt-svc",  # would lead the browser past this proxy
        b"public-key-pins",
    }
)
_NOT_AT_SHARED_ORIGINS = frozenset({b"service-worker-allowed", b"clear-site-data", b"origin-agent-cluster"})
"""Headers that reach beyond the program's own path."""
_ONLY_OWN_FRAMES = (b"content-security-policy", b"frame-ancestors 'self'")


@dataclass(frozen=True, slots=True)
class Forwarding:
    """How a request reached the proxy, and where its program is mounted."""

    scheme: str
    host: str
    address: str
    """The caller's address."""
    prefix: str
    """Path of the program that is removed before it gets a request; empty if it gets the whole path."""
    cookie_path: str
    """Path that the program's cookies are limited to; `/` if the program has its own origin."""
    authorization: str = ""
    """Value of the `Authorization` header that the program expects from the proxy; empty if it expects none."""

    @property
    def is_shared(self) -> bool:
        """Whether other programs have the same origin."""
        return self.cookie_path != "/"


def to_program(headers: Headers, forwarding: Forwarding, *, upgrade: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request for the program.

    The visitor's credentials, cookies of the platform and of proxies that sign people in, headers of the connection,
    and headers that name the proxies on the way are left out. With `upgrade`, the headers of the WebSocket's handshake
    are kept.
    """
    dropped = _HOP_BY_HOP | _connection_options(headers)
    kept = [(name, value) for name, value in headers if not _is_internal(name) and name not in dropped]
    cookies = b"; ".join(value for name, value in headers if name == b"cookie")
    passed = _program_cookies(cookies.decode("latin-1"))
    if passed:
        kept.append((b"cookie", passed.encode("latin-1")))
    if upgrade:
        kept += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    about = {
        "x-forwarded-for": forwarding.address,
        "x-forwarded-proto": forwarding.scheme,
        "x-forwarded-host": forwarding.host,
        "x-forwarded-prefix": forwarding.prefix,
        "authorization": forwarding.authorization,
    }
    return kept + [(name.encode(), value.encode("latin-1", "replace")) for name, value in about.items() if value]


def to_browser(headers: Headers, forwarding: Forwarding, *, upgrade: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers of a program's answer for the browser. With `upgrade`, the answer accepts a WebSocket."""
    dropped = _HOP_BY_HOP | _connection_options(headers) | _NOT_TO_BROWSERS
    if forwarding.is_shared:
        dropped |= _NOT_AT_SHARED_ORIGINS
    kept = []
    for name, value in headers:
        if name in dropped or name.startswith(b"kajitori-"):
            continue
        if name == b"set-cookie":
            cookie = program_cookie(value.decode("latin-1"), forwarding)
            if cookie is None:
                continue
            value = cookie.encode("latin-1")
        elif name in (b"location", b"content-location"):
            value = _with_prefix(value.decode("latin-1"), forwarding).encode("latin-1")
        kept.append((name, value))
    if upgrade:
        return [*kept, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    return [*kept, _ONLY_OWN_FRAMES]


def program_cookie(text: str, forwarding: Forwarding) -> str | None:
    """Return a program's `Set-Cookie` limited to its origin and path, or None if the program may not set it.

    A cookie without a name is refused: a browser would send `=__Host-kaji-0=x` back like a cookie of the platform.
    """
    pair, *attributes = text.split(";")
    name, equals, _ = pair.partition("=")
    if not equals or not name.strip() or is_reserved(name):
        return None
    kept, path = [pair.strip()], ""
    for attribute in attributes:
        key, _, value = attribute.strip().partition("=")
        match key.strip().lower():
            case "domain":
                continue
            case "path":
                path = value.strip()
            case _:
                kept.append(attribute.strip())
    return "; ".join([*kept, f"Path={_cookie_path(path, forwarding)}"])


def is_reserved(cookie: str) -> bool:
    """Whether a cookie's name belongs to the platform."""
    return cookie.strip().lower().startswith(RESERVED_COOKIES)


def is_navigation(headers: Headers, method: str) -> bool:
    """Whether a browser opens a page in a tab, and not in a frame or by a script."""
    found = dict(headers)
    mode, dest = found.get(b"sec-fetch-mode"), found.get(b"sec-fetch-dest")
    return method in ("GET", "HEAD") and mode == b"navigate" and dest == b"document"


def wants_page(headers: Headers, method: str) -> bool:
    """Whether the caller shows answers to a person: a browser that opens a page, not a script in it."""
    found = dict(headers)
    mode = found.get(b"sec-fetch-mode")
    accepts = b"text/html" in found.get(b"accept", b"")
    return method in ("GET", "HEAD") and accepts and mode in (None, b"navigate")


def _cookie_path(path: str, forwarding: Forwarding) -> str:
    own = forwarding.cookie_path
    if own == "/":
        return path if path.startswith("/") else "/"
    if path == own or path.startswith(f"{own}/"):
        return path
    return f"{own}{path}" if forwarding.prefix and path.startswith("/") and path != "/" else f"{own}/"


def _with_prefix(location: str, forwarding: Forwarding) -> str:
    """Return the address to which a program redirects, as the browser has to write it."""
    prefix = forwarding.prefix
    if not prefix:
        return location
    try:
        parts = urlsplit(location)
    except ValueError:  # the browser is to judge what is no address
        return location
    is_own = not parts.netloc or parts.netloc.lower() == forwarding.host.lower()
    if not is_own or not parts.path.startswith("/") or parts.path == prefix or parts.path.startswith(f"{prefix}/"):
        return location
    return parts._replace(path=f"{prefix}{parts.path}", scheme="", netloc="").geturl()


def _program_cookies(text: str) -> str:
    """Return the cookies without those of the platform, and of proxies in front of it."""
    pairs = [pair.strip() for pair in text.split(";")]
    return "; ".join(pair for pair in pairs if pair and not _is_hidden(pair))


def _is_hidden(cookie: str) -> bool:
    return is_reserved(cookie) or cookie.startswith("=") or cookie.lower().startswith(_SIGN_IN_COOKIES)


def _is_internal(name: bytes) -> bool:
    """Whether a header is for Kajitori and must not reach the program. Many programs read `_` in a name like `-`."""
    name = name.replace(b"_", b"-")
    return name in _NOT_TO_PROGRAMS or name.startswith(_NOT_TO_PROGRAMS_BEGINNINGS)


def _connection_options(headers: Headers) -> frozenset[bytes]:
    """Return the headers that `Connection` declares to be of this connection only."""
    values: Iterable[bytes] = (value for name, value in headers if name == b"connection")
    return frozenset(option.strip().lower() for value in values for option in value.split(b","))
