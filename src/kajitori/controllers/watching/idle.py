"""The watcher for idle GPUs: what telemetry says of them, for the reconciler, which writes it to the Run's status.

It writes nothing itself. The question to the owner follows from the status, the finding and the time
(`core.messages.idle_question`), so that it survives a change of the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.watching.feed import Round
from kajitori.controllers.workqueue import Key
from kajitori.core.messages.idle_question import held_by_attempt, with_question
from kajitori.core.policy.idle import use_of
from kajitori.core.spec.status import RunStatus
from kajitori.core.telemetry.idle import Finding, Verdict, Watched, judge, watch_all

FRESH_SECONDS = 600.0
"""Age of a finding beyond which it says nothing about now."""


class IdleWatcher:
    """Follows the GPUs of running runs. It keeps a few numbers of each."""

    def __init__(self, view: ClusterView, now: Callable[[], datetime], wake: Callable[[Key], object]) -> None:
        """`wake` has a run reconciled."""
        self._view = view
        self._now = now
        self._wake = wake
        self._watched: dict[str, Watched] = {}
        self._until = 0

    async def watch(self, seen: Round) -> None:
        """Take the new intervals, and have the runs reconciled whose status is about to change."""
        self._until = seen.until
        self._watched = {uid: watched for uid, watched in self._watched.items() if uid in seen.runs}
        rules = self._view.policy.idle_gpus
        if not rules.enabled:
            self._watched.clear()
        limits = rules.limits
        for uid, run in seen.runs.items():
            status = run.current_status
            held = held_by_attempt(status) if rules.enabled and uid in seen.fresh else {}
            if held:
                watched = watch_all(self._watched.get(uid), seen.fresh[uid], held, limits)
                if watched is not None:
                    self._watched[uid] = watched
            if (uid in self._watched or status.idle is not None) and self.noted(run, status) is not status:
                self._wake((run.metadata.namespace, run.metadata.name))

    def noted(self, run: RunObject, status: RunStatus) -> RunStatus:
        """Return the status with what is known of the run's GPUs, and with the question to its owner."""
        spec = self._view.specs.of(run)
        return with_question(status, self._finding(run), self._view.policy.idle_gpus, spec.keep_idle_until, self._now())

    def _finding(self, run: RunObject) -> Finding | None:
        """Return what is known of the run's GPUs now; None if nothing is."""
        watched = self._watched.get(run.metadata.uid)
        if watched is None or self._now().timestamp() - self._until > FRESH_SECONDS:
            return None
        spec = self._view.specs.of(run)
        use = use_of(spec.type, has_ports=spec.has_ports)
        found = judge(watched, self._view.policy.idle_gpus.patience_of(use), self._until)
        return None if found.verdict is Verdict.UNKNOWN else found
