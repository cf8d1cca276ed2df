"""Policy for messages about runs: the section `notifications`, as types."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

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


Network = Annotated[str, AfterValidator(_network)]
HostPattern = Annotated[str, Field(max_length=253), AfterValidator(_host)]
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
    long_wait_seconds: Duration = Field(default=600, alias="longWait")
    """A message reports the start of a run that has waited for this long."""
    before_time_limit_seconds: DurationAboveZero = Field(default=1800, alias="beforeTimeLimit")
    """How long before its time limit a run's owner is warned; at most a tenth of the limit."""
    log_lines: int = Field(default=20, ge=0, le=100, alias="logLines")
    """Last lines of output in a message about a failure. 0: none, if output must not leave the cluster."""
