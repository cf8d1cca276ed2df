"""The Secrets with channels and outboxes of people and teams. The Web API writes channels, the leading controller
outboxes; each reads what the other wrote."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from kajitori.core.messages.channels import Channel, Recipient
from kajitori.core.messages.outbox import Outbox
from kajitori.core.naming import names
from kajitori.kube.resources import SECRETS

log = logging.getLogger(__name__)

_STATE = "state"


def channel_secret(recipient: Recipient, namespace: str) -> dict[str, Any]:
    """Return the Secret with a recipient's channels, as it is created."""
    return _secret_body(recipient, namespace, recipient.secret, names.MESSAGE_CHANNELS)


def outbox_secret(recipient: Recipient, namespace: str, outbox: Outbox) -> dict[str, Any]:
    """Return the Secret with a recipient's outbox."""
    return _secret_body(recipient, namespace, recipient.outbox, names.MESSAGE_OUTBOX) | {
        "data": {_STATE: encoded(outbox)}
    }


def _secret_body(recipient: Recipient, namespace: str, name: str, content: str) -> dict[str, Any]:
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MESSAGES: content},
            "annotations": {names.ANNOTATION_RECIPIENT: f"{recipient.kind}/{recipient.name}"},
        },
        "type": "Opaque",
    }


def encoded(content: msgspec.Struct) -> str:
    """Return a channel or an outbox as a value of a Secret."""
    return base64.b64encode(msgspec.json.encode(content)).decode()


def recipient_in(annotations: Mapping[str, str]) -> Recipient:
    """Return the person or team that a Secret names."""
    kind, _, name = annotations.get(names.ANNOTATION_RECIPIENT, "").partition("/")
    return Recipient(kind, name)


def channels_in(secret: str, data: Mapping[str, str]) -> dict[str, Channel]:
    """Return the channels in the data of the Secret with this name. A channel that can't be read is left out."""
    found = {}
    for name, value in data.items():
        try:
            found[name] = msgspec.json.decode(base64.b64decode(value), type=Channel)
        except (msgspec.DecodeError, binascii.Error):
            log.warning("channel %s of Secret %s can't be read", name, secret)
    return found


def tests_in(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the tests that users asked for: a token by channel."""
    text = annotations.get(names.ANNOTATION_MESSAGE_TESTS, "")
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}
    except msgspec.DecodeError:
        return {}


def outbox_in(secret: Mapping[str, Any]) -> Outbox:
    """Return the outbox in a Secret; an empty one if it can't be read."""
    try:
        return msgspec.json.decode(base64.b64decode((secret.get("data") or {})[_STATE]), type=Outbox)
    except (KeyError, binascii.Error, msgspec.DecodeError) as error:
        log.warning("the outbox %s can't be read and begins anew: %s", secret["metadata"]["name"], type(error).__name__)
        return Outbox()
