"""Stacks of a run's processes: the form in which agents send them, and groups of ranks at the same place of the
program.

Ranks are compared by the place in the user's own code at which the main thread of each process is. The result is a text
such as "3 ranks wait in all_reduce (train.py:88); rank 2 on n1 is in load_batch (data.py:14)".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.telemetry.hangs.flight import Flight

MAX_PROCESSES = 16
"""Most processes of a member that are asked for their stacks."""
MAX_FRAMES = 300
"""Most frames of a member in an answer, so that the answer about several members is no larger than bodies may be."""
MAX_NATIVE_FRAMES = 150
"""Most native frames of a member in an answer, apart from those."""
MAX_DEPTH = 64
"""Most frames of a thread: the innermost ones."""
MAX_TEXT = 160
"""Most characters of each text in an answer."""

STOPPED = "T"
"""State of a process that a signal stopped, in /proc/PID/stat."""
TRACED = "t"
UNINTERRUPTIBLE = "D"
"""State of a process that waits in the kernel and cannot be killed: for a disk, or a file server that is gone."""
ZOMBIE = "Z"
NO_TIME = "there was no time to look into it"
"""Trouble of a process on a node that is too busy. It says nothing about the process."""


class Detail(StrEnum):
    """Extras to take together with stacks. They cost time, so only a few ranks are asked for them."""

    PLAIN = ""
    NATIVE = "native"
    """Calls in native code."""
    VALUES = "values"
    """Whether values of local variables change."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One call. In native code `file` is the library, in the kernel `kernel`, both in brackets, and `line` is 0."""

    function: str
    file: str
    line: int

    @property
    def is_native(self) -> bool:
        return self.line == 0 and self.file.startswith("[")


class ThreadStack(msgspec.Struct, frozen=True, array_like=True):
    """The calls of one thread, the innermost first."""

    name: str
    frames: tuple[Frame, ...]
    active: bool = False
    """Whether it ran, instead of waiting, when the stack was taken."""
    values: int = 0
    """A number that follows from the values of all local variables; 0 if they were not read. It says whether they
    change between two looks of the same agent, and nothing else about them."""


class ProcessStacks(msgspec.Struct, frozen=True, array_like=True):
    """One process with the stacks of its threads."""

    pid: int
    command: str
    state: str
    """The letter in /proc/PID/stat."""
    threads: tuple[ThreadStack, ...] = ()
    waits_in: str = ""
    """Name of the kernel's function in which it waits; empty if it runs or the kernel does not tell."""
    trouble: str = ""
    """Why `threads` is empty; empty if it is not."""
    native: tuple[ThreadStack, ...] = ()
    """Its threads once more, with their calls in native code; if they wait in the kernel or run no Python, with the
    kernel's functions. They take no part in comparisons."""
    native_trouble: str = ""
    """Why `native` is empty though it was asked for."""


class MemberStacks(msgspec.Struct, frozen=True, array_like=True):
    """The processes of one member, its first one first."""

    uid: str
    """UID of the Pod."""
    at: float
    """Seconds since 1970."""
    processes: tuple[ProcessStacks, ...] = ()
    left_out: int = 0
    """Processes beyond MAX_PROCESSES."""
    flights: tuple[Flight, ...] = ()
    """Records of PyTorch's flight recorder, if the program uses it."""
    unanswered: tuple[str, ...] = ()
    """Addresses of peers that have acknowledged nothing for seconds, of TCP connections of its processes."""
    connections: int = 0
    """Number of its processes' TCP connections to other machines and Pods."""


def newest(looks: Sequence[Mapping[int, MemberStacks]]) -> dict[int, MemberStacks]:
    """Return the last stacks of each rank. A process that could not be read in time keeps its stacks of the previous
    look."""
    found: dict[int, MemberStacks] = {}
    for look in looks:
        for rank, member in look.items():
            before = {each.pid: each for each in found[rank].processes} if rank in found else {}
            processes = tuple(before.get(e.pid, e) if e.trouble == NO_TIME else e for e in member.processes)
            found[rank] = msgspec.structs.replace(member, processes=processes)
    return found


