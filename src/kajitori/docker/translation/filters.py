"""The `filters` of lists and events."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kajitori.docker.translation.container import (
    HEALTHY,
    NO_CHECK,
    STARTING,
    UNHEALTHY,
    Container,
    network_id,
    seconds_of,
)
from kajitori.docker.translation.inspection import mounts, published
from kajitori.errors import InvalidInput

Filters = Mapping[str, frozenset[str]]

CONTAINER_FILTERS = frozenset(
    {
        "ancestor",
        "before",
        "exited",
        "expose",
        "health",
        "id",
        "is-task",
        "isolation",
        "label",
        "name",
        "network",
        "publish",
        "since",
        "status",
        "volume",
    }
)
HEALTHS = frozenset({STARTING, HEALTHY, UNHEALTHY, NO_CHECK})
STATES = frozenset({"created", "dead", "exited", "paused", "removing", "restarting", "running"})


def parse_filters(text: str, known: Collection[str]) -> dict[str, frozenset[str]]:
    """Read the parameter `filters`: an object of lists, or of the sets that old clients send. Raises InvalidInput."""
    if not text:
        return {}
    try:
        document = json.loads(text)
        filters = {
            str(key): frozenset(str(one) for one in values if not isinstance(values, dict) or values[one])
            for key, values in document.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InvalidInput.one("filters", "must be an object of lists in JSON", value=text[:80]) from None
    for key in filters.keys() - set(known):
        hint = f"use {', '.join(sorted(known))}"
        raise InvalidInput.one("", f"invalid filter '{key}'", value=key, hint=hint)
    return filters


def check_container_filters(filters: Filters) -> None:
    """Raise InvalidInput for values that no container can have."""
    for status in filters.get("status", frozenset()) - STATES:
        raise InvalidInput.one("status", f"invalid filter 'status={status}'", hint=f"use {', '.join(sorted(STATES))}")
    for health in filters.get("health", frozenset()) - HEALTHS:
        raise InvalidInput.one("health", f"invalid filter 'health={health}'", hint=f"use {', '.join(sorted(HEALTHS))}")
    for code in filters.get("exited", ()):
        if not code.lstrip("-").isdigit():
            raise InvalidInput.one("exited", f"invalid filter 'exited={code}'", hint="write an exit code")


def matching(containers: Sequence[Container], filters: Filters) -> list[Container]:
    """Return the containers that pass all filters, in the same order."""
    before = _times(containers, filters.get("before", frozenset()))
    since = _times(containers, filters.get("since", frozenset()))
    return [
        container
        for container in containers
        if _passes(container, filters)
        and (not before or _created(container) < min(before))
        and (not since or _created(container) > max(since))
    ]


def has_labels(labels: Mapping[str, str], wanted: Collection[str]) -> bool:
    """Whether all of these labels, `KEY` or `KEY=VALUE`, are among `labels`."""
    pairs = (one.partition("=") for one in wanted)
    return all(key in labels and (not equals or labels[key] == value) for key, equals, value in pairs)


def _passes(container: Container, filters: Filters) -> bool:
    tests: dict[str, Any] = {
        "id": lambda wanted: any(container.id.startswith(one) for one in wanted),
        "name": lambda wanted: any(_named(container, one) for one in wanted),
        "label": lambda wanted: has_labels(container.labels, wanted),
        "status": lambda wanted: container.state in wanted,
        "health": lambda wanted: container.health in wanted,
        "exited": lambda wanted: container.has_ended and str(container.exit_code) in wanted,
        "ancestor": lambda wanted: any(_is_image(str(container.spec.get("image")), one) for one in wanted),
        "volume": lambda wanted: any({mount["Source"], mount["Destination"]} & wanted for mount in mounts(container)),
        "network": lambda wanted: bool(wanted & {*container.networks, *map(network_id, container.networks)}),
        "publish": lambda wanted: _has_port(container, wanted),
        "expose": lambda wanted: _has_port(container, wanted),
        "is-task": lambda wanted: not wanted & {"1", "true"},
        "isolation": lambda wanted: "default" in wanted,
    }
    return all(tests[key](wanted) for key, wanted in filters.items() if key in tests)


def _named(container: Container, pattern: str) -> bool:
    """Whether a container's name matches a regular expression of RE2, as Docker's daemon has them. The time of Python's
    may grow exponentially with the name."""
    import re2  # only here: most clients never filter by name

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return False
    return any(compiled.search(name) is not None for name in (container.name, f"/{container.name}"))


def _is_image(image: str, wanted: str) -> bool:
    return image == wanted or image.partition(":")[0] == wanted or f"{image}:latest" == wanted


def _has_port(container: Container, wanted: frozenset[str]) -> bool:
    return any(f"{one}/tcp" in published(container) or one in published(container) for one in wanted)


def _times(containers: Sequence[Container], names: frozenset[str]) -> list[float]:
    times = [_created(one) for one in containers if one.name in names or any(map(one.id.startswith, names))]
    if names and not times:
        raise InvalidInput.one("", f"no such container: {', '.join(sorted(names))}")
    return times


def _created(container: Container) -> float:
    return seconds_of(str(container.view["createdAt"]))
