"""The same thing done to several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kajitori.cli.http import Api
from kajitori.cli.lookup import find_runs
from kajitori.cli.problems import print_error
from kajitori.cli.terminal import echo
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unauthenticated, Unavailable


def for_each(
    api: Api,
    texts: Iterable[str],
    namespace: str | None,
    action: Callable[[dict[str, Any]], object],
    *,
    missing_is_fine: bool = False,
) -> int:
    """Does it to every run that the words mean and prints its name; gives the exit code of the first that failed.

    A word that may mean several runs stops everything before anything is done; a run that is not there does not keep
    the others from it.
    """
    runs, errors = find_runs(api, texts, namespace)
    unclear = [error for error in errors if isinstance(error, InvalidInput)]
    if unclear:
        raise InvalidInput([fault for error in unclear for fault in error.faults])
    if missing_is_fine:
        errors = [error for error in errors if not isinstance(error, NotFound)]
    for error in errors:
        print_error(error)
    for run in runs:
        try:
            action(run)
        except (Unavailable, Unauthenticated):
            raise
        except KajitoriError as error:
            print_error(error)
            errors.append(error)
        else:
            echo(run["name"])
    return errors[0].exit_code if errors else 0
