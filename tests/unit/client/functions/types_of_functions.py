"""Types of calls as type checkers see them. `make types` checks this file, and nothing runs it.

A comment `type: ignore` stands where a checker has to complain: mypy reports one that is not needed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, assert_type

import kajitori


@kajitori.function
def length(text: str, factor: float = 1.0) -> float:
    return len(text) * factor


@kajitori.function(cpus=0.5, memory="128m")
def words(text: str) -> list[str]:
    return text.split()


@kajitori.function
def countdown(start: int) -> Iterator[int]:
    yield from range(start, 0, -1)


@kajitori.function(gpus=1)
def losses(steps: int) -> Generator[float, None, None]:
    yield from map(float, range(steps))


def calls() -> None:
    assert_type(length("ab"), float)
    assert_type(length.local("ab", factor=2), float)
    assert_type(length.remote("ab", factor=2), kajitori.Call[float])
    assert_type(length.remote("ab").result(), float)
    assert_type(words.remote("a b").result(60), list[str])
    length.remote(3)  # type: ignore[arg-type]
    length.remote()  # type: ignore[call-arg]
    for _ in length.remote("ab"):  # type: ignore[misc]
        pass


def maps() -> None:
    assert_type(next(length.map(["a", "b"])), float)
    assert_type(list(words.map(iter("ab"), at_most=4, ordered=False)), list[list[str]])
    assert_type(length.map(["a"]).calls[0], kajitori.Call[float])
    assert_type(list(length.starmap([("a", 2.0)])), list[float])
    length.map([1])  # type: ignore[list-item]
    length.map(range(3))  # type: ignore[arg-type]


def generators() -> None:
    assert_type(countdown(3), Iterator[int])
    assert_type(countdown.remote(3).result(), list[int])
    assert_type(losses.remote(3).result(), list[float])
    assert_type(list(countdown.map([1, 2])), list[list[int]])
    for number in countdown.remote(3):
        assert_type(number, int)
    for loss in losses.remote(3):
        assert_type(loss, float)


def pools() -> None:
    with length.pool(at_most=2) as pool:
        assert_type(pool.remote("a"), kajitori.Call[float])
        pool.remote(1)  # type: ignore[arg-type]
    pending = [length.remote(text) for text in "ab"]
    assert_type([call.result() for call in kajitori.as_completed(pending)], list[float])
    assert_type(kajitori.Call.from_id("vision/length-1/0").result(), Any)
