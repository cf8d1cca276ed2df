"""TCP connections on which a rank's messages get no answer: the rank, or the other end, has lost its network.

The kernel sends a segment again, after 0.2 s, 0.4 s and so on, until it is acknowledged. The kernel of a peer that is
stopped or busy acknowledges all the same. So a segment that was sent again several times was lost with all its copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from kajitori.core.telemetry.hangs.stacks import MemberStacks

RESENT_TIMES = 5
"""Number of times from which on a segment counts as lost: six seconds."""
_COLUMN_BY_TIMER = {"01": 6, "04": 8}
"""The column of /proc/PID/net/tcp that counts repetitions, by the timer that runs. 01: a segment is sent again. 04: the
peer is asked for an answer, because it has no room, or because this machine itself drops the packets."""
_OPEN = frozenset({"01", "02"})
"""Established, and waiting for the answer to the first packet."""


class Connection(NamedTuple):
    """One TCP connection, as /proc/PID/net/tcp has it."""

    inode: int
    peer: IPv4Address | IPv6Address
    port: int
    is_unanswered: bool


def connections(table: str) -> Iterator[Connection]:
    """Yield the open connections to other machines or Pods in the text of /proc/PID/net/tcp or tcp6."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] not in _OPEN:
            continue
        address, _, port = fields[2].partition(":")
        peer = _address(address)
        if peer.is_loopback:
            continue
        column = _COLUMN_BY_TIMER.get(fields[5].partition(":")[0])
        is_unanswered = column is not None and int(fields[column], 16 if column == 6 else 10) >= RESENT_TIMES
        yield Connection(int(fields[9]), peer, int(port, 16), is_unanswered)


def _address(digits: str) -> IPv4Address | IPv6Address:
    """Return the address in hexadecimal digits. The bytes of each 32-bit word are in little-endian order."""
    words = (bytes.fromhex(digits[first : first + 8])[::-1] for first in range(0, len(digits), 8))
    found = ip_address(b"".join(words))
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A connection on which a rank gets no answer."""

    rank: int
    peer: str
    """Address of the other end."""
    peer_rank: int | None
    """Its rank, if it is a member with an address of its own."""


def unanswered(ranks: Mapping[int, MemberStacks], addresses: Mapping[int, str]) -> list[Unanswered]:
    """Return the connections without an answer, one for each pair. `addresses` are those of the ranks' Pods."""
    of_address: dict[str, int | None] = {}
    for rank, address in addresses.items():
        of_address[address] = None if address in of_address else rank
    return [
        Unanswered(rank, peer, of_address.get(peer))
        for rank, member in sorted(ranks.items())
        for peer in dict.fromkeys(member.unanswered)
    ]


def cut_off(found: Sequence[Unanswered], ranks: Mapping[int, MemberStacks]) -> tuple[int, ...]:
    """Return the ranks that have lost their network, judged by their connections.

    Only one end of a connection is cut off: the rank that all of these connections have in common. If both ends are in
    common, it is the rank with fewer connections, because the other rank works with more peers.
    """
    if not found:
        return ()
    ends = [{each.rank} | ({each.peer_rank} if each.peer_rank is not None else set()) for each in found]
    shared = set.intersection(*ends)
    if not shared:
        return tuple(sorted({each.rank for each in found}))
    fewest = min(_number_of_others(rank, ranks) for rank in shared)
    return tuple(sorted(rank for rank in shared if _number_of_others(rank, ranks) == fewest))


def _number_of_others(rank: int, ranks: Mapping[int, MemberStacks]) -> int:
    return ranks[rank].connections if rank in ranks else 0


def describe(found: Sequence[Unanswered], nodes: Mapping[int, str]) -> list[str]:
    """Return a sentence without its full stop for each rank that gets no answer."""
    peers: dict[int, list[str]] = {}
    for each in found:
        end = each.peer if each.peer_rank is None else f"rank {each.peer_rank} ({each.peer})"
        peers.setdefault(each.rank, []).append(end)
    return [
        f"rank {rank}{f' on {nodes[rank]}' if nodes.get(rank) else ''} gets no answer from {', '.join(ends)}"
        for rank, ends in peers.items()
    ]
