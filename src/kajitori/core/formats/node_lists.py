"""Compact lists of node names or ranks, in the syntax of batch systems: `gpu-[00001-01000]`.

Unlike in batch systems, lists keep their order and may contain a node several times: position N is the node of the N-th
rank.

    cpu-1,gpu-[1-3,7]        cpu-1 gpu-1 gpu-2 gpu-3 gpu-7
    gpu-00001*8              eight members on one node
    gpu-[01-04]*2            gpu-01 gpu-01 gpu-02 gpu-02 …
    ip-10-0-0-[3-9].local    the number may be anywhere in the name
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

EXPANSION_LIMIT = 1_000_000
"""Maximum number of entries. A longer list is a mistake or an attack, and is refused before it takes memory."""

_NAME = re.compile(r"[^\[\],*\s]+")
_NUMBERS = re.compile(r"([0-9]+)")
_ITEM = re.compile(r"([^\[\],*\s]*)(?:\[([0-9,\-]+)\]([^\[\],*\s]*))?(?:\*([0-9]{1,9}))?", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,253})(?:-([0-9]{1,253}))?", re.ASCII)


def compress(names: Iterable[str]) -> str:
    """Return the names as a compact list, in the same order and with repeats. No names result in an empty text.

    Raises ValueError for a name that is empty or contains one of `[ ] , *` or white space. Names of nodes do not.
    """
    counted = [(name, sum(1 for _ in same)) for name, same in groupby(names)]
    for name, _ in counted:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name for a node")
    return ",".join(_list_items(counted))


@lru_cache(maxsize=32_768)
def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key under which `gpu-2` comes before `gpu-10`."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part)


def compress_set(names: Iterable[str]) -> str:
    """Return the names as a compact list in natural order, each of them once.

    For lists in which no rank has a place of its own. Raises ValueError as `compress` does.
    """
    return compress(sorted(set(names), key=natural_key))


BRIEF_LENGTH = 80
"""Maximum length of a node list in a sentence, in characters."""


def brief(text: str) -> str:
    """Shorten a compact list to about this many characters, with the number of other nodes: `a,b,c and 61 more`."""
    if len(text) <= BRIEF_LENGTH:
        return text
    names = list(dict.fromkeys(expand(text)))
    fit = bisect_right(range(1, len(names)), BRIEF_LENGTH, key=lambda count: len(compress(names[:count])))
    shown = max(1, fit)
    return f"{compress(names[:shown])} and {len(names) - shown} more" if shown < len(names) else compress(names)


def expand(text: str, *, limit: int = EXPANSION_LIMIT) -> list[str]:
    """Return the names of a compact list, in order. Raises ValueError if it is malformed or longer than `limit`."""
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"not a node list at character {position}: {text[position : position + 40]!r}")
        prefix, ranges, suffix, repeats = match.groups()
        if not prefix and ranges is None:
            raise ValueError(f"a name is missing at character {position} of a node list")
        times = int(repeats) if repeats else 1
        if times < 1:
            raise ValueError(f"a repeat of {times} in a node list")
        if ranges is None:
            _check_room(len(names), times, limit)
            names += [prefix] * times
        else:
            for number in _expand_numbers(ranges, (limit - len(names)) // times):
                names += [f"{prefix}{number}{suffix}"] * times
        position = match.end()
        if position < len(text):
            if text[position] != "," or position + 1 == len(text):
                raise ValueError(f"not a node list at character {position}: {text[position : position + 40]!r}")
            position += 1
    return names


def compress_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as ranges, in the given order: `0-2,7`. Raises ValueError for a negative rank."""
    parts: list[str] = []
    first = last = -1
    for rank in ranks:
        if rank < 0:
            raise ValueError(f"{rank} is not a rank")
        if first >= 0 and rank == last + 1:
            last = rank
            continue
        if first >= 0:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = rank
    if first >= 0:
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)


def expand_ranks(text: str, *, limit: int = EXPANSION_LIMIT) -> list[int]:
    """Return the ranks of a list of ranges. Raises ValueError if it is malformed or longer than `limit`."""
    return [int(number) for number in _expand_numbers(text, limit)] if text else []


def _list_items(counted: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield one item for each sequence of names that differ in one number only and have the same number of repeats."""
    position = 0
    while position < len(counted):
        name, times = counted[position]
        parts = _NUMBERS.split(name)
        field, end = -1, position + 1
        numbers: list[str] = []
        while end < len(counted) and counted[end][1] == times:
            other = _NUMBERS.split(counted[end][0])
            if field < 0:
                field = _differing_part(parts, other)
                if field < 0:
                    break
                numbers.append(parts[field])
            elif other[:field] != parts[:field] or other[field + 1 :] != parts[field + 1 :]:
                break
            numbers.append(other[field])
            end += 1
        if field < 0:
            item = name
        else:
            item = f"{''.join(parts[:field])}[{_ranges(numbers)}]{''.join(parts[field + 1 :])}"
        yield item if times == 1 else f"{item}*{times}"
        position = end


def _differing_part(parts: Sequence[str], other: Sequence[str]) -> int:
    """Return the index of the only part in which two split names differ, if it is a number; else -1."""
    if len(parts) != len(other):
        return -1
    found = [index for index, (one, two) in enumerate(zip(parts, other, strict=True)) if one != two]
    return found[0] if len(found) == 1 and found[0] % 2 == 1 else -1


def _ranges(numbers: Sequence[str]) -> str:
    ranges: list[str] = []
    first = last = numbers[0]
    for number in numbers[1:]:
        padded = first[0] == "0" and len(first) > 1
        if number == str(int(last) + 1).zfill(len(last)) and not (padded and len(number) != len(first)):
            last = number
            continue
        ranges.append(first if first == last else f"{first}-{last}")
        first = last = number
    ranges.append(first if first == last else f"{first}-{last}")
    return ",".join(ranges)


def _expand_numbers(text: str, limit: int) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:40]!r} is not a number or a range of numbers")
        first, last = match[1], match[2]
        if last is None:
            _check_room(len(numbers), 1, limit)
            numbers.append(first)
            continue
        padded = first[0] == "0" and len(first) > 1
        if (padded and len(first) != len(last)) or (not padded and last[0] == "0" and len(last) > 1):
            raise ValueError(f"{part[:40]!r}: both ends of a range need the same number of digits")
        start, stop = int(first), int(last) + 1
        if stop <= start:
            raise ValueError(f"{part[:40]!r}: a range goes upwards")
        _check_room(len(numbers), stop - start, limit)
        width = len(first) if padded else 0
        numbers += [str(number).zfill(width) for number in range(start, stop)]
    return numbers


def _check_room(present: int, more: int, limit: int) -> None:
    if present + more > limit:
        raise ValueError(f"a list of more than {limit} entries")
