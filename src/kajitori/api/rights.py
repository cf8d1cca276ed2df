"""The rights of callers: the API server decides, by each caller's own token, and its answers are cached for seconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kajitori.cluster.run_object import RUNS
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.errors import missing_right
from kajitori.kube.resources import SELF_ACCESS_REVIEWS, Resource

ALLOWED_SECONDS = 10.0
DENIED_SECONDS = 3.0
"""Time for which the API server's answer is used again: that a right is there, and that it is not."""
MAX_ANSWERS = 256


@dataclass(frozen=True, slots=True)
class Question:
    """A right that the caller may have: a verb on a kind of object, everywhere or in one place."""

    verb: str
    resource: Resource
    subresource: str
    """Empty: the object itself."""
    namespace: str
    """Empty: all namespaces."""
    name: str
    """Empty: any object."""

    @property
    def what(self) -> str:
        """The kind as `kubectl auth can-i` writes it."""
        kind, group = self.resource.plural, self.resource.group
        return (f"{kind}.{group}" if group else kind) + (f"/{self.subresource}" if self.subresource else "")

    def forbidden(self, user: str) -> Forbidden:
        """Return the error for a user without this right."""
        message, hint = missing_right(user, self.verb, self.what, self.namespace)
        return Forbidden(message, hint=hint)


@dataclass(slots=True)
class _Answer:
    allowed: bool
    until: float


@dataclass(eq=False, slots=True)
class Rights:
    """The rights of one credential, cached from recent answers of the API server."""

    client: KubeClient
    clock: Callable[[], float] = field(repr=False)
    _answers: OrderedDict[Question, _Answer] = field(default_factory=OrderedDict, repr=False)
    _asking: dict[Question, asyncio.Task[bool]] = field(default_factory=dict, repr=False)

    async def may(self, question: Question, *, refresh: bool = False) -> bool:
        """Whether the caller has this right. With `refresh`, the cache is not used."""
        answer = self._answers.get(question)
        if answer is not None and answer.until > self.clock() and not refresh:
            return answer.allowed
        asking = self._asking.get(question)
        if asking is None:  # streams that start at the same time share one request
            asking = self._asking[question] = asyncio.create_task(self._ask(question))
            asking.add_done_callback(lambda task: self._note_answered(question, task))
        return await asyncio.shield(asking)

    def _note_answered(self, question: Question, task: asyncio.Task[bool]) -> None:
        del self._asking[question]
        if not task.cancelled():
            task.exception()  # marks the error as handled: the callers got it, unless they hung up

    async def _ask(self, question: Question) -> bool:
        resource = question.resource
        attributes = {"verb": question.verb, "group": resource.group, "resource": resource.plural}
        attributes |= {
            "subresource": question.subresource,
            "namespace": question.namespace,
            "name": question.name,
        }
        review = review_of(SELF_ACCESS_REVIEWS, {"resourceAttributes": {k: v for k, v in attributes.items() if v}})
        answer = await self.client.create(SELF_ACCESS_REVIEWS, review)
        allowed = bool((answer.get("status") or {}).get("allowed"))
        self._answers[question] = _Answer(allowed, self.clock() + (ALLOWED_SECONDS if allowed else DENIED_SECONDS))
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return allowed


@dataclass(eq=False, slots=True)
class User:
    """The caller of one request, and a client with its credentials. Valid until the request ends."""

    name: str
    groups: tuple[str, ...]
    client: KubeClient
    rights: Rights
    granted: set[Question] = field(default_factory=set)
    """Rights that this request was allowed for. A stream ends when one of them is withdrawn."""

    async def may(
        self, verb: str, namespace: str, name: str = "", *, resource: Resource = RUNS, subresource: str = ""
    ) -> bool:
        """Whether the caller may do this to Runs or another kind. An empty namespace stands for all namespaces."""
        question = Question(verb, resource, subresource, namespace, name)
        allowed = await self.rights.may(question)
        if allowed:
            self.granted.add(question)
        return allowed

    async def require(
        self, verb: str, namespace: str, name: str = "", *, resource: Resource = RUNS, subresource: str = ""
    ) -> None:
        """Raise Forbidden unless the caller has this right, for all objects or for the named one."""
        if await self.may(verb, namespace, resource=resource, subresource=subresource):
            return
        if name and await self.may(verb, namespace, name, resource=resource, subresource=subresource):
            return
        raise Question(verb, resource, subresource, namespace, name).forbidden(self.name)


def review_of(resource: Resource, spec: dict[str, Any] | None) -> dict[str, Any]:
    """Return the object that asks the API server about the caller: a review of this kind."""
    review: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    if spec is not None:
        review["spec"] = spec
    return review
