"""Notes every change through the Web API for the audit trail: who, when, from where, and which rule refused it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from starlette.types import Scope

from kajitori.core.usage.records import AuditEntry
from kajitori.errors import InvalidInput, KajitoriError
from kajitori.history.store import History

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Largest number of entries that wait for the database. Beyond it, the oldest go to this process' log instead."""
FLUSH_SECONDS = 0.2
PAUSE_SECONDS = 5.0
MESSAGE_LENGTH = 1000

CHANGES = {
    ("POST", "/v1/runs"): "submit run",
    ("DELETE", "/v1/runs/{namespace}/{name}"): "delete run",
    ("PATCH", "/v1/runs/{namespace}/{name}"): "update run",
    ("POST", "/v1/runs/{namespace}/{name}/stop"): "stop run",
    ("POST", "/v1/runs/{namespace}/{name}/restart"): "restart run",
    ("POST", "/v1/runs/{namespace}/{name}/resume"): "resume run",
    ("POST", "/v1/runs/{namespace}/{name}/park"): "park run",
    ("POST", "/v1/runs/{namespace}/{name}/keep"): "keep run",
    ("POST", "/v1/runs/{namespace}/{name}/set-files"): "set files of run",
    ("POST", "/v1/runs/{namespace}/{name}/labels"): "label run",
    ("POST", "/v1/runs/{namespace}/{name}/note"): "write note of run",
    ("POST", "/v1/runs/{namespace}/{name}/signal"): "send signal to run",
    ("POST", "/v1/runs/{namespace}/{name}/signal-programs"): "send signal to run",
    ("PUT", "/v1/runs/{namespace}/{name}/member-files/content"): "copy file into run",
    ("POST", "/v1/nodes/{name}/drain"): "drain node",
    ("POST", "/v1/nodes/{name}/uncordon"): "uncordon node",
    ("POST", "/v1/nodes/{name}/healthy"): "declare node healthy",
    ("POST", "/v1/preflight"): "test nodes",
    ("POST", "/v1/secrets"): "create secret",
    ("DELETE", "/v1/secrets/{name}"): "delete secret",
    ("POST", "/v1/channels"): "set channel",
    ("DELETE", "/v1/channels/{name}"): "delete channel",
    ("POST", "/v1/channels/{name}/test"): "test channel",
    ("DELETE", "/v1/volumes/{name}"): "delete volume",
    ("POST", "/v1/tokens"): "create token",
    ("POST", "/v1/sign-in-links"): "create sign-in link",
    ("DELETE", "/v1/tokens/{name}"): "delete token",
    ("POST", "/v1/code/{digest}/complete"): "upload code",
}
"""Names of the changing requests. Routes that are WebSockets, such as exec, record their sessions themselves, because
these are not HTTP requests."""

_KINDS = {"declare node healthy": "node", "test nodes": "node"}
"""The kind of a request's object, if it is not the last word of the action."""

NO_CHANGES = {
    ("POST", "/v1/what-if"),
    ("POST", "/v1/command-line"),
    ("POST", "/v1/policy/check"),
    ("POST", "/v1/policy/cluster"),
    ("POST", "/v1/policy/diff"),
    ("POST", "/v1/networks/check"),
    ("POST", "/v1/nodes/{node}/traffic"),
    ("POST", "/v1/nodes/{node}/telemetry"),
    ("POST", "/v1/nodes/{node}/telemetry/answers/{question}"),
    ("POST", "/v1/runs/{namespace}/{name}/calls"),
    ("POST", "/v1/members/calls/{namespace}/{name}"),
    ("PUT", "/v1/code/{digest}/parts/{number}"),
    ("HEAD", "/v1/code/{digest}"),
}
"""Requests with a body that only ask, that agents and workers repeat every few seconds, or that another one completes.
For calls of functions, the submission of their run is noted."""


