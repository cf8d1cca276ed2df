"""ConfigMap and Secret."""

from __future__ import annotations

import base64
import binascii
from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required, too_long
from kajitori.embedded.apiserver.schemas.nesting import decode_json
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy

MAX_BYTES = 1024 * 1024
"""Maximum size of all values of a ConfigMap or Secret together."""
_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
"""Keys that Secrets of a type must have."""
_IMMUTABLE = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        causes = (
            _key_faults(data, "data")
            + _key_faults(binary, "binaryData")
            + _immutability_faults(new, old, ("data", "binaryData"))
        )
        for key in data.keys() & binary.keys():
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size = sum(len(value.encode()) for value in data.values()) + sum(_decoded_size(one) for one in binary.values())
        return [*causes, too_long("", MAX_BYTES)] if size > MAX_BYTES else causes


class SecretStrategy(Strategy):
    immutable = ("type",)
    selectable: ClassVar = {"type": ""}

    def complete(self, obj: Object) -> None:
        # This runs before field managers are recorded, since stringData has none.
        for key, value in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        data = new.get("data") or {}
        causes = (
            _key_faults(data, "data")
            + _immutability_faults(new, old, ("data",))
            + _required_keys(new.get("type", ""), data, new)
        )
        too_large = sum(_decoded_size(one) for one in data.values()) > MAX_BYTES
        return [*causes, too_long("data", MAX_BYTES)] if too_large else causes


def _required_keys(kind: str, data: dict[str, Any], obj: Object) -> list[Cause]:
    causes = [required(f"data[{key}]") for key in _KEYS.get(kind, ()) if key not in data]
    for key in _KEYS.get(kind, ()) if "docker" in kind else ():
        try:
            decode_json(base64.b64decode(data.get(key, "e30=")))
        except ValueError as error:
            causes.append(invalid(f"data[{key}]", "<secret contents redacted>", str(error)))
    if kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        causes += [required("data[username]"), required("data[password]")]
    annotation = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and annotation not in (obj["metadata"].get("annotations") or {}):
        causes.append(required(f"metadata.annotations[{annotation}]"))
    return causes


def _key_faults(data: dict[str, Any], field: str) -> list[Cause]:
    return [invalid(f"{field}[{key}]", key, fault) for key in data for fault in texts.config_key(key)]


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)


def _immutability_faults(new: Object, old: Object | None, data: tuple[str, ...]) -> list[Cause]:
    if old is None or not old.get("immutable"):
        return []
    causes = [forbidden("immutable", _IMMUTABLE)] if not new.get("immutable") else []
    return causes + [forbidden(one, _IMMUTABLE) for one in data if (new.get(one) or {}) != (old.get(one) or {})]
