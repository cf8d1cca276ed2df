"""PyTorch's flight recorder: which rank has entered which collective operation.

A program that enables it (`TORCH_FR_BUFFER_SIZE`) keeps its latest operations and writes them to a file when one of
them times out, or when it is asked through a named pipe. The file is a pickle, or JSON with the same content. Format:
version 2 of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; operations of a process group are numbered from 1.

A pickle is a program, and this one comes from a user. It is never unpickled: `_Pickle` knows only the instructions that
make numbers, texts, lists and dictionaries, and refuses every other one.
"""

from __future__ import annotations

import pickletools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from kajitori.core.formats.node_lists import compress_ranks

MAX_BYTES = 4 << 20
"""Largest file that is read. PyTorch's default of 2,000 operations needs 1 MB."""
MAX_INSTRUCTIONS = 400_000
"""Most instructions of a pickle, so that no program makes an agent need much memory; 2,000 operations have 200,000."""
MAX_GROUPS = 16
"""Most process groups of one process: those with the newest operations."""
SAME_TIME_SECONDS = 120.0
"""Files are compared if they were written within this time. A time-out makes all ranks write within seconds."""
_TEXT = 80


class GroupState(msgspec.Struct, frozen=True, array_like=True):
    """The last operation of one process in one process group."""

    name: str
    """Name of the group, with its ranks if they are known."""
    description: str
    """`default_pg`, or the words that the program gave."""
    entered: int
    """Number of the last operation that the process called."""
    operation: str
    """Its name: `all_reduce`."""
    ended: bool
    """Whether it is over."""


class Flight(msgspec.Struct, frozen=True, array_like=True):
    """The content of one process's recorder."""

    rank: int
    """The rank that PyTorch gave to the process. A member may have several processes."""
    at: float
    """Time at which it was written, in seconds since 1970."""
    groups: tuple[GroupState, ...]


# ------------------------------------------------------------------------------------------------- reading a file


class _Operation(msgspec.Struct):
    """The fields of an operation that are needed. Others are skipped."""

    process_group: tuple[str, str]
    """Name and description."""
    collective_seq_id: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
    profiling_name: str = ""
    """`nccl:all_reduce`"""
    state: str = ""
    retired: bool = False
    is_p2p: bool = False


class _ProcessGroup(msgspec.Struct):
    ranks: str = ""


class _Dump(msgspec.Struct):
    entries: list[_Operation] = []
    pg_config: dict[str, _ProcessGroup] = {}


_decode = msgspec.json.Decoder(_Dump).decode


def read_dump(content: bytes, rank: int, at: float) -> Flight:
    """Return the content of a file of the recorder. Raises ValueError if it is no such file, or too large."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        dump = _decode(content) if content[:1] == b"{" else msgspec.convert(_Pickle().read(content), _Dump)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no file of the flight recorder: {error}"[:200]) from None
    return Flight(rank, at, _group_states(dump))


def _group_states(dump: _Dump) -> tuple[GroupState, ...]:
    latest: dict[str, _Operation] = {}
    ended: defaultdict[str, int] = defaultdict(int)
    for each in dump.entries:
        name, number = each.process_group[0], each.collective_seq_id
        if each.is_p2p:
            continue  # `send` and `recv` concern two ranks, and have numbers of their own
        # Gloo never says "completed": an operation that is over is retired. NCCL retires those that timed out as well.
        if each.state == "completed" or (each.retired and not each.profiling_name.startswith("nccl:")):
            ended[name] = max(ended[name], number)
        if name not in latest or number >= latest[name].collective_seq_id:
            latest.pop(name, None)
            latest[name] = each
    found = []
    for name, each in list(latest.items())[-MAX_GROUPS:]:
        ranks = dump.pg_config[name].ranks if name in dump.pg_config else ""
        number, operation = each.collective_seq_id, each.profiling_name.rpartition(":")[2]
        group = f"{name} {ranks}".strip()
        found.append(
            GroupState(group[:_TEXT], each.process_group[1][:_TEXT], number, operation[:_TEXT], ended[name] >= number)
        )
    return tuple(found)


class _Pickle:
    """Reads a pickle that contains plain values only. Raises ValueError for every other pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        """Return the value."""
        plain = {name: getattr(self, f"_{name.lower()}") for name in _INSTRUCTIONS}
        for count, (code, argument, _) in enumerate(pickletools.genops(content)):
            if count >= MAX_INSTRUCTIONS:
                raise ValueError("it has too many instructions")
            if code.name == "STOP":
                return self._stack.pop()
            if code.name in _VALUES:
                self._stack.append(_VALUES[code.name](argument))
            elif code.name in plain:
                plain[code.name](argument)
            elif code.name not in ("PROTO", "FRAME"):
                raise ValueError(f"it has the instruction {code.name}, which plain values do not need")
        raise ValueError("it does not end")

    def _since_mark(self) -> list[Any]:
        place = self._marks.pop()
        found, self._stack[place:] = self._stack[place:], []
        return found

    def _mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _binput(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def _binget(self, place: int) -> None:
        self._stack.append(self._memo[place])

    _long_binput, _long_binget = _binput, _binget

    def _append(self, _: Any) -> None:
        value = self._stack.pop()
        self._stack[-1].append(value)

    def _appends(self, _: Any) -> None:
        values = self._since_mark()
        self._stack[-1].extend(values)

    def _setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._stack[-1][_hashable_key(key)] = value

    def _setitems(self, _: Any) -> None:
        values = self._since_mark()
        self._stack[-1].update(zip(map(_hashable_key, values[::2]), values[1::2], strict=True))

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _tuple1(self, _: Any) -> None:
        self._last(1)

    def _tuple2(self, _: Any) -> None:
        self._last(2)

    def _tuple3(self, _: Any) -> None:
        self._last(3)

    def _last(self, count: int) -> None:
        if len(self._stack) < count:
            raise ValueError("it has a tuple of nothing")
        self._stack[-count:] = [tuple(self._stack[-count:])]


def _hashable_key(value: object) -> str:
    """Return a key of a dictionary. Nested tuples could take extremely long to hash."""
    if not isinstance(value, str):
        raise ValueError("it has a key that is no text")
    return value


_INSTRUCTIONS = (
    *("MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
)
_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"), lambda value: value
    ),
}


