"""The queue of calls: which worker does which call next, and the fate of calls when their worker dies."""

from __future__ import annotations

import random

from kajitori.core.calls.queue import MAX_TRIES, CallQueue, Entry, Outcome, Worker

A, B = Worker(0, 1, "a"), Worker(1, 1, "b")


def always(_: Worker) -> bool:
    return True


def never(_: Worker) -> bool:
    return False


def queue_of(added: int, *entries: Entry, closed: bool = True) -> CallQueue:
    queue = CallQueue()
    for place, entry in enumerate((Entry(token="t", first=0, added=added, closed=closed), *entries)):
        queue.apply(place, entry)
    return queue


def test_free_calls_are_shared_among_workers() -> None:
    queue = queue_of(100, Entry(worker=B, taken=[0]))
    taken, lost = queue.work_for(A, 256, (), always)
    assert (taken, lost) == (list(range(1, 25)), [])
    assert queue.work_for(A, 3, (), always)[0] == [1, 2, 3]
    assert queue.work_for(A, 0, (), always)[0] == []


def test_calls_of_a_dead_worker_come_first() -> None:
    """One at a time, so that the call that killed the worker is found."""
    queue = queue_of(100, Entry(worker=B, taken=[0, 1]))
    assert queue.work_for(A, 4, (), never)[0] == [0]
    queue.apply(2, Entry(worker=A, taken=[0]))
    assert queue.work_for(A, 4, (0,), never)[0] == [1]
    assert queue.work_for(A, 4, (0,), always)[0] == [2, 3, 4, 5]


def test_returned_calls_are_taken_by_others() -> None:
    """Only their worker can return them. Being returned does not count as a try, and a cancelled call is not taken."""
    queue = queue_of(9, Entry(worker=B, taken=[0, 1, 2, 3]))
    assert queue.held_by(B, [1, 2, 7]) == [1, 2]
    assert queue.held_by(A, [1, 2]) == []
    queue.apply(2, Entry(worker=A, returned=[3]))
    for place in range(3, 3 + MAX_TRIES):
        queue.apply(place, Entry(worker=B, returned=[1, 2, 3]))
        queue.apply(place, Entry(worker=B, taken=[1, 2, 3]))
    queue.apply(9, Entry(worker=B, returned=[1, 2, 3], outcomes=[Outcome(2, "cancelled")]))
    assert queue.work_for(A, 256, (), always) == ([1], [])
    queue.apply(10, Entry(worker=A, taken=[1, 3]))
    assert queue.work_for(A, 4, (), never)[1] == []


def test_only_the_call_that_kills_its_workers_is_lost() -> None:
    """Others that were taken with it are done."""
    queue, place, ends = queue_of(20), 1, dict[int, str]()
    for process in range(40):
        me, held = Worker(0, process, str(process)), list[int]()
        while 3 not in held and not queue.is_over:
            outcomes = [Outcome(call, "value") for call in held]
            held, lost = queue.work_for(me, 8, {outcome.call for outcome in outcomes}, {me}.__contains__)
            outcomes += [Outcome(call, "lost") for call in lost]
            queue.apply(place, Entry(worker=me, taken=held, outcomes=outcomes))
            place, ends = place + 1, ends | {outcome.call: outcome.kind for outcome in outcomes}
    assert [call for call, kind in ends.items() if kind == "lost"] == [3]
    assert sorted(ends) == list(range(20))


def test_a_worker_that_starts_again_takes_its_calls_again() -> None:
    """A process of the same rank replaces the one before, and a worker whose answer was lost asks again."""
    queue = queue_of(4, Entry(worker=A, taken=[0, 1]))
    assert queue.work_for(Worker(0, 2, "z"), 1, (), always)[0] == [0]
    assert queue.work_for(A, 1, (), always)[0] == [0]
    assert queue.work_for(A, 1, (0,), always)[0] == [1]


def test_a_call_that_kills_its_workers_is_given_up() -> None:
    entries = [Entry(worker=Worker(0, attempt, str(attempt)), taken=[0]) for attempt in range(1, MAX_TRIES + 1)]
    queue = queue_of(2, *entries)
    assert queue.work_for(A, 1, (), never) == ([1], [0])
    queue.apply(9, Entry(worker=A, outcomes=[Outcome(0, "lost"), Outcome(1, "value")], taken=[]))
    assert queue.is_over


def test_the_first_outcome_of_a_call_counts() -> None:
    queue = queue_of(3, Entry(worker=A, taken=[0], outcomes=[Outcome(0, "value")]))
    outcomes = [Outcome(0, "value"), Outcome(1, "item"), Outcome(1, "end"), Outcome(1, "error"), Outcome(7, "value")]
    assert queue.new_outcomes(outcomes) == [1, 2]
    assert not queue.is_over


def test_arguments_are_found_in_the_entry_that_added_them() -> None:
    queue = queue_of(3, Entry(worker=A), Entry(first=3, added=2))
    assert [queue.place_of(call) for call in range(5)] == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]


def test_every_call_ends_once_however_workers_die() -> None:
    """Random workers take calls, hand in some, return others, and die at any moment."""
    for seed in range(20):
        dice = random.Random(seed)
        queue, place, mine = queue_of(30), 1, dict[int, tuple[Worker, list[int]]]()
        ends: list[int] = []
        for step in range(2000):
            if queue.is_over:
                break
            rank = dice.randrange(3)
            if rank not in mine or dice.random() < 0.1:
                mine[rank] = Worker(rank, step, str(step)), []
            me, held = mine[rank]
            done = [Outcome(call, "value") for call in held]
            kept = [done[position] for position in queue.new_outcomes(done)]
            alive = {worker for worker, _ in mine.values()}
            back = queue.held_by(me, held[1:]) if dice.random() < 0.2 else []
            if back:
                queue.apply(place, Entry(worker=me, returned=back))
                held, place = held[:1], place + 1
                done = [Outcome(call, "value") for call in held]
                kept = [done[position] for position in queue.new_outcomes(done)]
            taken, lost = queue.work_for(me, 4, set(held), alive.__contains__)
            queue.apply(place, Entry(worker=me, taken=taken, outcomes=[*kept, *(Outcome(one, "lost") for one in lost)]))
            ends += [outcome.call for outcome in kept] + lost
            mine[rank], place = (me, taken), place + 1
        assert sorted(ends) == list(range(30))
