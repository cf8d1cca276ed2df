"""Texts for the fields of a run's view, as tables and pages show them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kajitori.client.views import View, is_final, phase_of, status_of
from kajitori.core.formats.quantities import format_cpu, round_memory
from kajitori.core.spec.reasons import COUNTS_AS_RESTART, START_FAILURES
from kajitori.core.suggestions import first_few

if TYPE_CHECKING:
    from kajitori.core.spec.array import Array

NEAR_LIMIT = 0.9
"""Share of its memory limit from which a member's peak is shown as a warning."""

_UNITS = ((86_400 * 365, "year", 2), (86_400 * 30, "month", 2), (86_400 * 7, "week", 2), (86_400, "day", 2))
_COMMAND_LENGTH = 30
"""Number of characters of a command in a narrow column."""


def human_duration(seconds: float) -> str:
    """Return a time span in Docker's words: `About a minute`, `5 minutes`, `2 hours`, `3 days`."""
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
    """Return a time of the API; None if `text` is missing or no time."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def age(text: str | None, now: datetime) -> str:
    """Return the time since `text` in words; empty if `text` is missing or no time."""
    then = moment(text)
    return human_duration(max(0.0, (now - then).total_seconds())) if then is not None else ""


def short_duration(seconds: float) -> str:
    """Return a time span for a narrow column: `45s`, `12m`, `2h13m`, `3d4h`; from an hour on with two units."""
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
    """Return how long a run has run or, before its first start, has waited."""
    status = status_of(run)
    begin, end = moment(status.get("startedAt")), moment(status.get("finishedAt"))
    if phase_of(run) == "Queued":
        begin = moment(status.get("queuedAt") or run.get("createdAt"))
    if begin is None and end is not None and status.get("attempts"):
        begin = end  # the program ended before it was seen running
    return short_duration(((end or now) - begin).total_seconds()) if begin is not None else ""


def program_words(run: View, *, cut: bool = False) -> str:
    """Return the command of a run as one would type it; empty if the image's own program runs. With `cut`, its
    beginning, for a narrow column."""
    spec = run.get("spec") or {}
    text = shlex.join([*(spec.get("command") or ()), *(spec.get("args") or ())])
    return f"{text[: _COMMAND_LENGTH - 1]}…" if cut and len(text) > _COMMAND_LENGTH else text


class GuaranteeRow(NamedTuple):
    """One resource that a team is guaranteed."""

    team: str
    resource: str
    total: int
    used: int
    shown: Callable[[int], str]
    """Formats amounts of this resource."""
    borrowed: str
    """The amounts that the team uses beyond its guarantee, in words; empty if there are none."""


def guarantee_rows(guarantees: Iterable[Mapping[str, Any]]) -> Iterator[GuaranteeRow]:
    """Yield a row for each resource that a team is guaranteed."""
    for guarantee in guarantees:
        kinds: tuple[tuple[str, str, Callable[[int], str]], ...] = (
            ("gpus", f"{guarantee.get('gpuType') or 'any'} GPUs", str),
            ("cpuMillis", "cores", cpu_words),
            ("memoryBytes", "memory", round_memory),
            ("nodes", "whole nodes", str),
        )
        for key, what, shown in kinds:
            amount = guarantee.get(key)
            if amount is not None:
                beyond = amount["used"] - amount["total"]
                borrowed = f"{shown(beyond)} borrowed" if beyond > 0 else ""
                yield GuaranteeRow(guarantee["namespace"], what, amount["total"], amount["used"], shown, borrowed)


def controller_words(controller: Mapping[str, Any]) -> str:
    """Return the leader and the age of its lease: `c1, renewed its lease 1 second ago`; empty for an empty view."""
    if not controller:
        return ""
    if controller.get("says"):
        return str(controller["says"])
    age = controller.get("ageSeconds")
    if age is None:
        return "not known yet"
    renewed = human_duration(age)
    return f"{controller.get('leader') or 'nobody leads'}, renewed its lease {renewed[0].lower()}{renewed[1:]} ago"


def has_started(run: View) -> bool:
    """Whether an attempt of the run was ever started, so that there may be a log."""
    return bool(status_of(run).get("attempts") or status_of(run).get("attempt"))


def status_words(run: View) -> str:
    """Return the phase, with health and the exit code of a failed run as `docker ps` shows them: `Running (healthy)`,
    `Failed (137)`. As on the web page, a running run that may be stuck is `Stuck?`, one whose health check fails is
    `Unhealthy`, and one with idle GPUs is `Idle`."""
    status, phase = status_of(run), phase_of(run)
    health = (status.get("health") or {}).get("status")
    if phase == "Running":
        found = {"Stuck?": status.get("stuck"), "Unhealthy": health == "unhealthy", "Idle": status.get("idle")}
        if word := next((word for word, holds in found.items() if holds), ""):
            return word
        return f"{phase} ({'health: ' if health == 'starting' else ''}{health})" if health else phase
    code = status.get("exitCode")
    return f"{phase} ({code})" if phase == "Failed" and code is not None else phase


def health_words(run: View, now: datetime) -> str:
    """Return the health of a run's members: `unhealthy for 5 minutes: ranks 1,3 of 4`. Empty without a health check,
    and while no member runs."""
    health = status_of(run).get("health")
    if not health:
        return ""
    words, total = str(health["status"]), int((status_of(run).get("members") or {}).get("total") or 1)
    if span := age(health.get("since"), now):
        words += f" for {span[0].lower()}{span[1:]}"
    if total > 1 and health.get("ranks"):
        ranks = str(health["ranks"])
        words += f": {'rank' if ranks.isdecimal() else 'ranks'} {ranks} of {total}"
    elif health["status"] == "starting" and total > 1:
        words += f": {health.get('healthy', 0)} of {total} are healthy"
    return words


def reason_words(run: View) -> str:
    """Return the reason in one word, for a table."""
    if run.get("deleting"):
        return "Deleting"
    reason = str(status_of(run).get("reason") or "")
    return f"{reason} {first_few(waits_for(run), 1)}" if reason == "WaitingForRun" else reason


def waits_for(run: View) -> list[str]:
    """Return the names of the runs that a run still waits for."""
    return [str(other["run"]) for other in status_of(run).get("after") or () if not other.get("metAt")]


def after_words(run: View) -> str:
    """Return the runs for which this one waits before it starts: `prepare (succeeded), fetch (ended)`."""
    spec = run.get("spec") or {}
    return ", ".join(f"{other['run']} ({other.get('condition', 'succeeded')})" for other in spec.get("after") or ())


_PHASES = {"Queued": "waiting", "Starting": "starting", "Running": "running", "Restarting": "restarting"}

_IN_PLAIN_WORDS = {
    "NotPlannedYet": "for a place",
    "WaitingForGPU": "for GPUs",
    "WaitingForCPU": "for cores",
    "WaitingForMemory": "for memory",
    "WaitingForNodes": "for nodes",
    "WaitingItsTurn": "for its turn",
    "ClusterTooSmall": "for a larger cluster",
    "WaitingForRun": "for another run",
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
    "SuspectedStuck": "(no progress for long)",
    "Stuck": "(stuck)",
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
    """Return the number of failed starts in a row of a run that waits for the next one; else 0."""
    status = status_of(run)
    waits = phase_of(run) == "Queued" and status.get("reason") in START_FAILURES
    return max(1, int(status.get("failedStarts") or 0)) if waits else 0


def counts_as_restart(run: View) -> bool:
    """Whether the run restarts because its program failed: such restarts are limited."""
    return phase_of(run) == "Restarting" and status_of(run).get("reason") in COUNTS_AS_RESTART


def progress_words(run: View) -> str:
    """Return a text about the present state of a run that has not ended: `waiting for GPUs: needs 16 h100`."""
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
    """Return the members that run, or have succeeded once the run has ended, and the total: `3/4`.

    A sweep shows `37/100 ended`, an elastic gang `12 of 8-32`, and a refused run without a valid number `-`.
    """
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
    """Return the numbers of members by state: `3 running`, `1 failed`. Members of an ended run that still run count as
    `ending`, and members that were stopped with it as `ended`."""
    counts, over = status_of(run).get("members") or {}, is_final(run)
    still = counts.get("running", 0) + counts.get("pending", 0)
    parts = [("ending", still)] if over else [(key, counts.get(key, 0)) for key in ("running", "pending")]
    parts += [(key, counts.get(key, 0)) for key in ("succeeded", "failed")]
    if over and not is_sweep(run) and status_of(run).get("startedAt"):
        parts.append(("ended", counts.get("total", 0) - sum(count for _, count in parts)))
    return [f"{count} {word}" for word, count in parts if count > 0]


def is_sweep(run: View) -> bool:
    """Return whether the run is a sweep, which has independent members."""
    return bool((run.get("spec") or {}).get("array"))


def size_words(run: View) -> str:
    """Return the range of members of an elastic gang: `8-32`; empty for every other run."""
    spec = run.get("spec") or {}
    fewest, most = spec.get("minReplicas"), spec.get("replicas", 1)
    is_elastic = isinstance(fewest, int) and isinstance(most, int) and 0 < fewest < most
    return f"{fewest}-{most}" if is_elastic else ""


def members_there(run: View) -> int:
    """Return the number of members in an elastic gang's current attempt; 0 between attempts and for other runs."""
    present = phase_of(run) in ("Starting", "Running") or is_final(run)
    return int((status_of(run).get("attempt") or {}).get("worldSize") or 0) if present and size_words(run) else 0


