"""A rank, GPU or node that is persistently slower than its peers is found; healthy gangs have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from bench.telemetry.stragglers import HEALTHY, healthy, slowed
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stragglers import SIGNS, Outlier, Peers, Spot, describe_straggler, find, outlier

START = 1_999_999_980
(CPU,) = (sign for sign in SIGNS if sign.quantity == "cpu.used")
NODES = {rank: f"n{rank // 2}" for rank in range(8)}
"""Two ranks on each of four nodes."""

Minute = Mapping[str, Sequence[float]]


def band(values: Sequence[float], gpus: int = 0) -> Band:
    """Return the band of the ranks' values, or of `gpus` GPUs of each rank."""
    p10, median, p90 = (float(each) for each in np.percentile(values, [10, 50, 90]))
    low, high = int(np.argmin(values)), int(np.argmax(values))
    places = [Place(each // gpus, each % gpus) if gpus else Place(each) for each in (low, high)]
    return Band(len(values), float(values[low]), p10, median, p90, float(values[high]), *places)


def minutes(*parts: tuple[int, Minute], gpus: int = 0, first: int = 0) -> list[Interval]:
    """Return the bands of a number of minutes, all with the same values."""
    each_minute = [values for count, values in parts for _ in range(count)]
    bands = [{name: band(all_, gpus) for name, all_ in values.items()} for values in each_minute]
    return [Interval("u", 1, 60, START + 60 * (first + number), 8, each) for number, each in enumerate(bands)]


def with_one(usual: float, odd: float, at: int, size: int = 8) -> list[float]:
    """Return values near `usual` with one that is not."""
    values = [usual * (1 + 0.004 * number) for number in range(size)]
    values[at] = odd
    return values


EVEN: Minute = {"cpu.used": [0.9 + 0.01 * rank for rank in range(8)]}
RANK_5_WORKS: Minute = {"cpu.used": with_one(0.5, 0.95, 5)}


def end(intervals: Sequence[Interval]) -> float:
    return intervals[-1].start + 60.0


@pytest.mark.parametrize(
    ("quantity", "values"),
    [
        ("gpu.clock.sm", {"gpu.clock.sm": with_one(1980, 1200, 6), "gpu.used": with_one(97, 98, 1)}),
        ("gpu.used", {"gpu.used": with_one(96, 60, 6), "cpu.used": EVEN["cpu.used"]}),
        ("gpu.sm.active", {"gpu.used": [99.0] * 8, "gpu.sm.active": with_one(40, 80, 6)}),
        ("gpu.power", {"gpu.used": [99.0] * 8, "gpu.power": with_one(300, 620, 6)}),
        ("cpu.used", {"cpu.used": with_one(0.5, 0.95, 6)}),
        ("train.work_seconds", {"train.work_seconds": with_one(0.02, 0.03, 6), "cpu.used": EVEN["cpu.used"]}),
        ("train.step.rate", {"train.step.rate": with_one(2.0, 1.5, 6)}),
        ("gpu.nvlink.links", {"gpu.used": [99.0] * 8, "gpu.nvlink.links": [18.0] * 6 + [17.0, 18.0]}),
    ],
)
def test_each_sign_tells_the_slow_one_from_its_waiting_peers(quantity: str, values: Minute) -> None:
    """Eight values: of ranks, or of GPUs, two of each rank."""
    gpus = 2 if quantity.startswith("gpu.") else 0
    series = minutes((15, values), gpus=gpus)
    found = find(series, NODES, end(series))
    assert found is not None
    spot = Spot("n1", 3, 0) if gpus else Spot("n3", 6)
    assert (found.sign.quantity, found.spot, found.since, found.minutes) == (quantity, spot, START, 15)


@pytest.mark.parametrize(
    ("quantity", "usual", "odd"), [("link.rate", 400.0, 200.0), ("link.ports", 8.0, 7.0), ("link.rate", 400.0, 400.0)]
)
def test_a_node_with_a_worse_network_than_the_others_is_named(quantity: str, usual: float, odd: float) -> None:
    """All ranks of a node have the values of its ports, so its first rank is the extreme."""
    nodes = {rank: f"n{rank // 2}" for rank in range(32)}
    series = minutes((15, {quantity: [usual] * 10 + [odd] * 2 + [usual] * 20}))
    found = find(series, nodes, end(series))
    if odd == usual:
        assert found is None
        return
    assert found is not None
    assert (found.sign.quantity, found.spot.node) == (quantity, "n5")
    assert "port" in describe_straggler(found)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(EVEN, id="even"),
        pytest.param({"cpu.used": with_one(0.5, 0.55, 5)}, id="hardly-slower"),
        pytest.param({"cpu.used": with_one(0.01, 0.95, 5)}, id="one-rank-works-alone"),
        pytest.param({"cpu.used": with_one(0.06, 0.5, 5)}, id="peers-are-idle"),
        pytest.param({"cpu.used": [0.5] * 6 + [0.95] * 2}, id="two-of-eight-have-more-work"),
        pytest.param({"cpu.used": [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.4]}, id="all-differ"),
        pytest.param({"cpu.used": with_one(0.5, 0.95, 5), "gpu.used": [99.0] * 8}, id="processors-beside-gpus"),
        pytest.param({"gpu.used": with_one(99, 0, 5)}, id="a-gpu-that-nobody-uses"),
        pytest.param({"gpu.clock.sm": with_one(1980, 300, 5), "gpu.used": with_one(99, 5, 5)}, id="clock-of-idle-gpu"),
        pytest.param({"cpu.used": [0.5, 0.5, 0.95]}, id="three-ranks"),
        pytest.param({"train.work_seconds": [0.3] * 6 + [0.45] * 2}, id="two-of-eight-take-longer"),
        pytest.param({"train.step.rate": [2.0] * 8}, id="steps-at-the-same-rate"),
        pytest.param({"train.loss": with_one(2.0, 3.0, 5)}, id="a-figure-of-another-name"),
    ],
)
def test_nobody_stands_out(values: Minute) -> None:
    series = minutes((30, values))
    assert find(series, NODES, end(series)) is None


