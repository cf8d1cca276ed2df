"""Signals for the programs of a run: what a request says, and who did not get the signal."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kajitori.client.web_api import run_path
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.errors import WrongState

if TYPE_CHECKING:
    from kajitori.client.views import View
    from kajitori.client.web_api import Api


def signal_name(signal: str | int) -> str:
    """Return the name of a signal without SIG, such as USR1. What is no signal of this machine stays as it is, since
    the server knows which ones it sends."""
    text = str(signal) if isinstance(signal, str) else str(int(signal))
    with suppress(ValueError):
        text = signals.Signals(int(text)).name
    return text.upper().removeprefix("SIG")


def signal_programs(api: Api, run: View, name: str, ranks: Iterable[int] = ()) -> Sequence[dict[str, Any]]:
    """Send the programs of a run's members a signal: of all that run, or of these ranks. Return what became of it, by
    member. Raises WrongState if a program did not get it."""
    named = compress_ranks(sorted(set(ranks)))
    body = {"signal": name} | ({"ranks": named} if named else {})
    answer = api.post(run_path(run, "/signal-programs"), body, uid=run["uid"])
    items: Sequence[dict[str, Any]] = answer["items"]
    if failed := [item for item in items if item.get("error")]:
        of = compress_ranks([item["rank"] for item in failed])
        message = f"rank {of} of {run['name']} did not get {answer['signal']}: {failed[0]['error']}"
        raise WrongState(message, hint=f"see what runs there: kaji top --rank {failed[0]['rank']} {run['name']}")
    return items
