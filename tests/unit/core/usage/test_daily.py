"""Sums of days and the segments at both ends of a time give what the segments alone give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.usage.daily import BLOCK_DAYS, DAY, Level, Stretch, UsedPart, daily_sums, parts_of

times = st.integers(0, 90 * DAY) | st.integers(0, 90).map(lambda day: day * DAY)
segments = st.builds(
    lambda since, length, members: part(since, since + length, members),
    times,
    st.integers(0, 40 * DAY),
    st.integers(1, 7500),
)


def part(since: int, until: int, members: int) -> UsedPart:
    return UsedPart(
        namespace="vision",
        owner="ana",
        gpu_type="h100",
        gpus=8,
        cpu_millis=500,
        memory_bytes=3 * 2**40 + 5,
        members=members,
        since=since,
        until=until,
        member_seconds=members * (until - since),
    )


def overlap(one: UsedPart, since: int, until: int) -> int:
    return one.members * max(0, min(one.until, until) - max(one.since, since))


@given(st.lists(segments, max_size=5), times, times)
def test_days_and_edges_of_any_time_have_its_usage(parts: list[UsedPart], one: int, other: int) -> None:
    since, until = sorted((one, other))
    sums, found = daily_sums(parts), parts_of(since, until)
    for level in Level:
        from_days = sum(
            amount.member_seconds
            for key, amount in sums.items()
            for stretch in found.sums
            if (key.level, key.days) == (level, stretch.days) and stretch.since <= key.first < stretch.until
        )
        from_edges = sum(overlap(each, *edge) for each in parts for edge in found.edges)
        assert from_days + from_edges == sum(overlap(each, since, until) for each in parts)


@given(segments)
def test_memory_is_exact_beyond_64_bits(one: UsedPart) -> None:
    """In two parts, each of which fits into a column."""
    amounts = [amount for key, amount in daily_sums([one]).items() if (key.level, key.days) == (Level.TEAM, 1)]
    found = sum((amount.mib_seconds << 20) + amount.odd_byte_seconds for amount in amounts)
    assert found == one.memory_bytes * one.member_seconds
    assert all(max(amount.mib_seconds, amount.odd_byte_seconds) < 2**63 for amount in amounts)


def test_a_year_consists_of_few_sums() -> None:
    """Blocks in the middle, single days around them, and less than a day at each end."""
    found = parts_of(10 * DAY + 5, 370 * DAY + 7)
    assert found.sums == (Stretch(1, 11, 32), Stretch(BLOCK_DAYS, 32, 352), Stretch(1, 352, 370))
    assert found.edges == ((10 * DAY + 5, 11 * DAY), (370 * DAY, 370 * DAY + 7))
    assert parts_of(5, 9).edges == ((5, 9),)
    assert parts_of(9, 9).edges == ()


def test_time_without_segments_counts_on_the_day_of_its_end() -> None:
    """As a whole: where it lies is not known."""
    left_out = part(5, 2 * DAY, 0)
    days = {key.first: amount.member_seconds for key, amount in daily_sums([left_out]).items() if key.days == 1}
    assert days == {}.fromkeys([1], left_out.member_seconds)
