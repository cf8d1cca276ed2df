"""Actions on several objects, with one line of output for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import click

from kajitori.cli.follow.ending import KILL_SECONDS, NotCarriedOut, deadline, wait_until_gone
from kajitori.cli.problems import is_json_wanted, print_error
from kajitori.cli.terminal import echo, say
from kajitori.client.lookup import find_runs
from kajitori.client.views import is_final, phase_of
from kajitori.client.web_api import Api, Params, run_path
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unauthenticated, Unavailable, WrongState

View = dict[str, Any]

_FIELDS = ("namespace", "name", "uid")


class Done:
    """The output of a verb that changes several objects.

    Prints the name of each changed object on a line at once, or one JSON document at the end.
    """

    def __init__(self) -> None:
        self._items: list[dict[str, Any]] = []
        self._is_json = is_json_wanted()

    def add(self, item: Mapping[str, Any], **more: Any) -> None:
        """Print one object. `more` are fields that only programs get."""
        self._items.append({field: item[field] for field in _FIELDS if item.get(field)} | more)
        if not self._is_json:
            echo(item["name"])

    def finish(self) -> None:
        """Print the document with -o json: `done` is the verb, such as `stop`."""
        if self._is_json:
            from kajitori.cli.printing.output import print_document

            verb = click.get_current_context().command_path.partition(" ")[2]
            print_document({"done": verb, "items": self._items}, "json")


def for_each(
    api: Api,
    texts: Iterable[str],
    namespace: str | None,
    action: Callable[[View], object],
    *,
    everything: list[View] | None = None,
    finish: Callable[[View], object] | None = None,
    missing_is_fine: bool = False,
) -> int:
    """Apply an action to each run that the words mean and print its name; return the exit code of the first failure.

    A word that may mean several runs stops everything before anything is done; a missing run does not stop the others.
    `everything`: these runs instead of those that words mean. `finish` is called for each run after `action` was
    applied to all of them, and before its name is printed.
    """
    if everything is None:
        runs, errors = _find_named(api, texts, namespace)
    else:
        runs, errors = everything, []
        if not runs:
            say("you have no such runs; there is nothing to do")
    if missing_is_fine:
        errors = [error for error in errors if not isinstance(error, NotFound)]
    for error in errors:
        print_error(error)
    report = Done()
    try:
        done = _apply_to_each(runs, action, errors, report if finish is None else None)
        if finish is not None:
            _apply_to_each(done, finish, errors, report)
    finally:
        report.finish()
    return errors[0].exit_code if errors else 0


def all_of_mine(api: Api, namespace: str | None, query: Params) -> list[View]:
    """Return the caller's runs that match a query, in one namespace or in all."""
    return api.all_items("/v1/runs", {"owner": "@me", "namespace": namespace, **query})


def _find_named(api: Api, texts: Iterable[str], namespace: str | None) -> tuple[list[View], list[KajitoriError]]:
    runs, errors = find_runs(api, texts, namespace)
    unclear = [error for error in errors if isinstance(error, InvalidInput)]
    if unclear:
        raise InvalidInput([fault for error in unclear for fault in error.faults])
    return runs, errors


def _apply_to_each(
    runs: Iterable[View], action: Callable[[View], object], errors: list[KajitoriError], report: Done | None
) -> list[View]:
    """Apply an action to each run and return those that succeeded; print and collect the errors of the others."""
    done = []
    for run in runs:
        try:
            action(run)
        except KajitoriError as error:
            if isinstance(error, Unavailable | Unauthenticated) and not isinstance(error, NotCarriedOut):
                raise
            print_error(error)
            errors.append(error)
        else:
            done.append(run)
            if report is not None:
                report.add(run)
    return done


def delete_each(
    api: Api,
    texts: Iterable[str],
    namespace: str | None,
    *,
    everything: list[View] | None = None,
    force: bool = False,
    checkpoints: bool = False,
    wait: bool = True,
) -> int:
    """Delete runs and print each name, with `wait` once the name is free. Arguments are those of `for_each`.

    `force`: runs that have not ended are killed, and a missing run is no error.
    """

    def delete(view: View) -> None:
        if not force and not is_final(view):
            name = view["name"]
            hint = f"stop it first: kaji stop {name}; or kaji rm -f {name}"
            raise WrongState(f"{name} is {phase_of(view)}", hint=hint)
        try:
            params = {"checkpoint": checkpoints, "grace": "0s" if force else None}
            api.delete(run_path(view), params, uid=view["uid"])
        except NotFound:
            if not force:
                raise

    asked_at = api.now()
    return for_each(
        api,
        texts,
        namespace,
        delete,
        everything=everything,
        finish=(lambda view: wait_until_gone(api, view, deadline(asked_at, view, KILL_SECONDS))) if wait else None,
        missing_is_fine=force,
    )


def delete_named(api: Api, path: str, names: Iterable[str], params: Params) -> int:
    """Delete objects other than runs and print each name; return the exit code of the first failure."""
    errors: list[KajitoriError] = []
    report = Done()
    for name in dict.fromkeys(names):
        try:
            api.delete(f"{path}/{quote(name, safe='')}", params)
        except (Unavailable, Unauthenticated):
            raise
        except KajitoriError as error:
            print_error(error)
            errors.append(error)
        else:
            report.add({"name": name})
    report.finish()
    return errors[0].exit_code if errors else 0
