"""Lengths of earlier runs and recent usage of users and teams, computed only from the Runs that the mirror holds.

So a new leader gets the same results as the last one, and the Web API the same as the controller. A deleted Run is
forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import member_of_template
from kajitori.cluster.view import ClusterView
from kajitori.core.formats import node_lists
from kajitori.core.formats.times import parse_time
from kajitori.core.naming import names
from kajitori.core.queue.expected import Expectation, Finished, History, Size, Source, endless, of_limit, remaining
from kajitori.core.queue.ordering import DominantShares
from kajitori.core.spec.kinds import Kind, kind_of_stored
from kajitori.core.spec.reading.stored import StoredSpec
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class _Use:
    """The part of the cluster that a run had, or has, during one period."""

    amounts: tuple[float, ...]
    """Amounts, as `core.queue.ordering.AMOUNTS`."""
    start: float
    end: float | None
    """None: the period goes on."""


@dataclass(frozen=True, slots=True)
class _Record:
    """The evidence of one Run."""

    user: str
    team: str
    uses: tuple[_Use, ...]
    finished: Finished | None


class UsageHistory:
    """History and shares. It follows the mirror by itself; `refresh` reads the Runs that changed."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._records: dict[Key, _Record] = {}
        self._known: dict[Key, tuple[ObjectMeta, _Traits]] = {}
        self._amounts: dict[Key, tuple[tuple[str, int, int], tuple[float, ...]]] = {}
        """Amounts by Run; valid for one UID, attempt and number of members."""
        self._history = History()
        self._latest = (0.0, ("", ""))
        """End and key of the last run in the history."""
        self._half_life_seconds = 0.0
        self._default_limit_seconds: int | None = None
        self._changed: set[Key] = set(mirror.runs)
        self._begin_anew(self._cluster.policy.queue.rules.half_life_seconds)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    def expect(self, run: RunObject) -> Expectation:
        """Return how long a waiting run will take, from its next start to its end; an elastic gang with its fewest
        members."""
        traits = self._traits_of(run)
        whole, limit = self._whole_length(run, traits)
        more = remaining(whole, _progress_of(run, traits), limit)
        return _scale_to_part(more, traits.stretch(traits.spec.min_replicas or 0), limit)

    def expect_more(self, run: RunObject, since: float, now: float) -> Expectation:
        """Return the remaining time of a run with an attempt that has run since `since`."""
        traits = self._traits_of(run)
        whole, limit = self._whole_length(run, traits)
        attempt = run.status.attempt if run.status is not None else None
        stretch = traits.stretch(attempt.world_size if attempt is not None else 0)
        more = remaining(whole, _progress_of(run, traits) + max(0.0, now - since) / stretch, limit)
        more = _scale_to_part(more, stretch, limit)
        started = parse_time(run.status.started_at) if run.status is not None and run.status.sweep is None else None
        if limit is None or started is None or now + more.seconds <= started.timestamp() + limit:
            return more
        until_limit = of_limit(started.timestamp() + limit - now)
        return replace(until_limit, source=more.source) if more.is_late else until_limit

    def user_of(self, run: RunObject) -> str:
        """Return the account that a run is charged to. All runs of a namespace without a known user share one
        account."""
        return self._traits_of(run).user

    def _whole_length(self, run: RunObject, traits: _Traits) -> tuple[Expectation, int | None]:
        """Return how long a run takes from its beginning, and its time limit."""
        limit = traits.spec.time_limit_seconds or self._default_limit_seconds
        if limit is None and traits.spec.is_service:
            return endless(), None
        longest = run.status.sweep.longest_seconds if run.status is not None and run.status.sweep is not None else 0
        if longest:  # for a sweep, the length of its other members
            return Expectation(float(min(longest, limit or longest)), Source.SIMILAR, sure=True), limit
        size = traits.size(self._cluster.policy.defaults.cpu_millis)
        return self._history.expect(traits.user, run.metadata.namespace, traits.kind, size, limit), limit

    @property
    def users(self) -> DominantShares:
        """The recent share of each user (see `user_of`), as of the last `refresh`."""
        return self._users

    @property
    def teams(self) -> DominantShares:
        """The same by namespace."""
        return self._teams

    def refresh(self) -> None:
        """Read the Runs that have changed since the last time."""
        policy = self._cluster.policy
        rules, self._default_limit_seconds = policy.queue.rules, policy.default_time_limit_seconds
        if rules.half_life_seconds != self._half_life_seconds:
            self._begin_anew(rules.half_life_seconds)
        totals = totals_of(self._cluster)
        self._users.totals = self._teams.totals = totals
        if not self._changed:
            return
        changed, self._changed = self._changed, set()
        ended: list[tuple[float, Key, Finished]] = []
        is_history_wrong = False
        for key in changed:
            before, now = self._records.get(key), self._read_record(key)
            if before == now:
                continue
            self._count_record(before, -1)
            self._count_record(now, 1)
            if now is None:
                del self._records[key]
            else:
                self._records[key] = now
            was, is_ = (record.finished if record is not None else None for record in (before, now))
            if was is None and is_ is not None and (is_.ended_at, key) > self._latest:
                ended.append((is_.ended_at, key, is_))
            elif was != is_:
                is_history_wrong = True
        if is_history_wrong:
            self._history, self._latest = History(), (0.0, ("", ""))
            finished_runs = ((key, record.finished) for key, record in self._records.items())
            ended = [(finished.ended_at, key, finished) for key, finished in finished_runs if finished is not None]
        for ended_at, key, finished in sorted(ended, key=itemgetter(0, 1)):
            self._history.add(finished)
            self._latest = ended_at, key

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource != RUNS:
            return
        key = namespace, name
        if key in self._mirror.runs or key in self._records:
            self._changed.add(key)
        else:  # it was created and deleted between two calls
            self._changed.discard(key)

    def _begin_anew(self, half_life_seconds: float) -> None:
        self._half_life_seconds = half_life_seconds
        self._users, self._teams = DominantShares(half_life_seconds), DominantShares(half_life_seconds)
        for record in self._records.values():
            self._count_record(record, 1)

    def _count_record(self, record: _Record | None, sign: int) -> None:
        if record is None:
            return
        for use in record.uses:
            for shares, account in ((self._users, record.user), (self._teams, record.team)):
                shares.change(account, use.amounts, sign, use.start)
                if use.end is not None:
                    shares.change(account, use.amounts, -sign, use.end)

    # ------------------------------------------------------------------------------------------ one Run

    def _read_record(self, key: Key) -> _Record | None:
        run = self._mirror.runs.get(key)
        if run is None:
            self._known.pop(key, None)
            self._amounts.pop(key, None)
            return None
        return _Record(self.user_of(run), key[0], tuple(self._uses_of(run)), self._finished_run(run))

    def _traits_of(self, run: RunObject) -> _Traits:
        meta = run.metadata
        key = meta.namespace, meta.name
        known = self._known.get(key)
        if known is not None and known[0] is meta:
            return known[1]
        if known is not None and _is_same(known[0], meta):
            traits = known[1]
        else:
            traits = _derive_traits(run, self._cluster.specs.of(run))
        if key in self._mirror.runs:  # else the question is about a run that is not created yet
            self._known[key] = meta, traits
        return traits

    def _finished_run(self, run: RunObject) -> Finished | None:
        status = run.status
        if status is None or status.ran is None or not status.phase.is_final or self._traits_of(run).spec.is_service:
            return None
        ended = parse_time(status.ran.until)
        if ended is None:
            return None
        seconds = status.ran.seconds
        if status.sweep is not None:  # the queue counts the length of one member
            seconds = status.sweep.longest_seconds
            if not seconds:
                return None
        return Finished(
            user=self.user_of(run),
            team=run.metadata.namespace,
            kind=self._traits_of(run).kind,
            size=self._traits_of(run).size(self._cluster.policy.defaults.cpu_millis),
            seconds=float(seconds),
            ended_at=ended.timestamp(),
        )

    def _uses_of(self, run: RunObject) -> Iterator[_Use]:
        status = run.status
        if status is None or status.attempt is None or not status.attempt.template:
            return
        attempt, ran = status.attempt, status.ran
        is_service = self._traits_of(run).spec.is_service
        present = status.members.total if is_service else status.members.running + status.members.pending
        comes_and_goes = is_service or status.sweep is not None  # its members start and end one by one
        until = parse_time(ran.until) if ran is not None else None
        if ran is not None and until is not None:
            seconds = max(1.0, ran.seconds * self._traits_of(run).stretch(attempt.world_size))
            if status.sweep is not None:  # the average number of members
                each = self._amounts_of(run, attempt, 1)
                had = tuple(amount * status.sweep.member_seconds / seconds for amount in each)
            else:
                had = self._amounts_of(run, attempt, present if comes_and_goes else 0)
            yield _Use(had, until.timestamp() - seconds, until.timestamp())
        holding = (Phase.STARTING, Phase.RUNNING, *((Phase.RESTARTING,) if is_service else ()))
        since = parse_time((comes_and_goes and status.started_at) or attempt.started_at or attempt.planned_at)
        if status.phase in holding and since is not None:
            has = self._amounts_of(run, attempt, present if comes_and_goes else 0)
            yield _Use(has, since.timestamp(), None)

    def _amounts_of(self, run: RunObject, attempt: Attempt, members: int) -> tuple[float, ...]:
        """Return the amounts of an attempt: of all its members, or of `members` of them."""
        key, plan = (run.metadata.namespace, run.metadata.name), (run.metadata.uid, attempt.number, members)
        known = self._amounts.get(key)
        if known is not None and known[0] == plan:
            return known[1]
        member = member_of_template(attempt, self._cluster.policy.gpu.resource)
        nodes = node_lists.expand(attempt.nodes)
        count = members or len(nodes)
        alone = 0 if not member.alone else members if members and member.whole_node else len(set(nodes))
        amounts = (member.cpu_millis * count, member.memory_bytes * count, member.gpus * count, alone)
        self._amounts[key] = plan, tuple(map(float, amounts))
        return self._amounts[key][1]