class AuditTrail:
    """Gathers entries and writes them a few times a second, so that no request waits for the database."""

    def __init__(self, history: History | None, now: Callable[[], datetime]) -> None:
        """Without `history` nothing is noted."""
        self._history = history
        self._now = now
        self._waiting: deque[AuditEntry] = deque()
        self._wake = asyncio.Event()

    def note_request(self, scope: Scope, status: int) -> None:
        """Note a request that was answered with this status, if it was a change or an attempt at one."""
        path = str(getattr(scope.get("route"), "path", ""))
        action = CHANGES.get((scope["method"], path))
        state: dict[str, Any] = scope.get("state", {})
        if self._history is None or action is None or state.get("is_dry_run"):
            return
        namespace, name = _about(scope, state)
        outcome = "done" if status < 400 else "refused" if status < 500 else "failed"
        rule, message = _why(state.get("error")) if status >= 400 else ("", str(state.get("reason", "")))
        rule = rule or (str(status) if status >= 400 else "")
        about = {"namespace": namespace, "object": f"{_KINDS.get(action, action.split()[-1])} {name}".strip()}
        actor = str(state.get("caller") or "")
        self.note(scope, actor, action, outcome=outcome, rule=rule, message=message, **about)

    def note(
        self,
        scope: Scope,
        actor: str,
        action: str,
        *,
        namespace: str,
        object: str,
        outcome: str = "done",
        rule: str = "",
        message: str = "",
    ) -> None:
        """Note something that the caller of a connection did."""
        if self._history is None:
            return
        client = scope.get("client")
        self._waiting.append(
            AuditEntry(
                key=secrets.token_hex(12),
                at=int(self._now().timestamp() * 1000),
                actor=actor,
                source=str(client[0]) if client else "",
                action=action,
                namespace=namespace,
                object=object,
                outcome=outcome,
                rule=rule,
                message=message,
            )
        )
        while len(self._waiting) > MOST_WAITING:
            lost = msgspec.json.encode(self._waiting.popleft()).decode()
            log.error("the audit trail can't be written, and has no more room for: %s", lost)
        self._wake.set()

    async def write_forever(self) -> None:
        """Write what was noted, until cancelled; then once more."""
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                self._wake.clear()
                if not await self._flush():
                    await asyncio.sleep(PAUSE_SECONDS)
                    self._wake.set()
        finally:
            await self._flush()

    async def _flush(self) -> bool:
        """Write what waits. Return whether that is done."""
        entries = list(self._waiting)
        if not entries or self._history is None:
            return True
        try:
            await self._history.note(entries)
        except KajitoriError as error:
            log.warning("%d entries of the audit trail wait: %s", len(entries), error)
            return False
        written = {entry.key for entry in entries}
        while self._waiting and self._waiting[0].key in written:  # others may have been dropped
            self._waiting.popleft()
        return True


def note_subject(state: Any, namespace: str, name: str, *, is_dry_run: bool = False) -> None:
    """Remember what a request is about, if its path does not say so."""
    state.about, state.is_dry_run = (namespace, name), is_dry_run


def note_reason(state: Any, reason: str) -> None:
    """Remember the reason that the caller gives for a change."""
    state.reason = reason[:MESSAGE_LENGTH]


def _about(scope: Scope, state: dict[str, Any]) -> tuple[str, str]:
    if "about" in state:
        namespace, name = state["about"]
        return str(namespace), str(name)
    parameters = scope.get("path_params", {})
    name = parameters.get("name") or parameters.get("digest") or ""
    return str(parameters.get("namespace", "")), str(name)


def _why(error: object) -> tuple[str, str]:
    """Return the rules that refused a request, and the message."""
    if isinstance(error, InvalidInput):
        rules = ",".join(dict.fromkeys(fault.code for fault in error.faults))
        return rules[:MESSAGE_LENGTH], error.message[:MESSAGE_LENGTH]
    if isinstance(error, KajitoriError):
        return error.code, error.message[:MESSAGE_LENGTH]
    return "", ""
