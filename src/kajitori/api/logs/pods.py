"""Find the Pods of one member, by attempt, to read their logs."""

from __future__ import annotations

from collections.abc import Iterator

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import has_started, main_container
from kajitori.core.naming import names

LOOKED_AT_BY_NAME = 64
"""Largest number of attempts whose Pods are looked up by name; for more attempts, all Pods of the run are listed."""


class MemberPods:
    """The Pods of one rank of a run, as the mirror shows them now."""

    def __init__(self, mirror: Mirror, run: RunObject, rank: int) -> None:
        self._mirror = mirror
        self._run = run.metadata
        self._rank = rank

    def of_attempts(self, oldest: int, newest: int) -> Iterator[Pod]:
        """Yield the Pods of the attempts from `oldest` to `newest`, both included, the newest first."""
        has_pods = False
        for attempt in range(newest, max(oldest, newest - LOOKED_AT_BY_NAME) - 1, -1):
            pod = self.of_attempt(attempt)
            if pod is not None and self._mirror.run_uid_of(pod) == self._run.uid:
                has_pods = True
                yield pod
        if has_pods or newest - oldest <= LOOKED_AT_BY_NAME:
            return
        # A member of a service may still run in an old attempt.
        for pod in self._mirror.owned_pods(self._run.namespace, self._run.name, self._run.uid):
            member = pod.member
            if member is not None and member.rank == self._rank and oldest <= member.attempt <= newest:
                yield pod

    def of_attempt(self, attempt: int) -> Pod | None:
        """Return the Pod that has the name of the member's Pod in this attempt, whichever run owns it."""
        return self._mirror.pods.get((self._run.namespace, names.pod_name(self._run.name, attempt, self._rank)))

    def is_gone(self, pod: Pod) -> bool:
        """Whether the Pod was deleted."""
        return self._current(pod) is None

    def is_finished(self, pod: Pod) -> bool:
        """Whether the Pod exists and has ended."""
        current = self._current(pod)
        return current is not None and current.is_finished

    def _current(self, pod: Pod) -> Pod | None:
        """Return the Pod as it is now; None if it was deleted, even if another one has its name."""
        meta = pod.metadata
        current = self._mirror.pods.get((meta.namespace, meta.name))
        return current if current is not None and current.metadata.uid == meta.uid else None


def attempt_of(pod: Pod) -> int:
    """Return the attempt that a member's Pod belongs to."""
    return pod.member.attempt if pod.member is not None else 0


def has_log(pod: Pod) -> bool:
    """Whether the Pod's program runs or has run, so that it has a log."""
    if pod.is_finished:
        container = main_container(pod)
        return container is not None and container.state.terminated is not None
    return has_started(pod)
