"""Claims without a volume, which keep members from starting: the cause from their events, and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kajitori.cluster.objects import Claim, Event
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.attempts import SEVERAL_NODES, StartRefused
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core.formats.times import parse_time, seconds_since
from kajitori.core.gang import Member, MemberState
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.errors import Forbidden, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIMS, EVENTS

CLAIM_FRESH = timedelta(minutes=1)
"""Age up to which an event about a claim counts. Provisioners try again every 15 s, so an older one may be outdated."""
_OF_CLAIMS = "involvedObject.kind=PersistentVolumeClaim"
_NO_VOLUME_FITS = "FailedBinding"
"""Reason of the volume controller's event, of type Normal, that no volume fits a claim and none is provisioned."""
_NO_CLASS = "no storage class is set"
"""Text in that event if the claim names no StorageClass and the cluster has no default one."""
_ABOUT_MODES = re.compile("access.?mode|ReadWriteOnce|multi.?(node|writer)", re.IGNORECASE)
"""Texts with which provisioners refuse an access mode that they do not support. Each provisioner has its own."""
_WAITS_FOR_PROVISIONER = "ExternalProvisioning"
"""Reason of the volume controller's event, of type Normal, that a provisioner has to act, which may not even run."""

ASKED_AFTER_SECONDS = 3.0
"""Age of a member without a node from which its claims are looked at: most members have a node by then."""
ASKED_AGAIN = timedelta(seconds=5)
"""Pause between two looks at the claims of a run that is starting."""


@dataclass(frozen=True, slots=True)
class ClaimNews:
    """The message of the newest event of a claim without a volume."""

    message: str
    is_fault: bool
    """Whether the claim gets no volume before something is changed. If not, a provisioner has still to act."""


async def check_claims(client: KubeClient, run: RunObject, attempt: Attempt, now: datetime) -> None:
    """Check, after a failed start, whether storage is missing for a claim that members mount.

    This avoids creating Pods and holding nodes only to learn it again. Raises StartRefused with the claim's name, the
    event's message, and the way out if the cluster has no default StorageClass.
    """
    news = await news_of_claims(client, run, attempt, now)
    if news is not None and news.is_fault:
        raise StartRefused(Reason.STORAGE, news.message)


class StartingClaims:
    """Explains why members get no node while their claims have no volume.

    The scheduler tells only that claims are unbound, or nothing while it waits for a provisioner. Not thread-safe.
    """

    def __init__(self, client: KubeClient, work: WorkQueue, now: Callable[[], datetime]) -> None:
        self._client = client
        self._work = work
        self._now = now
        self._known: dict[Key, tuple[int, datetime, ClaimNews | None]] = {}
        """The attempt, the time of the last look, and what was found."""

    async def explained(
        self, key: Key, run: RunObject, attempt: Attempt | None, members: Sequence[Member]
    ) -> Sequence[Member]:
        """Return the members; those that wait for storage have the reason and the message of the claim's event."""
        waiting = {member.uid for member in members if attempt is not None and _may_wait(member, attempt)}
        if attempt is None or not waiting or not _claims_of(attempt):
            self._known.pop(key, None)
            return members
        now = self._now()
        ages = [seconds_since(member.created_at, now) for member in members if member.uid in waiting]
        oldest = max((age for age in ages if age is not None), default=0.0)
        if oldest < ASKED_AFTER_SECONDS:
            self._work.wake(key, timedelta(seconds=ASKED_AFTER_SECONDS - oldest))
            return members
        number, asked_at, news = self._known.get(key, (0, now, None))
        if number != attempt.number or now - asked_at >= ASKED_AGAIN:
            news = await news_of_claims(self._client, run, attempt, now)
            self._known[key] = attempt.number, now, news
        self._work.wake(key, ASKED_AGAIN)
        if news is None:
            return members
        return [_with_news(member, news) if member.uid in waiting else member for member in members]

    def forget(self, key: Key) -> None:
        """Forget a run that is gone."""
        self._known.pop(key, None)


def _may_wait(member: Member, attempt: Attempt) -> bool:
    """Whether a member has no node, for a reason that storage may have."""
    has_no_node = member.state is MemberState.PENDING and not member.node
    return member.attempt == attempt.number and has_no_node and member.reason in (Reason.CREATING, Reason.STORAGE)


