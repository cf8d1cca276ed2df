"""PyTorch's flight recorder: the ranks that have not entered a collective operation."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any

import pytest
from tests.helpers.gpus.recorded_flight import recorded_dumps

from kajitori.core.telemetry.hangs.flight import MAX_BYTES, MAX_INSTRUCTIONS, Flight, GroupState, compare, read_dump


def flights(states: dict[int, tuple[int, str, bool]], at: float = 100.0) -> dict[int, list[Flight]]:
    """One process per rank in one process group: number and name of its last operation, and whether it is over."""
    return {
        rank: [Flight(rank, at, (GroupState("0 [0, 1, 2]", "default_pg", number, operation, ended),))]
        for rank, (number, operation, ended) in states.items()
    }


def test_recorded_files_name_the_rank_that_did_not_enter() -> None:
    found = {rank: [read_dump(content, rank, 100.0)] for rank, content in enumerate(recorded_dumps())}
    assert [(each.description, each.entered, each.ended) for each in found[0][0].groups] == [
        ("tensor_parallel", 6, True),
        ("default_pg", 8, False),
    ]
    (late,) = compare(found, {2: "gpu-0031"})
    assert late.members == (2,)
    assert late.text == ("rank 2 on gpu-0031 has not entered all_reduce #8 of default_pg; 3 ranks (0-1,3) wait there")


def test_json_and_pickles_of_other_versions_say_the_same() -> None:
    operation: dict[str, Any] = {"process_group": ["0", "undefined"], "profiling_name": "nccl:all_reduce"}
    operation |= {"state": "started", "retired": False, "is_p2p": False, "frames": [{"name": "step", "line": 3}]}
    sent = operation | {"collective_seq_id": 9, "is_p2p": True, "profiling_name": "nccl:send 0->1"}
    document = {
        "version": "2.5",
        "entries": [operation | {"collective_seq_id": 3, "time_discovered_completed_ns": None}, sent],
        "pg_config": {"0": {"name": "0", "desc": "undefined", "ranks": "[0, 1]"}},
    }
    expected = Flight(1, 5.0, (GroupState("0 [0, 1]", "undefined", 3, "all_reduce", False),))
    for content in (json.dumps(document).encode(), pickle.dumps(document, 2), pickle.dumps(document, 4)):
        assert read_dump(content, 1, 5.0) == expected


NCCL: dict[str, Any] = {
    "frames": [{"name": "step", "filename": "train.py", "line": 3}],
    "record_id": 7,
    "pg_id": 0,
    "process_group": ("0", "default_pg"),
    "thread_name": "pt_main_thread",
    "thread_id": "140109",
    "collective_seq_id": 7,
    "p2p_seq_id": 0,
    "op_id": 7,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_795_900_000_000_000_000,
    "duration_ms": 1.5,
    "input_sizes": [[1024, 1024]],
    "input_dtypes": ["BFloat16"],
    "output_sizes": [[1024, 1024]],
    "output_dtypes": ["BFloat16"],
    "state": "completed",
    "time_discovered_started_ns": 1_795_900_000_000_100_000,
    "time_discovered_completed_ns": 1_795_900_000_000_200_000,
    "retired": True,
    "timeout_ms": 600_000,
    "is_p2p": False,
}
"""An operation of NCCL with all of its fields, by torch/csrc/distributed/c10d/FlightRecorderDetail.hpp of pytorch."""
UNFINISHED: dict[str, Any] = {"state": "started", "time_discovered_completed_ns": None, "duration_ms": None}


@pytest.mark.parametrize(
    ("last", "ended"),
    [
        pytest.param({}, True, id="completed"),
        pytest.param(UNFINISHED | {"retired": False}, False, id="in-use"),
        pytest.param(UNFINISHED, False, id="timed-out"),
        pytest.param(UNFINISHED | {"profiling_name": "gloo:all_reduce"}, True, id="gloo-never-says-completed"),
    ],
)
def test_an_operation_of_nccl_is_over_once_it_is_completed(last: dict[str, Any], ended: bool) -> None:
    document = {
        "version": "2.10",
        "comm_lib_version": "2.27.5",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {"0": {"last_enqueued_collective": 8, "last_started_collective": 8}},
        "entries": [NCCL, NCCL | {"collective_seq_id": 8, "record_id": 8} | last],
        "nccl_comm_state": {"0xabc": {"rank": "1", "inProgress": "1"}},
    }
    for content in (json.dumps(document).encode(), pickle.dumps(document, 2)):
        (group,) = read_dump(content, 1, 5.0).groups
        assert (group.description, group.entered, group.operation, group.ended) == (
            "default_pg",
            8,
            "all_reduce",
            ended,
        )


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param({0: (7, "all_reduce", True), 1: (7, "all_reduce", True)}, [], id="all-are-done"),
        pytest.param({0: (8, "all_reduce", True), 1: (7, "all_reduce", True)}, [], id="one-looked-at-later"),
        pytest.param({0: (7, "all_reduce", False)}, [], id="nobody-to-compare-with"),
        pytest.param(
            {0: (1284, "all_reduce", False), 1: (1283, "all_reduce", True), 2: (1281, "barrier", True)},
            ["2 ranks (1-2) have not entered all_reduce #1,284 of default_pg; rank 0 waits there"],
            id="several-are-late",
        ),
        pytest.param(
            {0: (4, "all_reduce", False), 1: (4, "all_reduce", False), 2: (4, "all_gather", False)},
            ["rank 2 on n2 called all_gather as operation #4 of default_pg, the others all_reduce #4"],
            id="another-operation",
        ),
        pytest.param(
            {0: (4, "all_reduce", False), 1: (4, "all_reduce", False)},
            ["all 2 processes have entered all_reduce #4 of default_pg, and it does not end"],
            id="the-network",
        ),
    ],
)
def test_ranks_at_different_operations_are_named(states: dict[int, tuple[int, str, bool]], expected: list[str]) -> None:
    assert [late.text for late in compare(flights(states), {1: "n1", 2: "n2"})] == expected


def test_files_that_were_written_long_before_are_not_compared() -> None:
    old, new = flights({0: (3, "all_reduce", True)}, at=100.0), flights({1: (9, "all_reduce", False)}, at=400.0)
    assert compare(old | new) == []


def test_a_member_with_several_processes_is_named_with_pytorchs_rank() -> None:
    state = [GroupState("0", "default_pg", number, "broadcast", False) for number in (5, 6)]
    found = {0: [Flight(0, 1.0, (state[1],)), Flight(1, 1.0, (state[1],))], 1: [Flight(2, 1.0, (state[0],))]}
    (late,) = compare(found, {1: "n1"})
    assert late.text.startswith("rank 1 on n1 (PyTorch's 2) has not entered broadcast #6")


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps({"entries": [Evil()]}), id="a-call"),
        pytest.param(b"\x80\x02cos\nsystem\n.", id="a-name"),
        pytest.param(b"\x80\x02]r\xff\xff\xff\x7f)\x81.", id="an-object"),
        pytest.param(
            b"\x80\x02}" + b"q\x00)" + b"h\x00h\x00\x86q\x00" * 60 + b"K\x01s.", id="a-key-that-takes-for-ever"
        ),
        pytest.param(b"\x80\x02(" + b"}" * (MAX_INSTRUCTIONS + 1), id="too-many-instructions"),
        pytest.param(b"\x80\x02\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", id="a-length-beyond-the-file"),
        pytest.param(b"{" + b" " * MAX_BYTES, id="too-large"),
        pytest.param(b"{[", id="broken-json"),
        pytest.param(b"", id="empty"),
        pytest.param(b".", id="ends-at-once"),
        pytest.param(b"t.", id="a-tuple-of-nothing"),
        pytest.param(b"\x80\x02]}e.", id="no-mark"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(
            json.dumps({"entries": [{"process_group": ["0", "x"], "collective_seq_id": 2**63}]}).encode(), id="n"
        ),
        pytest.param(
            pickle.dumps({"entries": [{"process_group": [{}, "x"], "collective_seq_id": 1}]}, 2), id="no-text"
        ),
    ],
)
def test_a_file_that_is_no_dump_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        read_dump(content, 0, 0.0)


def test_texts_of_a_dump_are_cut() -> None:
    entry = {"process_group": ["n" * 999, "d" * 999], "collective_seq_id": 1, "profiling_name": "o" * 999}
    (state,) = read_dump(json.dumps({"entries": [entry]}).encode(), 0, 0.0).groups
    assert {len(state.name), len(state.description), len(state.operation)} == {80}
