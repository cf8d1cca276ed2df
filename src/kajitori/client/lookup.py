"""Finding runs by name, `namespace/name` or unique prefix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from kajitori.client.web_api import Api
from kajitori.errors import Fault, InvalidInput, KajitoriError, NotFound, Unsupported

_SHOWN = 10


def find_run(api: Api, text: str, namespace: str | None = None, *, or_removed: bool = False) -> dict[str, Any]:
    """Return the view of the run that `text` names; with `or_removed` also of one that only history has, by its whole
    name or its UID.

    Raises NotFound if there is none, and InvalidInput, which lists the candidates, if there are several.
    """
    where, _, name = text.rpartition("/")
    where = where or namespace or ""
    if not name:
        raise InvalidInput.one("RUN", f"{text!r} is no run's name")
    found = api.page("/v1/runs", {"name": name, "namespace": where or None, "limit": _SHOWN + 1})["items"]
    items = [run for run in found if run["name"] == name] or [run for run in found if run["name"].startswith(name)]
    if not items and or_removed and (recorded := _removed_run(api, where, name)) is not None:
        return recorded
    if not items:
        inside = f" in namespace {where}" if where else ""
        raise NotFound(
            f"there is no run {name!r}{inside}",
            hint="see them all: kaji ps -a --all-users; removed ones: kaji history --all-users",
        )
    home = [run for run in items if run["namespace"] == api.target.namespace]
    if len(items) > 1 and len(home) == 1 and all(run["name"] == home[0]["name"] for run in items):
        items = home
    if len(items) > 1:
        several_namespaces = len({run["namespace"] for run in items}) > 1
        names = sorted(f"{run['namespace']}/{run['name']}" if several_namespaces else run["name"] for run in items)
        more = " and more" if len(names) > _SHOWN else ""
        message = f"several runs have names that begin with {text!r}: {', '.join(names[:_SHOWN])}{more}"
        raise InvalidInput([Fault("RUN", message, text, "write more of the name", "Ambiguous")])
    only: dict[str, Any] = items[0]
    return only


def _removed_run(api: Api, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the view of the newest removed run with this name, or with this UID; None if there is none."""
    try:
        listed = api.get("/v1/history", {"name": name, "namespace": namespace or None, "limit": _SHOWN})["items"]
        found = next((run for run in listed if run["name"] == name), None)
        where = found["namespace"] if found is not None else namespace or api.target.namespace
        path = f"/v1/history/{quote(where or 'default', safe='')}/{quote(found['uid'] if found else name, safe='')}"
        view: dict[str, Any] = api.get(path)
    except (NotFound, Unsupported):
        return None
    return view


def find_runs(
    api: Api, texts: Iterable[str], namespace: str | None = None, *, or_removed: bool = False
) -> tuple[list[dict[str, Any]], list[KajitoriError]]:
    """Return the runs that `texts` name, each once, and an error for each text that names none or several. For
    `or_removed` see `find_run`."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    errors: list[KajitoriError] = []
    for text in texts:
        try:
            run = find_run(api, text, namespace, or_removed=or_removed)
        except (NotFound, InvalidInput) as error:
            errors.append(error)
        else:
            found[run["namespace"], run["uid"]] = run
    return list(found.values()), errors
