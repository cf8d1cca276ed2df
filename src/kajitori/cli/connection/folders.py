"""The checkpoint folder of a run, read through the Web API, which opens it first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kajitori.cli.terminal import say
from kajitori.client.lookup import find_run
from kajitori.client.views import View
from kajitori.client.web_api import Api, Params, run_path
from kajitori.errors import Unavailable, WrongState

PATIENCE_SECONDS = 120.0
"""Time for which the folder may be opening. An image may have to be pulled first."""
_WAIT_SECONDS = 10
"""How long the server may hold its answer while the folder is opening."""
_SAY_AFTER_SECONDS = 1
_OPENING = "Opening"


def find_with_folder(api: Api, text: str, namespace: str | None) -> View:
    """Return the view of a run of the cluster like `find_run`. Raises WrongState for a removed run, with the command
    that brings its checkpoint folder back."""
    view = find_run(api, text, namespace, or_removed=True)
    if not view.get("removedAt"):
        return view
    spec, name = view["spec"], view["name"]
    path = (spec.get("checkpoint") or {}).get("path")
    if not path:
        raise WrongState(f"the run {name} was removed, and had no checkpoint folder")
    program = f"--cpus 0.1 -m 64m --time-limit 1h {spec.get('image')} sleep 3600"
    command = f"kaji run -d -N {view['namespace']} --name {name} --checkpoint {path} {program}"
    raise WrongState(
        f"the run {name} was removed; only a run opens a checkpoint folder",
        hint=f"a new run of this name has the folder, unless it was deleted too: {command}",
    )


def list_folder(api: Api, run: View, params: Params) -> dict[str, Any]:
    """Return one page of a folder. Raises Unavailable if the folder does not open in time."""
    for wait in _remaining_waits(run):
        try:
            page: dict[str, Any] = api.get(run_path(run, "/files"), {**params, "wait": wait}, tries=1)
        except Unavailable as error:
            _raise_unless_opening(error)
        else:
            return page
    raise AssertionError("unreachable")


def open_folder(api: Api, run: View, path: str, params: Params) -> Iterator[bytes]:
    """Yield the bytes of a file or an archive. Raises Unavailable if the folder does not open in time."""
    list_folder(api, run, {"limit": 1})
    yield from api.chunks(run_path(run, path), params)


def _remaining_waits(run: View) -> Iterator[int]:
    until = time.monotonic() + PATIENCE_SECONDS
    yield _SAY_AFTER_SECONDS
    say(f"opening the checkpoint folder of {run['name']} …")
    while time.monotonic() < until:
        yield _WAIT_SECONDS
    yield 0


def _raise_unless_opening(error: Unavailable) -> None:
    if error.code != _OPENING:
        raise error
