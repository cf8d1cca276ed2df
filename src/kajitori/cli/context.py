"""The surroundings of a command: environment, terminal, clock, and its server. Tests replace each of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from kajitori import __version__

if TYPE_CHECKING:
    from kajitori.cli.notices import Notices
    from kajitori.client.connection import Transport
    from kajitori.client.target import Target
    from kajitori.client.web_api import Api

STOP_MARGIN_SECONDS = 30.0
"""Time beyond its grace that a run is given to stop: a new controller may have to take over, nodes have to report, and
the API server may be slow. After that the command reports that the run did not stop."""

WIDE = 100_000
"""Width of a page that is not shown at a terminal, so that no text is cut off for programs."""

COMPLETING = "_KAJI_COMPLETING"
"""Variable with the name of the shell that asks for completions by its completion script."""


WITHOUT_QUESTION = frozenset({"idle", "keep", "park", "stop", "kill", "rm", "restart", "inspect"})
"""Verbs that answer the question about idle GPUs, show it in their own output, or print for programs."""


def _is_for_people() -> bool:
    """Whether the present command prints for people, and does not answer or show the question about idle GPUs."""
    import click

    context = click.get_current_context(silent=True)
    if context is None or context.info_name in WITHOUT_QUESTION:
        return False
    cli = context.find_object(Cli)
    output = context.params.get("output") or (cli.output if cli is not None else None)
    is_data = output not in (None, "wide") or context.params.get("template")
    return not (is_data or context.params.get("quiet"))


def _now() -> datetime:
    return datetime.now(UTC)


_VERSION_SECONDS = 2.0
"""Longest wait for the server's version after an error."""


@dataclass
class Cli:
    """One call of `kaji`."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: Transport | None = None
    """Replaces the network in tests."""
    target: Target | None = None
    """The server, once it is known."""
    runtime_dir: Path | None = None
    state_dir: Path | None = None
    now: Callable[[], datetime] = _now
    ticks: Callable[[], float] = time.monotonic
    """Seconds of a clock that is never set."""
    sleep: Callable[[float], None] = time.sleep
    second_interrupt_seconds: float = 2.0
    """Time within which a second Ctrl-C stops the followed run."""
    stop_margin_seconds: float = STOP_MARGIN_SECONDS
    settle_seconds: float = 1.0
    """A stage of a followed run is reported once it has lasted this long."""
    width: int | None = None
    """Width of the page in columns; None means that of the terminal."""
    debug: bool = False
    cluster: Path | None = None
    output: str | None = None
    """Value of -o, once it is read."""
    insecure_http: bool = False
    """Whether the token may be sent to another machine over plain HTTP."""

    def find_target(self) -> Target:
        """Return the server to talk to. Raises Unavailable, InvalidInput or Unauthenticated, each with the way out."""
        if self.target is None:
            self.target = self._find_target()
        return self.target

    def _find_target(self) -> Target:
        """Return the server; if it is a cluster of this machine that is still starting, wait until it answers."""
        from kajitori.cli.terminal import say
        from kajitori.client.target import find_target, once_started

        given = {"KAJI_INSECURE_HTTP": "1"} if self.insecure_http else {}
        environment = {**self.environment, **given}
        if COMPLETING in self.environment:
            return find_target(environment, self.cluster, self.runtime_dir)
        return once_started(
            lambda: find_target(environment, self.cluster, self.runtime_dir),
            self.sleep,
            lambda error: say(f"{error.message}; waiting for it"),
        )

    def api(self) -> Api:
        """Return a client of the server, which is a context manager."""
        from kajitori.cli.terminal import say
        from kajitori.client.web_api import Api

        self.notices.tells_own = _is_for_people()
        return Api(
            self.find_target(),
            transport=self.transport,
            debug=say if self.debug else None,
            sleep=self.sleep,
            now=self.now,
            ticks=self.ticks,
            notices=self.notices,
        )

    def version_hint(self) -> str:
        """Return what to do if the server that was asked has another version or is none of Kajitori; empty if it has
        this one or is away."""
        if self.target is None:
            return ""
        try:
            with self.api() as api:
                server = api.get("/v1/version", tries=1, timeout_seconds=_VERSION_SECONDS).get("version")
        except Exception:
            return ""
        if server is None:
            return f"{self.target.url} is no Kajitori server: check the address and the proxies before it"
        if server == __version__:
            return ""
        return f"kaji has version {__version__} and the server {server}: use kaji of the server's version"

    @cached_property
    def notices(self) -> Notices:
        """Notices of the server to all callers. Nothing is printed while a shell completes a word."""
        from kajitori.cli.notices import Notices

        return Notices(silent=COMPLETING in self.environment)

    @property
    def colour(self) -> bool | None:
        """False if $NO_COLOR is set; None means colours at a terminal only."""
        return False if self.environment.get("NO_COLOR") else None

    @property
    def has_person(self) -> bool:
        """Whether stdin and stderr are a terminal: a person reads the messages and can press Ctrl-C."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def page_width(self, *, cut: bool = True) -> int:
        """Return the width of the page on stdout in columns; `WIDE` if `cut` is False or stdout is no terminal."""
        if not cut or (self.width is None and not sys.stdout.isatty()):
            return WIDE
        return self.width or get_terminal_size().columns

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal on which a page may be drawn again."""
        return sys.stdout.isatty() and self.environment.get("TERM") != "dumb"

    @property
    def is_coloured(self) -> bool:
        """Whether stdout is a terminal that shows colours, and $NO_COLOR is not set."""
        return sys.stdout.isatty() and self.colour is not False and self.environment.get("TERM") != "dumb"