def test_it_must_persist_and_is_forgotten_after_it_ended() -> None:
    found_in = []
    peers = Peers(NODES)
    for number, each in enumerate(minutes((10, EVEN), (20, RANK_5_WORKS), (10, EVEN))):
        peers.take(each)
        if (found := peers.judge(each.start + 60)) is not None:
            found_in.append(number)
            assert found.since == START + 600, "the first minute in which it stood out"
    assert found_in == list(range(21, 37)), "from its 12th minute on, until only 8 of the last 15 are left"


def test_a_few_odd_minutes_do_not_hide_it() -> None:
    series = minutes((6, RANK_5_WORKS), (2, EVEN), (7, RANK_5_WORKS))
    found = find(series, NODES, end(series))
    assert found is not None and (found.minutes, found.of_minutes) == (13, 15)


def test_another_rank_each_time_is_no_straggler() -> None:
    series = minutes(*((1, {"cpu.used": with_one(0.5, 0.95, number % 8)}) for number in range(60)))
    assert find(series, NODES, end(series)) is None


def test_ranks_of_one_node_are_named_as_the_node() -> None:
    series = minutes(*((1, {"cpu.used": with_one(0.5, 0.95, 4 + number % 2)}) for number in range(30)))
    found = find(series, NODES, end(series))
    assert found is not None and found.spot == Spot("n2")
    assert find(series, dict.fromkeys(range(8), "n0"), end(series)) is None, "all ranks are on one node"


def test_gpus_of_one_rank_are_named_as_the_rank() -> None:
    parts = [(1, {"gpu.used": with_one(97, 50, 6 + number % 2)}) for number in range(15)]
    series = minutes(*parts, gpus=2)
    found = find(series, dict.fromkeys(range(4), "n"), end(series))
    assert found is not None and found.spot == Spot("n", 3)


def test_old_minutes_long_intervals_and_gaps_say_nothing() -> None:
    series = minutes((15, RANK_5_WORKS))
    assert find(series, NODES, end(series) + 301) is None
    longer = [Interval("u", 1, 600, each.start * 10, 8, each.bands) for each in series]
    assert find(longer, NODES, end(longer)) is None
    parted = series[:10] + minutes((5, RANK_5_WORKS), first=40)
    assert find(parted, NODES, end(parted)) is None


def test_one_sentence_tells_who_is_slow_and_by_what() -> None:
    values = {"gpu.clock.sm": with_one(1980, 1200, 7), "gpu.used": [98.0] * 8}
    series = minutes((15, values), gpus=2)
    found = find(series, NODES, end(series))
    assert found is not None
    assert describe_straggler(found) == (
        "GPU 1 of rank 3 on n1 has been slower than its peers since 2033-05-18T03:33:00Z: its clock is lower "
        "(gpu.clock.sm 1,200 MHz, median of 8 GPUs 2,000 MHz, in 15 of the last 15 minutes)."
    )
    series = minutes(*((1, {"cpu.used": with_one(0.5, 0.95, 4 + number % 2)}) for number in range(15)))
    found = find(series, NODES, end(series))
    assert found is not None and describe_straggler(found).startswith("Node n2 has been slower than its peers since ")


near = st.lists(st.floats(1.0, 1.19), min_size=4, max_size=40)


@given(near)
def test_ranks_within_a_fifth_of_each_other_never_stand_out(values: list[float]) -> None:
    assert outlier({"cpu.used": band(values)}, CPU) is None


