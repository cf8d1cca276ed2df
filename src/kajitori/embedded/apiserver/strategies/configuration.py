"""ConfigMap, Secret and ServiceAccount."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required, too_long
from kajitori.embedded.apiserver.schemas.nesting import decode_json
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy

MAX_BYTES = 1024 * 1024
"""Maximum size of all values of a ConfigMap or Secret together."""
_IMMUTABLE = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        causes = _keys(data, "data") + _keys(binary, "binaryData")
        for key in data.keys() & binary.keys():
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size = sum(len(value.encode()) for value in data.values()) + sum(_decoded_size(one) for one in binary.values())
        if size > MAX_BYTES:
            causes.append(too_long("", MAX_BYTES))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _kept(new, old, ("data", "binaryData")) + self.validate_create(new)


class SecretStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        # Before field managers are noted: stringData has none.
        _take_text(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        if not new.get("type"):
            new["type"] = old.get("type", "Opaque")

    def validate_create(self, obj: Object) -> list[Cause]:
        data = obj.get("data") or {}
        causes = _keys(data, "data")
        if sum(_decoded_size(one) for one in data.values()) > MAX_BYTES:
            causes.append(too_long("data", MAX_BYTES))
        return causes + _required_keys(obj.get("type", ""), data, obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        if new.get("type") != old.get("type"):
            causes.append(invalid("type", new.get("type"), "field is immutable"))
        return causes + _kept(new, old, ("data",)) + self.validate_create(new)

    def fields(self, obj: Object) -> dict[str, str]:
        return {"type": obj.get("type", "")}


class ServiceAccountStrategy(Strategy):
    """Service accounts have no tokens: a Pod of the embedded cluster is a process of the cluster's owner, with the
    owner's rights."""


def _take_text(obj: Object) -> None:
    text = obj.pop("stringData", None)
    if text:
        data = obj.setdefault("data", {})
        for key, value in text.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _required_keys(kind: str, data: dict[str, Any], obj: Object) -> list[Cause]:
    wanted = {
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
        "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    }.get(kind, ())
    causes = [required(f"data[{key}]") for key in wanted if key not in data]
    for key in (".dockercfg", ".dockerconfigjson"):
        if key in wanted and key in data:
            try:
                decode_json(base64.b64decode(data[key]))
            except ValueError as error:
                causes.append(invalid(f"data[{key}]", "<secret contents redacted>", str(error)))
    if kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        causes += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not (obj["metadata"].get("annotations") or {}).get(annotation):
            causes.append(required(f"metadata.annotations[{annotation}]"))
    return causes


def _keys(data: dict[str, Any], field: str) -> list[Cause]:
    return [invalid(f"{field}[{key}]", key, fault) for key in data for fault in texts.config_key(key)]


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)


def _kept(new: Object, old: Object, data: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    causes = [forbidden("immutable", _IMMUTABLE)] if not new.get("immutable") else []
    return causes + [forbidden(one, _IMMUTABLE) for one in data if (new.get(one) or {}) != (old.get(one) or {})]
