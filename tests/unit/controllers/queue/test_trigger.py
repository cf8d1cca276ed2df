"""The trigger of the queue's cycles is set by changes, and by the end of work that a cycle had to wait for."""

from __future__ import annotations

from kajitori.controllers.queue.trigger import CycleTrigger

BERT, OTHER = ("team", "bert"), ("team", "other")


def take(trigger: CycleTrigger) -> bool:
    """Begin a cycle if one is due; whether it was."""
    due = trigger.is_set
    trigger.clear()
    return due


def test_a_change_is_due_until_a_cycle_begins() -> None:
    trigger = CycleTrigger()
    assert not take(trigger)
    trigger.note_change()
    assert take(trigger)
    assert not take(trigger)


def test_only_the_end_of_work_on_runs_passed_over_triggers_a_cycle() -> None:
    """Otherwise every reconciliation would be followed by a cycle. Each run that was passed over triggers one."""
    trigger = CycleTrigger()
    trigger.pass_over([BERT])
    trigger.note_done(OTHER)
    assert not take(trigger)
    trigger.note_done(BERT)
    assert take(trigger)
    trigger.note_done(BERT)
    assert not take(trigger)