def members_asked_for(run: View) -> int:
    """Return the number of members in the spec, for an elastic gang the largest; 1 if the spec's number is invalid."""
    return _members_in(run) or 1


def _members_in(run: View) -> int:
    """Return the number of members in the spec; 0 if it is invalid, such as the -3 of a run made with kubectl."""
    spec = run.get("spec") or {}
    try:
        asked = len(_parsed_array(spec).indices) if spec.get("array") else spec.get("replicas", 1)
    except (ValueError, TypeError):
        return 0
    return max(asked, 0) if isinstance(asked, int) else 0


def _parsed_array(spec: Mapping[str, Any]) -> Array:
    from kajitori.core.spec.array import parse_array  # compiles patterns, for sweeps alone

    return parse_array(spec["array"])


def require_member(run: View, rank: int, field: str) -> None:
    """Raise InvalidInput, which names the option `field`, if the run never has a member of this rank or index."""
    from kajitori.core.formats.node_lists import compress_ranks
    from kajitori.errors import InvalidInput

    count = members_asked_for(run)
    indices = _parsed_array(run["spec"]).indices if is_sweep(run) else range(count)
    if rank in indices:
        return
    hint = f"ranks are 0 to {count - 1}" if count > 1 else "its only rank is 0"
    hint = f"its indices are {compress_ranks(indices)}" if is_sweep(run) else hint
    message = f"{run['name']} has {count} member{'s' if count > 1 else ''}"
    raise InvalidInput.one(field, message, value=str(rank), hint=hint)


