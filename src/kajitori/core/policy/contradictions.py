"""Contradictions between sections of a policy that are valid by themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kajitori.core.formats.quantities import format_cpu, format_duration, format_memory
from kajitori.core.policy.model import Policy
from kajitori.core.spec.network_access import is_within, place_fault
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault

_Pair = tuple[str, int | None, str, int | None, Callable[[int], str]]
"""Default, its value, ceiling, its value, and the function that formats them."""


def contradictions(policy: Policy, unread: Collection[str]) -> Iterator[Fault]:
    """Yield every contradiction. `unread` names sections that could not be read, and that `policy` has the defaults
    of: what depends on them is not known."""
    yield from _defaults_above_ceilings(policy)
    if "teams" not in unread:
        yield from _templates_without_teams(policy)
    if "traffic" not in unread:
        yield from _unknown_places(policy)


def _defaults_above_ceilings(policy: Policy) -> Iterator[Fault]:
    member, run, defaults = policy.ceilings.member, policy.ceilings.run, policy.defaults
    pairs: Sequence[_Pair] = (
        ("cpu", defaults.cpu_millis, "member.cpu", member.cpu_millis, format_cpu),
        ("cpu", defaults.cpu_millis, "run.cpu", run.cpu_millis, format_cpu),
        ("memory", defaults.memory_bytes, "member.memory", member.memory_bytes, format_memory),
        ("memory", defaults.memory_bytes, "run.memory", run.memory_bytes, format_memory),
        ("shm", defaults.shm_bytes, "member.shm", member.shm_bytes, format_memory),
        ("restarts", defaults.restarts, "run.restarts", run.restarts, str),
        ("restartsWithoutCheckpoint", defaults.restarts_without_checkpoint, "run.restarts", run.restarts, str),
        ("grace", defaults.grace_seconds, "run.grace", run.grace_seconds, format_duration),
        ("timeLimit", defaults.time_limit_seconds, "run.timeLimit", run.time_limit_seconds, format_duration),
        (
            "checkpointSize",
            defaults.checkpoint_size_bytes,
            "run.checkpointSize",
            run.checkpoint_size_bytes,
            format_memory,
        ),
    )
    for name, value, ceiling, limit, shown in pairs:
        if value is None or limit is None or value <= limit:
            continue
        message = (
            f"{shown(limit)} is below defaults.{name}, which is {shown(value)}: runs that leave it out would be refused"
        )
        hint = f"set defaults.{name} to at most {shown(limit)}, or raise the ceiling"
        yield Fault(f"ceilings.{ceiling}", message, shown(limit), hint)


def _templates_without_teams(policy: Policy) -> Iterator[Fault]:
    for name, template in policy.templates.items():
        for index, team in enumerate(template.teams):
            if team not in policy.teams:
                hint = did_you_mean(team, policy.teams) or "name teams of the section teams, or leave them out"
                yield Fault(f"templates.{name}.teams[{index}]", f"there is no team {team!r}", team, hint)


def _unknown_places(policy: Policy) -> Iterator[Fault]:
    """Yield faults of places in rules of networks: unknown address classes, and defaults beyond the ceilings."""
    classes, default, most = policy.traffic.address_classes, policy.defaults.network, policy.ceilings.run.network
    faults: list[Fault] = []
    for where, use in (
        ("defaults.network", default),
        ("ceilings.run.network", most),
        ("network.always", policy.network.always),
    ):
        for name, places in (("from", use.sources), ("to", use.targets)):
            for index, place in enumerate(places or ()):
                message, hint = place_fault(place, classes)
                if message:
                    faults.append(Fault(f"{where}.{name}[{index}]", message, place, hint))
    pods = policy.network.pods
    if pods not in (None, *classes.names):
        hint = f"known: {', '.join(classes.names)}"
        faults.append(Fault("network.pods", f"there is no address class {pods!r}", pods or "", hint))
    yield from faults
    if faults:
        return
    for name, places, limit in (("from", default.sources, most.sources), ("to", default.targets, most.targets)):
        for index, place in enumerate(places or ()):
            if limit is not None and not is_within(place, limit, classes, policy.class_of_pods):
                message = f"{place} exceeds ceilings.run.network.{name}: {', '.join(limit) or 'nothing'}"
                hint = "stay within the ceiling, or widen it"
                yield Fault(f"defaults.network.{name}[{index}]", message, place, hint)
