"""Runs that are stuck are suspected; healthy runs that look similar are not."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec
import pytest

from kajitori.core.formats.times import format_time, time_at
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.hangs.stacks import NO_TIME, Frame, ProcessStacks, ThreadStack
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MEMBER_NAMES
from kajitori.core.telemetry.report import Answer, Series
from kajitori.core.telemetry.ring import UNKNOWN
from kajitori.core.telemetry.stuck import (
    Finding,
    Patience,
    Rhythm,
    Verdict,
    describe,
    judge,
    stayed_quiet,
    stood_still,
)

START = 1_200_000

Minute = dict[str, float]


def band(value: float) -> Band:
    return Band(4, value, value, value, value, value, Place(0), Place(0))


def judged(*parts: tuple[int, Minute], late: float = 0.0, patience: Patience | None = None) -> Finding:
    """Judge a run of such parts: minutes, and what each of these measured. A figure that ends in + grows."""
    intervals: list[Interval] = []
    quiet = 0.0
    for minutes, values in parts:
        ranks = int(values.get("ranks", 4))
        for _ in range(minutes):
            quiet = 0.0 if "output" in values else quiet + 60
            number = len(intervals)
            bands = {name: band(value) for name, value in values.items() if name not in ("output", "step", "ranks")}
            if "step" in values:
                bands["train.step"] = band(values["step"] + number if values.get("cpu.used", 0) else values["step"])
            bands["output.age"] = band(quiet or 5.0)
            intervals.append(Interval("u", 1, 60, START + 60 * number, ranks, bands))
    return judge(intervals, START + 60 * len(intervals) + late, patience)


TRAINS: Minute = {"output": 1, "cpu.used": 1.0, "gpu.used": 97.0, "network.sent": 1e6}
WAITS: Minute = {"cpu.used": 0.01, "gpu.used": 0.0, "network.sent": 200.0}
SPINS: Minute = {"cpu.used": 1.0, "gpu.used": 100.0, "network.sent": 200.0}
STOPPED: Minute = {"cpu.used": 0.0}
EVALUATES: Minute = {"cpu.used": 1.0, "gpu.used": 60.0}
SAVES: Minute = {"cpu.used": 0.02, "disk.written": 5e7}
LOADS: Minute = {"cpu.used": 0.4, "disk.read": 1e6}
SAVES_TO_A_FILE_SERVER: Minute = {"cpu.used": 0.02, "disk.written": 0.0, "storage.moved": 5e7, "network.sent": 200.0}
COMPILES: Minute = {"cpu.used": 8.0}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(30, TRAINS), (15, WAITS)], id="lock-or-socket"),
        pytest.param([(30, TRAINS), (15, STOPPED)], id="sigstop"),
        pytest.param([(30, TRAINS), (70, SPINS)], id="spins"),
        pytest.param([(5, COMPILES), (30, TRAINS), (20, WAITS)], id="lock-after-a-compilation"),
        pytest.param([(20, TRAINS), (4, WAITS), (20, TRAINS), (13, WAITS)], id="longer-than-ever"),
        pytest.param([(30, TRAINS), (5, SAVES), (15, WAITS)], id="a-checkpoint-that-never-ends"),
    ],
)
def test_a_stuck_run_is_suspected(parts: Sequence[tuple[int, Minute]]) -> None:
    assert judged(*parts).verdict is Verdict.SUSPECTED


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(30, TRAINS), (55, EVALUATES)], id="long-evaluation"),
        pytest.param([(30, TRAINS), (25, EVALUATES), (30, TRAINS), (70, EVALUATES)], id="evaluation-of-known-length"),
        pytest.param([(30, TRAINS), (90, SAVES)], id="slow-checkpoint"),
        pytest.param([(30, TRAINS), (90, SAVES_TO_A_FILE_SERVER)], id="slow-checkpoint-to-a-file-server"),
        pytest.param([(50, COMPILES)], id="compilation-at-the-start"),
        pytest.param([(30, TRAINS), (45, COMPILES)], id="compilation-later"),
        pytest.param([(30, TRAINS), (90, LOADS)], id="loads-data"),
        pytest.param([(600, EVALUATES)], id="never-prints"),
        pytest.param([(600, WAITS)], id="a-program-that-only-waits"),
        pytest.param([(20, TRAINS), (8, WAITS), (20, TRAINS), (20, WAITS)], id="pauses-as-before"),
        pytest.param([(30, TRAINS), (9, WAITS)], id="below-the-floor"),
        pytest.param([(30, TRAINS), (20, WAITS | {"ranks": 3})], id="the-rank-that-prints-is-not-measured"),
        pytest.param([(3, TRAINS | {"step": 0.0}), (90, EVALUATES | {"step": 5.0})], id="quiet-but-counts-steps"),
    ],
)
def test_a_run_that_is_well_is_not_suspected(parts: Sequence[tuple[int, Minute]]) -> None:
    assert judged(*parts).verdict is not Verdict.SUSPECTED


def test_a_run_whose_agents_are_silent_is_not_judged() -> None:
    """The measurements ended, which says nothing of the run."""
    assert judged((30, TRAINS), (15, WAITS), late=600.0) == Finding(Verdict.UNKNOWN)
    assert judge([], START) == Finding(Verdict.UNKNOWN)


def test_time_after_the_newest_interval_is_not_quiet_time() -> None:
    """Bands appear up to two minutes late, and the run may have made progress in that time."""
    found = judged((30, TRAINS), (9, WAITS), late=110.0)
    assert (found.verdict, found.quiet_seconds) == (Verdict.WELL, 540.0)
    assert found.since == START + 30 * 60, "the end of the last minute with progress"
    assert judged((30, TRAINS), (10, WAITS), late=110.0).verdict is Verdict.SUSPECTED
    assert judged((30, TRAINS), late=110.0).since == 0.0


def test_the_last_step_is_told_if_the_program_counts_its_steps() -> None:
    found = judged((1284, TRAINS | {"step": 1.0}), (15, STOPPED | {"step": 1284.0}))
    expected = (
        "It is stuck: no rank has shown progress for 15m, since step 1,284, and neither processors nor GPUs work."
    )
    assert describe(found, is_still=True) == expected
    assert "step" not in describe(judged((30, TRAINS), (15, WAITS)), is_still=True)


def test_the_time_is_learned_within_floor_and_ceiling() -> None:
    assert judged((30, TRAINS), (2, WAITS)).after_seconds == Patience().floor_seconds
    assert judged((30, TRAINS), (9, WAITS), (5, TRAINS)).after_seconds == 27 * 60
    assert judged((5, TRAINS), (300, WAITS), (5, TRAINS)).after_seconds == Patience().ceiling_seconds


def test_a_time_that_the_user_chose_replaces_the_rhythm() -> None:
    """Also for a run that never made progress."""
    chosen = Patience(exact_seconds=300.0)
    assert judged((5, WAITS), patience=chosen).verdict is Verdict.SUSPECTED
    assert judged((4, SPINS), patience=chosen).verdict is Verdict.WELL
    assert judged((5, TRAINS), (90, LOADS), patience=chosen).verdict is Verdict.WELL


def ranks_seen(*parts: tuple[int, int, Minute]) -> list[Interval]:
    """Return minutes, given the number of ranks that reported in each."""
    made: list[Interval] = []
    quiet = 0.0
    for minutes, ranks, values in parts:
        for _ in range(minutes):
            quiet = 0.0 if "output" in values else quiet + 60
            bands = {name: band(value) for name, value in values.items() if name != "output"}
            made.append(Interval("u", 1, 60, START + 60 * len(made), ranks, bands | {"output.age": band(quiet or 5.0)}))
    return made


def test_ranks_that_have_ended_are_not_waited_for() -> None:
    """The others hang in a collective operation that the ended rank never enters."""
    minutes = ranks_seen((30, 4, TRAINS), (15, 3, WAITS))
    until = START + 60 * len(minutes)
    assert judge(minutes, until).verdict is Verdict.UNKNOWN
    assert judge(minutes, until, left=3).verdict is Verdict.SUSPECTED
    assert judge(minutes, until, left=2).verdict is Verdict.UNKNOWN, "a rank that runs does not report"
    rhythm = Rhythm()
    for each in minutes:  # as the watcher sees them, one a minute
        rhythm.take_all([each], 3 if each.ranks == 3 else None)
    assert rhythm.judge(until, Patience()).verdict is Verdict.SUSPECTED


def test_a_rank_that_was_silent_before_another_ended_still_counts() -> None:
    """A new leader reads the past: whether the silent rank made progress is not known."""
    minutes = ranks_seen((30, 4, TRAINS), (12, 3, WAITS), (1, 4, WAITS), (1, 3, WAITS))
    assert judge(minutes, START + 60 * len(minutes), left=3).verdict is Verdict.WELL


def test_a_time_without_measurements_is_no_quiet_time() -> None:
    """Progress in it was not seen; so the quiet time begins again after it."""
    rhythm = Rhythm()
    for number in (*range(30), *range(34, 42), *range(60, 64)):
        band_of_output = band(5.0 if number < 30 else 900.0)
        rhythm.take(Interval("u", 1, 60, START + 60 * number, 4, {"output.age": band_of_output}))
    assert (rhythm.quiet_seconds, rhythm.longest_seconds, rhythm.progresses) == (240.0, 0.0, False)
    assert rhythm.judge(START + 60 * 64, Patience()).verdict is Verdict.WELL


def stacks(*lines: int) -> dict[int, list[ProcessStacks]]:
    return {
        rank: [ProcessStacks(7, "python", "S", (ThreadStack("MainThread", (Frame("step", "/a.py", line),)),))]
        for rank, line in enumerate(lines)
    }


def test_evidence_is_that_no_process_moved_in_all_looks() -> None:
    assert stood_still([stacks(4, 9), stacks(4, 9)], (0, 1))
    assert stood_still([stacks(4, 9), stacks(4, 10)], (0, 1)) is False
    assert stood_still([stacks(4, 9), stacks(4, 10), stacks(4, 9)], (0, 1)) is False
    assert stood_still([{}, stacks(4)], [0]) is None, "nothing was compared"
    started_anew = {0: [msgspec.structs.replace(stacks(4)[0][0], pid=8)]}
    assert stood_still([stacks(4), started_anew], [0]) is None, "another process is no evidence"


def test_a_rank_that_was_not_read_twice_may_be_the_one_that_works() -> None:
    """A node with many processes may have no time for all of them, or not answer at all."""
    no_time = {1: [msgspec.structs.replace(stacks(9)[0][0], threads=(), trouble=NO_TIME)]}
    looks = [stacks(4, 9), stacks(4) | no_time]
    assert stood_still(looks, (0, 1)) is None
    assert stood_still([*looks, stacks(4, 9)], (0, 1)) is True, "it was read twice"
    assert stood_still([*looks, stacks(4, 8)], (0, 1)) is False
    assert stood_still([stacks(4), stacks(4)], (0, 1)) is None, "its node did not answer"
    assert stood_still([stacks(4), stacks(5)], (0, 1)) is False
    assert stood_still([{1: stacks(9)[0]}, no_time], [1]) is None


def test_a_program_that_cannot_be_read_does_not_prevent_the_verdict() -> None:
    """Other ranks that wait are the evidence, also if one of them runs no Python program."""
    no_python = {1: [ProcessStacks(7, "./solver", "S", trouble="Failed to find python version")]}
    assert stood_still([stacks(4) | no_python, stacks(4) | no_python], (0, 1)) is True


@pytest.mark.parametrize(
    ("minute", "works"),
    [
        ({"cpu.used": 0.05}, True),
        ({"cpu.used": 0.049}, False),
        ({"cpu.used": 0.0, "gpu.used": 1.0}, True),
        ({"cpu.used": 0.0, "gpu.used": 0.9}, False),
        ({}, False),
    ],
)
def test_a_quiet_run_works_if_it_uses_a_processor_or_a_gpu(minute: Minute, works: bool) -> None:
    assert judged((30, TRAINS), (5, minute)).works is works
    assert judged((30, TRAINS), (1, minute), (4, STOPPED)).works is works, "once in the quiet time is enough"


def test_traffic_counts_as_progress_from_a_limit_on() -> None:
    assert judged((30, TRAINS), (5, {"network.sent": 4096.0})).quiet_seconds == 0.0
    assert judged((30, TRAINS), (5, {"network.sent": 4095.0})).quiet_seconds == 300.0
    assert judged((5, WAITS)).longest_seconds == 0.0


def test_a_rhythm_is_known_after_three_minutes_with_progress() -> None:
    assert judged((3, TRAINS), (15, WAITS)).verdict is Verdict.SUSPECTED
    assert judged((2, TRAINS), (15, WAITS)).verdict is Verdict.UNKNOWN


def test_findings_become_sentences() -> None:
    quiet = judged((30, TRAINS), (5, WAITS))
    assert describe(quiet, is_still=None) == (
        f"It has shown no progress for 5m (as of {format_time(time_at(START + 35 * 60))}), "
        "which is suspicious only after 10m."
    )
    assert describe(judged((5, TRAINS)), is_still=None).endswith(f"(as of {format_time(time_at(START + 5 * 60))}).")
    assert describe(Finding(Verdict.UNKNOWN), is_still=None).startswith("Whether it makes progress is not known yet: ")
    suspected = judged((5, TRAINS), (2, WAITS), (5, TRAINS), (90, SPINS))
    assert describe(suspected, is_still=None) == (
        "It may be stuck: no rank has shown progress for 1h30m, though processors or GPUs are busy. "
        "Its longest quiet time before was 2m."
    )
    assert describe(suspected, is_still=False).startswith("It may be stuck, but its processes still move: ")
    assert describe(suspected, is_still=True).startswith("It is stuck: ")
    rates = Interval("u", 1, 60, START, 4, {"train.step.rate": band(2.0), "train.step": band(7.0)})
    assert judge([rates], START + 60, Patience(exact_seconds=60.0)).step == 7.0


def test_the_last_step_stays_known_in_minutes_without_figures() -> None:
    found = judged((30, TRAINS | {"step": 1.0}), (15, STOPPED))
    assert found.step == 30.0
    assert judged((10, TRAINS | {"train.loss.rate": 3.0}), (5, WAITS | {"train.loss.rate": 4.0})).quiet_seconds == 300.0


@pytest.mark.parametrize(
    ("row", "training", "quiet"),
    [
        pytest.param({"output.age": 100.0, "network.sent": 4095.0}, {}, True, id="quiet"),
        pytest.param({"network.sent": UNKNOWN, "output.age": UNKNOWN}, {}, True, id="never-printed"),
        pytest.param({"output.age": 99.0}, {}, False, id="printed"),
        pytest.param({"output.age": 500.0, "storage.moved": 4096.0}, {}, False, id="reads-a-file-server"),
        pytest.param({"output.age": 500.0}, {"loss": [(150.0, 2.0)]}, False, id="wrote-a-figure"),
        pytest.param({"output.age": 500.0}, {"step.rate": [(150.0, 0.0)]}, True, id="rates-follow-from-the-clock"),
        pytest.param(None, {}, False, id="not-sampled"),
    ],
)
def test_samples_up_to_now_show_whether_a_member_stayed_quiet(
    row: dict[str, float] | None, training: dict[str, list[tuple[float, float]]], quiet: bool
) -> None:
    """The bands end at 100, and the newest sample is of 200. A sample before it shows nothing of its output."""
    rows = [] if row is None else [{"output.age": 7.0}, row]
    values = array("f", [each.get(name, 0.0) for each in rows for name in MEMBER_NAMES])
    times = array("d", [115.0, 200.0][: len(rows)])
    member = Series("p0", times.tobytes(), values.tobytes(), training=training)
    assert stayed_quiet(Answer((member,)), member, 100.0) is quiet
