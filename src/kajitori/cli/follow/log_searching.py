"""Lines of logs that the server finds: by a text and by their time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.client.streams import LogPart
from kajitori.client.views import View
from kajitori.client.web_api import Api, run_path

MOST_LINES = 1_000_000


@dataclass(frozen=True)
class LogSearch:
    """The conditions of a search in the logs of a run."""

    text: str = ""
    is_regex: bool = False
    """Whether the text is a regular expression in RE2's syntax."""
    ignores_case: bool = False
    since: str = ""
    until: str = ""
    attempt: int | None = None
    last: int | None = None
    """Only this many of the last lines of each member."""
    timestamps: bool = False


def found_parts(
    api: Api, run: View, search: LogSearch, *, ranks: Sequence[int] = (), all_ranks: bool = False
) -> Iterator[LogPart]:
    """Yield the lines that were found, of these members, of the first, or of all, one member after the other."""
    lines = _all_lines(api, run, search, {"rank": list(ranks), "allRanks": "true" if all_ranks else None})
    if search.last is None:
        yield from (_part_of_line(line, search) for line in lines)
        return
    held: defaultdict[int, deque[LogPart]] = defaultdict(lambda: deque(maxlen=search.last))
    for line in lines:
        held[line["rank"]].append(_part_of_line(line, search))
    for rank in sorted(held):
        yield from held[rank]


def _all_lines(api: Api, run: View, search: LogSearch, which: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the lines of all answers: one searches a part of a long log, and names where to go on."""
    asked = {
        "text": search.text,
        "regex": "true" if search.is_regex else None,
        "ignoreCase": "true" if search.ignores_case else None,
        "since": search.since or None,
        "until": search.until or None,
        "limit": MOST_LINES,
    }
    unfinished: list[dict[str, Any]] = [which | {"attempt": search.attempt}]
    while unfinished:
        for document in api.documents(run_path(run, "/logs/search"), asked | unfinished.pop(0)):
            if "line" in document:
                yield document
            elif document.get("next"):
                unfinished.append(
                    {field: document[field] for field in ("rank", "attempt")} | {"after": document["next"]}
                )


def _part_of_line(line: dict[str, Any], search: LogSearch) -> LogPart:
    stamp = f"{line['time']} " if search.timestamps and line["time"] else ""
    return LogPart(line["rank"], line["attempt"], f"{stamp}{line['line']}\n".encode())
