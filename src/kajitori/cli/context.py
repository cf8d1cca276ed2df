"""What a command works with: environment, terminal, clock, and the way to a server. Tests put their own in."""

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

if TYPE_CHECKING:
    from kajitori.cli.connection.http import Api
    from kajitori.cli.connection.target import Target
    from kajitori.cli.notices import Notices
    from kajitori.client.connection import Transport

STOP_MARGIN_SECONDS = 30.0
"""What a run has beyond its grace to end when it is told to: for a controller to take over from another, for nodes to
report, for a slow API server. After that nobody is believed to carry it out."""

WIDE = 100_000
"""Width of a page that is no terminal: nothing is cut off for programs."""

COMPLETING = "_KAJI_COMPLETING"
"""The variable by which a shell's script asks what may stand where the cursor is: the name of the shell."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Cli:
    """One call of `kaji`."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: Transport | None = None
    """Instead of the network."""
    target: Target | None = None
    """Instead of the server that the environment names."""
    runtime_dir: Path | None = None
    state_dir: Path | None = None
    now: Callable[[], datetime] = _now
    sleep: Callable[[float], None] = time.sleep
    second_interrupt_seconds: float = 2.0
    """A second Ctrl-C within this time stops the run that is followed."""
    stop_margin_seconds: float = STOP_MARGIN_SECONDS
    settle_seconds: float = 1.0
    """What a run is for a shorter time than this on its way is not said."""
    width: int | None = None
    """Columns of the page; None asks the terminal."""
    debug: bool = False
    cluster: Path | None = None
    insecure_http: bool = False
    """The token may be sent over plain HTTP to another machine."""

    def find_target(self) -> Target:
        """The server to talk to. Raises Unavailable or Unauthenticated, with the way out."""
        if self.target is None:
            from kajitori.cli.connection.target import find_target

            given = {"KAJI_INSECURE_HTTP": "1"} if self.insecure_http else {}
            self.target = find_target({**self.environment, **given}, self.cluster, self.runtime_dir)
        return self.target

    def api(self) -> Api:
        """A client of the server; a context manager."""
        from kajitori.cli.connection.http import Api

        return Api(
            self.find_target(),
            transport=self.transport,
            debug=self.debug,
            sleep=self.sleep,
            now=self.now,
            notices=self.notices,
        )

    @cached_property
    def notices(self) -> Notices:
        """What servers had to say to all their callers; a shell that completes words is told nothing."""
        from kajitori.cli.notices import Notices

        return Notices(silent=COMPLETING in self.environment)

    @property
    def colour(self) -> bool | None:
        """False where $NO_COLOR says so; None leaves it to what a stream is."""
        return False if self.environment.get("NO_COLOR") else None

    @property
    def has_person(self) -> bool:
        """Somebody sits at a terminal, reads what is said on stderr and can press Ctrl-C."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def page_width(self, *, cut: bool = True) -> int:
        """Columns of the page on stdout; practically no end where lines may not be cut, or a program reads them."""
        if not cut or (self.width is None and not sys.stdout.isatty()):
            return WIDE
        return self.width or get_terminal_size().columns

    @property
    def is_coloured(self) -> bool:
        """Whether stdout is a terminal that colours are wanted on."""
        return sys.stdout.isatty() and self.colour is not False and self.environment.get("TERM") != "dumb"
