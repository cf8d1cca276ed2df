"""Whether a request with a cookie comes from this server's own pages: the protection against cross-site requests."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD"})


def is_same_origin(headers: Mapping[str, str], method: str, *, host: str, is_websocket: bool = False) -> bool:
    """Whether a page of `host` sent the request, or the person typed its address.

    Browsers add `Origin` to all requests that change something and to WebSockets, and `Sec-Fetch-Site` to all requests.
    A page cannot change either. A request without both comes from an old browser: it may only read.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None:
        return bool(host) and _host_of(origin) == host.lower()
    if site is not None:
        return site in ("same-origin", "none")
    return method in SAFE_METHODS and not is_websocket


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