def _with_news(member: Member, news: ClaimNews) -> Member:
    return replace(member, reason=Reason.STORAGE if news.is_fault else member.reason, message=news.message)


def _claims_of(attempt: Attempt) -> set[str]:
    volumes = attempt.pod_template.get("spec", {}).get("volumes") or ()
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}


async def news_of_claims(client: KubeClient, run: RunObject, attempt: Attempt, now: datetime) -> ClaimNews | None:
    """Return the newest event of a claim that members mount and that has no volume; None if there is none.

    Only a warning, or an event that no volume fits or a provisioner has to act, of the last minute counts, and only
    while its claim is not bound; otherwise it is outdated or about something else, such as enlarging a volume. A fault
    comes first.
    """
    wanted = _claims_of(attempt)
    if not wanted:
        return None
    namespace = run.metadata.namespace
    try:
        found = await client.list(EVENTS, namespace, field_selector=_OF_CLAIMS, type=Event)
    except Forbidden:
        return None
    newest: dict[str, Event] = {}
    for event in sorted(found.items, key=_time_of):
        said_at = parse_time(_time_of(event))
        is_fresh = said_at is not None and now - said_at < CLAIM_FRESH
        claim = event.involved_object.name
        if claim in wanted and is_fresh:
            if claim in newest and newest[claim].reason == _NO_VOLUME_FITS:
                del newest[claim]  # it has a class since then
            if _is_fault(event) or (event.reason == _WAITS_FOR_PROVISIONER and claim not in newest):
                newest[claim] = event
    for name, event in sorted(newest.items(), key=lambda pair: not _is_fault(pair[1])):
        volume_claim = await _claim(client, name, namespace)
        if volume_claim is None or volume_claim.status.phase != "Bound":
            way_out = ""
            if _NO_CLASS in event.message:
                way_out = _way_to_a_class(name, run.metadata.name)
            elif (
                volume_claim is not None
                and SEVERAL_NODES in volume_claim.spec.access_modes
                and _ABOUT_MODES.search(event.message)
            ):
                way_out = _way_to_a_mode(name, run.metadata.name, members=len(attempt.node_by_rank()))
            return ClaimNews(f"PersistentVolumeClaim {name}: {event.message}{way_out}", _is_fault(event))
    return None


def _is_fault(event: Event) -> bool:
    return event.type == "Warning" or event.reason == _NO_VOLUME_FITS


def _way_to_a_class(claim: str, run: str) -> str:
    """Return a hint for a claim that names no StorageClass in a cluster without a default one."""
    if claim != names.checkpoint_claim(run):
        return "; ask the operators to make a StorageClass the cluster's default, or to give the claim a volume"
    return (
        "; ask the operators to make a StorageClass the cluster's default, or to set checkpoint.storageClass in the "
        f"policy (then delete the claim, kaji rm -f -v {run}, and start again), or checkpoint.kind: folder"
    )


def _way_to_a_mode(claim: str, run: str, members: int) -> str:
    """Return a hint for a claim that several nodes could mount, if its StorageClass makes no such volumes."""
    if claim != names.checkpoint_claim(run):
        return ""
    again = f"delete the claim (kaji rm -f -v {run}) and start again"
    if members == 1:
        return f"; a run of one member needs no {SEVERAL_NODES}: leave checkpoint.accessMode out of the policy, {again}"
    return (
        f"; its members may be on several nodes ({SEVERAL_NODES}): ask the operators for a StorageClass that makes "
        f"such volumes (checkpoint.storageClass in the policy) or for checkpoint.kind: folder; then {again}"
    )


def _time_of(event: Event) -> str:
    """Return the time of the event's last occurrence."""
    return event.last_timestamp or event.event_time


async def _claim(client: KubeClient, claim: str, namespace: str) -> Claim | None:
    """Return the claim; None if it is gone, or if the controller may not read claims, as with older manifests."""
    with suppress(Forbidden, NotFound):
        return await client.get(CLAIMS, claim, namespace, type=Claim)
    return None
