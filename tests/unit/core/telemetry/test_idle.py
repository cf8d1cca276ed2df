"""Idle GPUs: those that bands prove to be idle, and programs that only seem to do nothing."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.telemetry.bands import Band, Place, RankMinute, bands_of, merged
from kajitori.core.telemetry.idle import (
    Bounds,
    Finding,
    Limits,
    Patience,
    Verdict,
    below,
    idle_places,
    judge,
    use_in,
    watch,
    watch_all,
)
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.report import MemberMinute

START = 1_200_000
LIMITS = Limits()
HELD = {1: 8}
BATCH, SERVICE = Patience(), Patience(24 * 3600, 72 * 3600)

Minute = dict[str, float]


def band(value: float, size: int = 8) -> Band:
    return Band(size, value, value, value, value, value, Place(0, 0), Place(0, 0))


def intervals_of(*parts: tuple[int, Minute], attempt: int = 1, gpus: int = 8) -> list[Interval]:
    """Return a run of such parts: minutes, and what each of these measured."""
    found: list[Interval] = []
    for minutes, values in parts:
        for _ in range(minutes):
            size = int(values.get("size", gpus))
            bands = {name: band(value, size) for name, value in values.items() if name != "size"}
            if bands:
                found.append(Interval("u", attempt, 60, START + 60 * len(found), 1, bands))
            else:
                found.append(Interval("u", attempt, 60, START + 60 * len(found), 1, {}))
    return found


def judged(*parts: tuple[int, Minute], patience: Patience = BATCH) -> Finding:
    intervals = intervals_of(*parts)
    return judge(watch_all(None, intervals, HELD, LIMITS), patience, START + 60 * len(intervals))


TRAINS: Minute = {"cpu.used": 4.0, "gpu.used": 97.0, "gpu.memory.busy": 60.0}
IDLE: Minute = {"cpu.used": 0.02, "gpu.used": 0.0, "gpu.memory.busy": 0.0, "network.sent": 300.0}
EVALUATES: Minute = {"cpu.used": 1.0, "gpu.used": 30.0, "gpu.memory.busy": 12.0}
PREPARES: Minute = {"cpu.used": 14.0, "disk.read": 2e8, "gpu.used": 0.0, "gpu.memory.busy": 0.0}
DOWNLOADS: Minute = {"cpu.used": 0.2, "network.received": 5e7, "disk.written": 5e7, "gpu.used": 0.0}
SAVES: Minute = {"cpu.used": 0.3, "disk.written": 8e8, "gpu.used": 0.0}
COMPILES: Minute = {"cpu.used": 8.0, "gpu.used": 0.0}
COPIES: Minute = {"cpu.used": 0.1, "gpu.used": 3.0, "gpu.memory.busy": 20.0}
TINY_KERNELS: Minute = {"cpu.used": 0.1, "gpu.used": 40.0, "gpu.sm.active": 0.4}
NOT_MEASURED: Minute = {"cpu.used": 0.02}


@pytest.mark.parametrize(
    ("parts", "patience", "hours"),
    [
        pytest.param([(121, IDLE)], BATCH, 2, id="never-used"),
        pytest.param([(300, TRAINS), (121, IDLE)], BATCH, 2, id="forgot-to-end"),
        pytest.param([(30, TRAINS), (125, IDLE)], Patience(7200, 8 * 3600), 2, id="notebook"),
        pytest.param([(1441, IDLE)], SERVICE, 24, id="service-nobody-calls"),
        pytest.param([(721, PREPARES)], BATCH, 12, id="only-processors-for-half-a-day"),
        pytest.param([(60, PREPARES), (121, IDLE)], BATCH, 3, id="prepared-and-then-nothing"),
        pytest.param([(70, IDLE), (10, {}), (70, IDLE)], BATCH, 2, id="agent-was-away-for-minutes"),
    ],
)
def test_idle_gpus_are_found(parts: Sequence[tuple[int, Minute]], patience: Patience, hours: int) -> None:
    found = judged(*parts, patience=patience)
    assert (found.verdict, found.gpus, found.idle) == (Verdict.IDLE, 8, (8, 8))
    last = sum(minutes for minutes, _ in parts) - sum(minutes for minutes, values in parts if values is TRAINS)
    assert found.since == START + 60 * (sum(minutes for minutes, _ in parts) - last)
    assert last * 60 >= hours * 3600


@pytest.mark.parametrize(
    ("parts", "patience"),
    [
        pytest.param([(30, TRAINS), (600, EVALUATES)], BATCH, id="long-evaluation"),
        pytest.param([(600, PREPARES), (60, TRAINS)], BATCH, id="data-preparation-at-the-start"),
        pytest.param([(700, PREPARES)], BATCH, id="data-preparation-goes-on"),
        pytest.param([(300, DOWNLOADS)], BATCH, id="downloads-for-hours"),
        pytest.param([(30, TRAINS), (150, SAVES)], BATCH, id="slow-checkpoint"),
        pytest.param([(150, COMPILES)], BATCH, id="compilation"),
        pytest.param([(300, COPIES)], BATCH, id="memory-traffic-alone"),
        pytest.param([(300, TINY_KERNELS)], BATCH, id="utilisation-without-busy-multiprocessors"),
        pytest.param([(119, IDLE)], BATCH, id="below-the-limit"),
        pytest.param([(100, IDLE), (1, TRAINS), (100, IDLE)], Patience(7200, 8 * 3600), id="a-cell-now-and-then"),
        pytest.param([(1400, IDLE)], SERVICE, id="service-at-night"),
        pytest.param([(100, IDLE), (20, {}), (100, IDLE)], BATCH, id="agent-was-away-for-long"),
    ],
)
def test_innocent_programs_are_no_finding(parts: Sequence[tuple[int, Minute]], patience: Patience) -> None:
    assert judged(*parts, patience=patience).verdict is Verdict.USED


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(300, NOT_MEASURED)], id="no-reader-of-gpus"),
        pytest.param([(300, IDLE | {"size": 7})], id="one-gpu-is-not-measured"),
        pytest.param([(300, IDLE), (10, {})], id="agent-is-away-now"),
        pytest.param([], id="nothing-at-all"),
    ],
)
def test_what_is_not_measured_is_unknown(parts: Sequence[tuple[int, Minute]]) -> None:
    assert judged(*parts).verdict is Verdict.UNKNOWN


def test_a_new_attempt_begins_anew() -> None:
    watched = watch_all(None, intervals_of((200, IDLE)), HELD, LIMITS)
    later = intervals_of((201, IDLE), attempt=2)[-1]
    again = watch(watched, [later], {2: 8}, LIMITS)
    assert judge(again, BATCH, later.start + 60).verdict is Verdict.USED
    assert watch(again, intervals_of((300, IDLE))[-1:], {2: 8}, LIMITS) == again


def test_an_interval_twice_counts_once() -> None:
    intervals = intervals_of((130, IDLE))
    once = watch_all(None, intervals, HELD, LIMITS)
    assert watch_all(once, intervals, HELD, LIMITS) == once


def test_members_of_several_attempts_are_judged_together() -> None:
    """A service or a sweep starts its members one after the other."""
    first, second = intervals_of((130, IDLE), gpus=2), intervals_of((130, IDLE), attempt=3, gpus=1)
    found = judge(watch_all(None, [*first, *second], {1: 2, 3: 1}, LIMITS), BATCH, START + 130 * 60)
    assert (found.verdict, found.attempt, found.gpus) == (Verdict.IDLE, 3, 3)
    busy = intervals_of((130, {"gpu.used": 97.0}), gpus=2)
    found = judge(watch_all(None, [*busy, *second], {1: 2, 3: 1}, LIMITS), BATCH, START + 130 * 60)
    assert (found.verdict, found.idle) == (Verdict.PERHAPS, (1, 1))
    silent = watch_all(None, second, {1: 2, 3: 1}, LIMITS)
    assert judge(silent, BATCH, START + 130 * 60).verdict is Verdict.UNKNOWN


# ---------------------------------------------------------------------------------------------- bounds

_VALUES = st.lists(st.integers(0, 40).map(lambda value: value / 4), min_size=1, max_size=80)


def minutes_of(*columns: Sequence[float], names: tuple[str, ...]) -> list[RankMinute]:
    """Return a minute of one GPU per rank."""
    nan = float("nan")

    def member(rank: int, row: tuple[float, ...]) -> MemberMinute:
        own, of_gpu = array("f", (nan,)).tobytes(), array("f", row).tobytes()
        return MemberMinute("n", f"p-{rank}", str(rank), 0, own, ("G",), of_gpu, {})

    return [
        RankMinute(rank, ("none",), names, member(rank, row)) for rank, row in enumerate(zip(*columns, strict=True))
    ]


@given(_VALUES, st.integers(1, 40))
def test_bounds_of_a_band_hold_the_true_number(values: list[float], limit: int) -> None:
    made = bands_of(minutes_of(values, names=("gpu.used",)))["gpu.used"]
    bounds, true = below(made, limit / 4, is_minute=True), sum(value < limit / 4 for value in values)
    assert bounds.fewest <= true <= bounds.most
    if true in (0, len(values)):
        assert bounds == Bounds(true, true)


@given(
    st.integers(1, 30).flatmap(
        lambda size: st.tuples(*[st.lists(st.integers(0, 10), min_size=size, max_size=size)] * 3)
    )
)
def test_a_gpu_is_idle_only_by_all_quantities(columns: tuple[list[int], ...]) -> None:
    names = ("gpu.used", "gpu.sm.active", "gpu.memory.busy")
    bands = bands_of(minutes_of(*columns, names=names))
    found = use_in(Interval("u", 1, 60, START, 1, bands), LIMITS)
    assert found is not None
    true = sum(max(row) < LIMITS.utilisation for row in zip(*columns, strict=True))
    assert found.idle.fewest <= true <= found.idle.most
    assert found.gpus == len(columns[0])


@given(st.lists(_VALUES.filter(lambda values: len(values) >= 4).map(lambda values: values[:4]), min_size=2, max_size=6))
def test_longer_intervals_prove_only_what_extremes_prove(minutes: list[list[float]]) -> None:
    bands = merged([bands_of(minutes_of(values, names=("gpu.used",))) for values in minutes])["gpu.used"]
    bounds = below(bands, 5.0, is_minute=False)
    assert all(bounds.fewest <= sum(value < 5.0 for value in values) <= bounds.most for values in minutes)


def test_idle_gpus_beside_working_ones_are_suspected_only() -> None:
    two_of_eight = Band(8, 0.0, 0.0, 95.0, 97.0, 98.0, Place(3, 0), Place(0, 0))
    mixed = [Interval("u", 1, 60, START + 60 * number, 1, {"gpu.used": two_of_eight}) for number in range(130)]
    found = judge(watch_all(None, mixed, HELD, LIMITS), BATCH, START + 60 * 130)
    assert (found.verdict, found.gpus, found.idle) == (Verdict.PERHAPS, 8, Bounds(1, 4))


@given(st.lists(st.sampled_from((IDLE, TRAINS, PREPARES, {})), max_size=30), st.integers(1, 20))
def test_all_idle_gpus_were_never_used_since_then(kinds: list[Minute], cut: int) -> None:
    patience = Patience(4 * 60, 9 * 60)
    intervals = intervals_of(*((1, kind) for kind in kinds))
    now = START + 60 * len(intervals)
    found = judge(watch_all(None, intervals, HELD, LIMITS), patience, now)
    folded = watch_all(None, intervals[:cut], HELD, LIMITS)
    for interval in intervals[cut:]:
        folded = watch(folded, [interval], HELD, LIMITS)
    assert judge(folded, patience, now) == found  # a leader that began earlier says the same
    if found.verdict is Verdict.IDLE:
        since = [kind for kind, each in zip(kinds, intervals, strict=True) if each.start >= found.since]
        assert TRAINS not in since
        assert len(since) >= 4
        assert len(since) >= 9 or PREPARES not in since[-4:]


def test_nodes_say_which_gpus_are_idle() -> None:
    quiet, busy = [0.0] * 240, [0.0] * 200 + [90.0] * 40
    samples = {
        Place(0, 0): {"gpu.used": busy},
        Place(0, 1): {"gpu.used": quiet, "gpu.memory.busy": [float("nan")] * 240},
        Place(1, 0): {"gpu.used": [*quiet[:-2], 50.0, 60.0]},
        Place(1, 1): {"gpu.memory.busy": quiet},
        Place(2, 0): {"gpu.used": quiet, "gpu.sm.active": busy},
    }
    assert idle_places(samples, LIMITS) == [Place(0, 1), Place(1, 0)]


@pytest.mark.parametrize(
    ("minute", "works", "peak"),
    [
        ({"gpu.used": 4.9, "cpu.used": 0.5}, True, 4.9),
        ({"gpu.used": 4.9, "cpu.used": 0.49}, False, 4.9),
        ({"gpu.used": 1.0, "network.sent": 2.0**20}, True, 1.0),
        ({"gpu.used": 1.0, "network.sent": 2.0**20 - 1}, False, 1.0),
        ({"gpu.used": 1.0, "gpu.sm.active": 3.0}, False, 3.0),
    ],
)
def test_other_work_counts_from_a_limit_on(minute: Minute, works: bool, peak: float) -> None:
    (each,) = intervals_of((1, minute))
    found = use_in(each, LIMITS)
    assert found is not None and (found.works, found.peak, found.idle) == (works, peak, (8, 8))


def test_limits_of_a_gpu_are_those_of_use() -> None:
    for name in LIMITS.of_gpu:
        (at,), (under,) = (
            intervals_of((1, {"gpu.used": 0.0, name: 5.0})),
            intervals_of((1, {"gpu.used": 0.0, name: 4.9})),
        )
        busy, idle = use_in(at, LIMITS), use_in(under, LIMITS)
        assert busy is not None and idle is not None and (busy.idle, idle.idle) == ((0, 0), (8, 8))
    missing = {"gpu.used": band(0.0, 8), "gpu.sm.active": band(0.0, 6)}
    found = use_in(Interval("u", 1, 60, START, 1, missing), LIMITS)
    assert found is not None and found.gpus == 8, "an older GPU has one of both figures"


def test_a_finding_needs_fresh_minutes_and_tells_what_it_knows() -> None:
    intervals = intervals_of((130, IDLE | {"gpu.used": 1.0}), (1, IDLE | {"gpu.used": 4.0}))
    watched, until = watch_all(None, intervals, HELD, LIMITS), START + 131 * 60
    assert judge(watched, BATCH, until + 300).verdict is Verdict.IDLE
    assert judge(watched, BATCH, until + 301) == Finding(Verdict.UNKNOWN, 1)
    assert judge(None, BATCH, until) == Finding(Verdict.UNKNOWN, 0)
    found = judge(watched, BATCH, until)
    assert (found.peak, found.is_older, found.works) == (4.0, True, False)
    later = watch_all(None, [*intervals_of((2, TRAINS)), *intervals_of((2, TRAINS), (130, IDLE))[2:]], HELD, LIMITS)
    assert judge(later, BATCH, START + 132 * 60).is_older is False
    assert judge(watched, Patience(None, None), until).verdict is Verdict.USED
    exactly = watch_all(None, intervals_of((120, IDLE)), HELD, LIMITS)
    assert judge(exactly, BATCH, START + 120 * 60).verdict is Verdict.IDLE
    mixed = watch_all(None, intervals_of((60, PREPARES), (700, IDLE)), HELD, LIMITS)
    assert judge(mixed, BATCH, START + 760 * 60).works is True


def test_a_stretch_has_the_bounds_of_all_of_its_minutes() -> None:
    """Two to four of eight GPUs are idle, then one to two, then four to six."""

    def some(p10: float, median: float) -> Band:
        return Band(8, 0.0, p10, median, 97.0, 98.0, Place(5, 1), Place(0, 0))

    parts = [(0.0, 95.0), (95.0, 96.0), (0.0, 0.0)]
    intervals = [
        Interval("u", 1, 60, START + 60 * number, 1, {"gpu.used": some(*each)}) for number, each in enumerate(parts)
    ]
    uses = [use for each in intervals if (use := use_in(each, LIMITS)) is not None]
    assert [use.idle for use in uses] == [(1, 4), (1, 1), (4, 7)]
    watched = watch_all(None, intervals, HELD, LIMITS)
    assert watched is not None and watched.part is not None and watched.whole is None
    assert (watched.part.idle, watched.part.since, watched.least_rank) == ((1, 1), START, 5)
    assert watch_all(watched, intervals[:2], HELD, LIMITS) == watched, "they are older"
    gap = Interval("u", 1, 60, START + 180 + 900, 1, intervals[2].bands)
    kept = watch(watched, [gap], HELD, LIMITS)
    assert kept is not None and kept.part is not None and kept.part.since == START
    longer = watch(watched, [Interval("u", 1, 60, gap.start + 60, 1, gap.bands)], HELD, LIMITS)
    assert longer is not None and longer.part is not None and longer.part.since == gap.start + 60
    assert longer.first == START


def test_the_least_used_gpu_of_several_attempts_is_known() -> None:
    low = Band(1, 1.0, 1.0, 1.0, 1.0, 1.0, Place(7, 0), Place(7, 0))
    high = Band(1, 2.0, 2.0, 2.0, 2.0, 9.0, Place(3, 0), Place(3, 0))
    several = [Interval("u", 2, 60, START, 1, {"gpu.used": high}), Interval("u", 1, 60, START, 1, {"gpu.used": low})]
    watched = watch(None, several, {1: 1, 2: 1}, LIMITS)
    assert watched is not None and (watched.least_rank, watched.attempt) == (7, 2)
    assert watched.part is not None and watched.part.peak == 9.0
