"""Arguments of the tools. Their docstrings are what an assistant reads about them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from kajitori.core.documents.faults import Document

Words = Annotated[str, Field(max_length=1_000)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
PhaseName = Literal["Queued", "Starting", "Running", "Restarting", "Succeeded", "Failed", "Stopped"]


class Arguments(Document):
    """Base of all arguments: unknown ones are refused."""

    model_config = ConfigDict(alias_generator=None)


class Page(Arguments):
    """A part of a list."""

    limit: int = Field(default=20, ge=1, le=100)
    """Largest number of items in the answer."""
    page: Words = ""
    """`next` of an earlier answer, for the items after it."""


class OfRun(Arguments):
    """Names a run."""

    run: Name
    """Name of the run, `namespace/name`, or the beginning of a name if only one run has it."""


class Nothing(Arguments):
    """No arguments."""


class ListRuns(Page):
    """Which runs to list."""

    owner: Words = "@me"
    """Name of a user; `@me` is the person whom you act for, and empty text is everybody."""
    namespace: Words = ""
    """Only this namespace; else all that the person may read."""
    phase: list[PhaseName] = Field(default=[])
    """Only runs in these phases."""
    active: bool = False
    """Only runs that have not ended."""
    search: Words = ""
    """Only runs with each of these words in name, namespace, owner, image or labels."""


class ListMembers(OfRun, Page):
    """Which members to list."""


class Why(OfRun):
    """Which run to look at, and how."""

    take_stacks: bool = True
    """Look where the run's processes are in their code: only so can a hang be confirmed. Takes some seconds, and needs
    the right to run commands in the members. False tells only what was measured."""


class ReadLogs(OfRun):
    """Which lines of a log to read; without any of `before`, `after`, `since`: the last ones."""

    rank: int | None = Field(default=None, ge=0, le=99_999)
    """The member; default 0. In a sweep the member's index."""
    attempt: int | None = Field(default=None, ge=1)
    """The attempt; default: the newest with a log. Logs of earlier attempts tell why a run restarted."""
    lines: int = Field(default=100, ge=1, le=500)
    """Largest number of lines. Long lines are cut, and fewer lines come if they are long."""
    before: Words = ""
    """`before` of an earlier answer: the lines before it."""
    after: Words = ""
    """`after` of an earlier answer: the lines after it."""
    since: Words = ""
    """The lines from this time on (RFC 3339), or from this duration ago on, such as 10m."""


class SearchLogs(OfRun):
    """What to look for in logs."""

    text: str = Field(min_length=1, max_length=1_000)
    """Text that the lines contain; it is no pattern."""
    ignore_case: bool = True
    """Whether upper and lower case are the same."""
    rank: int | None = Field(default=None, ge=0, le=99_999)
    """Only this member; else all of them, one after the other."""
    attempt: int | None = Field(default=None, ge=1)
    """The attempt; default: of each member the newest with a log."""
    since: Words = ""
    """Only lines younger than this duration (10m), or written since this time (RFC 3339)."""
    until: Words = ""
    """Only lines older than this duration, or written before this time."""
    limit: int = Field(default=50, ge=1, le=200)
    """Largest number of lines in the answer; further ones are counted."""


class Metrics(OfRun):
    """Which quantities of a run to read."""

    names: list[Words] = Field(default=[])
    """Quantities such as gpu.used or train.loss; `gpu.` names all that begin with it. Without any: all, with few
    points each."""
    since: Words = "1h"
    """Beginning: a duration before now, or a time (RFC 3339)."""
    until: Words = ""
    """End; now if it is left out."""
    points: int = Field(default=12, ge=1, le=120)
    """Largest number of intervals of each quantity."""


class Results(OfRun, Page):
    """Which members of a sweep to show."""

    state: list[Literal["Waiting", "Pending", "Running", "Succeeded", "Failed", "NotRun"]] = Field(default=[])
    """Only members in these states."""
    best: bool = False
    """The best first, by a value in the results."""
    by: Words = ""
    """Name of that value, if more than one could be meant."""


class Report(Arguments):
    """Whose time to account for."""

    run: Words = ""
    """One run, also a deleted one; without it the sums of many runs."""
    by: Literal["cause", "team", "owner", "node"] = "cause"
    """Grouping of the sums."""
    since: Words = ""
    """First day of the sums, as a time (RFC 3339); 30 days ago if it is left out."""
    until: Words = ""
    """Last day of the sums; today if it is left out."""
    owner: Words = ""
    """Only runs of this user; `@me` is the person whom you act for."""


