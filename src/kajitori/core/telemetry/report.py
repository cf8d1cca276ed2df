"""Messages about telemetry between agents and servers, in MessagePack.

An agent reports each minute of each member twice, in two reports that follow each other. So a report that is lost with
a server costs nothing, and a value that arrives twice counts once: it is stored by member and minute.

A report names its quantities, since agents and servers of different versions have different tables.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from kajitori.core.telemetry.hangs.stacks import Detail, MemberStacks
from kajitori.core.telemetry.quantities import GPU_NAMES, MEMBER_NAMES
from kajitori.errors import InvalidInput

PATH = "/v1/nodes/{node}/telemetry"
ANSWER_PATH = "/v1/nodes/{node}/telemetry/answers/{question}"
QUESTIONS_PATH = "/v1/nodes/{node}/telemetry/questions"
HOLD = "hold"
"""Query parameter of QUESTIONS_PATH: seconds for which the server may hold the answer until there is a question."""
MAX_HOLD_SECONDS = 55
"""Proxies close connections that are idle for a minute."""
MEDIA_TYPE = "application/vnd.msgpack"

MAX_MEMBERS = 512
"""Most members per node and minute in a report."""
MAX_SAVED = 2048
"""Most checkpoints in a report."""
SAVED_SECONDS = 600.0
"""Age up to which checkpoints are reported."""
MAX_GPUS = 64
"""Most GPUs per member."""
MAX_ASKED = 8
"""Most members in one question, so that the answer is no larger than other bodies may be."""
MAX_QUANTITIES = 128
MAX_FIGURES = 32
"""Most figures of a program's own per member."""
FIGURE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}", re.ASCII)
"""Name of a figure that a program writes."""

_Name = Annotated[str, msgspec.Meta(max_length=253)]
_Names = Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_QUANTITIES)]


class MemberMinute(msgspec.Struct, frozen=True, array_like=True):
    """One minute of one member."""

    namespace: _Name
    pod: _Name
    uid: _Name
    """UID of the Pod. The server finds run, attempt and rank in its own mirror, and checks that the Pod is on this
    node."""
    minute: int
    """Minutes since 1970."""
    values: bytes
    """A 32-bit float for each quantity of a member."""
    gpus: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_GPUS)] = ()
    """Identifiers of the GPUs that the member holds."""
    gpu_values: bytes = b""
    """The same for each of its GPUs, one GPU after the other."""
    training: Annotated[dict[str, float], msgspec.Meta(max_length=MAX_FIGURES)] = {}
    """Figures that the program wrote, without `train.`."""


class SavedCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint that a member wrote, and the time for which its training stood still."""

    namespace: _Name
    pod: _Name
    uid: _Name
    since: float
    until: float


class NodeMinute(msgspec.Struct, frozen=True, array_like=True):
    """One minute of the node itself."""

    minute: int
    """Minutes since 1970."""
    names: _Names
    gpu_names: _Names
    gpus: Annotated[int, msgspec.Meta(ge=0, le=MAX_GPUS)]
    """Number of GPUs, whether or not a member holds them."""
    values: bytes
    """A 32-bit float for each of `names`."""
    gpu_values: bytes = b""
    """The same for each of `gpu_names`, one GPU after the other."""
    holders: Annotated[dict[_Name, int], msgspec.Meta(max_length=MAX_MEMBERS)] = {}
    """The GPUs that each member held, as bits, by UID of its Pod."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """The minutes that an agent reports."""

    member_names: _Names = MEMBER_NAMES
    gpu_names: _Names = GPU_NAMES
    minutes: Annotated[tuple[MemberMinute, ...], msgspec.Meta(max_length=2 * MAX_MEMBERS)] = ()
    saved: Annotated[tuple[SavedCheckpoint, ...], msgspec.Meta(max_length=MAX_SAVED)] = ()
    """Checkpoints of the last minutes; each is reported several times."""
    node: Annotated[tuple[NodeMinute, ...], msgspec.Meta(max_length=2)] = ()
    """The same minutes of the node itself."""


class Question(msgspec.Struct, frozen=True, array_like=True):
    """A request to one node for the samples (the ring) of some members."""

    id: str
    uids: tuple[str, ...]
    """UIDs of Pods."""
    since: float = 0.0
    """Only rows later than this, in seconds since 1970."""
    fresh: bool = False
    """Take a sample now instead of waiting for the next one."""
    stacks: bool = False
    """Take stacks of the members' processes; the answer has these and no rows."""
    detail: str = Detail.PLAIN
    """A Detail of the stacks. Agents do without one that they do not know."""


