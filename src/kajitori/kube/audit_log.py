"""Reads an API server's audit log as requests of clients.

The log is what kube-apiserver writes with `--audit-log-path` and format `json`: one audit.k8s.io/v1 Event per line.
Level Metadata is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs

import msgspec

from kajitori.core.formats.times import parse_time
from kajitori.core.protection.api_clients import KUBELETS, Ask, Client, Request, Scope

POD_KEYS = ("authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name")
"""Keys of the user's extra fields that name the Pod of a token; the first exists since Kubernetes 1.30."""

_NODE = "system:node:"
_ONE_NODE = ("spec.nodeName=", "metadata.name=")
_COLLECTIONS = ("list", "watch", "deletecollection")


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Object(msgspec.Struct, rename="camel"):
    resource: str = ""
    namespace: str = ""
    api_group: str = ""
    subresource: str = ""


class _Event(msgspec.Struct):
    stage: str
    verb: str
    audit_id: str = msgspec.field(name="auditID")
    request_uri: str = msgspec.field(name="requestURI", default="")
    user: _User = msgspec.field(default_factory=_User)
    source_ips: list[str] = msgspec.field(name="sourceIPs", default_factory=list)
    user_agent: str = msgspec.field(name="userAgent", default="")
    object_ref: _Object | None = msgspec.field(name="objectRef", default=None)
    received: str = msgspec.field(name="requestReceivedTimestamp", default="")
    stage_at: str = msgspec.field(name="stageTimestamp", default="")


class AuditLog:
    """The lines of one or several logs, in the order in which they were written."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.unreadable = 0
        """Number of lines so far that are not events."""

    def requests(self) -> Iterator[Request]:
        """Yield each request when it is over, and after the last line the requests that are still open."""
        decoder = msgspec.json.Decoder(_Event)
        opened: dict[str, Request] = {}
        for line in self._lines:
            if not line.strip():
                continue
            try:
                event = decoder.decode(line)
            except ValueError:  # also raised for a line that is not UTF-8
                self.unreadable += 1
                continue
            if event.stage == "ResponseStarted" and event.verb == "watch":
                opened[event.audit_id] = _request_of(event, is_over=False)
            elif event.stage == "ResponseComplete":
                opened.pop(event.audit_id, None)
                yield _request_of(event, is_over=True)
        yield from opened.values()


def _request_of(event: _Event, *, is_over: bool) -> Request:
    began, ended = parse_time(event.received), parse_time(event.stage_at)
    seconds = began.timestamp() if began is not None else 0.0
    return Request(
        _client_of(event),
        _instance_of(event),
        _resource_request(event),
        seconds,
        (ended.timestamp() if ended is not None else seconds) if is_over else None,
    )


def _client_of(event: _Event) -> Client:
    if event.user.username.startswith(_NODE):
        return Client(KUBELETS)
    return Client(event.user.username, event.user_agent.partition("/")[0].partition(" ")[0])


def _instance_of(event: _Event) -> str:
    if event.user.username.startswith(_NODE):
        return event.user.username.removeprefix(_NODE)
    known = [event.user.extra.get(key) or [] for key in POD_KEYS]
    return next((values[0] for values in [*known, event.source_ips] if values), "")


def _resource_request(event: _Event) -> Ask:
    path, _, asked = event.request_uri.partition("?")
    about = event.object_ref
    if about is None or not about.resource:
        return Ask(event.verb, path, Scope.SELECTED)
    resource = f"{about.resource}.{about.api_group}" if about.api_group else about.resource
    if about.subresource:
        resource = f"{resource}/{about.subresource}"
    if event.verb not in _COLLECTIONS:
        return Ask(event.verb, resource, Scope.SELECTED)
    query = parse_qs(asked)
    fields = query.get("fieldSelector", [""])[0].split(",")
    if any(field.startswith(_ONE_NODE) for field in fields):
        scope = Scope.SELECTED
    else:
        scope = Scope.NAMESPACE if about.namespace else Scope.ALL
    from_store = event.verb == "list" and "resourceVersion" not in query and "continue" not in query
    return Ask(event.verb, resource, scope, from_store)
