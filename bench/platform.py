"""A running `kaji up` for benchmarks that measure the waiting times of its users."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.harness.commands import clean_environment

PATIENCE_SECONDS = 60.0
"""How long the platform may take to start, and a single command to end."""


@contextlib.contextmanager
def kaji_up(place: Path, *options: str) -> Iterator[dict[str, str]]:
    """Start `kaji up` in a process of its own and yield the environment of a user with the home `place`."""
    environment = clean_environment(place)
    command = [sys.executable, "-m", "kajitori.cli", "up", "--data", str(place / "data"), "--port", "0", *options]
    asking = [sys.executable, "-m", "kajitori.cli", "ps", "-q"]
    with (place / "log").open("wb") as log, subprocess.Popen(command, stderr=log, env=environment) as server:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while subprocess.run(asking, env=environment, capture_output=True, check=False).returncode:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((place / "log").read_text())
            yield environment
        finally:
            server.terminate()
