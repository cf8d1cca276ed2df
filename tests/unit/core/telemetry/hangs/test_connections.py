"""Connections on which messages get no answer, and the rank that has lost its network."""

from __future__ import annotations

import pytest

from kajitori.core.telemetry.hangs.connections import Unanswered, connections, cut_off, describe, unanswered
from kajitori.core.telemetry.hangs.stacks import MemberStacks

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:7344 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 501 1 0
   1: 0300F40A:9C40 0200F40A:7344 01 00000400:00000000 01:00000A31 00000009     0        0 502 2 0
   2: 0300F40A:9C41 0200F40A:7345 01 00000400:00000000 01:00000010 00000001     0        0 503 2 0
   3: 0300F40A:9C42 0200F40A:7346 01 00000000:00000000 00:00000000 00000000     0        0 504 2 0
   4: 0100007F:9C43 0100007F:7346 01 00000400:00000000 01:00000A31 00000009     0        0 505 2 0
   5: 0300F40A:9C45 0400F40A:7347 01 00000400:00000000 04:00000260 00000000     0        8 507 2 0
   6: 0300F40A:9C46 0500F40A:7347 01 00000400:00000000 04:00000260 00000000     0        0 508 2 0
   7: 0300F40A:9C44 0200F40A:7347 06 00000000:00000000 03:00000A31 00000000     0        0 506 2 0
"""
TABLE6 = """\
  sl  local_address                         remote_address                        st tx_queue ...
   0: 0000000000000000FFFF00000300F40A:9C40 0000000000000000FFFF00000200F40A:0050 02 00000001:00000000 01:0A 5 0 0 601 1
   1: B80D012000000000000000000100000A:9C40 B80D0120000000000000000002000000:0050 01 00000000:00000000 00:0A 0 0 0 602 1
"""


def test_connections_without_an_answer_are_read_from_the_kernels_table() -> None:
    """A segment that was sent again once may just be late; one on the loopback interface tells nothing. A peer that has
    no room answers when it is asked whether it has; one that was asked eight times is gone."""
    found = [(each.inode, str(each.peer), each.port, each.is_unanswered) for each in connections(TABLE)]
    assert found == [
        (502, "10.244.0.2", 0x7344, True),
        (503, "10.244.0.2", 0x7345, False),
        (504, "10.244.0.2", 0x7346, False),
        (507, "10.244.0.4", 0x7347, True),
        (508, "10.244.0.5", 0x7347, False),
    ]
    found = [(each.inode, str(each.peer), each.port, each.is_unanswered) for each in connections(TABLE6)]
    assert found == [(601, "10.244.0.2", 80, True), (602, "2001:db8::2", 80, False)]


ADDRESSES = {rank: f"10.0.0.{rank}" for rank in range(4)}


def members(*edges: tuple[int, int], **connected: int) -> dict[int, MemberStacks]:
    """Return four ranks; the first of each edge gets no answer from the second."""
    return {
        rank: MemberStacks(
            f"p{rank}",
            0.0,
            unanswered=tuple(ADDRESSES[peer] for sender, peer in edges if sender == rank),
            connections=connected.get(f"r{rank}", 2),
        )
        for rank in range(4)
    }


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        pytest.param(members(), (), id="all-answer"),
        pytest.param(members((3, 0), r0=3, r3=1), (3,), id="one-end-of-a-star"),
        pytest.param(members((0, 3), r0=3, r3=1), (3,), id="the-centre-sends-first"),
        pytest.param(members((1, 0), (2, 0), (3, 0), r0=3), (0,), id="the-centre"),
        pytest.param(members((1, 2), (2, 3)), (2,), id="ring"),
        pytest.param(members((1, 2)), (1, 2), id="either-end"),
        pytest.param(members((0, 1), (2, 3)), (0, 2), id="several"),
    ],
)
def test_the_rank_that_lost_its_network_is_at_every_such_connection(
    ranks: dict[int, MemberStacks], expected: tuple[int, ...]
) -> None:
    assert cut_off(unanswered(ranks, ADDRESSES), ranks) == expected


def test_both_ends_of_a_silent_connection_are_told() -> None:
    """Ranks that share the address of their node cannot be told apart."""
    found = unanswered(members((3, 0), (3, 1)), {0: "10.0.0.0", 1: "10.0.0.1", 2: "10.0.0.1"})
    assert found == [Unanswered(3, "10.0.0.0", 0), Unanswered(3, "10.0.0.1", None)]
    assert describe(found, {3: "n3"}) == ["rank 3 on n3 gets no answer from rank 0 (10.0.0.0), 10.0.0.1"]
