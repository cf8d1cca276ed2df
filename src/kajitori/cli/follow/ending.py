"""Wait until a run has stopped, is queued again or is deleted, with a deadline: without a controller none of it ever
happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from kajitori.cli.context import STOP_MARGIN_SECONDS
from kajitori.cli.words.runs import members_asked_for
from kajitori.client.views import View, is_final, phase_of, status_of
from kajitori.client.web_api import Api, run_path
from kajitori.core.backoff import Backoff
from kajitori.core.suggestions import first_few
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unavailable, WrongState

MEMBERS_A_SECOND = 25
"""Pods that an API server deletes in a second when it is busy."""
KILL_SECONDS = 1.0
"""Between SIGTERM and SIGKILL of a run that is killed."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
_SHOWN = 3


class NotCarriedOut(Unavailable):
    """The cluster did not stop or delete a run in time."""


def seconds_to_end(run: View, grace_seconds: float) -> float:
    """Upper bound for the time in which members end within this grace and their Pods are deleted."""
    return grace_seconds + members_asked_for(run) / MEMBERS_A_SECOND


def deadline(asked_at: datetime, run: View, grace_seconds: float) -> datetime:
    """Latest time at which a run ends that was asked to at `asked_at`, if a controller is at work."""
    return asked_at + timedelta(seconds=seconds_to_end(run, grace_seconds) + STOP_MARGIN_SECONDS)


def wait_until_gone(api: Api, run: View, until: datetime) -> None:
    """Wait until a run that is being deleted is gone and its name is free. Raises NotCarriedOut after that time."""

    def look() -> bool:
        try:
            return bool(api.get(run_path(run)).get("uid") != run.get("uid"))
        except (NotFound, InvalidInput):  # InvalidInput: several runs with longer names are left
            return True

    if not _comes_true(api, look, until):
        raise not_carried_out(api, run, "is still being deleted", "its name is not free")


def wait_until_final(api: Api, run: View, until: datetime) -> dict[str, Any]:
    """Wait until a run that is being stopped has stopped, and return its view. Raises NotCarriedOut after that time,
    and NotFound if the run was deleted."""
    found: dict[str, Any] = {}

    def look() -> bool:
        found.clear()
        found.update(_same_run(api, run))
        return is_final(found)

    if not _comes_true(api, look, until):
        raise not_carried_out(api, run, "was asked to stop and has not")
    return found


def wait_until_queued_again(api: Api, run: View, until: datetime) -> None:
    """Wait until a run that is being restarted has ended and is queued again. `run`: the answer to the request. Raises
    NotCarriedOut after that time, NotFound if the run was deleted, and WrongState if it was stopped meanwhile."""
    number = run["spec"].get("resumes", 0)

    def look() -> bool:
        found = _same_run(api, run)
        if is_final(found) and found["spec"].get("stopped"):
            raise WrongState(f"{run['name']} was stopped meanwhile", hint=f"to start it: kaji resume {run['name']}")
        return bool(status_of(found).get("resumes", 0) >= number)

    if not _comes_true(api, look, until):
        raise not_carried_out(api, run, "was asked to restart and has not ended")


def _same_run(api: Api, run: View) -> View:
    """Return the run as it is now. Raises NotFound if it was deleted, also if another run has its name."""
    found: View = api.get(run_path(run))
    if found.get("uid") != run.get("uid"):
        raise NotFound(f"{run['name']} was deleted", hint="another run has its name now")
    return found


def _comes_true(api: Api, look: Callable[[], bool], until: datetime) -> bool:
    looks = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, growth=1.5)
    while not look():
        left = (until - api.now()).total_seconds()
        if left <= 0:
            return False
        api.sleep(min(looks.next_seconds(), left))
    return True


def not_carried_out(api: Api, run: View, what: str, consequence: str = "") -> NotCarriedOut:
    """Error for a run that did not end in time; it names the members that are left."""
    message = "; ".join(filter(None, (f"{run['name']} {what}: {_what_is_left(api, run)}", consequence)))
    hint = f"it ends once the controller and its nodes answer; look with: kaji describe {run['name']}"
    return NotCarriedOut(message, hint=hint)


def _what_is_left(api: Api, run: View) -> str:
    """`2 members still run: bert-1-0 on n1, bert-1-1 on n2`."""
    try:
        view = api.get(run_path(run), tries=1)
        members = api.get(run_path(run, "/members"), {"limit": 1000}, tries=1)["items"]
    except KajitoriError as error:
        return f"what is left of it is not known, since {error.message}"
    going = [member for member in members if member.get("phase") not in ("Succeeded", "Failed")]
    if not going:
        reason, waits = status_of(view).get("reason"), status_of(view).get("removalWaits")
        if waits:
            return f"none of its members is left; {waits}"
        return f"none of its members is left, and it is {phase_of(view)}{f' ({reason})' if reason else ''}"
    shown = [f"{member['pod']} on {member['node']}" if member.get("node") else str(member["pod"]) for member in going]
    count = "1 member still runs" if len(going) == 1 else f"{len(going)} members still run"
    return f"{count}: {first_few(shown, _SHOWN)}"
