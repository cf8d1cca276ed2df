"""A place in the queue, and what is expected of a run, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.words import human_duration, moment, plural
from kajitori.core.nodelist import brief

_FROM = {
    "similar": "as long as similar runs of its user took lately",
    "limit": "its time limit; no similar run has ended yet",
    "corrected": "it has taken longer than expected already",
    "general": "as most runs here; nothing is known of it",
    "unknown": "assumed, since too few runs have ended here to tell",
    "endless": "no end is known",
}


def duration_words(seconds: float) -> str:
    """`5 minutes`, in the middle of a sentence."""
    words = human_duration(seconds)
    return words[0].lower() + words[1:]


def in_words(cli: Cli, time: str | None) -> str:
    """`in 5 minutes`; empty where the time is not known."""
    then = moment(time)
    if then is None:
        return ""
    seconds = (then - cli.now()).total_seconds()
    return f"in {duration_words(seconds)}" if seconds >= 1 else "now"


def part_words(part: float) -> str:
    """`12 %` of the cluster; what is there shows."""
    return f"{part:.0%}" if part >= 0.01 or not part else f"{part:.1%}" if part >= 0.001 else "<0.1%"


def expectation_words(place: Mapping[str, Any]) -> str:
    """How long a run is expected to take, in a few words: `5 minutes`, `at most 2 hours`, `unknown`."""
    source, span = place["expectedFrom"], duration_words(place["expectedSeconds"])
    if source in ("general", "unknown", "endless"):
        return "no end" if source == "endless" else f"unknown ({span})"
    return f"at most {span}" if source == "limit" else span


def expected_words(expected_from: str, seconds: float, *, more: bool = False) -> str:
    """The same with where it is known from; `more` where that is what is left of it."""
    if expected_from == "endless":
        return _FROM["endless"]
    known_from = _FROM.get(expected_from, expected_from)
    return f"{duration_words(seconds)}{' more' if more else ''}: {known_from}"


def place_pairs(cli: Cli, answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The place of a run that waits, with the numbers that put it there."""
    place = answer["place"]
    before = place["position"] - 1
    yield "place", f"{place['position']} of {place['of']}, {plural(before, 'run') if before else 'nobody'} before it"
    waited = duration_words(place["waitedSeconds"])
    if place["overdue"]:
        waited += "; longest of all, and too long: it comes first"
    yield "waited", waited
    yield "expected to take", expected_words(place["expectedFrom"], place["expectedSeconds"])
    yield "asks for", f"{part_words(place['size'])} of the cluster"
    yield "had lately", f"its user {part_words(place['userShare'])}, its team {part_words(place['teamShare'])}"
    if place["score"] is not None and place["of"] > 1:  # it says something beside others only
        yield "score", f"{place['score']:.3g}"
    kept = answer.get("kept")
    if kept:
        yield "kept for it", f"{brief(kept['nodes'])}; others start there only if they do not delay it"
    expected = in_words(cli, answer.get("expectedAt"))
    yield "expected to start", f"{expected}, if all takes as long as expected" if expected else "nobody can tell"
