"""Change a Run with the caller's credentials, unless another client changes it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import Header

from kajitori.api.context import Api
from kajitori.api.lookup import no_such_run, run_object
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.spec.run import name_fault
from kajitori.errors import Conflict, NotFound

TRIES = 5
"""Attempts to change a run. A write conflicts if another client changes the run after we read it."""


Patch = dict[str, Any]

Expected = Annotated[
    str,
    Header(
        alias="If-Match",
        max_length=253,
        description="The UID of the run that is meant: 404 if it was deleted and another run has its name by now.",
    ),
]
"""The run that the caller has seen under a name."""


def uid_of(expected: str) -> str:
    """Return the UID in the header `If-Match`; empty for any run of the name."""
    text = expected.strip().strip('"')
    return "" if text == "*" else text


def other_run(name: str) -> NotFound:
    """Return the error for a run that another one has followed under its name."""
    return NotFound(
        f"{name} was deleted, and another run has its name now", hint=f"look at that one: kaji describe {name}"
    )


async def change_run(
    api: Api,
    user: User,
    namespace: str,
    name: str,
    expected: str,
    change: Callable[[RunObject, dict[str, Any]], Patch | None],
) -> RunObject:
    """Change a run's spec by compare-and-swap with the caller's credentials. `change` returns the patch, or None.

    Raises NotFound if the run is not the `expected` one.
    """

    def changed(run: RunObject) -> Patch | None:
        document = msgspec.json.decode(run.spec)
        patch = change(run, document if isinstance(document, dict) else {})
        return None if patch is None else {"spec": patch}

    return await change_object(api, user, namespace, name, expected, changed)


async def change_object(
    api: Api, user: User, namespace: str, name: str, expected: str, change: Callable[[RunObject], Patch | None]
) -> RunObject:
    """Do the same for a whole Run."""
    check_name(api, namespace, name)
    for left in range(TRIES - 1, -1, -1):
        try:
            run = await user.client.get(RUNS, name, namespace, type=RunObject)
        except NotFound as error:
            raise no_such_run(api, namespace, name, error) from None
        if run.metadata.uid != (uid_of(expected) or run.metadata.uid):
            raise other_run(name)
        patch = change(run)
        if patch is None:
            return run
        meta = {"uid": run.metadata.uid, "resourceVersion": run.metadata.resource_version}
        try:
            patch = {**patch, "metadata": {**patch.get("metadata", {}), **meta}}
            changed = await user.client.patch(RUNS, name, patch, namespace)
        except Conflict:
            if not left:
                raise
        else:
            return run_object(changed)
    raise AssertionError("unreachable")


def check_name(api: Api, namespace: str, name: str) -> None:
    """Raise NotFound for a name that no run can have."""
    if name_fault(name) is not None:
        raise no_such_run(api, namespace, name)


def require_allowed(api: Api, run: RunObject, spec: dict[str, Any]) -> None:
    """Raise Refused if the policy forbids the run with this spec."""
    api.cluster.decide(msgspec.structs.replace(run, spec=msgspec.Raw(msgspec.json.encode(spec))))


def resumes_of(spec: dict[str, Any]) -> int:
    """Return how often the run was asked to start again."""
    value = spec.get("resumes")
    return value if isinstance(value, int) else 0


def is_resuming(run: RunObject, spec: dict[str, Any]) -> bool:
    """Whether the run was resumed and the controller has not acted on it yet."""
    done = run.status.resumes if run.status is not None else 0
    return phase_of(run).is_final and not spec.get("stopped") and resumes_of(spec) > done


def is_restarting(run: RunObject, spec: dict[str, Any]) -> bool:
    """Whether the run was asked to start again and has not ended yet."""
    done = run.status.resumes if run.status is not None else 0
    return not phase_of(run).is_final and not spec.get("stopped") and resumes_of(spec) > done


def without_old_grace(run: RunObject, spec: dict[str, Any]) -> Patch:
    """Return the change that removes the grace period of an earlier restart; empty if the run has none of that kind."""
    is_ending = spec.get("stopped") or is_restarting(run, spec)
    return {"stopGrace": None} if spec.get("stopGrace") and not is_ending else {}
