"""Arguments of the tools. The JSON schemas that an assistant reads are made from these classes and docstrings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from kajitori.core.documents.faults import Document
from kajitori.core.formats.node_lists import expand_ranks
from kajitori.errors import FieldError, InvalidInput


def _one_fault(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """Report one fault for a number or text. Pydantic reports one for each type, with a name of its own."""
    try:
        return check(value)
    except ValidationError as error:
        limits = [found["msg"] for found in error.errors() if not found["type"].endswith("_type")]
        message = limits[0].replace("Input should", "must", 1) if limits else "must be a number or text"
        raise FieldError(message) from None


NumberOrText = WrapValidator(_one_fault)
Words = Annotated[str, Field(max_length=1_000)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
PhaseName = Literal["Queued", "Starting", "Running", "Restarting", "Succeeded", "Failed", "Stopped"]


class Arguments(Document):
    """Base of all arguments. Unknown arguments are refused."""

    model_config = ConfigDict(alias_generator=None)


class Page(Arguments):
    """Arguments of a tool that returns one page of a list."""

    limit: int = Field(default=20, ge=1, le=100)
    """The largest number of items in the answer."""
    page: Words = ""
    """Send the value of `next` from the previous answer to get the next page. Leave it empty for the first page."""


class OfRun(Arguments):
    """Arguments of a tool that looks at one run."""

    run: Name
    """The name of the run, or `namespace/name`. The beginning of a name is enough if only one run has it."""


class Nothing(Arguments):
    """The tool takes no arguments."""


class ListRuns(Page):
    """Filters for a list of runs."""

    owner: Words = "@me"
    """List only the runs of this user. `@me` is the person you act for. An empty text lists the runs of all users."""
    namespace: Words = ""
    """List only the runs in this namespace. By default it is the namespace that `whoami` shows; if that is empty, the
    runs of all namespaces that the person may read are listed."""
    phase: list[PhaseName] = Field(default=[])
    """List only the runs in these phases."""
    active: bool = False
    """List only the runs that have not ended."""
    search: Words = ""
    """Words separated by spaces. Each listed run has every word in its name, namespace, owner, image or labels."""


class ListMembers(OfRun, Page):
    """The run to list the members of."""


class Why(OfRun):
    """The run to diagnose, and whether to take stacks."""

    take_stacks: bool = True
    """Read the call stacks of the run's processes. They are needed to confirm a hang. It takes some seconds, and the
    person needs the right to run commands in the members. If false, the answer uses measurements only."""


class ReadLogs(OfRun):
    """The part of a log to read. Without `before`, `after` and `since` the last lines are returned."""

    rank: int | None = Field(default=None, ge=0, le=99_999)
    """The rank of the member. In a sweep this is the index of the member. The default is 0."""
    attempt: int | None = Field(default=None, ge=1)
    """The attempt to read. The default is the newest attempt that has a log. Read an earlier attempt to learn why
    the run was restarted."""
    lines: int = Field(default=100, ge=1, le=500)
    """The largest number of lines in the answer. Long lines are cut, and fewer of them are returned."""
    before: Words = ""
    """Send the value of `before` from an earlier answer to read the lines before that answer."""
    after: Words = ""
    """Send the value of `after` from an earlier answer to read the lines after that answer."""
    since: Words = ""
    """Read the lines that were printed since this time. It is a time (RFC 3339) or a duration before now, for example
    10m."""


class SearchLogs(OfRun):
    """The text to find, and the logs to search."""

    text: str = Field(min_length=1, max_length=1_000)
    """The text that a line has to contain."""
    regex: bool = False
    """Treat the text as a regular expression in the syntax of RE2. `^` and `$` match at the ends of a line."""
    ignore_case: bool = True
    """Treat upper and lower case as the same."""
    rank: int | None = Field(default=None, ge=0, le=99_999)
    """Search only the log of the member with this rank. By default the logs of all members are searched, one after the
    other."""
    attempt: int | None = Field(default=None, ge=1)
    """The attempt to search. The default is the newest attempt of each member that has a log."""
    since: Words = ""
    """Find only lines that were printed since this time. It is a time (RFC 3339) or a duration before now, for example
    10m."""
    until: Words = ""
    """Find only lines that were printed before this time. It is a time (RFC 3339) or a duration before now."""
    limit: int = Field(default=50, ge=1, le=200)
    """The largest number of lines in the answer. Further matches are counted in `matches`."""


class TimeRange(Arguments):
    """The metrics to read, and the time range."""

    names: list[Words] = Field(default=[])
    """Names of metrics, for example gpu.used or train.loss. A name that ends with a dot, for example `gpu.`, selects
    all metrics that begin with it. An empty list selects all metrics."""
    since: Words = "1h"
    """The beginning of the time range. It is a duration before now, or a time (RFC 3339)."""
    until: Words = ""
    """The end of the time range. The default is now."""
    points: int = Field(default=12, ge=1, le=120)
    """The largest number of points of each metric. Each point summarises one interval of time."""


class Metrics(OfRun, TimeRange):
    """The metrics of a run to read, and the time range."""


class Results(OfRun, Page):
    """The members of a sweep to show, and their order."""

    state: list[Literal["Waiting", "Pending", "Running", "Succeeded", "Failed", "NotRun"]] = Field(default=[])
    """Show only the members in these states."""
    best: bool = False
    """Sort the members by a number in their results, the best first. By default they are sorted by index."""
    by: Words = ""
    """The name of the number to sort by. It is needed with `best` if the results contain several numbers."""


class Report(Arguments):
    """The run, or the group of runs, to report the time of."""

    run: Words = ""
    """Report on this run. It may be a deleted one. If it is empty, the report has sums over many runs."""
    by: Literal["cause", "team", "owner", "node"] = "cause"
    """How the sums are grouped. It is ignored if `run` is given."""
    since: Words = ""
    """The first day of the sums, as a time (RFC 3339). The default is 30 days ago."""
    until: Words = ""
    """The last day of the sums, as a time (RFC 3339). The default is today."""
    owner: Words = ""
    """Sum only the runs of this user. `@me` is the person you act for. By default the runs of all users are summed."""


class ListQueue(Page):
    """Filters for the runs of the queue."""

    state: Literal["waiting", "running", "dependent"] = "waiting"
    """`waiting` lists the runs that wait for nodes, in the order of the queue. `running` lists the runs that have
    nodes. `dependent` lists the runs that wait for other runs to end (`--after`) and are not in the queue yet."""
    owner: Words = ""
    """List only the runs of this user. `@me` is the person you act for."""
    namespace: Words = ""
    """List only the runs in this namespace."""


class ListNodes(Page):
    """Filters for a list of nodes."""

    search: Words = ""
    """Words separated by spaces. Each listed node has every word in its name, GPU type, pool, topology, the names of
    the runs on it, their owners, or the reason why it takes no work."""
    gpu_type: Words = ""
    """List only the nodes with GPUs of this type."""
    has_room: bool = False
    """List only the nodes that take work and have a free GPU. A node without GPUs is listed if it has free CPUs."""


class OneNode(Arguments):
    """Arguments of a tool that looks at one node."""

    node: Name
    """The whole name of the node."""


class NodeMetrics(OneNode, TimeRange):
    """The metrics of a node to read, and the time range."""

    gpus: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    """Only these GPUs of the node, counted from 0. An empty list selects all GPUs."""


class ListEvents(Arguments):
    """The run or the namespace to show the events of."""

    run: Words = ""
    """Show the events of this run and its members. If it is empty, the events of all runs in a namespace are shown."""
    namespace: Words = ""
    """Show the events of all runs in this namespace. The default is the namespace that `whoami` shows. It is ignored if
    `run` is given."""
    limit: int = Field(default=30, ge=1, le=100)
    """The largest number of events in the answer. The latest events are kept."""


class Ask(Arguments):
    """The options of a run. They have the names of the Python client's options, and the meaning of those of `kaji run`.

    Policy and the server choose the values that are left out.
    """

    image: Words | None = None
    """The container image, for example registry/bert:3. It may be left out if a template names one."""
    command: list[str] = Field(default=[], max_length=1_000)
    """The program and its arguments, one list item each. It is not interpreted by a shell."""
    name: Words | None = None
    """The name of the run. If it is left out, the server makes a name."""
    namespace: Words | None = None
    """The namespace of the run. The default is the namespace that `whoami` shows."""
    template: Words | None = None
    """The name of a template in the operators' policy. The other options override the template's values."""
    replicas: Annotated[Annotated[int, Field(ge=1)] | Words | None, NumberOrText] = None
    """The number of members, which start together as a gang. A range, for example `2-8`, makes the gang elastic."""
    array: Words | None = None
    """Makes the run a sweep of independent members. `0-99%8` is 100 members of which at most 8 run at once."""
    after: list[Words] = Field(default=[])
    """Runs for which this run waits before it starts: `RUN` or `RUN:succeeded` waits until that run has succeeded,
    `RUN:healthy` until its health check succeeds in all members, `RUN:ended` until it has ended in any way. All of
    them are in the namespace of this run."""
    gpus: Annotated[Annotated[int, Field(ge=0)] | Words | None, NumberOrText] = None
    """The number of GPUs of each member, for example `8`. `h100:8` also asks for a type."""
    gpu_type: Words | None = None
    """The type of the GPUs, for example h100. The tool `gpus` lists the types of the cluster."""
    cpus: Annotated[Annotated[float, Field(gt=0)] | Words | None, NumberOrText] = None
    """The number of CPUs of each member."""
    memory: Words | None = None
    """The memory of each member, for example 64g."""
    shm_size: Words | None = None
    """The size of /dev/shm of each member, for example 16g."""
    whole_node: bool = False
    """Give each member a node of its own."""
    launcher: Words | None = None
    """`torchrun` or `mpi` starts the command as one distributed program on all members."""
    type: Words | None = None
    """The type of the run: `batch` (the default), `notebook` or `service`."""
    env: dict[str, str] = Field(default={})
    """Environment variables. Everybody who may read the run sees the values, so use `secrets` for passwords and
    tokens."""
    secrets: list[Words] = Field(default=[])
    """The names of secrets in the namespace. Each one becomes environment variables of the members."""
    volumes: list[Words] = Field(default=[])
    """Volumes to mount, each as `NAME:PATH` or `NAME:PATH:ro`, for example imagenet:/data:ro."""
    labels: dict[str, str] = Field(default={})
    """Labels of the run."""
    ports: list[int] = Field(default=[])
    """The TCP ports on which the program listens."""
    workdir: Words | None = None
    """The folder in which the program starts. The default is the image's."""
    checkpoint: Words | None = None
    """The folder in which the program saves checkpoints, for example /ckpt. Its files are kept across restarts."""
    health_cmd: Words | None = None
    """The command that checks whether a member is healthy, for example `curl -fs localhost:8080`. A shell runs it in
    each member at regular times; exit code 0 means healthy. A failed check restarts nothing."""
    restarts: Annotated[int, Field(ge=0)] | None = None
    """How many times the run is restarted after its program failed."""
    time_limit: Words | None = None
    """The longest time the run may take, for example 2h. The run is ended after it. A run with a limit can start
    earlier, because the planner knows when it ends."""
    priority: Literal["high", "normal", "low"] | None = None
    """The priority of the run in the queue."""

    def options(self) -> dict[str, Any]:
        """Return the options that were given, as keyword arguments of the client."""
        given = self.model_dump(exclude_defaults=True)
        return {name: value for name, value in given.items() if name not in ("image", "command", "code")}


