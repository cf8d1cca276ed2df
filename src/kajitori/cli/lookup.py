"""Finding nodes by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

from kajitori.errors import Fault, InvalidInput, NotFound

if TYPE_CHECKING:
    from kajitori.client.web_api import Api


def node_path(name: str, rest: str = "") -> str:
    """Return the path of a node in the Web API, followed by `rest`."""
    return f"/v1/nodes/{quote(name, safe='')}{rest}"


def require_nodes(api: Api, names: Iterable[str]) -> list[str]:
    """Return `names`, each once. Raises an error that lists every name without a node."""
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
