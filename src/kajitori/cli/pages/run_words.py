"""Run views in words: what tables and pages show of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kajitori.core.spec.reasons import COUNTS_AS_RESTART, START_FAILURES
from kajitori.core.words.quantities import format_cpu, round_memory

if TYPE_CHECKING:
    from kajitori.core.spec.array import Array

View = Mapping[str, Any]

FINAL = frozenset({"Succeeded", "Failed", "Stopped"})
"""`core.spec.reasons.Phase.is_final`, as text."""

NEAR_LIMIT = 0.9
"""Of a memory limit."""

_UNITS = ((86_400 * 365, "year", 2), (86_400 * 30, "month", 2), (86_400 * 7, "week", 2), (86_400, "day", 2))


def human_duration(seconds: float) -> str:
    """A time span in Docker's words: `About a minute`, `5 minutes`, `2 hours`, `3 days`."""
    whole = int(seconds)
    if whole < 1:
        return "Less than a second"
    if whole < 60:
        return "1 second" if whole == 1 else f"{whole} seconds"
    minutes = whole // 60
    if minutes < 60:
        return "About a minute" if minutes == 1 else f"{minutes} minutes"
    hours = int(whole / 3600 + 0.5)
    if hours < 48:
        return "About an hour" if hours == 1 else f"{hours} hours"
    for unit_seconds, word, least in _UNITS:
        if whole >= unit_seconds * least:
            return f"{whole // unit_seconds} {word}s"
    raise AssertionError("two days are at least two days")


def moment(text: str | None) -> datetime | None:
    """A time of the API, or None where there is none or it can't be read."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def age(text: str | None, now: datetime) -> str:
    """How long ago that was; empty where it is not known."""
    then = moment(text)
    return human_duration(max(0.0, (now - then).total_seconds())) if then is not None else ""


def short_duration(seconds: float) -> str:
    """A time span in a narrow column: `45s`, `12m`, `2h13m`, `3d4h`; its two largest units from an hour on."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86_400
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m"


def time_words(run: View, now: datetime) -> str:
    """How long a run has run, or, before its first start, has waited."""
    status = status_of(run)
    begin, end = moment(status.get("startedAt")), moment(status.get("finishedAt"))
    if phase_of(run) == "Queued":
        begin = moment(status.get("queuedAt") or run.get("createdAt"))
    if begin is None and end is not None and status.get("attempts"):
        begin = end  # its program ended before anybody saw it run
    return short_duration(((end or now) - begin).total_seconds()) if begin is not None else ""


def program_words(run: View) -> str:
    """What a run's members run, as one would type it; empty where that is the image's own program."""
    spec = run.get("spec") or {}
    return shlex.join([*(spec.get("command") or ()), *(spec.get("args") or ())])


def status_of(run: View) -> Mapping[str, Any]:
    """Its status, empty before the controller has written one."""
    return run.get("status") or {}


def guarantee_rows(
    guarantees: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, int, int, Callable[[int], str], str]]:
    """Of each resource that a team is guaranteed: team, what it is, how much, how much is used, how such an amount is
    written, and what is used beyond it, in words."""
    for each in guarantees:
        kinds: tuple[tuple[str, str, Callable[[int], str]], ...] = (
            ("gpus", f"{each.get('gpuType') or 'any'} GPUs", str),
            ("cpuMillis", "cores", cpu_words),
            ("memoryBytes", "memory", round_memory),
            ("nodes", "whole nodes", str),
        )
        for key, what, shown in kinds:
            amount = each.get(key)
            if amount is not None:
                beyond = amount["used"] - amount["total"]
                borrowed = f"{shown(beyond)} borrowed" if beyond > 0 else ""
                yield each["namespace"], what, amount["total"], amount["used"], shown, borrowed


def controller_words(controller: Mapping[str, Any]) -> str:
    """Who leads and when its lease was renewed last: `c1, renewed its lease 1 second ago`; empty if it is not told."""
    if not controller:
        return ""
    if controller.get("says"):
        return str(controller["says"])
    age = controller.get("ageSeconds")
    if age is None:
        return "not known yet"
    renewed = human_duration(age)
    return f"{controller.get('leader') or 'nobody leads'}, renewed its lease {renewed[0].lower()}{renewed[1:]} ago"


def phase_of(run: View) -> str:
    """Its phase as text; Queued before the controller has written one."""
    return str(status_of(run).get("phase") or "Queued")


def is_final(run: View) -> bool:
    """Whether it is over unless somebody resumes it."""
    return phase_of(run) in FINAL


