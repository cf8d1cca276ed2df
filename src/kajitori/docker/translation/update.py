"""From the body of `POST /containers/{id}/update` to a change of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.docker.translation.container import Container
from kajitori.docker.translation.creation import ALWAYS, check_restart_policy, restarts_of
from kajitori.docker.translation.inspection import resource_fields
from kajitori.docker.translation.options import answer_others
from kajitori.docker.translation.request import Creation
from kajitori.errors import InvalidInput

_FIXED = {"Memory": "--memory", "NanoCpus": "--cpus"}
"""Options by the field of the amounts that a run keeps as long as it exists."""


def read_update(container: Container, body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the run's spec that change, none if all is as wanted already; and warnings of options that
    change nothing, as when a container is created.

    Raises InvalidInput with everything that can't be changed.
    """
    made = Creation(container.name)
    _resources(made, container, body)
    _restarts(made, container, body.get("RestartPolicy") or {})
    answer_others(made, {}, body)
    if made.faults:
        raise InvalidInput(made.faults)
    return {field: value for field, value in made.spec.items() if container.spec.get(field) != value}, made.warnings


def _resources(made: Creation, container: Container, body: Mapping[str, Any]) -> None:
    """Refuse other resources: the members' Pods have theirs for good, and their nodes were chosen by them."""
    now = resource_fields(container)
    for field, option in _FIXED.items():
        if (value := body.get(field)) and value != now[field]:
            hint = f"docker rm {container.name}, and docker run with the new value; a checkpoint of this name is kept"
            made.complain(option, "the resources of a run are fixed while it exists", hint, value=value)


def _restarts(made: Creation, container: Container, policy: Mapping[str, Any]) -> None:
    kind = check_restart_policy(made, policy)
    if kind and (kind in ALWAYS) != container.is_service:
        words = "starts its program again whenever it ends" if container.is_service else "ends with its program"
        hint = f"docker rm {container.name}, and docker run --restart {kind}"
        made.complain("--restart", f"{container.name} {words}, and that is fixed while it exists", hint, value=kind)
    elif kind in ("no", "on-failure"):
        made.spec["restarts"] = restarts_of(policy) if kind == "on-failure" else 0
