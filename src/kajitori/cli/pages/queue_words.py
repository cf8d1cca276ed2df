"""Texts for a run's place in the queue and for its expected duration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.words.runs import human_duration, moment, plural
from kajitori.core.formats.node_lists import brief

_FROM = {
    "limit": "its time limit; no comparable run has ended yet",
    "corrected": "it has taken longer than expected already",
    "unknown": "no comparable run has ended here",
    "endless": "no end is known",
}
_CLOSE = 1.25
"""Largest ratio of a range's ends at which it is shown as a single duration."""


def duration_words(seconds: float) -> str:
    """Return a duration for the middle of a sentence: `5 minutes`, `about an hour`."""
    words = human_duration(seconds)
    return words[0].lower() + words[1:]


def in_words(cli: Cli, time: str | None) -> str:
    """Return the time until `time`: `in 5 minutes`; empty if `time` is missing."""
    then = moment(time)
    if then is None:
        return ""
    seconds = (then - cli.now()).total_seconds()
    return f"in {duration_words(seconds)}" if seconds >= 1 else "now"


def part_words(part: float) -> str:
    """Return a share of the cluster: `12%`. A share above zero is never shown as 0%."""
    return f"{part:.0%}" if part >= 0.01 or not part else f"{part:.1%}" if part >= 0.001 else "<0.1%"


def span_words(shortest: float, longest: float) -> str:
    """Return a range of durations: `about 5 minutes`, `10 to 15 minutes`, `3 seconds to 2 hours`."""
    if longest <= _CLOSE * shortest or not shortest:
        words = duration_words(longest)
        return words if words.startswith(("about", "less")) else f"about {words}"
    least, most = duration_words(shortest), duration_words(longest)
    (number, _, unit), has_unit = least.partition(" "), most.endswith(f" {least.partition(' ')[2]}")
    return f"{number if unit and has_unit and number.isdigit() else least} to {most}"


def expectation_words(place: Mapping[str, Any]) -> str:
    """Return a run's expected duration in a few words: `about 5 minutes`, `at most 2 hours`, `unknown`."""
    source = place["expectedFrom"]
    if source == "endless":
        return "no end"
    if not place.get("expectedSure"):
        return "unknown"
    if source in ("limit", "corrected"):
        return f"at most {duration_words(place['expectedSeconds'])}"
    return span_words(place.get("shortestSeconds", 0), place["expectedSeconds"])


def expected_words(expected: Mapping[str, Any]) -> str:
    """Return a run's expected duration and the evidence for it."""
    source, runs, sure = expected["expectedFrom"], expected.get("runs", 0), expected.get("sure")
    if source == "endless":
        return _FROM[source]
    more = " more" if expected.get("goesOn") else ""
    if source in _FROM:
        known = f"at most {duration_words(expected['seconds'])}{more}" if sure else "unknown"
        return f"{known}: {_FROM[source]}"
    span = span_words(expected.get("shortestSeconds", 0), expected["seconds"])
    compared = "its last comparable run" if runs == 1 else f"its last {runs} comparable runs"
    if source == "general":
        compared = f"most of the last {runs} runs of about its size"
    elif not runs:
        compared = "its other members"
    return f"{span}{more}, as {compared}" if sure else f"unknown: {compared} took {span}"


def place_pairs(cli: Cli, answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and text of a waiting run's place in the queue and of the numbers that it follows from."""
    place = answer["place"]
    before = place["position"] - 1
    yield "place", f"{place['position']} of {place['of']}, {plural(before, 'run') if before else 'nobody'} before it"
    waited = duration_words(place["waitedSeconds"])
    if place["overdue"]:
        waited += "; longest of all, and too long: it comes first"
    yield "waited", waited
    length = {"seconds": place["expectedSeconds"], "runs": place.get("expectedRuns", 0)}
    yield "expected to take", expected_words({**place, **length, "sure": place.get("expectedSure")})
    order_seconds = place.get("orderSeconds", place["expectedSeconds"])
    if order_seconds != place["expectedSeconds"]:
        yield "ordered as", f"{duration_words(order_seconds)}: its last runs of this kind had other resources"
    yield "asks for", f"{part_words(place['size'])} of the cluster"
    yield "had lately", f"its user {part_words(place['userShare'])}, its team {part_words(place['teamShare'])}"
    if place["score"] is not None and place["of"] > 1:  # a score only means something beside others
        yield "score", f"{place['score']:.3g}"
    kept = answer.get("kept")
    if kept:
        yield "kept for it", f"{brief(kept['nodes'])}; others start there only if they do not delay it"
    expected = in_words(cli, answer.get("expectedAt"))
    yield "expected to start", f"{expected}, if all takes as long as expected" if expected else "nobody can tell"
