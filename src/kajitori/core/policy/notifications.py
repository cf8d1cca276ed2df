"""Policy for messages about runs: the section `notifications`, as types."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration, DurationAboveZero
from kajitori.errors import FieldError


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise FieldError(f"{text!r:.60} is not a network", "write 10.1.2.3/32, or fd00::/8") from None


def _host(text: str) -> str:
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9_]([-A-Za-z0-9_.:]*[A-Za-z0-9_])?", text):
        raise FieldError(f"{text!r:.60} is not a host name", "write hooks.slack.com, or *.example.org")
    return text.lower()


def _scheme(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*", text):
        raise FieldError(f"{text!r:.60} is not a scheme", "write the part before :// of a URL, for example slack")
    return text


def _proxy(text: str) -> str:
    example = "write http://proxy.example.org:3128"
    try:
        parts = urlsplit(text)
        is_plain = (
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.path.strip("/")
        )
    except ValueError:
        raise FieldError("this is not the URL of a proxy", example) from None
    if parts.username is not None or parts.password is not None:
        raise FieldError(
            "the URL has a user name or a password, and all users may read the policy",
            "have the proxy admit the controllers by their address",
        )
    if text and (not is_plain or parts.query or parts.fragment):
        raise FieldError(f"{text!r:.60} is not the URL of a proxy", example)
    return text.rstrip("/").lower()


Network = Annotated[str, AfterValidator(_network)]
HostPattern = Annotated[str, Field(max_length=253), AfterValidator(_host)]
ProxyUrl = Annotated[str, Field(max_length=253), AfterValidator(_proxy)]
Scheme = Annotated[str, Field(max_length=30), AfterValidator(_scheme)]


class Notifications(Document):
    """Messages to owners of runs and to teams. The leading controller sends them, from inside the cluster, to URLs that
    users choose, so only addresses of the public internet are allowed unless you name others."""

    enabled: bool = True
    """Whether messages are sent."""
    schemes: list[Scheme] = Field(default_factory=list, max_length=200)
    """Allowed schemes of URLs, for example slack, mailtos, webhook (signed webhooks). Empty: every service of apprise
    that encrypts, and signed webhooks. A scheme that does not encrypt, such as mailto or json, has to be named."""
    hosts: list[HostPattern] = Field(default_factory=list, max_length=200)
    """Hosts to which messages may go, for example hooks.slack.com or *.example.org. Empty: all. The same service may
    need several hosts."""
    networks: list[Network] = Field(default_factory=list, max_length=200)
    """Networks to which messages may go although they are not public, for example that of your mail server. Addresses
    of nodes, of Pods and of the API server are never allowed by the default."""
    denied_networks: list[Network] = Field(default_factory=list, max_length=200)
    """Public networks to which no message may go, for example your cluster's own if its addresses are public."""
    proxy: ProxyUrl = ""
    """URL of the HTTP proxy through which messages go, for example http://proxy.example.org:3128. Empty: none. Mail and
    other services without HTTP do not go through it. The proxy makes the connections, so its own rules decide as well:
    addresses of a host are checked here only if the controllers can look them up."""
    no_proxy: list[HostPattern] = Field(default_factory=list, max_length=200)
    """Hosts to which messages go without the proxy, for example chat.example.org or *.example.org. Also needs networks
    if their addresses are not public."""
    long_wait_seconds: Duration = Field(default=600, alias="longWait")
    """A message reports the start of a run that has waited for this long."""
    before_time_limit_seconds: DurationAboveZero = Field(default=1800, alias="beforeTimeLimit")
    """How long before its time limit a run's owner is warned; at most a tenth of the limit."""
    log_lines: int = Field(default=20, ge=0, le=100, alias="logLines")
    """Last lines of output in a message about a failure. 0: none, if output must not leave the cluster."""
