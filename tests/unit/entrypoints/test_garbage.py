"""Garbage collections stay short in processes with many objects."""

from __future__ import annotations

from kajitori.entrypoints.garbage import HOUR_SECONDS, LongCollections

SECONDS_PER_OBJECT = 0.000_001
MILLION = 1_000_000


class FakeCollector:
    """Counts exempted objects as the module `gc` does."""

    def __init__(self) -> None:
        self.exempted = 100_000
        self.others = 0

    def freeze(self) -> None:
        self.exempted, self.others = self.exempted + self.others, 0

    def unfreeze(self) -> None:
        self.exempted, self.others = 0, self.exempted + self.others

    def get_freeze_count(self) -> int:
        return self.exempted


class Process:
    """A process whose collections take a microsecond for each object that is not exempted."""

    def __init__(self) -> None:
        self.collector = FakeCollector()
        self.busy = self.now = 0.0
        self.callback = LongCollections(self.collector, lambda: self.busy, lambda: self.now)

    def collect(self, *, more: int = 0, garbage: int = 0, generation: int = 1) -> int:
        """Add objects, collect, and return the number of objects that were looked at."""
        self.collector.others += more
        looked_at = self.collector.others
        self.callback("start", {"generation": generation})
        self.busy += looked_at * SECONDS_PER_OBJECT
        self.collector.others -= garbage
        self.callback("stop", {"generation": generation})
        return looked_at


def test_survivors_of_a_long_collection_are_not_looked_at_again() -> None:
    """Survivors of a short one are: most of them do not live long."""
    process = Process()
    assert process.collect(more=500_000) == 500_000
    assert process.collect(more=15_000) == 15_000
    assert process.collect(more=10_000) == 25_000
    assert process.collect(more=10_000) == 10_000
    assert process.collector.exempted == 625_000


def test_all_objects_are_looked_at_when_their_number_has_doubled_after_an_hour() -> None:
    """Exempted objects that became garbage in a circle are found then. Until a full collection has looked at all,
    none is exempted."""
    process = Process()
    assert process.collect(more=3 * MILLION) == 3 * MILLION
    assert process.collect(more=MILLION) == MILLION
    process.now = HOUR_SECONDS
    assert process.collect(more=100_000) == 100_000
    assert process.collect(more=100_000) == 4_300_000
    assert process.collect(more=100_000, generation=2, garbage=4 * MILLION) == 4_400_000
    assert process.collector.exempted == 400_000
    process.now += HOUR_SECONDS
    assert process.collect(more=MILLION) == MILLION
    assert process.collect(more=100_000) == 100_000, "it has not grown enough: 1,400,000"
    assert process.collect(more=100_000) == 1_600_000


def test_a_second_look_at_all_objects_comes_an_hour_later() -> None:
    process = Process()
    process.now = HOUR_SECONDS
    process.collect(more=2 * MILLION)
    process.collect(generation=2)
    process.now += HOUR_SECONDS - 1
    assert process.collect(more=5 * MILLION) == 5 * MILLION
    assert process.collect(more=60_000) == 60_000
    process.now += 1
    assert process.collect(more=60_000) == 60_000
    assert process.collect(more=60_000) > 5 * MILLION
