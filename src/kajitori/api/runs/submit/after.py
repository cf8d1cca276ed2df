"""The runs that a submitted run is to wait for: each has to exist, and its condition has to be possible."""

from __future__ import annotations

from dataclasses import replace

from kajitori.api.context import Api
from kajitori.api.lookup import find_run
from kajitori.api.rights import User
from kajitori.cluster.run_object import RunObject
from kajitori.core import gang
from kajitori.core.spec.reading.draft import Draft
from kajitori.core.spec.run import After
from kajitori.errors import Fault, Forbidden, InvalidInput, NotFound


async def with_found_runs(
    api: Api, user: User, draft: Draft, namespace: str, name: str
) -> tuple[Draft, tuple[Fault, ...]]:
    """Return the draft with the whole names of the runs that it waits for, and a fault for each impossible condition.

    A unique beginning of a name is enough, as in commands. `name`: the run's own name; empty if the server makes one.
    If the user may not read runs, nothing is looked up, and the controller judges the conditions.
    """
    spec = draft.spec
    if spec is None or not spec.after or not await user.may("get", namespace):
        return draft, ()
    conditions, faults = list[After](), list[Fault]()
    for index, other in enumerate(spec.after):
        field = f"spec.after[{index}].run"
        try:
            if other.run == name:
                hint = "name another run, or leave it out"
                raise InvalidInput.one(field, "a run cannot wait for itself", value=name, hint=hint)
            run = await find_run(api, user, namespace, other.run)
            other = other.model_copy(update={"run": run.metadata.name})
            faults += _faults(api, run, other, field)
        except NotFound as error:
            faults.append(Fault(field, error.message, other.run, await _hint(api, namespace, other.run)))
        except InvalidInput as error:
            faults += [replace(fault, field=field) for fault in error.faults]
        except Forbidden:
            pass
        conditions.append(other)
    twice = {other.run for other in conditions if [condition.run for condition in conditions].count(other.run) > 1}
    if twice and not draft.faults:
        message = f"two of the names stand for the same run: {', '.join(sorted(twice))}"
        faults.append(Fault("spec.after", message, hint="list each run once"))
    return replace(draft, spec=spec.model_copy(update={"after": conditions})), tuple(map(draft.as_written, faults))


def _faults(api: Api, run: RunObject, other: After, field: str) -> list[Fault]:
    seen = api.cluster.dependencies.sight_of(run)
    why = gang.why_never(gang.Awaited(other.run, other.condition, seen), api.now())
    if not why:
        return []
    message = f"the condition {other.condition} cannot hold: {why}"
    return [Fault(field, message, other.run, _way_out(other, seen), "NeverSatisfied")]


def _way_out(other: After, seen: gang.SeenRun) -> str:
    """Return what to do about a condition that cannot hold."""
    name, ways = other.run, list[str]()
    if other.condition == "healthy" and not seen.has_health_check:
        ways.append("submit it with a health check (--health-cmd)")
    elif seen.phase.is_final and not seen.deleting and (other.condition == "healthy" or seen.type == "batch"):
        ways.append(f"resume it first: kaji resume {name}")
    elif other.condition == "succeeded" and seen.has_health_check and not seen.deleting:
        ways.append(f"wait until it is healthy ({name}:healthy)")
    return ", or ".join([*ways, f"wait for its end alone ({name}:ended)"])


async def _hint(api: Api, namespace: str, name: str) -> str:
    """Return a hint about a run that does not exist. It names a removed run of this name, if history has one."""
    record = await api.stores.history.run(namespace, name) if api.stores.history is not None else None
    if record is None:
        return "submit that run first; see them all: kaji ps -a"
    return f"it was removed after its end ({record.phase}), so there is nothing to wait for: leave it out"
