"""Namespaces in which RoleBindings name a caller: a person may have a role where there is no team and no run yet."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable

from kajitori.api.rights import User
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta, Wire
from kajitori.kube.resources import ROLE_BINDINGS

log = logging.getLogger(__name__)

FRESH_SECONDS = 10.0
"""Time for which the bindings are used again; all callers share them."""


class Subject(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Wire, frozen=True):
    metadata: ObjectMeta
    subjects: tuple[Subject, ...] | None = None


class BoundNamespaces:
    """The namespaces in which users and groups have a role of any kind. The API server then decides what they may."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        """`client` has the server's own credentials."""
        self._client = client
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_again_at = clock()
        self._by_subject: dict[str, set[str]] = {}

    async def of(self, user: User) -> set[str]:
        """Return the namespaces in which a RoleBinding names the user or one of their groups.

        If the server may not list RoleBindings, or the cluster has none, the last known ones count.
        """
        async with self._reading:
            if self._clock() >= self._read_again_at:
                await self._read()
        subjects = (user.name, *(_group(group) for group in user.groups))
        return set().union(*(self._by_subject.get(subject, ()) for subject in subjects))

    async def _read(self) -> None:
        began = self._clock()
        try:
            self._by_subject = _by_subject((await self._client.list(ROLE_BINDINGS, type=RoleBinding)).items)
        except KajitoriError as error:
            log.debug("RoleBindings are not read: %s", error.message)
        took_seconds = self._clock() - began
        self._read_again_at = self._clock() + FRESH_SECONDS + 20 * took_seconds  # at most a twentieth of the time


def _by_subject(bindings: Iterable[RoleBinding]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for binding in bindings:
        for subject in binding.subjects or ():
            found[_key_of(subject)].add(binding.metadata.namespace)
    return found


def _key_of(subject: Subject) -> str:
    match subject.kind:
        case "Group":
            return _group(subject.name)
        case "ServiceAccount":
            return f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return subject.name


def _group(name: str) -> str:
    """Return the key of a group. No user name contains this character."""
    return f"\0{name}"