def has_started(run: View) -> bool:
    """Members of it were made, at least once: there may be a log."""
    return bool(status_of(run).get("attempts") or status_of(run).get("attempt"))


def status_words(run: View) -> str:
    """The phase; for a run that failed with its exit code, as `docker ps` shows one."""
    phase, code = phase_of(run), status_of(run).get("exitCode")
    return f"{phase} ({code})" if phase == "Failed" and code is not None else phase


def reason_words(run: View) -> str:
    """The reason in one word, as a table shows it."""
    return "Deleting" if run.get("deleting") else str(status_of(run).get("reason") or "")


_PHASES = {"Queued": "waiting", "Starting": "starting", "Running": "running", "Restarting": "restarting"}

_IN_PLAIN_WORDS = {
    "NotPlannedYet": "for a place",
    "WaitingForGPU": "for GPUs",
    "WaitingForCPU": "for cores",
    "WaitingForMemory": "for memory",
    "WaitingForNodes": "for nodes",
    "WaitingItsTurn": "for its turn",
    "ClusterTooSmall": "for a larger cluster",
    "Unscheduled": "(not scheduled)",
    "Storage": "(no storage)",
    "ImagePull": "(its image)",
    "Volume": "(its volumes)",
    "ContainerConfig": "(its container's set-up)",
    "Quota": "(a quota)",
    "Admission": "(not admitted)",
    "KubeletRefused": "(refused by its node)",
    "StartDeadline": "(too slow)",
    "FirstStepNoServer": "(a member did not reach the Web API)",
    "FirstStepRefused": "(a member was refused by the Web API)",
    "FirstStepNoPeers": "(members without an address)",
    "FirstStepFailed": "(a member's first step)",
    "NodeLost": "after the loss of a node",
    "NodeOutOfMemory": "after its node ran out of memory",
    "Evicted": "after its eviction",
    "Preempted": "after it made way for another run",
    "MemberDeleted": "after the loss of a member",
    "Drained": "after its node was drained",
    "Grows": "with more members",
    "OutOfMemory": "after it ran out of memory",
    "Stopping": "(being stopped)",
    "Deleting": "(being deleted)",
}


def failed_starts(run: View) -> int:
    """How many starts in a row have failed, of a run that waits to be tried again; else 0."""
    status = status_of(run)
    waits = phase_of(run) == "Queued" and status.get("reason") in START_FAILURES
    return max(1, int(status.get("failedStarts") or 0)) if waits else 0


def counts_as_restart(run: View) -> bool:
    """Whether it is being started again because its program failed: it is not for ever."""
    return phase_of(run) == "Restarting" and status_of(run).get("reason") in COUNTS_AS_RESTART


def progress_words(run: View) -> str:
    """What a run that is not over does, in plain words: `waiting for GPUs: needs 16 h100`."""
    status = status_of(run)
    words = _PHASES.get(phase_of(run), phase_of(run))
    if counts_as_restart(run):
        words += f" ({restart_words(run).replace('/', ' of ')})"
    reason = _IN_PLAIN_WORDS.get(str(status.get("reason") or ""))
    if failed_starts(run):
        reason = f"after a failed start {reason or ''}".rstrip()
    if reason is not None:
        words += f" {reason}"
    if status.get("message") and status.get("reason") != "Creating":
        words += f": {status['message']}"
    return words


def member_words(run: View) -> str:
    """`3/4`: members that run (or, of an ended run, that succeeded) of all; of a sweep, `37/100 ended`; of an elastic
    gang, `12 of 8-32`; `-` of a refused run whose number of members makes no sense."""
    counts = status_of(run).get("members") or {}
    total = counts.get("total") or _members_in(run)
    if not total:
        return "-"
    if is_sweep(run) and not is_final(run):
        return f"{counts.get('succeeded', 0) + counts.get('failed', 0)}/{total} ended"
    done = counts.get("succeeded" if is_final(run) else "running", 0)
    if not size_words(run):
        return f"{done}/{total}"
    present = f"{done}/{total}" if members_there(run) and done < total else str(done)
    return f"{present} of {size_words(run)}"


def count_words(run: View) -> list[str]:
    """`3 running`, `1 failed`: members by what became of them. Of a run that has ended, those that still run are being
    ended, and the rest was."""
    counts, over = status_of(run).get("members") or {}, is_final(run)
    still = counts.get("running", 0) + counts.get("pending", 0)
    parts = [("ending", still)] if over else [(key, counts.get(key, 0)) for key in ("running", "pending")]
    parts += [(key, counts.get(key, 0)) for key in ("succeeded", "failed")]
    if over and not is_sweep(run) and status_of(run).get("startedAt"):
        parts.append(("ended", counts.get("total", 0) - sum(count for _, count in parts)))
    return [f"{count} {word}" for word, count in parts if count > 0]


