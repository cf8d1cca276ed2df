"""Channels of the caller, and of a team, in which messages about runs arrive.

This is the one place where the Web API writes with its own rights: no role of Kubernetes lets each person reach only a
Secret of their own, and users who may list Secrets in a team's namespace could read the tokens in all URLs. So
the Secrets lie in a namespace of their own, and this module changes only the one of the authenticated caller. For a
team's channels, the API server is asked whether the caller may give others access to the team's namespace.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field, field_validator
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.audit import note_subject
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.rights import User
from kajitori.api.views.people import ChannelList, ChannelTest, ChannelView, MadeChannel
from kajitori.cluster.platform.message_secrets import channel_secret, channels_in, encoded, outbox_in, tests_in
from kajitori.core.documents.faults import Document, read, show
from kajitori.core.documents.fields import DnsLabel
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.messages.channels import Channel, Recipient, person, team
from kajitori.core.messages.outbox import Outbox
from kajitori.core.naming import names
from kajitori.core.spec.notify import KINDS, KindWord
from kajitori.errors import AlreadyExists, Conflict, Fault, FieldError, InvalidInput, NotFound, Unavailable
from kajitori.kube.resources import ROLE_BINDINGS, SECRETS
from kajitori.messages.webhook import new_key

router = APIRouter(tags=["channels"])

MOST_CHANNELS = 16
_URL = re.compile(r"[A-Za-z][A-Za-z0-9]{0,29}://[\x21-\x7e]{1,2000}")
_TRIES = 5
_RESERVED = ("none", "all", *KINDS)


class ChannelRequest(Document):
    """A channel to add or to replace."""

    name: str = Field(max_length=40)
    """Its name, by which runs choose it: lower-case letters, digits and dashes."""
    url: str = Field(max_length=2100)
    """A URL of apprise, for example slack://…, mailtos://… or a service's own https URL. It is never shown again."""
    webhook: bool = False
    """The URL is https, and gets signed requests. The answer has the key; it is never shown again."""
    kinds: list[KindWord] = Field(default_factory=lambda: list(KINDS), min_length=1, max_length=32)
    """Kinds of messages that it gets, unless a run names others."""

    @field_validator("name")
    @classmethod
    def _usable(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or name in _RESERVED:
            hint = f"use lower-case letters, digits and dashes, and none of: {', '.join(_RESERVED)}"
            raise FieldError(f"{show(name)!r} is no valid name for a channel", hint)
        return name

    @field_validator("url")
    @classmethod
    def _readable(cls, url: str) -> str:
        """Check the form. No error repeats the URL, which contains a token."""
        if not _URL.fullmatch(url):
            raise FieldError(
                "this is not the URL of a service", "write SCHEME://…; github.com/caronc/apprise lists them"
            )
        return url


class ChannelParameters(Parameters):
    team: DnsLabel | None = None
    """Namespace of a team, for the team's channels; left out: the caller's own."""


class TestParameters(ChannelParameters):
    id: str = ""
    """The test's, from the answer that began it."""


@router.get("/v1/channels", responses=describes(ChannelList), summary="List channels for messages")
async def list_channels(api: Shared, user: Caller, query: Annotated[ChannelParameters, Query()]) -> Response:
    """Lists the caller's own channels, or those of a team if the caller may list its runs. URLs are not shown."""
    recipient = await _recipient(user, query, "list")
    channels, outbox = _channels(await _find(api, recipient.secret)), await _outbox(api, recipient)
    items = [_view(name, channel, outbox) for name, channel in sorted(channels.items())]
    return answer(ChannelList(recipient=recipient.name, is_team=query.team is not None, items=items))


@router.post(
    "/v1/channels",
    status_code=201,
    responses=describes(MadeChannel, status=201),
    openapi_extra=takes(ChannelRequest),
    summary="Add or replace a channel",
)
async def put_channel(
    api: Shared, user: Caller, request: Request, query: Annotated[ChannelParameters, Query()]
) -> Response:
    """The answer does not contain the URL. Send a test to see whether the URL works."""
    wanted, faults, _ = read(ChannelRequest, await json_body(request), "")
    if wanted is not None:
        faults = [*faults, *_scheme_faults(api, wanted)]
    if faults or wanted is None:
        raise InvalidInput([_without_value(fault) for fault in faults])
    name, recipient = wanted.name, await _recipient(user, query, "change")
    note_subject(request.state, query.team or "", name)
    key = new_key() if wanted.webhook else ""
    channel = Channel(url=wanted.url, key=key, kinds=tuple(wanted.kinds))

    def put(secret: dict[str, Any]) -> None:
        data = secret.setdefault("data", {})
        if name not in data and len(data) >= MOST_CHANNELS:
            raise InvalidInput.one(
                "name", f"there are {MOST_CHANNELS} channels", hint="remove one: kaji notify rm NAME"
            )
        data[name] = encoded(channel)

    await _change(api, recipient, put)
    return answer(MadeChannel(name=name, scheme=channel.scheme, kinds=list(channel.kinds), key=key), 201)


@router.delete("/v1/channels/{name}", responses=describes(ChannelView), summary="Remove a channel")
async def delete_channel(
    api: Shared, user: Caller, request: Request, name: str, query: Annotated[ChannelParameters, Query()]
) -> Response:
    """Messages that wait for this channel are dropped."""
    recipient = await _recipient(user, query, "change")
    note_subject(request.state, query.team or "", name)
    removed: list[Channel] = []

    def remove(secret: dict[str, Any]) -> None:
        removed[:] = [_channel(secret, name)]
        del secret["data"][name]

    await _change(api, recipient, remove)
    return answer(_view(name, removed[0], Outbox()))


@router.post(
    "/v1/channels/{name}/test", status_code=201, responses=describes(ChannelTest, status=201), summary="Test a channel"
)
async def test_channel(
    api: Shared, user: Caller, request: Request, name: str, query: Annotated[ChannelParameters, Query()]
) -> Response:
    """The leading controller sends a message. Ask for the test by its id until it is not waiting any more."""
    recipient = await _recipient(user, query, "change")
    note_subject(request.state, query.team or "", name)
    token = f"{int(api.now().timestamp())}-{secrets.token_hex(6)}"

    def ask(secret: dict[str, Any]) -> None:
        _channel(secret, name)
        annotations = secret["metadata"].setdefault("annotations", {})
        tests = tests_in(annotations)
        annotations[names.ANNOTATION_MESSAGE_TESTS] = msgspec.json.encode(tests | {name: token}).decode()

    await _change(api, recipient, ask)
    return answer(ChannelTest(id=token, state="waiting", error=""), 201)


@router.get("/v1/channels/{name}/test", responses=describes(ChannelTest), summary="Outcome of a test")
async def read_test(api: Shared, user: Caller, name: str, query: Annotated[TestParameters, Query()]) -> Response:
    """`waiting` with an error means that it is tried again."""
    recipient = await _recipient(user, query, "change")
    secret = await _find(api, recipient.secret)
    _channel(secret or {}, name)
    outbox, test = await _outbox(api, recipient), query.id
    error = outbox.state(name).error
    if f"test.{test}" not in outbox.delivered:
        return answer(ChannelTest(id=show(test), state="waiting", error=error))
    return answer(ChannelTest(id=test, state="failed" if error else "delivered", error=error))


async def _recipient(user: User, query: ChannelParameters, what: str) -> Recipient:
    """Return the person or team of a request. Raises Forbidden if the caller may not do `what` for it."""
    if query.team is None:
        return person(user.name)
    if what == "list":
        await user.require("list", query.team)
    else:
        await user.require("create", query.team, resource=ROLE_BINDINGS)
    return team(query.team)


def _scheme_faults(api: Api, wanted: ChannelRequest) -> list[Fault]:
    rules, scheme = api.cluster.policy.notifications, wanted.url.partition("://")[0].lower()
    hint = "ask your operators: policy's notifications"
    if not rules.enabled:
        return [Fault("url", "this cluster sends no messages", hint=hint)]
    if wanted.webhook:
        if scheme != "https" and not (scheme == "http" and "http" in rules.schemes):
            return [Fault("url", "a signed webhook needs an https URL", hint="write https://…")]
        scheme = "webhook"
    if rules.schemes and scheme not in (*rules.schemes, "https"):
        return [Fault("url", f"{scheme} is not allowed here, but {', '.join(rules.schemes)}", hint=hint)]
    return []


def _without_value(fault: Fault) -> Fault:
    """Return the fault without the text that the user sent, which may be a URL with a token."""
    return Fault(fault.field, fault.message, hint=fault.hint, code=fault.code)


def _view(name: str, channel: Channel, outbox: Outbox) -> ChannelView:
    state = outbox.state(name)
    return ChannelView(
        name=name,
        scheme=channel.scheme,
        kinds=list(channel.kinds),
        sent_at=format_time(time_at(state.sent_at)) if state.sent_at else "",
        waiting=sum(name in message.channels for message in outbox.messages),
        error=state.error,
    )


# ---------------------------------------------------------------------------------------------- Secrets


def _channel(secret: dict[str, Any], name: str) -> Channel:
    channel = _channels(secret).get(name)
    if channel is None:
        raise NotFound(f"there is no channel {show(name)!r}", hint="see them all: kaji notify ls")
    return channel


async def channel_names(api: Api, recipients: Iterable[Recipient]) -> frozenset[str]:
    """Return the names of all channels of these recipients."""
    return frozenset([name for one in recipients for name in _channels(await _find(api, one.secret))])


def _channels(secret: dict[str, Any] | None) -> dict[str, Channel]:
    return channels_in(secret["metadata"]["name"], secret.get("data") or {}) if secret else {}


async def _outbox(api: Api, recipient: Recipient) -> Outbox:
    secret = await _find(api, recipient.outbox)
    return outbox_in(secret) if secret is not None else Outbox()


async def _find(api: Api, name: str) -> dict[str, Any] | None:
    try:
        return await api.client.get(SECRETS, name, api.messages_namespace)
    except NotFound:
        return None


async def _change(api: Api, recipient: Recipient, change: Callable[[dict[str, Any]], None]) -> None:
    """Read the Secret with the recipient's channels, change it and store it; again if it changed meanwhile."""
    for _ in range(_TRIES):
        stored = await _find(api, recipient.secret)
        secret = stored or channel_secret(recipient, api.messages_namespace)
        change(secret)
        try:
            if stored is None:
                await api.client.create(SECRETS, secret, api.messages_namespace)
            else:
                await api.client.replace(SECRETS, secret)
            return
        except (AlreadyExists, Conflict):
            continue
        except NotFound:
            message = f"there is no namespace {api.messages_namespace} for channels"
            raise Unavailable(message, hint="an operator runs kaji install again") from None
    raise Conflict("another client changes the channels at the same time", hint="try again")
