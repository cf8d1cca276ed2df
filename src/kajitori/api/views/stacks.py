"""Stacks of a run's processes as answers show them."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import Time, View


class FrameView(View):
    """One call."""

    function: str
    file: str
    line: int


class ThreadView(View):
    """The calls of one thread, the innermost first."""

    name: str
    active: bool
    """Whether it ran when it was looked at, instead of waiting."""
    frames: list[FrameView]


class ProcessView(View, omit_defaults=True):
    """One process."""

    pid: int
    """Its number on the node."""
    command: str
    state: str
    """The letter in /proc/PID/stat: S sleeps, R runs, T was stopped by a signal, D waits in the kernel."""
    threads: list[ThreadView] = msgspec.field(default_factory=list)
    waits_in: str = ""
    """Name of the kernel's function in which it waits, if it is known."""
    trouble: str = ""
    """Why there are no threads."""
    native: list[ThreadView] = msgspec.field(default_factory=list)
    """Its threads with their calls in native code, if they were asked for; of threads that wait in the kernel, and of
    programs without Python, the kernel's functions. The library of a call is in brackets instead of its file."""
    native_trouble: str = ""
    """Why there are none though they were asked for."""


class MemberStacksView(View, omit_defaults=True):
    """The processes of one rank."""

    rank: int
    node: str
    at: Time
    processes: list[ProcessView]
    left_out: int = 0
    """Number of further processes."""


class StackGroupView(View):
    """Ranks whose processes are at the same places in the program."""

    ranks: list[int]
    odd: bool
    """Whether the other ranks may wait for these."""
    words: str
    """Their place in the program: `rank 2 on n1 is in load_batch (data.py:14)`."""
    nodes: str = ""
    """Their nodes, each once, as a compact list: `gpu-[1-3]`."""


class RunStacks(View, omit_defaults=True):
    """Stacks of a run's processes, and the ranks grouped by their places in the program."""

    run: str
    namespace: str
    attempt: int
    at: Time
    groups: list[StackGroupView]
    """The odd groups first, then the smaller ones."""
    ranks: list[MemberStacksView]
    silent: list[int] = msgspec.field(default_factory=list)
    """Ranks whose nodes did not answer."""
    trouble: str = ""
    """Why one of these nodes did not answer."""


class RunReason(View, omit_defaults=True):
    """Whether a run makes progress, and where its processes are in the program."""

    run: str
    namespace: str
    attempt: int
    phase: str
    verdict: str
    """well, unknown (too little was measured), suspected, or stuck (suspected, and no process moved between two
    looks)."""
    words: list[str]
    """Sentences for people."""
    since: Time | None = None
    """Time of the last progress, if it is quiet now."""
    at: Time | None = None
    """Time of the newest kept stacks, in an answer about an attempt."""
    groups: list[StackGroupView] = msgspec.field(default_factory=list)
    """Ranks grouped by their places in the program, the odd groups first."""
    late: list[int] = msgspec.field(default_factory=list)
    """Ranks that have not entered a collective operation in which others wait, as PyTorch's flight recorder says."""
    kept_attempts: list[int] = msgspec.field(default_factory=list)
    """Attempts of which stacks are kept: `attempt` asks for them."""
