"""The effects of a new policy: changed fields, waiting runs, and missing or running objects of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

from kajitori.api.context import Api
from kajitori.api.policy.cluster_check import shortfall
from kajitori.api.policy.pods import newly_broken
from kajitori.api.rights import User
from kajitori.api.views.configuration import ChangedField, MovedRun, PolicyDiff, RefusedRun
from kajitori.cluster.queue.outlook import Outlook, PendingRun, QueueOrder
from kajitori.cluster.queue.pending import PendingRuns
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.model import Policy
from kajitori.errors import Forbidden, InvalidInput

_ABSENT = object()


async def diff(api: Api, user: User, policy: Policy, namespace: str) -> PolicyDiff:
    """Return what changes if this policy replaces the one in force.

    `namespace`: where to look for objects of a run's namespace. Objects that the caller may not read become a note.
    """
    before = api.policy.current().policy
    notes = []
    refused, moved, waiting = await _queue_changes(api, policy)
    for run in refused:
        if not await user.may("get", run.run.partition("/")[0]):
            run.faults = []  # they show the contents of the run
    old, new = await shortfall(api, user, before, namespace), await shortfall(api, user, policy, namespace)
    notes += [note for note in new.notes if note not in old.notes]
    old_faults = {(fault.field, fault.message) for fault in old.faults}
    try:
        pods = await newly_broken(api, user, before, policy)
    except Forbidden as error:
        pods = []
        notes.append(f"other people's Pods are not compared: {error.message}")
    return PolicyDiff(
        fields=list(_changed_fields(before, policy)),
        refused=refused,
        moved=moved,
        waiting=waiting,
        lacks=[fault for fault in new.faults if (fault.field, fault.message) not in old_faults],
        pods=pods,
        notes=notes,
    )


# ------------------------------------------------------------------------------------------ fields


def _changed_fields(before: Policy, after: Policy) -> Iterator[ChangedField]:
    old, new = (dict(_flat(p.model_dump(mode="json", by_alias=True, exclude_none=True))) for p in (before, after))
    for field in sorted({*old, *new}):
        if (was := old.get(field, _ABSENT)) != (becomes := new.get(field, _ABSENT)):
            yield ChangedField(field=field, before=_text(was), after=_text(becomes))


def _flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value that is no mapping, with its path. Empty mappings have none."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _flat(part, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def _text(value: object) -> str:
    if value is _ABSENT:
        return ""
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_text(part)}" for name, part in value.items()) + "}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


# ------------------------------------------------------------------------------------------ the queue


async def _queue_changes(api: Api, policy: Policy) -> tuple[list[RefusedRun], list[MovedRun], int]:
    """Return the waiting runs that the new policy refuses, those whose places it changes, and how many wait."""
    now = api.now()
    with (
        closing(ClusterView(api.mirror, PolicyFile(None, without_file=policy))) as view,
        closing(Outlook(api.mirror, view)) as outlook,
    ):
        waiting = await api.queue.pending.all(now)
        refused = sorted(_refused(waiting, view), key=lambda run: run.run)
        still_waiting = await PendingRuns(api.mirror, view).all(now)
        before, after = api.queue.outlook.order(waiting, now), outlook.order(still_waiting, now)
    owners = {pending.request.key: pending.run.owner for pending in waiting}
    return refused, list(_moved(before, after, owners)), len(waiting)


def _refused(waiting: Iterable[PendingRun], view: ClusterView) -> Iterator[RefusedRun]:
    for run in (pending.run for pending in waiting):
        try:
            view.decide(run)
        except InvalidInput as error:
            name = f"{run.metadata.namespace}/{run.metadata.name}"
            yield RefusedRun(run=name, owner=run.owner, faults=list(error.faults))


def _moved(before: QueueOrder, after: QueueOrder, owners: Mapping[str, str]) -> Iterator[MovedRun]:
    """Yield the runs in both queues whose places differ, in their new order."""
    old = {run.key: place for place, run in enumerate(before.queue, 1)}
    for place, run in enumerate(after.queue, 1):
        if old.get(run.key, place) != place:
            yield MovedRun(run=run.key, owner=owners.get(run.key, ""), before=old[run.key], after=place)
