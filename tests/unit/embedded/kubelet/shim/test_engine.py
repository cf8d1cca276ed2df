"""The shim of an engine's container: what it learns of a container that ends while it is started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.embedded.kubelet.shim import engine_groups
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.embedded.kubelet.shim.engine import EngineShim

ID = "c0ffee" * 8


class CountedGroup(Cgroup):
    """Memory counters that show one kill, until the engine removes them."""

    def __init__(self, usage: int) -> None:
        super().__init__("/none", 1, True)
        self.usage = usage
        self.was_read = threading.Event()
        self.is_gone = False

    def oom_kills(self) -> int:
        return int(not self.is_gone)

    def reached_limit(self) -> bool:
        self.was_read.set()
        return self.usage >= 100


class ShortLived:
    """An engine as Podman is: attaching makes the first process, and starting answers only after the program's end. As
    Docker it makes the first process on starting, and its end is over before it answers."""

    def __init__(self, path: str, group: CountedGroup, *, is_docker: bool = False) -> None:
        self.group = group
        self.is_docker = is_docker
        self.process = subprocess.Popen(["sleep", "1000"])
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(path)
        self.server.listen(8)
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            path = connection.recv(65536).decode().split(" ")[1].partition("?")[0]
            self.kept.append(connection)
            if path.endswith("/attach"):
                connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n")
            elif not path.endswith("/wait"):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(self._answer(path)).encode())
                connection.close()

    def _answer(self, path: str) -> dict[str, Any]:
        if path.endswith("/start"):
            self.process.kill()
            self.process.wait()
            self.group.was_read.wait(PATIENCE_SECONDS)
            self.group.is_gone = True
        pid = self.process.pid if self.process.returncode is None and not self.is_docker else 0
        return {"Id": ID, "Image": "sha256:1", "State": {"Pid": pid}}

    def close(self) -> None:
        self.server.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # the path of a Unix socket holds 107 bytes
        yield Path(folder)


@pytest.mark.parametrize("is_docker", [False, True])
@pytest.mark.parametrize(("usage", "within_limit"), [(100, False), (50, True)])
def test_a_container_that_dies_of_memory_while_it_is_started_is_known_to_have(
    folder: Path, monkeypatch: pytest.MonkeyPatch, usage: int, within_limit: bool, is_docker: bool
) -> None:
    """Its counters are read before the engine removes them; a kill below its own limit is the machine's."""
    group = CountedGroup(usage)
    monkeypatch.setattr(engine_groups, "of_container", lambda pid, engine_id: [group])
    monkeypatch.setattr(engine_groups, "memory_of", lambda engine_id: group if engine_id == ID else None)
    engine = ShortLived(str(folder / "s"), group, is_docker=is_docker)
    shim = EngineShim(document(folder), lock=-1, report=-1)
    try:
        shim._start_program()
        assert group.is_gone, "the engine has removed the counters"
        assert (shim.memory.was_killed, shim.memory.within_limit) == (True, within_limit)
        assert shim.state["container_uri"] == f"podman://{ID}"
    finally:
        engine.close()
        shim.log.close()
        os.close(shim.attached)


def document(folder: Path) -> dict[str, Any]:
    """Return what a kubelet hands to the shim of an engine's container."""
    engine = {"socket": str(folder / "s"), "scheme": "podman", "name": "one", "body": {}, "api": "", "create": "/c"}
    nothing = dict.fromkeys(("uid", "gid", "oom_score_adjustment", "mount_namespace"))
    return nothing | {
        "directory": str(folder),
        "engine": engine,
        "argv": [],
        "environment": {},
        "working_dir": "/",
        "groups": [],
        "umask": 0o22,
        "open_files": 0,
        "cgroups": [],
        "network_namespace": "",
        "host_name": "",
        "tty": False,
        "stdin": False,
        "memory_limit_bytes": 100,
        "log_path": str(folder / "log"),
        "log_max_bytes": 1 << 20,
        "log_max_files": 2,
    }
