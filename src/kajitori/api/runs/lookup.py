"""Which run a path means."""

from __future__ import annotations

import msgspec

from kajitori.api.auth import User
from kajitori.api.context import Api
from kajitori.core.documents.faults import show
from kajitori.core.spec.run import name_fault
from kajitori.errors import Fault, InvalidInput, KajitoriError, NotFound, Unsupported
from kajitori.kube.decoding import decode
from kajitori.kube.errors import NotServedError
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import RUNS

SHOWN_CANDIDATES = 10


async def find_run(api: Api, user: User, namespace: str, name: str) -> RunObject:
    """The run of that name, or the only one whose name begins so, for somebody who may read it.

    A run that was made a moment ago is found, too. Raises Forbidden, NotFound, and InvalidInput that lists the
    candidates where there are several.
    """
    await user.require("get", namespace, name)
    require_definition(api)
    run = api.mirror.runs.get((namespace, name))
    if run is not None:
        return run
    if name_fault(name) is None:
        try:  # the mirror is a moment behind; whoever has just created a run wants to see it
            return await user.client.get(RUNS, name, namespace, type=RunObject)
        except NotFound:
            pass
    candidates = sorted(
        run.metadata.name
        for (where, _), run in api.mirror.runs.items()
        if name and where == namespace and run.metadata.name.startswith(name)
    )
    if not candidates:
        raise no_such_run(api, namespace, name)
    if len(candidates) == 1:
        await user.require("get", namespace, candidates[0])
        return api.mirror.runs[namespace, candidates[0]]
    listed = ", ".join(candidates[:SHOWN_CANDIDATES])
    more = f" and {len(candidates) - SHOWN_CANDIDATES} more" if len(candidates) > SHOWN_CANDIDATES else ""
    message = f"{show(name)!r} may be any of {listed}{more}"
    raise InvalidInput([Fault("name", message, show(name), "write more of the name", "Ambiguous")])


def require_definition(api: Api) -> None:
    """Raises Unsupported while the cluster does not define runs: a list would look as if there were none."""
    if api.mirror.lacks(RUNS):
        raise _undefined(api)


def _undefined(api: Api) -> Unsupported:
    name = f"{RUNS.plural}.{RUNS.group}"
    message = f"the definition of runs (CustomResourceDefinition {name}) is missing in the cluster"
    return Unsupported(message, hint=f"to install it: {api.install_command}")


def no_such_run(api: Api, namespace: str, name: str, said: NotFound | None = None) -> KajitoriError:
    """The error for a run that is not there; `said`: what the API server answered."""
    if isinstance(said, NotServedError):
        return _undefined(api)
    return NotFound(f"there is no run {show(name)!r} in namespace {show(namespace)}", hint="see them all: kaji ps -a")


def run_object(document: dict[str, object]) -> RunObject:
    """A Run as the API server answered it."""
    return decode(msgspec.json.encode(document), RunObject)
