"""The policy as sentences for the people whom it concerns, in groups; `kaji policy explain` and the web page show them.

Each sentence names the field of the policy file that says so. docs/reference/policy.md has all fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kajitori.core.formats.quantities import format_cores, format_duration, format_memory
from kajitori.core.policy.idle import IdleTimes
from kajitori.core.policy.model import Policy
from kajitori.core.policy.queue.preemption import Guarantee
from kajitori.core.policy.runs.mounts import Volume
from kajitori.core.policy.runs.stuck import StuckTimes
from kajitori.core.policy.runs.templates import Template
from kajitori.core.policy.teams import Team
from kajitori.core.spec.network_access import NetworkAccess


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy."""

    field: str
    """The field of the policy file."""
    text: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules about one subject."""

    title: str
    rules: tuple[Rule, ...]


def rules_of(policy: Policy) -> tuple[RuleGroup, ...]:
    """Return what a policy says, in groups; groups without a rule are left out."""
    groups: tuple[tuple[str, Iterable[tuple[str, str]]], ...] = (
        ("What a run gets if it does not say", _defaults(policy)),
        ("The most that a run may ask for", _ceilings(policy)),
        ("Images, users and rights of programs", _programs(policy)),
        ("Network", _network(policy)),
        ("Volumes and checkpoints", _storage(policy)),
        ("Order of the queue", _queue(policy)),
        ("Preemption and guarantees", _preemption(policy)),
        ("Idle GPUs", _idle(policy)),
        ("Runs without progress", _stuck(policy)),
        ("Teams, and who may do what", _teams(policy)),
        ("Templates", ((f"templates.{name}", _template(name, each)) for name, each in policy.templates.items())),
        ("Notebooks and sweeps", _notebooks(policy)),
        ("How long things are kept", _kept(policy)),
        ("Nodes", _nodes(policy)),
        ("Messages", _messages(policy)),
    )
    found = (RuleGroup(title, tuple(Rule(field, text) for field, text in rules)) for title, rules in groups)
    return tuple(group for group in found if group.rules)


Rules = Iterator[tuple[str, str]]
"""Field and text of each rule."""


def _defaults(policy: Policy) -> Rules:
    given = policy.defaults
    yield "defaults.cpu", f"Each member gets {format_cores(given.cpu_millis)}."
    size = format_memory(given.memory_bytes)
    match policy.memory_without_limit:
        case "default":
            yield "defaults.memory", f"Each member gets {size} of memory; a program that uses more is ended."
        case "refuse":
            yield "memoryWithoutLimit", "A run without a memory limit is refused."
        case "unlimited":
            yield "memoryWithoutLimit", f"A run without a memory limit has none; {size} are reserved for each member."
    if given.shm_bytes is not None:
        yield "defaults.shm", f"/dev/shm has {format_memory(given.shm_bytes)}."
    yield (
        "defaults.restarts",
        f"A run whose program fails is started again {_times(given.restarts)} if it has a checkpoint, else "
        f"{_times(given.restarts_without_checkpoint)}. Lost nodes and preemptions do not count.",
    )
    limit = policy.default_time_limit_seconds
    yield (
        "defaults.timeLimit",
        f"A run is ended after {format_duration(limit)}." if limit else "A run has no time limit.",
    )
    yield "defaults.grace", f"A run that is stopped has {format_duration(given.grace_seconds)} to write a checkpoint."
    yield "defaults.priority", f"A run has the priority {given.priority}."
    if given.env:
        yield "defaults.env", f"These variables are set: {_listed(given.env)}."


def _ceilings(policy: Policy) -> Rules:
    member, run = policy.ceilings.member, policy.ceilings.run
    for of, where, limits in (
        ("A member", "ceilings.member", (member.cpu_millis, member.memory_bytes, member.gpus)),
        ("All members of a run together", "ceilings.run", (run.cpu_millis, run.memory_bytes, run.gpus)),
    ):
        cpu, memory, gpus = limits
        if cpu is not None:
            yield f"{where}.cpu", f"{of}: {format_cores(cpu)}."
        if memory is not None:
            yield f"{where}.memory", f"{of}: {format_memory(memory)} of memory."
        if gpus is not None:
            yield f"{where}.gpu", f"{of}: {_count(gpus, 'GPU')}."
    if member.shm_bytes is not None:
        yield "ceilings.member.shm", f"/dev/shm: {format_memory(member.shm_bytes)}."
    if run.replicas is not None:
        yield "ceilings.run.replicas", f"Members: {run.replicas}."
    if run.time_limit_seconds is not None:
        yield "ceilings.run.timeLimit", f"Time limit: {format_duration(run.time_limit_seconds)}."
    if run.restarts is not None:
        yield "ceilings.run.restarts", f"Restarts after failures of the program: {run.restarts}."
    if run.grace_seconds is not None:
        yield "ceilings.run.grace", f"Time to end when it is stopped: {format_duration(run.grace_seconds)}."
    if run.checkpoint_size_bytes is not None:
        yield "ceilings.run.checkpointSize", f"Size of a checkpoint: {format_memory(run.checkpoint_size_bytes)}."
    yield "code.archive", f"Code that is uploaded with a run: {format_memory(policy.code.archive_bytes)}."


def _programs(policy: Policy) -> Rules:
    images, security = policy.images, policy.security
    allowed = f"These images may run: {_listed(images.allow)}." if images.allow else "Images of all registries may run."
    yield "images.allow", allowed
    if images.deny:
        yield "images.deny", f"These images may not run: {_listed(images.deny)}."
    if not images.own_command:
        yield (
            "images.ownCommand",
            "A run has to name its command: it starts a program of the machine, not of the image.",
        )
    yield "security.allowRoot", f"Programs may {_not(security.allow_root)}run as root."
    yield "security.allowPrivileged", f"Programs may {_not(security.allow_privileged)}run privileged."
    yield "security.allowHostNetwork", f"Members may {_not(security.allow_host_network)}use the network of their node."
    if security.allow_secrets != ["*"]:
        names = f"only these secrets of their namespace: {_listed(security.allow_secrets)}"
        yield "security.allowSecrets", f"Runs may use {names if security.allow_secrets else 'no secrets'}."
    if security.default_user is not None:
        yield "security.defaultUser", f"Programs run as the user {security.default_user} if the run names none."
    yield "allowBurstable", f"A run may {_not(policy.allow_burstable)}reserve less than its limit (burstable)."


def _network(policy: Policy) -> Rules:
    for field, access, whose in (
        ("defaults.network", policy.defaults.network, "A run that does not say may"),
        ("ceilings.run.network", policy.ceilings.run.network, "Whatever it says, a run may"),
    ):
        yield from ((field, f"{whose} {words}.") for words in _access(access))


def _access(access: NetworkAccess) -> Iterator[str]:
    for verb, places in (("connect to", access.targets), ("be reached from", access.sources)):
        if places is not None:
            yield f"only {verb} {_listed(places)}" if places else f"not {verb} anything outside of the run"


def _storage(policy: Policy) -> Rules:
    kept = {
        "claim": "Each run with a checkpoint has a volume of its own for it, which outlives the run.",
        "folder": f"Checkpoints are folders below {policy.checkpoint.root}, which outlive their runs.",
        "none": "This cluster has no checkpoints.",
    }
    yield "checkpoint.kind", kept[policy.checkpoint.kind]
    for name, volume in policy.volumes.items():
        yield f"volumes.{name}", f"Runs may mount {name}: {_source(volume)}{', read-only' if volume.read_only else ''}."
    if policy.mounts.host_paths:
        yield "mounts.hostPaths", f"Runs may mount these folders of nodes: {_listed(policy.mounts.host_paths)}."


def _source(volume: Volume) -> str:
    if volume.nfs is not None:
        return f"{volume.nfs.path} of {volume.nfs.server}"
    if volume.empty_dir is not None:
        size = volume.empty_dir.size_bytes
        where = " in memory" if volume.empty_dir.memory else ""
        return f"an empty folder{where}{f' of {format_memory(size)}' if size is not None else ''} for each member"
    if volume.host_path is not None:
        return f"the folder {volume.host_path} of the node"
    if volume.claim is not None:
        return f"the claim {volume.claim}"
    return f"the ConfigMap {volume.config_map}" if volume.config_map is not None else f"the Secret {volume.secret}"


def _queue(policy: Policy) -> Rules:
    queue = policy.queue
    values = {word: priority.value for word, priority in policy.priorities.items()}
    order = ", ".join(f"{word} ({values[word]})" for word in sorted(values, key=lambda each: -values[each]))
    yield "priorities", f"A run with a higher priority goes first: {order}."
    half = format_duration(queue.half_life_seconds)
    usage = f"Use of the last days counts; it counts half after {half}."
    orders = {
        "length": "Among equals, waiting time counts in relation to the expected length of the run; large runs, and "
        f"users and teams that used little recently, go earlier. {usage}",
        "fifo": "Among equals, whoever came first goes first.",
        "share": f"Among equals, users and teams that used least recently go first. {usage}",
        "formula": f"Among equals, the highest score goes first: {queue.formula}. {usage}",
    }
    yield "queue.order", orders[queue.order]
    if queue.order != "fifo":
        bound = format_duration(queue.bound_seconds)
        yield "queue.bound", f"Whoever has waited longer than {bound}, and longer than the backlog, goes first."
    reserved = (
        "Nodes are reserved for the first run that does not fit; others start before it only if they do not delay it."
    )
    yield "queue.reservations", reserved if queue.reservations else "Every run that fits starts; nothing is reserved."
    if policy.elastic.grow:
        after = format_duration(policy.elastic.grow_after_seconds)
        yield "elastic", f"An elastic run with fewer members than it asks for grows once there was room for {after}."


def _preemption(policy: Policy) -> Rules:
    if not policy.preemption.enabled:
        yield "preemption.enabled", "No running run is preempted."
    else:
        least = format_duration(policy.preemption.minimum_run_seconds)
        yield (
            "preemption",
            "A running run may be preempted for one of a higher priority, or for a team's guarantee, once it has run "
            f"for {least}. It has its grace to write a checkpoint, and goes back to its place in the queue.",
        )
    for guarantee in policy.guarantees:
        yield "guarantees", f"The namespace {guarantee.namespace} is guaranteed {_amounts(guarantee)}."


def _amounts(guarantee: Guarantee) -> str:
    gpus = f"{guarantee.gpus} {guarantee.gpu_type}" if guarantee.gpu_type else f"{guarantee.gpus} GPUs"
    parts = (
        gpus if guarantee.gpus is not None else "",
        format_cores(guarantee.cpu_millis) if guarantee.cpu_millis is not None else "",
        f"{format_memory(guarantee.memory_bytes)} of memory" if guarantee.memory_bytes is not None else "",
        _count(guarantee.nodes, "whole node") if guarantee.nodes is not None else "",
    )
    return ", ".join(filter(None, parts))


def _idle(policy: Policy) -> Rules:
    idle = policy.idle_gpus
    if not idle.enabled:
        yield "idleGpus.enabled", "Idle GPUs are not looked for."
        return
    yield "idleGpus.utilisation", f"A GPU is idle if it works less than {idle.utilisation:g} % of the time."
    kinds: tuple[tuple[str, str, IdleTimes], ...] = (
        ("batch", "a run", idle.batch),
        ("notebook", "a notebook", idle.notebook),
        ("service", "a service", idle.service),
    )
    for field, whose, times in kinds:
        patience = times.patience
        quiet, working = patience.quiet_seconds, patience.idle_seconds
        if quiet is None and working is None:
            yield f"idleGpus.{field}", f"The owner of {whose} is never asked about idle GPUs."
            continue
        parts = (
            f"after {format_duration(quiet)} without any work" if quiet else "",
            f"after {format_duration(working)} if only its processors, disks or network work" if working else "",
        )
        yield f"idleGpus.{field}", f"The owner of {whose} with idle GPUs is asked {', or '.join(filter(None, parts))}."
    yield "idleGpus.longestKeep", f"An owner may keep a run for at most {format_duration(idle.longest_keep_seconds)}."
    if idle.park is None:
        yield "idleGpus.park", "A run whose owner does not answer goes on."
    else:
        after, warned = format_duration(idle.park.after_seconds), format_duration(idle.park.warning_seconds)
        yield (
            "idleGpus.park",
            f"A run whose owner does not answer is parked after {after}, with a warning {warned} before; nothing is "
            "deleted.",
        )


def _stuck(policy: Policy) -> Rules:
    kinds: tuple[tuple[str, str, StuckTimes | None], ...] = (
        ("batch", "A gang", policy.stuck.batch),
        ("notebook", "A notebook", policy.stuck.notebook),
        ("service", "A service", policy.stuck.service),
    )
    for field, which, times in kinds:
        if times is None:
            yield f"stuck.{field}", f"{which} is judged only if it sets stuckAfter."
        else:
            least, most = format_duration(times.floor_seconds), format_duration(times.ceiling_seconds)
            yield (
                f"stuck.{field}",
                f"{which} that neither prints, counts a step nor moves data is suspected to be stuck after {least} at "
                f"the earliest and {most} at the latest, as its own rhythm says.",
            )
    told = "is told to its owner" + (
        ", and restarted if it has restarts left" if policy.stuck.action == "restart" else ""
    )
    yield "stuck.action", f"A stuck run {told}."


def _teams(policy: Policy) -> Rules:
    for name, team in policy.teams.items():
        yield f"teams.{name}", _team(name, team)
    changes = {
        "anyone": "Everybody who may change runs in a namespace may stop, change and delete any run there.",
        "owner": "Only its owner, team leads and operators may stop, change and delete a run.",
    }
    yield "security.runChanges", changes[policy.security.run_changes]
    board = (
        "everybody who reaches the server, without signing in"
        if policy.board == "public"
        else "everybody who is signed in"
    )
    yield "board", f"The board of GPUs may be read by {board}."


def _team(name: str, team: Team) -> str:
    where = team.namespaces_of(name)
    roles = (
        f"submit runs: {_listed(team.groups)}" if team.groups else "",
        f"lead: {_listed(team.leads)}" if team.leads else "",
        f"look: {_listed(team.viewers)}" if team.viewers else "",
    )
    who = "; ".join(filter(None, roles)) or "no group has a role"
    return f"{name} works in {_listed(where)}; {who}."


def _template(name: str, template: Template) -> str:
    whom = f", for {_listed(template.teams)}" if template.teams else ""
    described = template.description.rstrip(".")
    return f"{name}{whom}{f': {described}' if described else ''}."


def _notebooks(policy: Policy) -> Rules:
    yield "notebooks.image", f"A notebook has the image {policy.notebooks.image} if it names none."
    if policy.notebooks.time_limit_seconds is not None:
        yield (
            "notebooks.timeLimit",
            f"A notebook is ended after {format_duration(policy.notebooks.time_limit_seconds)}.",
        )
    if policy.notebooks.idle_kernels_after_seconds is not None:
        after = format_duration(policy.notebooks.idle_kernels_after_seconds)
        yield "notebooks.idleKernelsAfter", f"Kernels that computed nothing for {after} are shut down."
    yield "sweeps.members", f"A sweep has at most {policy.sweeps.members} members."
    logs = {"all": "all members", "failed": "members that failed", "none": "no member"}
    yield "sweeps.keepLogs", f"Of a sweep, the end of the log of {logs[policy.sweeps.keep_logs]} is kept."


def _kept(policy: Policy) -> Rules:
    ended, history = policy.ended_runs.keep_for_seconds, policy.history.keep_for_seconds
    removed = (
        f"is removed {format_duration(ended)} after its end, without its checkpoint"
        if ended
        else "stays until it is deleted"
    )
    yield "endedRuns.keepFor", f"A run that has ended {removed}."
    yield "history.keepFor", f"History keeps a run {f'for {format_duration(history)}' if history else 'for ever'}."
    logs = policy.logs
    if logs.members:
        size, kept = format_memory(logs.per_member_bytes), format_duration(logs.keep_for_seconds)
        yield "logs", f"The last {size} of the logs of up to {logs.members} members of an attempt are kept for {kept}."
    else:
        yield "logs.members", "Logs go with their members."


def _nodes(policy: Policy) -> Rules:
    gpu = {
        "never": "Runs without GPUs are never placed on nodes with GPUs.",
        "whenNoOthers": "Runs without GPUs are placed on nodes with GPUs only if there are no others.",
        "always": "Runs without GPUs may be placed on nodes with GPUs.",
    }
    yield "gpu.cpuRunsOnGpuNodes", gpu[policy.gpu.cpu_runs_on_gpu_nodes]
    health = policy.node_health
    most = (
        f"at most {health.at_most_percent} % of all nodes"
        if health.at_most_percent
        else "no node, with a warning alone"
    )
    yield "nodeHealth", f"A node that is broken, or on which runs keep failing, leaves the pool ({most})."
    test = policy.preflight.image
    yield "preflight", f"New and doubtful nodes are tested with {test}." if test else "Nodes are not tested."
    for name, pool in policy.node_pools.items():
        yield f"nodePools.{name}", f"The pool {name} may grow to {_count(pool.max_nodes, 'node')}."


def _messages(policy: Policy) -> Rules:
    sent = policy.notifications
    if sent.hosts:
        yield "notifications.hosts", f"Messages may go to {_listed(sent.hosts)}."
    before, wait = format_duration(sent.before_time_limit_seconds), format_duration(sent.long_wait_seconds)
    yield "notifications.beforeTimeLimit", f"An owner is warned {before} before a time limit, at most a tenth of it."
    yield "notifications.longWait", f"An owner is told of a start after a wait of {wait} or more."


def _not(is_allowed: bool) -> str:
    return "" if is_allowed else "not "


def _times(count: int) -> str:
    return "not at all" if not count else "once" if count == 1 else f"up to {count} times"


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    every: Sequence[str] = tuple(words)
    return f"{', '.join(every[:-1])} and {every[-1]}" if len(every) > 1 else "".join(every)