def is_sweep(run: View) -> bool:
    """Whether its members are independent of each other."""
    return bool((run.get("spec") or {}).get("array"))


def size_words(run: View) -> str:
    """`8-32`: the fewest and the most members of an elastic gang; empty for all else."""
    spec = run.get("spec") or {}
    fewest, most = spec.get("minReplicas"), spec.get("replicas", 1)
    is_elastic = isinstance(fewest, int) and isinstance(most, int) and 0 < fewest < most
    return f"{fewest}-{most}" if is_elastic else ""


def members_there(run: View) -> int:
    """How many members the present attempt of an elastic gang has; 0 for all else, and between attempts."""
    present = phase_of(run) in ("Starting", "Running") or is_final(run)
    return int((status_of(run).get("attempt") or {}).get("worldSize") or 0) if present and size_words(run) else 0


def members_asked_for(run: View) -> int:
    """How many members the spec asks for, of an elastic gang at most; 1 where it makes no sense."""
    return _members_in(run) or 1


def _members_in(run: View) -> int:
    """The same; 0 where it makes no sense: a run from kubectl may ask for -3, and is refused."""
    spec = run.get("spec") or {}
    try:
        asked = len(_parsed_array(spec).indices) if spec.get("array") else spec.get("replicas", 1)
    except (ValueError, TypeError):
        return 0
    return max(asked, 0) if isinstance(asked, int) else 0


def _parsed_array(spec: Mapping[str, Any]) -> Array:
    from kajitori.core.spec.array import parse_array  # compiles patterns, for sweeps alone

    return parse_array(spec["array"])


def members_at_once(run: View) -> int:
    """How many of them may be there at the same time."""
    if members_there(run):
        return members_there(run)
    spec = run.get("spec") or {}
    try:
        return _parsed_array(spec).at_once if spec.get("array") else members_asked_for(run)
    except (ValueError, TypeError):
        return 1


def sweep_words(run: View) -> str:
    """`37 of 100 ended, 2 of them failed; 8 running`."""
    counts = status_of(run).get("members") or {}
    failed = counts.get("failed", 0)
    ended = counts.get("succeeded", 0) + failed
    words = f"{ended} of {counts.get('total') or members_asked_for(run)} ended"
    if failed:
        words += f", {failed} of them failed"
    return f"{words}; {counts['running']} running" if counts.get("running") else words


def gpu_words(run: View) -> str:
    """`16 h100`: the GPUs of all members together, of a sweep of those that are there, or, while none is, may be there
    at once; of an elastic gang that waits `64-256 h100`; empty for a run without any."""
    spec = run.get("spec") or {}
    resources = spec.get("resources") or {}
    counts = (status_of(run).get("members") or {}) if is_sweep(run) else {}
    replicas = counts.get("running", 0) + counts.get("pending", 0) or members_at_once(run)
    gpu_type = resources.get("gpuType") or ""
    is_range = size_words(run) and not members_there(run)
    fewest = f"{(resources.get('gpu') or 1) * spec['minReplicas']}-" if is_range else ""
    if (resources.get("gpu") or 0) > 0:
        return f"{fewest}{resources['gpu'] * replicas} {gpu_type}".rstrip()
    if resources.get("wholeNode") and gpu_type:
        return f"{fewest}{replicas} {'node' if replicas == 1 else 'nodes'} {gpu_type}"
    return ""


def node_words(run: View) -> str:
    """Where its members are, as a compact node list."""
    return str(run.get("nodes") or (status_of(run).get("attempt") or {}).get("nodes") or "")


def restart_words(run: View) -> str:
    """`2/3`: restarts used of those allowed; of a sweep, whose members have restarts of their own, of all together."""
    restarts, allowed = status_of(run).get("restarts", 0), restarts_allowed(run)
    if is_sweep(run):
        return str(restarts)
    return f"{restarts}/{allowed}" if allowed is not None else str(restarts)


def restarts_allowed(run: View) -> int | None:
    """How often the run may be started again after its program failed: as it says, or as policy filled in and told."""
    told = {finding.get("code"): str(finding.get("message")) for finding in status_of(run).get("findings") or ()}
    if "RestartsForcedToZero" in told:
        return 0
    count = (run.get("spec") or {}).get("restarts")
    if count is None and "RestartsDefaulted" in told:  # the amount alone: `3 restarts`, `no restarts`
        word = told["RestartsDefaulted"].partition(" ")[0]
        return int(word) if word.isdigit() else 0
    return count