def trimmed(member: MemberStacks) -> MemberStacks:
    """Return a member's stacks within the limits. Main threads are kept before others."""
    kept = _trim_threads([each.threads for each in member.processes], MAX_FRAMES)
    native = _trim_threads([each.native for each in member.processes], MAX_NATIVE_FRAMES)
    processes = (
        msgspec.structs.replace(process, threads=threads, native=calls, command=process.command[:MAX_TEXT])
        for process, threads, calls in zip(member.processes, kept, native, strict=True)
    )
    return msgspec.structs.replace(member, processes=tuple(processes))


def _trim_threads(processes: Sequence[Sequence[ThreadStack]], left: int) -> Iterator[tuple[ThreadStack, ...]]:
    """Yield the threads of each process, with at most `left` frames in all."""
    kept: list[list[ThreadStack]] = [[] for _ in processes]
    ordered = [(place, thread) for place, threads in enumerate(processes) for thread in threads]
    main = [main_thread(threads) for threads in processes]
    for place, thread in sorted(ordered, key=lambda each: main[each[0]] is not each[1]):
        frames = thread.frames[: min(MAX_DEPTH, left)]
        left -= len(frames)
        if frames:
            short = tuple(Frame(each.function[:MAX_TEXT], each.file[-MAX_TEXT:], each.line) for each in frames)
            kept[place].append(ThreadStack(thread.name[:MAX_TEXT], short, thread.active, thread.values))
    return map(tuple, kept)


# ---------------------------------------------------------------------------------------------- where a process is


class Doing(StrEnum):
    """State of a process at its place."""

    WAITS = "waits for other ranks"
    IS = "is in"
    STOPPED = "is stopped by a signal"
    KERNEL = "waits in the kernel"
    UNKNOWN = "cannot be looked into"
    UNREAD = "was not looked into in time"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of a process in its program."""

    doing: Doing
    function: str = ""
    """The function of the user's own code, or for WAITS the collective operation; else the kernel's function or the
    command."""
    at: str = ""
    """`data.py:14`; empty without a stack."""

    def words(self, *, several: bool = False) -> str:
        """Return a phrase for a sentence about one rank, or several: `is in load_batch (data.py:14)`."""
        be = "are" if several else "is"
        where = f"{self.function} ({self.at})" if self.at else self.function
        match self.doing:
            case Doing.WAITS:
                return f"{'wait' if several else 'waits'} in {where}"
            case Doing.IS:
                return f"{be} in {where}"
            case Doing.STOPPED:
                return f"{be} stopped by a signal (SIGSTOP), in {where}"
            case Doing.KERNEL:
                return f"{'wait' if several else 'waits'} in the kernel ({where})"
            case Doing.UNKNOWN:
                return f"{'run' if several else 'runs'} {where}, which is no Python program"
            case Doing.UNREAD:
                return f"{'run' if several else 'runs'} {where}, and {NO_TIME}"


COLLECTIVES = frozenset(
    {
        *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced"),
        *("all_to_all", "all_to_all_single", "allgather", "allreduce", "alltoall", "barrier", "broadcast"),
        *("broadcast_object_list", "gather", "gather_object", "irecv", "monitored_barrier", "recv"),
        *("recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list"),
        *("send", "sync_global_devices"),
    }
)
"""Functions of torch.distributed, Horovod and JAX in which a rank waits for others."""
_PLAIN = frozenset({"broadcast", "gather", "reduce", "recv", "send", "scatter", "barrier"})
"""Names that other libraries use for other purposes; they count only in the libraries of `_TALKERS`."""
_TALKERS = re.compile(r"/(torch/distributed|horovod|jax|deepspeed|accelerate|lightning_fabric)/")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3[^/]*/|^<frozen")
_WITHIN_LIBRARY = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python3[^/]*)/")
_MAIN = "MainThread"


def main_thread(threads: Sequence[ThreadStack]) -> ThreadStack | None:
    """Return the main thread of a process, else its first one; None without stacks."""
    return next((each for each in threads if each.name == _MAIN), next(iter(threads), None))


def short_file(file: str) -> str:
    """Return the name of a file below its library, or without its folder."""
    below = _WITHIN_LIBRARY.sub("", file)
    return below if below != file else file.rpartition("/")[2]


def place_of(process: ProcessStacks) -> Place:
    """Return the place of a process: the collective operation in which it waits, or else its innermost call outside of
    libraries."""
    thread = main_thread(process.threads)
    if thread is None or not thread.frames:
        if process.state == STOPPED:
            return Place(Doing.STOPPED, process.command)
        if process.state == UNINTERRUPTIBLE:
            return Place(Doing.KERNEL, process.waits_in or process.command)
        return Place(Doing.UNREAD if process.trouble == NO_TIME else Doing.UNKNOWN, process.command)
    frames = thread.frames
    own = next((place for place, frame in enumerate(frames) if not _LIBRARY.search(frame.file)), 0)
    frame = frames[own]
    at = f"{short_file(frame.file)}:{frame.line}"
    if process.state == STOPPED:
        return Place(Doing.STOPPED, frame.function, at)
    if process.state == UNINTERRUPTIBLE:
        return Place(Doing.KERNEL, frame.function, at)
    # From the user's code inwards, so that the name is the one that the user called.
    called = next((each for each in reversed(frames[:own]) if _is_collective(each)), None)
    return Place(Doing.IS, frame.function, at) if called is None else Place(Doing.WAITS, _own_name(called), at)


def _is_collective(frame: Frame) -> bool:
    name = _own_name(frame)
    return name in COLLECTIVES and (name not in _PLAIN or _TALKERS.search(frame.file) is not None)


def _own_name(frame: Frame) -> str:
    """Return the name of a function without its class: py-spy says `Gang.all_reduce` of a method."""
    return frame.function.rpartition(".")[2]


# ------------------------------------------------------------------------------------------------- groups of ranks


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that have their processes at the same places."""

    ranks: tuple[int, ...]
    places: tuple[Place, ...]
    """The places of their processes, each once."""
    odd: bool = False
    """Whether these ranks are at another place than most, so that the others may wait for them."""


