"""Recorded peak memory, and the findings for the next run of the same kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.gang.memory import (
    EARLIER_RUNS,
    EarlierRun,
    MemberPeak,
    add_earlier_peaks,
    is_worth_writing,
    merged,
    with_member,
    with_total,
)
from kajitori.core.pods.resolved import Findings
from kajitori.core.spec.status import Finding
from kajitori.core.spec.status_parts.members import MemoryPeak

GI = 2**30
PARTS = {
    "peak_bytes": st.integers(0, 9),
    "total_bytes": st.integers(0, 9),
    "rank": st.integers(0, 3),
    "ran_out": st.booleans(),
}


def peak(gibibytes: float, rank: int = 0, **more: object) -> MemberPeak:
    return MemberPeak(rank, 1, f"n{rank}", int(gibibytes * GI), **more)  # type: ignore[arg-type]


def finding_for(*earlier: EarlierRun, limit: int | None) -> list[Finding]:
    findings = Findings()
    add_earlier_peaks(earlier, None if limit is None else limit * GI, findings.add)
    return findings.found


def earlier(name: str, gibibytes: float, *, ran_out: bool = False) -> EarlierRun:
    return EarlierRun(name, MemoryPeak(peak_bytes=int(gibibytes * GI), at="2026-11-20T08:00:00Z", ran_out=ran_out))


def test_the_highest_peak_is_recorded_with_its_member() -> None:
    known = with_member(None, peak(2, 0, at="2026-11-20T08:00:00Z"))
    known = with_member(known, peak(3, 5, limit_bytes=4 * GI))
    known = with_member(known, peak(1, 6))
    assert known == MemoryPeak(
        peak_bytes=3 * GI, rank=5, attempt=1, node="n5", limit_bytes=4 * GI, total_bytes=3 * GI, at=""
    )


def test_no_observation_records_no_peak() -> None:
    assert with_member(None, peak(0)) is None
    assert with_total(None, 5) is None


@given(*[st.one_of(st.none(), st.builds(MemoryPeak, **PARTS)) for _ in range(2)])
def test_merged_peaks_keep_the_larger_figures(one: MemoryPeak | None, other: MemoryPeak | None) -> None:
    """The larger peak with its member, the larger sum, and whether any member ran out."""
    both = merged(one, other)
    known = [peak for peak in (one, other) if peak is not None]
    assert (both is None) == (not known)
    if both is not None:
        assert both.peak_bytes == max(peak.peak_bytes for peak in known)
        assert any((both.peak_bytes, both.rank) == (peak.peak_bytes, peak.rank) for peak in known)
        assert both.total_bytes == max(peak.total_bytes for peak in known)
        assert both.ran_out == any(peak.ran_out for peak in known)
        assert merged(both, one) is both and merged(both, other) is both


def test_a_peak_that_did_not_grow_is_the_same_object() -> None:
    """So that no write follows."""
    known = with_member(None, peak(2))
    assert with_member(known, peak(2)) is known
    assert with_total(known, GI) is known


def test_running_out_of_memory_is_never_forgotten() -> None:
    known = with_member(None, peak(4))
    out = with_member(known, peak(1, ran_out=True))
    assert out is not None and (out.peak_bytes, out.ran_out) == (4 * GI, True)
    higher = with_member(out, peak(8))
    assert higher is not None and higher.ran_out


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9), st.booleans()), max_size=20))
def test_the_peak_is_the_largest(seen: list[tuple[int, int, bool]]) -> None:
    """A member ran out if any did, in whatever order they are observed."""
    known: MemoryPeak | None = None
    for size, rank, ran_out in seen:
        known = with_member(known, MemberPeak(rank, 1, "", size, ran_out=ran_out))
    sizes = [size for size, _, _ in seen if size]
    assert (known.peak_bytes if known else 0) == max(sizes, default=0)
    assert (known.ran_out if known else False) == any(ran_out for size, _, ran_out in seen if size)


def test_a_slowly_growing_peak_is_written_15_times_per_doubling() -> None:
    """A Run is not written for each page that its members touch (rule 8)."""
    written, writes = with_member(None, peak(1)), 0
    for step in range(1001):
        now = with_member(written, peak(1 + step / 1000))
        if is_worth_writing(written, now):
            written, writes = now, writes + 1
    assert writes <= 15
    assert written is not None and written.peak_bytes > 1.9 * GI


def test_the_first_peak_and_running_out_are_always_written() -> None:
    first = with_member(None, peak(1))
    assert is_worth_writing(None, first)
    assert not is_worth_writing(None, None)
    assert is_worth_writing(first, with_member(first, peak(1, ran_out=True)))
    assert is_worth_writing(first, with_total(first, 2 * GI))


def test_without_earlier_runs_there_is_no_finding() -> None:
    assert finding_for(limit=1) == []


def test_a_sufficient_limit_has_a_finding_with_the_earlier_peak() -> None:
    (finding,) = finding_for(earlier("bert-3", 41), earlier("bert-2", 30), limit=64)
    assert finding == Finding(
        "MemoryPeak",
        "earlier runs of this kind peaked at 41Gi a member (bert-3, 2026-11-20); this one asks for 64Gi",
        "spec.resources.memory",
    )


def test_less_than_the_peak_is_a_warning() -> None:
    (finding,) = finding_for(earlier("bert-3", 41), limit=32)
    assert finding.code == "MemoryBelowPeak"
    assert "asks for 32Gi, which is less" in finding.message


def test_a_limit_that_another_run_exceeded_is_a_warning() -> None:
    (finding,) = finding_for(earlier("bert-3", 20), earlier("bert-2", 32, ran_out=True), limit=32)
    assert finding.code == "MemoryRanOut"
    assert finding.message.startswith("the run bert-2 (2026-11-20), of this kind, was killed when a member had")
    (enough,) = finding_for(earlier("bert-3", 41), earlier("bert-2", 32, ran_out=True), limit=64)
    assert enough.code == "MemoryPeak"


def test_a_run_without_a_limit_has_a_finding_with_the_peak() -> None:
    (finding,) = finding_for(earlier("bert-3", 41, ran_out=True), limit=None)
    assert finding.code == "MemoryPeak" and finding.message.endswith("this one has no limit")


def test_a_sufficient_limit_by_policy_gets_a_quieter_finding() -> None:
    """A warning stays a warning."""
    for limit, code in ((64, "MemoryEnough"), (32, "MemoryBelowPeak")):
        findings = Findings()
        add_earlier_peaks([earlier("bert-3", 41)], limit * GI, findings.add, asked=False)
        assert [finding.code for finding in findings.found] == [code]


def test_only_the_newest_runs_are_considered() -> None:
    newer = [earlier(f"new-{number}", 1) for number in range(EARLIER_RUNS)]
    (finding,) = finding_for(*newer, earlier("old", 100), limit=2)
    assert finding.code == "MemoryPeak"
