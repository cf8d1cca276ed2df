"""Invariants of a gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import FAILED, member, run, step

from kajitori.core.gang import CreateMembers, Member, MemberState, NeedsNodes
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Attempt

phases = st.sampled_from(list(Phase))


members_strategy = st.lists(
    st.builds(
        lambda rank, state, attempt, terminating, ready, draining, reason: member(
            rank,
            state,
            attempt=attempt,
            terminating=terminating,
            node_ready=ready,
            node_draining=draining,
            reason=reason if state is FAILED else Reason.NONE,
        ),
        st.integers(0, 3),
        st.sampled_from(list(MemberState)),
        st.integers(1, 3),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from([Reason.PROGRAM_FAILED, Reason.OUT_OF_MEMORY, Reason.EVICTED, Reason.KUBELET_REFUSED]),
    ),
    max_size=6,
    unique_by=lambda m: (m.rank, m.attempt),
)


@settings(max_examples=150)
@given(
    phase=phases,
    created=st.booleans(),
    members=members_strategy,
    kind=st.sampled_from(["batch", "service"]),
    stopped=st.booleans(),
    deleting=st.booleans(),
    later=st.integers(0, 1000),
)
def test_invariants_hold_for_every_observation(
    phase: Phase, created: bool, members: Sequence[Member], kind: Any, stopped: bool, deleting: bool, later: int
) -> None:
    """No second attempt beside a running first one; nothing new for a run that is over, stopped or being deleted; a
    repeated call changes nothing."""
    subject = replace(run(phase=phase, created=created), type=kind, stopped=stopped, deleting=deleting)
    attempt = Attempt(number=3, nodes="n[0-1]", planned_at="2026-11-21T12:00:00Z", created=created)
    subject = replace(subject, status=msgspec.structs.replace(subject.status, attempt=attempt, attempts=3))
    answer = step(subject, *members, at=timedelta(seconds=later))
    asked = {type(action) for action in answer.actions}
    starts = asked & {NeedsNodes, CreateMembers}
    if stopped or deleting or answer.status.phase.is_final:
        assert not starts
    if NeedsNodes in asked and kind == "batch":
        assert not any(m.blocks_restart for m in members)
    if NeedsNodes in asked and kind == "service":
        wanted = {rank for action in answer.actions if isinstance(action, NeedsNodes) for rank in action.ranks}
        assert not wanted & {m.rank for m in members if m.blocks_restart}
    if phase.is_final and not deleting:
        assert answer.status.phase is phase
    assert len(answer.status.notable) <= 64
    again = step(replace(subject, status=answer.status), *members, at=timedelta(seconds=later))
    if not starts and answer.status.phase is phase:
        assert again.status == answer.status