def group(members: Mapping[int, Sequence[ProcessStacks]]) -> list[Group]:
    """Return the ranks of a run by their places: the odd groups first, then the smaller ones."""
    together: dict[tuple[Place, ...], list[int]] = {}
    for rank in sorted(members):
        places = tuple(dict.fromkeys(place_of(each) for each in members[rank] if each.state != ZOMBIE))
        together.setdefault(tuple(sorted(places)), []).append(rank)
    odd = _odd_places(together)
    groups = [Group(tuple(ranks), places, places in odd) for places, ranks in together.items()]
    return sorted(groups, key=lambda each: (not each.odd, len(each.ranks), each.ranks))


def _odd_places(together: Mapping[tuple[Place, ...], Sequence[int]]) -> set[tuple[Place, ...]]:
    """Return the places of ranks for which the others may wait. Ranks that were not looked into are left out."""
    together = {
        places: ranks for places, ranks in together.items() if all(each.doing is not Doing.UNREAD for each in places)
    }
    odd = {places for places in together if any(each.doing in (Doing.STOPPED, Doing.KERNEL) for each in places)}
    if odd or len(together) < 2:
        return odd
    waiting = {places for places in together if any(each.doing is Doing.WAITS for each in places)}
    if waiting and len(waiting) < len(together):
        return set(together) - waiting
    largest = max(together, key=lambda places: len(together[places]))
    if 2 * len(together[largest]) > sum(map(len, together.values())):
        return set(together) - {largest}
    return set()


def sentence(group: Group, common: Group | None = None, nodes: Mapping[int, str] | None = None) -> str:
    """Return where the ranks of a group are: `rank 2 on n1 is in load_batch (data.py:14)`.

    If ranks have several processes, it names those that are not at a place of `common`, the largest group.
    """
    several = len(group.ranks) > 1
    if several:
        words = f"{len(group.ranks):,} ranks ({compress_ranks(group.ranks)})"
    else:
        (rank,) = group.ranks
        node = (nodes or {}).get(rank, "")
        words = f"rank {rank}" + (f" on {node}" if node else "")
    if not group.places:
        return f"{words} {'have' if several else 'has'} no process"
    shared = set(common.places) if common is not None and common is not group else set()
    named = [each for each in group.places if each not in shared] or list(group.places)
    return f"{words} {_join_list(place.words(several=several) for place in named)}"


def sentences(groups: Sequence[Group], nodes: Mapping[int, str] | None = None) -> list[str]:
    """Return a sentence without its full stop for each group."""
    common = max(groups, key=lambda each: len(each.ranks), default=None)
    return [sentence(each, common, nodes) for each in groups]


def _join_list(parts: Iterable[str]) -> str:
    return ", and ".join(parts)