@given(st.lists(st.floats(1.0, 1.19), min_size=3, max_size=40), st.floats(2.2, 10.0), st.data())
def test_one_rank_with_twice_the_time_always_stands_out(values: list[float], odd: float, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values)))
    values.insert(at, odd)
    found = outlier({"cpu.used": band(values)}, CPU)
    assert isinstance(found, Outlier) and found.place == Place(at)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_days_have_no_finding(name: str) -> None:
    """`python -m bench.telemetry.stragglers` measures more of them."""
    assert [course.accused for ranks in (8, 64) for course in healthy(name, ranks, 1)] == [0, 0]


def test_a_rank_that_slows_the_gang_is_found_within_minutes() -> None:
    courses = [course for name in ("even", "drifting") for course in slowed(name, 64, 1.4, 3)]
    assert all(course.found_after is not None and course.found_after <= 40 for course in courses), courses


def extreme(most: float, *, p90: float = 0.51, p10: float = 0.5, median: float = 0.5, size: int = 8) -> bool:
    """Whether the largest value of such a minute stands out."""
    found = outlier({"cpu.used": Band(size, p10, p10, median, p90, most, Place(0), Place(5))}, CPU)
    return found is not None


@pytest.mark.parametrize(
    ("inside", "beyond"),
    [
        pytest.param(extreme(0.6), extreme(0.599), id="ratio"),
        pytest.param(extreme(5.0), extreme(5.01), id="ratio-beyond-which-it-works-alone"),
        pytest.param(extreme(0.9, size=4), extreme(0.9, size=3), id="peers"),
        pytest.param(
            extreme(0.2, median=0.1, p90=0.11, p10=0.1), extreme(0.2, median=0.099, p90=0.11, p10=0.099), id="median"
        ),
        # 0.0641 is 0.05 standard deviations by the share of the 10th percentile: six are 0.3.
        pytest.param(extreme(0.801, p10=0.436), extreme(0.799, p10=0.436), id="deviations"),
        pytest.param(extreme(0.9, p90=0.799), extreme(0.9, p90=0.801), id="alone"),
    ],
)
def test_a_value_stands_out_from_a_limit_on(inside: bool, beyond: bool) -> None:
    assert (inside, beyond) == (True, False)


def test_clocks_of_gpus_that_are_half_idle_say_nothing() -> None:
    clock = {"gpu.clock.sm": band(with_one(1980, 1200, 6), 2)}
    (sign,) = (each for each in SIGNS if each.quantity == "gpu.clock.sm")
    assert outlier(clock | {"gpu.used": band(with_one(97, 50, 1), 2)}, sign) is not None
    assert outlier(clock | {"gpu.used": band(with_one(97, 49, 1), 2)}, sign) is None
    assert outlier(clock, sign) is None
    assert outlier({}, sign) is None


def test_minutes_count_until_they_are_five_minutes_old() -> None:
    series = minutes((15, RANK_5_WORKS))
    assert find(series, NODES, end(series) + 300) is not None
    longer = [*series, Interval("u", 1, 600, START + 900, 8, dict(series[0].bands))]
    found = find(longer, NODES, end(series))
    assert found is not None and found.minutes == 15, "longer intervals do not count"


def test_the_ranks_of_a_spot_are_told() -> None:
    peers = Peers(NODES)
    assert (peers.ranks_at(Spot("n2", 5)), peers.ranks_at(Spot("n2"))) == ([5], [4, 5])
    assert peers.ranks_at(Spot("n1", 0, 3)) == [0]


def test_sentences_name_ranks_with_small_and_large_values() -> None:
    series = minutes((15, RANK_5_WORKS))
    found = find(series, NODES, end(series))
    assert found is not None
    assert describe_straggler(found) == (
        "Rank 5 on n2 has been slower than its peers since 2033-05-18T03:33:00Z: it uses its processors while the "
        "others wait (cpu.used 0.95 cores, median of 8 ranks 0.51 cores, in 15 of the last 15 minutes)."
    )
    first = find(minutes((15, {"gpu.used": with_one(96, 10, 0)}), gpus=2), {}, end(series))
    assert first is not None and describe_straggler(first).startswith("GPU 0 of rank 0 has been slower")
    assert "(gpu.used 10 %" in describe_straggler(first)


@pytest.mark.parametrize("quantity", ["gpu.used", "gpu.sm.active", "gpu.power"])
def test_peers_that_do_no_work_have_no_straggler(quantity: str) -> None:
    (sign,) = (each for each in SIGNS if each.quantity == quantity)
    factor = 3.0 if sign.is_high else 0.4
    for median, stands_out in ((sign.least_median, True), (sign.least_median * 0.99, False)):
        values = [median] * 7 + [median * factor]
        assert (outlier({quantity: band(values)}, sign) is not None) is stands_out