class StartRun(Ask):
    """The options of the run to start. They have the names of the Python client's options."""

    code: Words | None = None
    """The absolute path of a folder on the person's machine. The folder is uploaded, and every member starts in a copy
    of it."""


class Stop(OfRun):
    """The run to stop, and how long its program may take to end."""

    grace: Words | None = None
    """How long the program may take to write a checkpoint and end, for example 5m. The default is the run's own grace
    period. It excludes `now`."""
    now: bool = False
    """Kill the run without a grace period. It excludes `grace`."""


class Signal(OfRun):
    """The run, the signal, and the ranks of the programs that get it."""

    signal: Words
    """The name of the signal without SIG, for example USR1."""
    ranks: Words = ""
    """Ranks as ranges, for example `0-3,7`. By default all members that run."""

    def members(self) -> list[int]:
        """Return the ranks that are named. Raises InvalidInput if they are no list of ranges."""
        try:
            return expand_ranks(self.ranks, limit=100_000)
        except ValueError as error:
            raise InvalidInput.one("ranks", str(error), value=self.ranks, hint="write 3, 0-3 or 0-3,7") from None


class Update(OfRun):
    """The run to change, and the new values. What is left out stays as it is. The text `default` removes a value, so
    that policy's default applies."""

    time_limit: Words | None = None
    """The longest time the run may take, counted from its start, for example 7d."""
    priority: Literal["high", "normal", "low", "default"] | None = None
    """The priority of the run in the queue."""
    restarts: Annotated[Annotated[int, Field(ge=0)] | Words | None, NumberOrText] = None
    """How many times in all the run is restarted after its program failed, including the restarts so far."""
    array: Words | None = None
    """The indices of a sweep, and after % how many members run at once, for example `0-999%128`."""
    rm_after: Words | None = None
    """Delete the run this long after its end, for example 30d."""
    on_stuck: Literal["tell", "restart", "default"] | None = None
    """When the run is stuck: `tell` its owner, or `restart` it."""

    def changes(self) -> dict[str, str | int]:
        """Return the values that were given, as keyword arguments of `Client.update`."""
        return self.model_dump(exclude_none=True, exclude={"run"})


class Delete(OfRun):
    """The run to delete."""

    force: bool = False
    """Delete the run even if it has not ended. Its processes are killed."""
    checkpoint: bool = False
    """Delete the run's checkpoint files too. They cannot be restored."""