@dataclass(frozen=True, slots=True)
class _Traits:
    """The properties of a run, besides its status, that an expectation depends on."""

    user: str
    """Its user; if that is not known, an account that stands for the namespace."""
    kind: Kind | str
    """A value that no other run has, if the kind cannot be read."""
    spec: StoredSpec

    def size(self, default_cpu_millis: int) -> Size:
        """Return how much the run asks for of its scarce resource."""
        if self.spec.gpus:
            return Size(self.spec.members * self.spec.gpus, gpus=True)
        return Size(self.spec.members * (self.spec.cpu_millis or default_cpu_millis) / 1000)

    def stretch(self, members: int) -> float:
        """Return how many times as long an elastic gang takes with this many members as with all of them. It is assumed
        to be as fast as it is large. 1 for every other run."""
        return self.spec.replicas / members if self.spec.is_elastic and members else 1.0


def _derive_traits(run: RunObject, spec: StoredSpec) -> _Traits:
    meta, owner = run.metadata, run.owner
    kind = kind_of_stored(run.spec, meta.namespace, owner) or meta.uid
    return _Traits(names.account_of(owner, meta.namespace), kind, spec)


def _is_same(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Whether both belong to one Run, with the same spec and owner."""
    same_spec = (one.uid, one.generation) == (other.uid, other.generation)
    return same_spec and one.annotations.get(names.ANNOTATION_OWNER) == other.annotations.get(names.ANNOTATION_OWNER)


def _scale_to_part(more: Expectation, stretch: float, limit_seconds: float | None) -> Expectation:
    """Return the expectation of a gang that has only a part of its members; its time limit stays the same."""
    if stretch == 1.0:
        return more
    seconds = more.seconds * stretch
    longest = max(1.0, min(seconds, limit_seconds or seconds))
    shortest, weak = (min(known * stretch, longest) for known in (more.shortest, more.weak_seconds))
    return replace(more, seconds=longest, shortest=shortest, weak_seconds=weak)


def _progress_of(run: RunObject, traits: _Traits) -> float:
    """Return for how long a run has already run and need not repeat, since it has checkpoints."""
    status = run.status
    if not traits.spec.has_checkpoint or status is None or status.ran is None or status.sweep is not None:
        return 0.0
    return float(status.ran.seconds)


def totals_of(cluster: ClusterView) -> tuple[float, ...]:
    """Return the totals of the cluster, whatever the state of its nodes, as `core.queue.ordering.AMOUNTS`.

    GPUs of all types count, parts of GPUs included, since a run's share counts the GPUs that it asks for.
    """
    table = cluster.table()
    cpu, memory, gpus, _, *parts = table.total.sum(axis=0).tolist()
    return float(cpu), float(memory), float(gpus + sum(parts)), float(len(table))