def cpu_words(cpu_millis: int | float) -> str:
    """Cores with at most one decimal: `7.5`."""
    if cpu_millis % 1000 == 0:
        return format_cpu(int(cpu_millis))
    return f"{cpu_millis / 1000:.1f}"


def peak_words(run: View) -> str:
    """`41Gi of 64Gi (rank 3)`: the most memory that a member held, of its limit; empty where nobody knows."""
    memory = status_of(run).get("memory") or {}
    peak, limit = memory.get("peakBytes"), memory.get("limitBytes")
    if not peak:
        return ""
    of_limit = f" of {round_memory(limit)}" if limit else ""
    several = members_asked_for(run) > 1
    who = f" ({'member' if is_sweep(run) else 'rank'} {memory.get('rank', 0)})" if several else ""
    return f"{round_memory(peak)}{of_limit}{who}"


def is_peak_near_limit(run: View) -> bool:
    """Whether a member came so close to its memory limit that its user wants to know, though all went well."""
    memory = status_of(run).get("memory") or {}
    return bool(memory.get("limitBytes")) and memory.get("peakBytes", 0) >= NEAR_LIMIT * memory["limitBytes"]


def plural(count: int, noun: str) -> str:
    """A number and its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def command_line(run: View) -> str:
    """The `kaji run` that asks for the same, in Docker's words."""
    spec = run.get("spec") or {}
    resources = spec.get("resources") or {}
    words = ["kaji", "run", "--name", str(run.get("name", ""))]
    one = (
        ("--type", spec.get("type") if spec.get("type") != "batch" else None),
        ("-n", size_words(run) or (spec.get("replicas") if spec.get("replicas", 1) != 1 else None)),
        ("--array", spec.get("array")),
        ("--stop-at", spec.get("stopAt")),
        ("--launcher", spec.get("launcher") if spec.get("launcher") != "none" else None),
        ("--gpus", resources.get("gpu") or None),
        ("--gpu-type", resources.get("gpuType")),
        ("--cpus", resources.get("cpu")),
        ("-m", resources.get("memory")),
        ("--shm-size", resources.get("shm")),
        ("-w", spec.get("workingDir")),
        ("-u", spec.get("user")),
        ("--restarts", spec.get("restarts")),
        ("--priority", spec.get("priority")),
        ("--time-limit", spec.get("timeLimit")),
        ("--grace", spec.get("grace")),
    )
    for flag, value in one:
        if value is not None:
            words += [flag, str(value)]
    for flag, given in (
        ("--whole-node", resources.get("wholeNode")),
        ("--privileged", spec.get("privileged")),
        ("--network=host", spec.get("hostNetwork")),
        ("--rm", spec.get("removeAfter") is not None),
    ):
        if given:
            words.append(flag)
    for flag, places in (("--allow-from", "from"), ("--allow-to", "to")):
        allowed = (spec.get("network") or {}).get(places)
        if allowed is not None:
            words += [flag, ",".join(allowed) or "none"]
    for key, value in (spec.get("env") or {}).items():
        words += ["-e", f"{key}={value}"]
    for volume in spec.get("volumes") or ():
        source = volume.get("name") or volume.get("hostPath") or ""
        words += ["-v", f"{source}:{volume['path']}{':ro' if volume.get('readOnly') else ''}"]
    for secret in spec.get("secrets") or ():
        words += ["--secret", _secret(secret)]
    code = spec.get("code")
    if code:
        words += ["--code", f"{code['digest']}:{code['path']}" if code.get("path") else code["digest"]]
    checkpoint = spec.get("checkpoint")
    if checkpoint:
        size = checkpoint.get("size")
        words += ["--checkpoint", f"{checkpoint['path']}:{size}" if size else checkpoint["path"]]
        if checkpoint.get("every"):
            words += ["--checkpoint-every", str(checkpoint["every"])]
    for port in spec.get("ports") or ():
        words += ["-p", str(port)]
    for key, value in (spec.get("nodeSelector") or {}).items():
        words += ["--node-selector", f"{key}={value}"]
    command, args = list(spec.get("command") or ()), list(spec.get("args") or ())
    if command:
        words += ["--entrypoint", command[0]]
    return shlex.join([*words, str(spec.get("image", "")), *command[1:], *args])


def _secret(secret: Mapping[str, Any]) -> str:
    if secret.get("env"):
        return f"{secret['env']}={secret['name']}/{secret['key']}"
    return f"{secret['name']}:{secret['path']}" if secret.get("path") else str(secret["name"])
