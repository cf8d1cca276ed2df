"""Bands over ranks, compared with NumPy's own statistics."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from kajitori.core.telemetry.bands import Band, Place, RankMinute, bands_of, merged, pack, unpack
from kajitori.core.telemetry.levels import Interval, coarser, shown
from kajitori.core.telemetry.report import MemberMinute

NAMES = ("a", "b", "never")


def minute(rank: int, *values: float, gpus: tuple[tuple[float, ...], ...] = (), **training: float) -> RankMinute:
    flat = [number for gpu in gpus for number in gpu]
    member = MemberMinute(
        "vision",
        f"bert-1-{rank}",
        f"uid-{rank}",
        1,
        array("f", (*values, *(float("nan") for _ in NAMES[len(values) :]))).tobytes(),
        tuple(f"GPU-{number}" for number in range(len(gpus))),
        array("f", flat).tobytes(),
        training,
    )
    return RankMinute(rank, NAMES, ("g",), member)


def test_bands_are_numpys_percentiles_with_the_ranks_of_extremes() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=101).astype(np.float32)
    made = bands_of([minute(rank, float(value)) for rank, value in enumerate(values)])
    assert set(made) == {"a"}
    band = made["a"]
    assert band.size == 101
    assert (band.p10, band.median, band.p90) == pytest.approx(tuple(np.percentile(values, (10, 50, 90))), abs=1e-6)
    assert (band.least, band.most) == (float(values.min()), float(values.max()))
    assert (band.least_at, band.most_at) == (Place(int(values.argmin())), Place(int(values.argmax())))


def test_ranks_without_a_value_do_not_count() -> None:
    nan = float("nan")
    made = bands_of([minute(0, nan, 1.0), minute(1, 5.0, nan), minute(2, 7.0, nan)])
    assert (made["a"].size, made["a"].least_at, made["b"].size) == (2, Place(1), 1)


def test_a_band_of_gpus_names_rank_and_gpu() -> None:
    made = bands_of([minute(3, 1.0, gpus=((90.0,), (4.0,))), minute(4, 1.0, gpus=((91.0,), (92.0,), (93.0,)))])
    assert (made["g"].size, made["g"].least_at, made["g"].most_at) == (5, Place(3, 1), Place(4, 2))


def test_figures_of_programs_have_bands() -> None:
    made = bands_of([minute(0, 1.0, loss=2.0), minute(1, 1.0, loss=4.0), minute(2, 1.0)])
    assert (made["train.loss"].size, made["train.loss"].median) == (2, 3.0)


def test_agents_of_two_versions_are_brought_together() -> None:
    new = minute(1, 5.0, 6.0)
    old = RankMinute(0, ("b",), ("h",), MemberMinute("vision", "p", "u", 1, array("f", [2.0]).tobytes()))
    made = bands_of([old, new])
    assert (made["a"].size, made["b"].size, made["b"].least_at) == (1, 2, Place(0))
    assert (made["a"].median, made["b"].median) == (5.0, 4.0)


def test_stored_bands_come_back() -> None:
    made = bands_of([minute(0, 1.0, 1003.0, loss=0.25), minute(1, 2.0, 3.0)])
    assert unpack(pack(made)) == made
    hour = {"a": Band(1, 1.0, 2.0, 2.0, 2.0, 3.0, Place(0), Place(0))}
    assert unpack(pack(hour)) == hour


def test_merged_intervals_keep_extremes_exactly() -> None:
    first = Band(2, 1.0, 1.0, 2.0, 3.0, 3.0, Place(0), Place(1))
    second = Band(2, 0.5, 1.0, 4.0, 5.0, 9.0, Place(7), Place(8))
    (made,) = merged([{"a": first}, {"a": second}]).values()
    assert (made.least, made.least_at, made.most, made.most_at) == (0.5, Place(7), 9.0, Place(8))
    assert made.median == 3.0


def interval(start: int, value: float, seconds: int = 60, attempt: int = 1) -> Interval:
    return Interval(
        "u", attempt, seconds, start, 1, {"a": Band(1, value, value, value, value, value, Place(0), Place(0))}
    )


def test_minutes_become_longer_intervals_by_attempt() -> None:
    made = coarser(
        [interval(start, float(start)) for start in range(0, 1200, 60)] + [interval(60, 1.0, attempt=2)], 600
    )
    assert [(each.attempt, each.start, each.seconds) for each in made] == [(1, 0, 600), (1, 600, 600), (2, 0, 600)]
    assert made[0].bands["a"].most == 540.0


def test_an_answer_has_no_more_points_than_wanted() -> None:
    many = [interval(start, 1.0) for start in range(0, 60 * 1000, 60)]
    for first in range(0, 120, 7):  # the longer intervals begin at multiples of their length
        for points in (2, 99, 100, 240):
            assert points / 2 < len(shown(many[first : first + 700], points)) <= points
    assert shown(many[:3], 3) == many[:3]


def test_stored_bands_are_stored_again_as_they_are() -> None:
    document = pack(bands_of([minute(0, 1.0, 3.0), minute(1, 2.0, 4.0)]))
    assert pack(unpack(document)) is document
