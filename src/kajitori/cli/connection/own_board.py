"""TensorBoard on this machine, for the event files of a run that has ended."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kajitori.cli.connection.copying import copy_checkpoint
from kajitori.cli.terminal import say
from kajitori.errors import WrongState

if TYPE_CHECKING:
    from kajitori.client.views import View
    from kajitori.client.web_api import Api

HOST = "127.0.0.1"
POLL_SECONDS = 0.1


def show_here(
    api: Api,
    run: View,
    folder: str,
    port: int,
    *,
    path: str | None,
    tell: Callable[[str], None],
    sleep: Callable[[float], None],
) -> int:
    """Copy the event files in `folder` of the run's checkpoint, show them until Ctrl-C, and remove the copy.

    Listens at `port`, or at a free one if it is taken; `tell` gets the address once it does. `path` is the PATH in
    which TensorBoard is looked for. Returns its exit code. Raises WrongState if it is not installed.
    """
    name, program = run["name"], _tensorboard_command(path)
    if not program:
        hint = f"python3 -m pip install tensorboard; or only copy the files: kaji cp {name}:{folder} FOLDER"
        raise WrongState(f"{name} has ended, and TensorBoard is not installed on this machine", hint=hint)
    with tempfile.TemporaryDirectory(prefix="kaji-tensorboard-") as copied:
        copy_checkpoint(api, run, f"{folder.rstrip('/')}/.", f"{copied}/{name}")
        say(f"{name} has ended: a copy of {folder} in its checkpoint is shown by the TensorBoard of this machine")
        port = _free_port(port)
        words = [*program, "--logdir", copied, "--host", HOST, "--port", str(port)]
        return _run_tensorboard(words, port, lambda: tell(f"http://{HOST}:{port}/"), sleep)


def _tensorboard_command(path: str | None) -> list[str]:
    """Return the command that starts TensorBoard here; empty if it is not installed."""
    found = shutil.which("tensorboard", path=path)
    if found is not None:
        return [found]
    return [sys.executable, "-m", "tensorboard.main"] if importlib.util.find_spec("tensorboard") else []


def _free_port(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _run_tensorboard(words: list[str], port: int, tell: Callable[[], None], sleep: Callable[[float], None]) -> int:
    """Run TensorBoard to its end, and tell once it listens."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with suppress(OSError), socket.create_connection((HOST, port), timeout=POLL_SECONDS):
                tell()
                break
            sleep(POLL_SECONDS)
        return process.wait()
    finally:
        process.terminate()
        process.wait()
        signal.signal(signal.SIGTERM, before)
