"""Which run somebody means: a name, `namespace/name`, or any unique prefix; and which nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kajitori.errors import Fault, InvalidInput, KajitoriError, NotFound

if TYPE_CHECKING:
    from kajitori.cli.connection.http import Api

_SHOWN = 10


def find_run(api: Api, text: str, namespace: str | None = None) -> dict[str, Any]:
    """The Run view that `text` means. Raises NotFound, or InvalidInput with the candidates where there are several."""
    where, _, name = text.rpartition("/")
    where = where or namespace or ""
    if not name:
        raise InvalidInput.one("RUN", f"{text!r} is no run's name")
    found = api.get("/v1/runs", {"name": name, "namespace": where or None, "limit": _SHOWN + 1})["items"]
    items = [run for run in found if run["name"] == name] or [run for run in found if run["name"].startswith(name)]
    if not items:
        inside = f" in namespace {where}" if where else ""
        raise NotFound(f"there is no run {name!r}{inside}", hint="see them all: kaji ps -a --all-users")
    home = [run for run in items if run["namespace"] == api.target.namespace]
    if len(items) > 1 and len(home) == 1 and all(run["name"] == home[0]["name"] for run in items):
        items = home
    if len(items) > 1:
        several_namespaces = len({run["namespace"] for run in items}) > 1
        names = sorted(f"{run['namespace']}/{run['name']}" if several_namespaces else run["name"] for run in items)
        more = " and more" if len(names) > _SHOWN else ""
        message = f"{text!r} may be any of {', '.join(names[:_SHOWN])}{more}"
        raise InvalidInput([Fault("RUN", message, text, "write more of the name", "Ambiguous")])
    only: dict[str, Any] = items[0]
    return only


def find_runs(
    api: Api, texts: Iterable[str], namespace: str | None = None
) -> tuple[list[dict[str, Any]], list[KajitoriError]]:
    """The runs that several words mean, each once, and what is wrong with the other words."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    errors: list[KajitoriError] = []
    for text in texts:
        try:
            run = find_run(api, text, namespace)
        except (NotFound, InvalidInput) as error:
            errors.append(error)
        else:
            found[run["namespace"], run["name"]] = run
    return list(found.values()), errors


def node_path(name: str, rest: str = "") -> str:
    """The path of a Node view, with what follows."""
    return f"/v1/nodes/{quote(name, safe='')}{rest}"


def require_nodes(api: Api, names: Iterable[str]) -> list[str]:
    """The names, each once, where there are such nodes; else raises what is wrong with all the others at once."""
    wanted = list(dict.fromkeys(names))
    if "" in wanted:  # a variable of a script that is not set
        raise InvalidInput.one("NODE", "'' is no node's name", hint="see them all: kaji nodes")
    missing: list[NotFound] = []
    for name in wanted:
        try:
            api.get(node_path(name))
        except NotFound as error:
            missing.append(error)
    if len(missing) == 1:
        raise missing[0]
    if missing:
        raise InvalidInput([Fault("", error.message, hint=error.hint, code=error.code) for error in missing])
    return wanted
