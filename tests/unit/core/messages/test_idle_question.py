"""The question about idle GPUs: asked once, answered, repeated when the answer runs out; parking only by policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.messages.composing import composed
from kajitori.core.messages.idle_question import (
    cost,
    describe_gpus,
    describe_idle,
    describe_keep_limit,
    gpu_hours,
    held_gpus,
    kept_by_policy,
    places_text,
    with_question,
)
from kajitori.core.messages.notices import with_notices
from kajitori.core.policy.idle import IdleGpus
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.reading.status_check import damage
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.suspicions import IdleState
from kajitori.core.spec.status_parts.usage import Holding, Usage
from kajitori.core.telemetry.bands import Place
from kajitori.core.telemetry.idle import Bounds, Finding, Verdict

NOON = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
SINCE = int(NOON.timestamp()) - 3 * 3600
IDLE = Finding(Verdict.IDLE, 1, SINCE, gpus=8, idle=Bounds(8, 8), peak=0.4)
PERHAPS = Finding(Verdict.PERHAPS, 1, SINCE, gpus=8, idle=Bounds(1, 4), peak=97.0)
USED, UNKNOWN = Finding(Verdict.USED, 1), Finding(Verdict.UNKNOWN, 1)
ASKS = IdleGpus()
PARKS = IdleGpus.model_validate({"park": {"after": "4h", "warning": "1h"}})


def running(**fields: Any) -> RunStatus:
    usage = Usage(first=1, open=[Holding(attempt=1, ranks="0", gpus=8, gpu_type="h100", since=format_time(NOON))])
    attempt = Attempt(number=1, nodes="n1")
    return RunStatus(**{"phase": Phase.RUNNING, "attempt": attempt, "attempts": 1, "usage": usage, **fields})


def asked(
    status: RunStatus,
    finding: Finding | None = IDLE,
    *,
    hours: float = 0,
    rules: IdleGpus = ASKS,
    kept: datetime | None = None,
) -> RunStatus:
    return with_question(status, finding, rules, kept, NOON + timedelta(hours=hours))


def state(status: RunStatus) -> IdleState:
    assert status.idle is not None
    return status.idle


def test_the_owner_of_idle_gpus_is_asked_once() -> None:
    first = asked(running())
    assert state(first).asked_at == format_time(NOON)
    assert (state(first).gpus, state(first).gpu_type, state(first).is_certain) == (8, "h100", True)
    assert asked(first, hours=5) is first
    assert damage(first) == ""


def test_gpus_that_are_used_again_end_the_question() -> None:
    assert asked(asked(running()), USED).idle is None


@pytest.mark.parametrize("finding", [None, UNKNOWN])
def test_without_news_the_question_stands(finding: Finding | None) -> None:
    before = asked(running())
    assert asked(before, finding) is before
    assert asked(running(), finding).idle is None


def test_another_attempt_or_phase_is_another_matter() -> None:
    before = asked(running())
    restarted = msgspec.structs.replace(before, attempt=Attempt(number=2, nodes="n1"), attempts=2)
    assert asked(restarted).idle is None
    assert asked(msgspec.structs.replace(before, phase=Phase.RESTARTING), None).idle is None
    assert asked(before, rules=IdleGpus(enabled=False)).idle is None


def test_an_answer_silences_the_question_until_it_runs_out() -> None:
    until = NOON + timedelta(hours=6)
    before = asked(running())
    kept = asked(before, hours=1, kept=until)
    assert state(kept).asked_at == ""
    assert state(asked(kept, hours=6.1, kept=until)).asked_at == format_time(NOON + timedelta(hours=6.1))
    missed = asked(before, hours=6.1, kept=until)  # no controller was at work meanwhile
    assert state(missed).asked_at == format_time(NOON + timedelta(hours=6.1))
    assert state(asked(running(), kept=until)).asked_at == "", "an answer before the question"


def test_a_new_leader_keeps_the_earlier_beginning() -> None:
    before = asked(running())
    later = replace(IDLE, since=SINCE + 3600, is_older=True)
    assert state(asked(before, later)).since == state(before).since
    assert state(asked(before, replace(later, is_older=False))).since != state(before).since


def test_gpus_that_are_perhaps_idle_are_noted_and_not_asked_about() -> None:
    found = state(asked(running(), PERHAPS, rules=PARKS))
    assert (found.asked_at, found.park_at, found.fewest, found.most) == ("", "", 1, 4)
    assert describe_gpus(found) == "1 to 4 of 8 h100 GPUs"
    assert "need not be the same" in describe_idle(found, NOON)


def test_gpus_that_nodes_name_are_asked_about_and_never_parked() -> None:
    named = replace(PERHAPS, places=(Place(3, 0), Place(3, 1), Place(12, 4)))
    first = asked(running(), named, rules=PARKS)
    assert (state(first).confirmed, state(first).places) == (3, "3:0-1;12:4")
    assert state(first).asked_at == format_time(NOON)
    assert "(rank 3 GPU 0-1, rank 12 GPU 4)" in describe_idle(state(first), NOON)
    assert describe_gpus(state(first)) == "3 of 8 h100 GPUs"
    later = asked(first, PERHAPS, hours=9, rules=PARKS)  # a new leader has not asked the nodes yet
    assert later is first and state(later).park_at == ""
    assert state(asked(first, replace(PERHAPS, places=()), rules=PARKS)).asked_at == ""
    assert state(asked(first, IDLE, hours=1, rules=PARKS)).asked_at == format_time(NOON), "the same question"
    assert damage(first) == ""


def test_many_places_are_cut_at_a_whole_rank() -> None:
    text = places_text([Place(rank, gpu) for rank in range(500) for gpu in range(8)])
    assert len(text) <= 300 and text.startswith("0:0-7;1:0-7;") and text.endswith(":0-7")


def test_nothing_is_parked_unless_policy_says_so() -> None:
    status = running()
    for hours in range(0, 24 * 30, 7):
        status = asked(status, hours=hours)
        assert state(status).parked_at == ""


def test_policy_parks_after_a_warning() -> None:
    first = asked(running(), rules=PARKS)
    assert state(first).park_at == format_time(NOON + timedelta(hours=4))
    warned = asked(first, hours=3, rules=PARKS)
    assert state(warned).warned_at == format_time(NOON + timedelta(hours=3))
    assert state(asked(warned, hours=3.9, rules=PARKS)).parked_at == ""
    parked = asked(warned, hours=4, rules=PARKS)
    assert state(parked).parked_at == format_time(NOON + timedelta(hours=4))
    assert asked(parked, USED, hours=5, rules=ASKS) is parked, "it ends now"


def test_a_late_warning_moves_the_parking() -> None:
    warned = asked(asked(running()), hours=30, rules=PARKS)  # policy changed long after the question
    assert (state(warned).parked_at, state(warned).park_at) == ("", format_time(NOON + timedelta(hours=31)))


def test_nothing_is_parked_on_old_knowledge() -> None:
    warned = asked(asked(running(), rules=PARKS), hours=3, rules=PARKS)
    assert state(asked(warned, None, hours=9, rules=PARKS)).parked_at == ""


_STEPS = st.lists(
    st.tuples(st.floats(0.1, 5), st.sampled_from((IDLE, USED, UNKNOWN, PERHAPS, None)), st.integers(-3, 8)), max_size=25
)


@given(_STEPS)
def test_whatever_happens_a_parked_run_was_asked_and_warned(steps: list[tuple[float, Finding | None, int]]) -> None:
    status, hours = running(), 0.0
    for passed, finding, kept in steps:
        hours += passed
        until = NOON + timedelta(hours=hours + kept) if kept > 0 else None
        before, status = status, asked(status, finding, hours=hours, rules=PARKS, kept=until)
        assert damage(status) == ""
        if status.idle is None or not status.idle.parked_at or before is status:
            continue
        idle = status.idle
        asked_at, warned_at = parse_time(idle.asked_at), parse_time(idle.warned_at)
        parked_at = parse_time(idle.parked_at)
        assert asked_at is not None and warned_at is not None and parked_at is not None
        assert parked_at - asked_at >= timedelta(hours=4) and parked_at - warned_at >= timedelta(hours=1)
        assert finding is IDLE and until is None
        assert before.idle is not None and before.idle.warned_at == idle.warned_at, "stored before it is acted on"


# ---------------------------------------------------------------------------------------------- messages


def told(status: RunStatus, hours: float) -> tuple[RunStatus, list[str]]:
    now = NOON + timedelta(hours=hours)
    waiting = status.notices.waiting if status.notices is not None else ()
    taken = [notice.id for notice in waiting]
    after = with_notices(status, wanted=True, taken=taken, rules=Notifications(), now=now)
    new = after.notices.waiting if after.notices is not None else ()
    words: dict[str, Any] = {"namespace": "vision", "run": "nb", "uid": "u", "status": after, "channels": ("slack",)}
    return after, [f"{made.title}\n{made.body}" for made in (composed(notice, **words) for notice in new)]


def test_the_message_names_the_evidence_and_both_answers() -> None:
    status, messages = told(asked(running(), rules=PARKS), 0)
    assert len(messages) == 1
    assert messages[0].startswith("vision/nb holds 8 h100 GPUs that nothing uses\n8 h100 GPUs idle since")
    assert "at most 1 % utilisation" in messages[0]
    assert "kaji keep nb -N vision" in messages[0] and "kaji park nb -N vision" in messages[0]
    status, messages = told(asked(status, hours=1, rules=PARKS), 1)
    assert messages == []
    status, messages = told(asked(status, hours=3, rules=PARKS), 3)
    assert [message.partition(":")[0] for message in messages] == ["vision/nb will be parked at 2026-11-23T16"]
    assert told(status, 3.1)[1] == []


def test_a_parked_run_is_told_as_parked() -> None:
    ended = running(phase=Phase.STOPPED, reason=Reason.PARKED, finished_at=format_time(NOON))
    assert told(ended, 0)[1][0].startswith("vision/nb was parked")


# ---------------------------------------------------------------------------------------------- figures


def test_gpu_hours_and_cost_count_until_the_run_was_parked() -> None:
    found = state(asked(running()))
    assert gpu_hours(found, NOON) == 24
    assert cost(found, NOON, {"h100": 2.5, "": 9.0}) == 60
    assert cost(found, NOON, {"": 1.0}) == 24
    parked = msgspec.structs.replace(found, parked_at=format_time(NOON))
    assert gpu_hours(parked, NOON + timedelta(days=9)) == 24


def test_held_gpus_are_counted_over_ranks_and_attempts() -> None:
    def holding(ranks: str, gpus: int, kind: str) -> Holding:
        return Holding(attempt=1, ranks=ranks, gpus=gpus, gpu_type=kind, since=format_time(NOON))

    usage = Usage(first=1, open=[holding("0-3", 8, "h100"), holding("4", 2, "a100"), holding("5", 0, "")])
    assert held_gpus(RunStatus(usage=usage)) == (34, "")
    assert held_gpus(RunStatus()) == (0, "")


def test_an_answer_later_than_policy_allows_counts_for_longest_keep() -> None:
    """kubectl can write any time. The limit counts from when it was first seen, by whichever controller."""
    late = NOON + timedelta(days=365)
    kept = asked(running(), kept=late)
    assert kept.keep_limit is not None and kept.keep_limit.until == format_time(NOON + timedelta(days=7))
    assert state(kept).asked_at == ""
    assert "kept until 2026-11-30T12:00:00Z" in describe_keep_limit(kept, late)
    again = asked(kept, kept=late, hours=8 * 24)
    assert state(again).asked_at == format_time(NOON + timedelta(days=8))
    # A week before the time in the spec it would be within policy. It is the same answer, and has run out.
    at_last = asked(again, kept=late, hours=(365 - 6) * 24)
    assert state(at_last).asked_at == state(again).asked_at
    assert damage(kept) == ""


def test_a_limit_goes_with_the_answer_that_it_is_about() -> None:
    late, allowed = NOON + timedelta(days=30), NOON + timedelta(days=2)
    limited = asked(running(), USED, kept=late)
    assert kept_by_policy(limited, late) == NOON + timedelta(days=7)
    another = asked(limited, kept=allowed)
    assert another.keep_limit is None and kept_by_policy(another, allowed) == allowed
    assert asked(limited, USED).keep_limit is None
    assert describe_keep_limit(another, allowed) == ""


def test_an_answer_of_the_web_api_is_never_shortened() -> None:
    """It is at most `longestKeep` from when it was given, and the controller sees it later."""
    answer = NOON + timedelta(days=7)
    assert asked(running(), kept=answer, hours=1).keep_limit is None