# --------------------------------------------------------------------------------------------- comparing the ranks


@dataclass(frozen=True, slots=True)
class Late:
    """Members that have not entered an operation in which others wait, or that called another one."""

    members: tuple[int, ...]
    """Ranks of the run."""
    text: str
    """A sentence without its full stop."""


def compare(flights: Mapping[int, Sequence[Flight]], nodes: Mapping[int, str] | None = None) -> list[Late]:
    """Return, for each process group, the members that the others wait for. `flights` are by rank of the run.

    Groups in which all processes are at the same operation, and are done with it, are left out.
    """
    newest = max((each.at for several in flights.values() for each in several), default=0.0)
    groups: defaultdict[str, list[tuple[int, int, GroupState]]] = defaultdict(list)
    for member, several in flights.items():
        for each in several:
            if newest - each.at <= SAME_TIME_SECONDS:
                for state in each.groups:
                    groups[state.name].append((member, each.rank, state))
    found = [late for states in groups.values() if (late := _late_processes(states, nodes or {})) is not None]
    return sorted(found, key=lambda late: (not late.members, late.members))


def _late_processes(states: Sequence[tuple[int, int, GroupState]], nodes: Mapping[int, str]) -> Late | None:
    """Return the processes that are late in one process group; None if none is."""
    last = max(state.entered for _, _, state in states)
    ahead = [each for each in states if each[2].entered == last]
    behind = [each for each in states if each[2].entered < last]
    if len(states) < 2 or all(state.ended for _, _, state in ahead):
        return None
    names = {state.operation for _, _, state in ahead}
    operation = f"{_most_frequent(state.operation for _, _, state in ahead)} #{last:,}"
    where = f" of {ahead[0][2].description}" if ahead[0][2].description not in ("", "undefined") else ""
    waiting = f"{_describe_ranks(ahead, {})} wait{'' if len(ahead) > 1 else 's'} there"
    if behind:
        have = "have" if len({member for member, _, _ in behind}) > 1 else "has"
        text = f"{_describe_ranks(behind, nodes)} {have} not entered {operation}{where}; {waiting}"
        return Late(_member_ranks(behind), text)
    if len(names) > 1:
        odd = [each for each in ahead if each[2].operation != operation.partition(" ")[0]]
        text = (
            f"{_describe_ranks(odd, nodes)} called {odd[0][2].operation} as operation #{last:,}{where}, "
            f"the others {operation}"
        )
        return Late(_member_ranks(odd), text)
    return Late((), f"all {len(ahead):,} processes have entered {operation}{where}, and it does not end")


def _member_ranks(states: Iterable[tuple[int, int, GroupState]]) -> tuple[int, ...]:
    return tuple(sorted({member for member, _, _ in states}))


def _describe_ranks(states: Sequence[tuple[int, int, GroupState]], nodes: Mapping[int, str]) -> str:
    """Return `rank 2 on n1`, with the rank that PyTorch gave if it is another one; or `3 ranks (0-1,3)`."""
    members = _member_ranks(states)
    if len(members) > 1:
        return f"{len(members):,} ranks ({compress_ranks(members)})"
    (member,) = members
    inside = sorted({rank for _, rank, _ in states})
    words = f"rank {member}" + (f" on {nodes[member]}" if nodes.get(member) else "")
    return words if inside == [member] else f"{words} (PyTorch's {compress_ranks(inside)})"


def _most_frequent(names: Iterable[str]) -> str:
    counted: defaultdict[str, int] = defaultdict(int)
    for name in names:
        counted[name] += 1
    return max(counted, key=lambda name: counted[name])
