"""The HTTP proxy on the way to an API server."""

from __future__ import annotations

import ipaddress
import urllib.request
from urllib.parse import urlsplit

from kajitori.kube.connection.config import KubeConfig


def proxy_for(config: KubeConfig) -> str | None:
    """Return the proxy to use: the kubeconfig's, else $HTTPS_PROXY or $HTTP_PROXY, unless $NO_PROXY or loopback
    excludes it.

    As Go's http.ProxyFromEnvironment: $NO_PROXY may hold addresses, networks, and domains with their subdomains.
    """
    if config.proxy_url:
        return config.proxy_url
    parts = urlsplit(config.server)
    host = parts.hostname or ""
    environment = urllib.request.getproxies_environment()
    proxy = environment.get(parts.scheme)
    if not proxy or host == "localhost":
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None if urllib.request.proxy_bypass(host) else proxy
    if address.is_loopback:
        return None
    for entry in environment.get("no", "").split(","):
        try:
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return None
        except ValueError:
            if entry.strip() == "*":
                return None
    return proxy


def without_secret(url: str) -> str:
    """Return the address of a proxy without its user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