class Series(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one member in full resolution."""

    uid: str
    at: bytes
    """A 64-bit float for each row: seconds since 1970."""
    values: bytes
    gpus: tuple[str, ...] = ()
    gpu_values: bytes = b""
    """Row by row, and in a row GPU after GPU."""
    training: dict[str, list[tuple[float, float]]] = {}
    """Times and values by figure."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a Question. Members that are not on the node are missing."""

    members: tuple[Series, ...] = ()
    member_names: _Names = MEMBER_NAMES
    gpu_names: _Names = GPU_NAMES
    stacks: tuple[MemberStacks, ...] = ()


def hold_seconds(left: float) -> int:
    """Return how long a server may hold the next wait for questions, if the next report is due in `left` seconds.

    The waits until then are of equal length, and together no shorter than the time that is left: each wait costs a
    server as much as a report, and short ones would come while all agents report.
    """
    return max(1, math.ceil(left / math.ceil(max(left, 1.0) / MAX_HOLD_SECONDS)))


def member_columns(answer: Answer, member: Series) -> dict[str, Sequence[float]]:
    """Return the samples of a member in a node's answer, without those of its GPUs, by quantity, the oldest first."""
    values = floats_of(member.values)
    return {name: values[place :: len(answer.member_names)] for place, name in enumerate(answer.member_names)}


def gpu_columns(answer: Answer, member: Series) -> list[dict[str, Sequence[float]]]:
    """Return the samples of each GPU of a member in a node's answer, by quantity, the oldest first."""
    values = floats_of(member.gpu_values)
    width = len(answer.gpu_names)
    row = width * len(member.gpus)
    return [
        {name: values[number * width + place :: row] for place, name in enumerate(answer.gpu_names)}
        for number in range(len(member.gpus))
    ]


encode = msgspec.msgpack.Encoder().encode
_decode_report = msgspec.msgpack.Decoder(Report).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode
decode_questions = msgspec.msgpack.Decoder(tuple[Question, ...]).decode


def read_report(body: bytes) -> Report:
    """Return the report in a body. Raises InvalidInput if it is no report, or if its sizes do not agree."""
    try:
        report = _decode_report(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_report(error) from None
    width, gpu_width = 4 * len(report.member_names), 4 * len(report.gpu_names)
    for minute in report.minutes:
        if len(minute.values) != width or len(minute.gpu_values) != gpu_width * len(minute.gpus):
            raise _unreadable_report("a member has not one value for each quantity")
        wrong = next((name for name in minute.training if not FIGURE.fullmatch(name)), None)
        if wrong is not None:
            raise _unreadable_report(f"{wrong[:80]!r} is no name of a figure")
    for each in report.node:
        gpu_bytes = 4 * len(each.gpu_names) * each.gpus
        if len(each.values) != 4 * len(each.names) or len(each.gpu_values) != gpu_bytes:
            raise _unreadable_report("the node has not one value for each quantity")
        if any(not 0 <= held < 1 << each.gpus for held in each.holders.values()):
            raise _unreadable_report("a member holds GPUs that the node does not have")
    return report


def read_answer(body: bytes) -> Answer:
    """Return the answer in a body. Raises InvalidInput if it is no answer, or if its sizes do not agree."""
    try:
        answer = _decode_answer(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_report(error) from None
    width, gpu_width = 4 * len(answer.member_names), 4 * len(answer.gpu_names)
    for series in answer.members:
        rows = len(series.at) // 8
        fits = len(series.at) % 8 == 0 and len(series.values) == rows * width
        if not fits or len(series.gpu_values) != rows * gpu_width * len(series.gpus):
            raise _unreadable_report("a member has not one value for each quantity and time")
    return answer


def _unreadable_report(error: object) -> InvalidInput:
    return InvalidInput.one("body", f"is no telemetry: {error}"[:300], hint="agent and server differ: update")


def floats_of(values: bytes) -> array[float]:
    """Return 32-bit floats as numbers."""
    found = array("f")
    found.frombytes(values)
    return found


def named_values(names: Sequence[str], values: bytes) -> Iterator[tuple[str, float]]:
    """Yield name and value of every quantity that has a value."""
    for name, value in zip(names, floats_of(values), strict=True):
        if not math.isnan(value):
            yield name, value
