"""The same thing done to several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from kajitori.cli.ending import KILL_SECONDS, NotCarriedOut, deadline, wait_until_gone
from kajitori.cli.http import Api, Params, run_path
from kajitori.cli.lookup import find_runs
from kajitori.cli.problems import print_error
from kajitori.cli.terminal import echo, say
from kajitori.cli.words import is_final, phase_of
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unauthenticated, Unavailable, WrongState

View = dict[str, Any]


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
    """Does it to every run that the words mean and prints its name; gives the exit code of the first that failed.

    A word that may mean several runs stops everything before anything is done; a run that is not there does not keep
    the others from it. `everything`: these runs instead of those that words mean. `finish` is what a name waits for
    before it is printed; it begins once `action` was done to all.
    """
    if everything is None:
        runs, errors = _named(api, texts, namespace)
    else:
        runs, errors = everything, []
        if not runs:
            say("there is no such run of yours")
    if missing_is_fine:
        errors = [error for error in errors if not isinstance(error, NotFound)]
    for error in errors:
        print_error(error)
    done = _tried(runs, action, errors, tell=finish is None)
    if finish is not None:
        _tried(done, finish, errors, tell=True)
    return errors[0].exit_code if errors else 0


def all_of_mine(api: Api, namespace: str | None, query: Params) -> list[View]:
    """All of the caller's runs that a query finds, in this namespace or in all."""
    return api.all_items("/v1/runs", {"owner": "@me", "namespace": namespace, **query})


def _named(api: Api, texts: Iterable[str], namespace: str | None) -> tuple[list[View], list[KajitoriError]]:
    runs, errors = find_runs(api, texts, namespace)
    unclear = [error for error in errors if isinstance(error, InvalidInput)]
    if unclear:
        raise InvalidInput([fault for error in unclear for fault in error.faults])
    return runs, errors


def _tried(
    runs: Iterable[View], action: Callable[[View], object], errors: list[KajitoriError], *, tell: bool
) -> list[View]:
    """Those to which it was done; what went wrong with the others is printed and joins the errors."""
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
            if tell:
                echo(run["name"])
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
    """Deletes runs as `for_each` finds them and prints each name, with `wait` once it is free.

    `force`: those that have not ended, too, which are killed; one that is not there is no error.
    """

    def delete(view: View) -> None:
        if not force and not is_final(view):
            name = view["name"]
            hint = f"stop it first: kaji stop {name}; or kaji rm -f {name}"
            raise WrongState(f"{name} is {phase_of(view)}", hint=hint)
        try:
            api.delete(run_path(view), {"checkpoint": checkpoints, "grace": "0s" if force else None})
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
    """Deletes objects that are no runs and prints the name of each; gives the exit code of the first that failed."""
    errors: list[KajitoriError] = []
    for name in dict.fromkeys(names):
        try:
            api.delete(f"{path}/{quote(name, safe='')}", params)
        except (Unavailable, Unauthenticated):
            raise
        except KajitoriError as error:
            print_error(error)
            errors.append(error)
        else:
            echo(name)
    return errors[0].exit_code if errors else 0
