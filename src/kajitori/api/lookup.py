"""Find the run that a path names."""

from __future__ import annotations

import msgspec

from kajitori.api.context import Api
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.documents.faults import show
from kajitori.core.spec.run import name_fault
from kajitori.core.suggestions import first_few
from kajitori.core.usage.records import RunRecord
from kajitori.errors import Fault, InvalidInput, KajitoriError, NotFound, Unsupported
from kajitori.history.store import History
from kajitori.kube.decoding import decode
from kajitori.kube.errors import NotServedError

SHOWN_CANDIDATES = 10


async def find_run(api: Api, user: User, namespace: str, name: str) -> RunObject:
    """Return the run with this name, or the only run whose name begins with it.

    A run that was just created is found, too. Raises Forbidden if the user may not read it, NotFound, or InvalidInput
    with the candidates if several names begin with it.
    """
    await user.require("get", namespace, name)
    require_definition(api)
    run = api.mirror.runs.get((namespace, name))
    if run is not None:
        return run
    if name_fault(name) is None:
        try:  # the mirror lags a little, and users look at runs that they have just created
            return await user.client.get(RUNS, name, namespace, type=RunObject)
        except NotFound:
            pass
    candidates = sorted(
        run.metadata.name
        for (run_namespace, _), run in api.mirror.runs.items()
        if name and run_namespace == namespace and run.metadata.name.startswith(name)
    )
    if not candidates:
        raise no_such_run(api, namespace, name)
    if len(candidates) == 1:
        await user.require("get", namespace, candidates[0])
        return api.mirror.runs[namespace, candidates[0]]
    message = f"several runs have names that begin with {show(name)!r}: {first_few(candidates, SHOWN_CANDIDATES)}"
    raise InvalidInput([Fault("name", message, show(name), "write more of the name", "Ambiguous")])


async def find_run_or_record(api: Api, user: User, namespace: str, name: str) -> RunObject:
    """Return the run like `find_run`; if there is none, the newest run of this name in history, or the one with this
    UID, as its object was last."""
    try:
        return await find_run(api, user, namespace, name)
    except NotFound:
        if api.stores.history is None:
            raise
    _, run = await recorded_run(api, namespace, name)
    return run


async def recorded_run(api: Api, namespace: str, name: str) -> tuple[RunRecord, RunObject]:
    """Return a run from history. Raises NotFound."""
    record = await history_of(api).run(namespace, name)
    if record is None:
        message = f"there is no run {show(name)!r} in namespace {show(namespace)}, nor was there one"
        raise NotFound(message, hint="see them all: kaji history")
    return record, decode(record.document, RunObject)


def history_of(api: Api) -> History:
    """Return this server's history. Raises Unsupported if it has none."""
    if api.stores.history is None:
        hint = "start kaji server and kaji controller with the same --history"
        raise Unsupported("this server keeps no history", hint=hint)
    return api.stores.history


def active_runs(api: Api, namespace: str) -> list[tuple[str, RunObject]]:
    """Return name and Run of the namespace's runs that have not ended, by name."""
    return sorted(
        (
            (name, run)
            for (run_namespace, name), run in api.mirror.runs.items()
            if run_namespace == namespace and not phase_of(run).is_final
        ),
        key=lambda item: item[0],
    )


def require_definition(api: Api) -> None:
    """Raise Unsupported if the cluster does not define runs. An empty list would be misleading then."""
    if api.mirror.lacks(RUNS):
        raise _undefined(api)


def _undefined(api: Api) -> Unsupported:
    name = f"{RUNS.plural}.{RUNS.group}"
    message = f"the definition of runs (CustomResourceDefinition {name}) is missing in the cluster"
    return Unsupported(message, hint=f"to install it: {api.process.install_command}")


def no_such_run(api: Api, namespace: str, name: str, cause: NotFound | None = None) -> KajitoriError:
    """Return the error for a run that does not exist. `cause` is the API server's error."""
    if isinstance(cause, NotServedError):
        return _undefined(api)
    return NotFound(f"there is no run {show(name)!r} in namespace {show(namespace)}", hint="see them all: kaji ps -a")


def run_object(document: dict[str, object]) -> RunObject:
    """Return the Run in an answer of the API server."""
    return decode(msgspec.json.encode(document), RunObject)
