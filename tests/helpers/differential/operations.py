"""API operations, and the parts of earlier answers that they refer to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_REFERENCE = re.compile(r"@(rv|oldrv|since|uid|continue|name)\(([^)]*)\)")


@dataclass(frozen=True)
class Operation:
    """A request as a template: `{p}` stands for the sequence's own prefix; `@rv(path)`, `@oldrv(path)`, `@since(path)`,
    `@uid(path)`, `@continue()` and `@name(path)` stand for parts of earlier answers."""

    method: str
    path: str
    body: Any = None
    """The body, sent as JSON; a text is sent as it is."""
    params: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON
    accept: str = ""
    watch: bool = False
    """Whether to open a watch. Its events are compared at the end."""

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.params)
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        body = "" if self.body is None else f"  {self.content_type.removeprefix('application/')}  {text}"
        return f"{'WATCH' if self.watch else self.method} {self.path}{'?' if query else ''}{query}{body}"


@dataclass(frozen=True)
class Request:
    """An operation as it is sent to one server."""

    method: str
    path: str
    body: bytes | None
    params: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]


@dataclass
class Memory:
    """Parts of one server's answers."""

    prefix: str
    versions: dict[str, list[str]] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    continue_token: str = "none"

    def request(self, operation: Operation) -> Request:
        """Return the request of an operation."""
        body: bytes | None = None
        if operation.body is not None:
            said = operation.body if isinstance(operation.body, str) else json.dumps(operation.body)
            body = self._filled(said).encode("utf-8", "surrogateescape")
        headers = {"Content-Type": operation.content_type} if body is not None and operation.content_type else {}
        if operation.accept:
            headers["Accept"] = operation.accept
        params = tuple((name, self._filled(value)) for name, value in operation.params)
        return Request(operation.method, self._filled(operation.path), body, params, headers)

    def learn(self, operation: Operation, code: int, body: Any) -> None:
        """Remember the parts of an answer."""
        if not isinstance(body, dict) or code >= 300 or body.get("kind") in ("Status", "Table", "Scale"):
            return
        meta = body.get("metadata") or {}
        if "continue" in meta:
            self.continue_token = meta["continue"] or "none"
        if ("dryRun", "All") in operation.params or not isinstance(meta.get("name"), str) or operation.watch:
            return
        path = self._filled(operation.path)
        if operation.method == "POST":
            if meta.get("generateName"):
                self.generated[operation.path] = meta["name"]
            path = f"{path}/{meta['name']}"
        else:
            path = re.sub(r"/(status|scale|finalize)$", "", path)
        if meta.get("resourceVersion"):
            versions = self.versions.setdefault(path, [])
            if meta["resourceVersion"] not in versions:
                versions.append(meta["resourceVersion"])
            self.uids[path] = str(meta.get("uid"))

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(self._value, text.replace("{p}", self.prefix))

    def _value(self, found: re.Match[str]) -> str:
        what, path = found.groups()
        match what:
            case "rv":
                return self.versions.get(path, ["1"])[-1]
            case "oldrv":
                return self.versions.get(path, ["1"])[0]
            case "since":
                # Without a known version, start from any version rather than from the first, since servers keep
                # different histories.
                return self.versions.get(path, ["0"])[0]
            case "uid":
                return self.uids.get(path, "00000000-0000-0000-0000-000000000000")
            case "name":
                known = {key.replace("{p}", self.prefix): name for key, name in self.generated.items()}
                return known.get(path, "none")
        return self.continue_token