class ListQueue(Page):
    """Which runs of the queue to list."""

    state: Literal["waiting", "running"] = "waiting"
    """waiting: runs that wait for nodes, in the order of the queue. running: runs that have nodes."""
    owner: Words = ""
    """Only runs of this user; `@me` is the person whom you act for."""
    namespace: Words = ""
    """Only runs of this namespace."""


class ListNodes(Page):
    """Which nodes to list."""

    search: Words = ""
    """Only nodes with each of these words in name, GPU type, pool, topology, holders, owner or reason."""
    gpu_type: Words = ""
    """Only nodes with GPUs of this type."""
    has_room: bool = False
    """Only nodes that take work and have a free GPU; of nodes without GPUs, those with free CPU."""


class OneNode(Arguments):
    """Names a node."""

    node: Name
    """Name of the node."""


class ListEvents(Arguments):
    """Whose events to show."""

    run: Words = ""
    """Only of this run and its members; else of all runs of a namespace."""
    namespace: Words = ""
    """Namespace of all runs; default: the person's own."""
    limit: int = Field(default=30, ge=1, le=100)
    """Number of the latest events."""


class Ask(Arguments):
    """What a run would be. The options are those of `kaji run` and of the Python client."""

    image: Words | None = None
    """Image such as registry/bert:3. May be left out if a template names one."""
    command: list[str] = Field(default=[], max_length=1_000)
    """The program and its arguments, one item each."""
    name: Words | None = None
    """Name of the run; one is made if it is left out."""
    namespace: Words | None = None
    template: Words | None = None
    """Template of the operators' policy that the other options change."""
    replicas: Annotated[int, Field(ge=1)] | Words | None = None
    """Number of members that start together; `2-8` is an elastic gang."""
    array: Words | None = None
    """A sweep instead: `0-99%8` is 100 members, 8 at once."""
    gpus: Annotated[int, Field(ge=0)] | Words | None = None
    """GPUs of each member: `8`, or `h100:8`."""
    gpu_type: Words | None = None
    cpus: Annotated[float, Field(gt=0)] | Words | None = None
    """CPUs of each member."""
    memory: Words | None = None
    """Memory of each member, such as 64g."""
    shm_size: Words | None = None
    whole_node: bool = False
    """Whether each member gets a node for itself."""
    launcher: Words | None = None
    """torchrun or mpi, if the members are one distributed program."""
    type: Words | None = None
    """batch, notebook or service."""
    env: dict[str, str] = Field(default={})
    """Environment variables. Put secrets into `secrets`, not here: everybody who may read the run sees these."""
    secrets: list[Words] = Field(default=[])
    """Secrets of the namespace, by name, which become environment variables."""
    volumes: list[Words] = Field(default=[])
    """Volumes by name, such as imagenet:/data:ro."""
    labels: dict[str, str] = Field(default={})
    ports: list[int] = Field(default=[])
    workdir: Words | None = None
    checkpoint: Words | None = None
    """Folder that outlives restarts, such as /ckpt."""
    restarts: Annotated[int, Field(ge=0)] | None = None
    """Number of restarts after failures of the program."""
    time_limit: Words | None = None
    """Such as 2h. Runs with a limit can start earlier, because the planner knows when they end."""
    priority: Literal["high", "normal", "low"] | None = None

    def options(self) -> dict[str, Any]:
        """Return the options that were given, as keyword arguments of the client."""
        given = self.model_dump(exclude_defaults=True)
        return {name: value for name, value in given.items() if name not in ("image", "command", "code")}


class StartRun(Ask):
    """The run to start."""

    code: Words | None = None
    """Absolute path of a folder on the person's machine; all members start in a copy of it."""


class Stop(OfRun):
    """Which run to stop, and how."""

    grace: Words | None = None
    """Time that the program has to write a checkpoint, such as 5m; default: the run's own."""
    now: bool = False
    """End it at once."""


class Delete(OfRun):
    """Which run to delete."""

    force: bool = False
    """Also a run that has not ended: it is killed."""
    checkpoint: bool = False
    """Delete its checkpoint with it. It cannot be brought back."""