def members_at_once(run: View) -> int:
    """Return the number of members that may exist at the same time."""
    if members_there(run):
        return members_there(run)
    spec = run.get("spec") or {}
    try:
        return _parsed_array(spec).at_once if spec.get("array") else members_asked_for(run)
    except (ValueError, TypeError):
        return 1


def sweep_words(run: View) -> str:
    """Return the progress of a sweep: `37 of 100 ended, 2 of them failed; 8 running`."""
    counts = status_of(run).get("members") or {}
    failed = counts.get("failed", 0)
    ended = counts.get("succeeded", 0) + failed
    words = f"{ended} of {counts.get('total') or members_asked_for(run)} ended"
    if failed:
        words += f", {failed} of them failed"
    return f"{words}; {counts['running']} running" if counts.get("running") else words


def gpu_words(run: View) -> str:
    """Return the GPUs of all members: `16 h100`; empty for a run without GPUs.

    A sweep counts its current members, or as many as may run at once while it has none. An elastic gang that waits
    shows a range: `64-256 h100`.
    """
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
    """Return the nodes of the members as a compact list."""
    return str(run.get("nodes") or (status_of(run).get("attempt") or {}).get("nodes") or "")


def restart_words(run: View) -> str:
    """Return the restarts used and allowed: `2/3`; for a sweep the sum of its members' restarts."""
    restarts, allowed = status_of(run).get("restarts", 0), restarts_allowed(run)
    if is_sweep(run):
        return str(restarts)
    return f"{restarts}/{allowed}" if allowed is not None else str(restarts)


def restarts_allowed(run: View) -> int | None:
    """Return how often the run may restart after its program failed: from its spec, or from policy's findings on it."""
    findings = {finding.get("code"): str(finding.get("message")) for finding in status_of(run).get("findings") or ()}
    if "RestartsForcedToZero" in findings:
        return 0
    count = (run.get("spec") or {}).get("restarts")
    if count is None and "RestartsDefaulted" in findings:  # its message is `3 restarts` or `no restarts`
        word = findings["RestartsDefaulted"].partition(" ")[0]
        return int(word) if word.isdigit() else 0
    return count


def cpu_words(cpu_millis: int | float) -> str:
    """Return a number of cores with at most one decimal: `7.5`."""
    if cpu_millis % 1000 == 0:
        return format_cpu(int(cpu_millis))
    return f"{cpu_millis / 1000:.1f}"


def peak_words(run: View) -> str:
    """Return the largest memory use of a member and its limit: `41Gi of 64Gi (rank 3)`; empty if it is not known."""
    memory = status_of(run).get("memory") or {}
    peak, limit = memory.get("peakBytes"), memory.get("limitBytes")
    if not peak:
        return ""
    of_limit = f" of {round_memory(limit)}" if limit else ""
    several = members_asked_for(run) > 1
    who = f" ({'member' if is_sweep(run) else 'rank'} {memory.get('rank', 0)})" if several else ""
    return f"{round_memory(peak)}{of_limit}{who}"


def is_peak_near_limit(run: View) -> bool:
    """Whether a member's memory peak reached `NEAR_LIMIT` of its limit."""
    memory = status_of(run).get("memory") or {}
    return bool(memory.get("limitBytes")) and memory.get("peakBytes", 0) >= NEAR_LIMIT * memory["limitBytes"]


def plural(count: int, noun: str) -> str:
    """Return a number and its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
