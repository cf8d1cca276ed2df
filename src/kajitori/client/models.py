"""The answers of the Web API as immutable objects, as the client returns them.

They are msgspec structs like the server's own views, because importing pydantic would take half a second. The fields
are a part of the views' fields (a test compares them). A field that an older server does not send has its default, and
a field that a newer server adds is ignored.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kajitori.client.exitcodes import exit_code_of
from kajitori.client.views import FINAL
from kajitori.errors import Unsupported

T = TypeVar("T")


class Model(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all answers."""


class RunState(Model, frozen=True, kw_only=True):
    """A run at one moment: its spec and its status."""

    name: str
    namespace: str
    uid: str
    owner: str = ""
    labels: dict[str, str] = {}
    created_at: str = ""
    spec: dict[str, Any] = {}
    """The spec as documented in the reference of Run, with defaults."""
    status: dict[str, Any] = {}
    """The status as documented in the reference of Run. Fields at their default are absent."""
    nodes: str = ""
    """Nodes of the members as a compact list, in rank order for gangs and services."""
    gpus: int = 0
    """GPUs of all members. A sweep counts its current members, or as many as may run at once while it has none."""
    deleting: bool = False

    @property
    def phase(self) -> str:
        """Queued, Starting, Running, Restarting, Succeeded, Failed or Stopped."""
        return str(self.status.get("phase") or "Queued")

    @property
    def reason(self) -> str:
        """Why the run is in its phase, from a closed set of words; empty if there is nothing to say."""
        return str(self.status.get("reason") or "")

    @property
    def message(self) -> str:
        """The reason in a sentence."""
        return str(self.status.get("message") or "")

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.phase in FINAL

    @property
    def exit_code(self) -> int | None:
        """Exit code as `kaji wait` prints it; None before the end."""
        return exit_code_of({"status": self.status}) if self.is_final else None


class RunProperties:
    """The properties of a `Run` and an `AsyncRun`, which read the state that the server last returned."""

    state: RunState

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def namespace(self) -> str:
        return self.state.namespace

    @property
    def uid(self) -> str:
        return self.state.uid

    @property
    def phase(self) -> str:
        """Queued, Starting, Running, Restarting, Succeeded, Failed or Stopped."""
        return self.state.phase

    @property
    def reason(self) -> str:
        return self.state.reason

    @property
    def message(self) -> str:
        return self.state.message

    @property
    def is_final(self) -> bool:
        """Whether the run had ended."""
        return self.state.is_final

    @property
    def exit_code(self) -> int | None:
        """Exit code of an ended run as `kaji wait` prints it; None before the end."""
        return self.state.exit_code

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"<{type(self).__name__} {self.namespace}/{self.name}: {self.phase}{reason}>"


class Member(Model, frozen=True, kw_only=True):
    """One member of a run, in the newest of its attempts that has a Pod for it."""

    rank: int
    attempt: int = 0
    pod: str = ""
    node: str = ""
    phase: str = ""
    """Pending, Running, Succeeded or Failed."""
    reason: str = ""
    message: str = ""
    address: str = ""
    exit_code: int | None = None
    started_at: str = ""
    restarts: int = 0
    terminating: bool = False


class Result(Model, frozen=True, kw_only=True):
    """How one member of a sweep ended, and what it wrote to `$KAJI_RESULT`."""

    index: int
    state: str
    """Waiting, Pending, Running, Succeeded or Failed; NotRun if the sweep ended without starting it."""
    attempt: int = 0
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    started_at: str = ""
    ended_at: str = ""
    peak_bytes: int = 0
    """Peak memory; 0 if unknown."""
    result: Any = None
    """Content of the file named by $KAJI_RESULT: parsed as JSON if possible, else the text."""


class Event(Model, frozen=True, kw_only=True):
    """Something that happened to a run or one of its members."""

    time: str
    type: str = ""
    reason: str = ""
    object: str = ""
    """Kind and name, such as `Run/bert` or `Pod/bert-1-0`."""
    message: str = ""
    count: int = 1


class Extreme(Model, frozen=True, kw_only=True):
    """An extreme value, and the rank and GPU that have it."""

    value: float
    rank: int = 0
    gpu: int | None = None


class Band(Model, frozen=True, kw_only=True):
    """One quantity over all ranks, or all GPUs, in one interval."""

    at: str
    """Beginning of the interval."""
    attempt: int = 0
    count: int = 0
    """Number of values."""
    min: Extreme
    p10: float
    p50: float
    p90: float
    max: Extreme


class Series(Model, frozen=True, kw_only=True):
    """The bands of one quantity, the oldest first."""

    name: str
    unit: str = ""
    kind: str = ""
    """gauge, counter (a rate), events (a number per minute), peak or last."""
    description: str = ""
    points: list[Band] = []


class NodeSeries(Model, frozen=True, kw_only=True):
    """One quantity of a node, or of one of its GPUs, over time."""

    name: str
    unit: str = ""
    kind: str = ""
    """counter (a rate), gauge, peak or last."""
    description: str = ""
    gpu: int | None = None
    """Number of the GPU, from 0; None for quantities of the whole node."""
    at: list[str] = []
    """Beginning of each interval, the oldest first."""
    values: list[float | None] = []
    """A value for each interval; None where nothing was measured."""


class Explanation(Model, frozen=True, kw_only=True):
    """Why a run is in its phase. For a waiting run: what is missing, and what would start it."""

    phase: str
    reason: str = ""
    message: str = ""
    members: int = 0
    """Number of members that have to start together; 0 for a run that does not wait."""
    fit_now: int = 0
    missing: dict[str, int] = {}
    """Missing amounts by resource: gpu, cpuMillis, memoryBytes, members."""
    sooner: list[str] = []
    """Changes with which it would start now, each by itself, as options of `kaji run`."""
    expected_at: str = ""
    """Estimated start; empty if it is not known."""
    ahead: int = 0
    """Number of waiting runs that are looked at before this one."""
    document: dict[str, Any] = {}
    """The whole answer, as `kaji explain -o json` prints it."""


class Outlook(Model, frozen=True, kw_only=True):
    """The answer to `what_if`: whether a run would start if it was submitted now, and where."""

    namespace: str = ""
    starts: bool = False
    """Whether it would start now."""
    nodes: str = ""
    """The nodes on which it would start, as a compact list."""
    findings: list[dict[str, Any]] = []
    """Changes that policy would make to the run, and warnings."""
    document: dict[str, Any] = {}
    """The whole answer, as `kaji what-if -o json` prints it."""


class SignalledProgram(Model, frozen=True, kw_only=True):
    """The program of a member that was sent a signal."""

    rank: int
    pid: int = 0
    """0 if it is not known."""
    ignored: bool = False
    """It did not get the signal: it is the first process of its container, and has no handler for this signal."""


class CommandOutput(Model, frozen=True, kw_only=True):
    """Output and exit code of a command in a member."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8", "replace")


def to_model(document: Any, model: type[T]) -> T:
    """Return an answer of the server as a model. Raises Unsupported for one that the model cannot hold."""
    try:
        return msgspec.convert(document, model)
    except msgspec.ValidationError as error:
        message = f"the server's answer is not a {model.__name__} as this client knows it: {error}"
        raise Unsupported(message, hint="the server may have another version: kaji version shows both") from error
