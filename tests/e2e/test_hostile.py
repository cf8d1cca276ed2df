"""Thousands of hostile connections, and one user who lists runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
from bench.network.hostile import closed, memory_mib, metrics
from tests.harness.commands import kaji
from tests.harness.kaji_up import installed_kaji_up

CONNECTIONS = 3000


def test_users_are_served_beside_thousands_of_hostile_connections() -> None:
    """From the same address. The server keeps a limited number of them, with little memory."""
    with tempfile.TemporaryDirectory(prefix="kajitori-hostile-") as place:
        options = ("--no-kubelet", "--nodes", "1")
        with installed_kaji_up(Path(place), *options) as environment:
            said = json.loads((Path(place) / "data" / "kaji.json").read_text())
            server = psutil.Process(said["pid"])
            before = memory_mib(server)
            address, port = said["url"].removeprefix("http://").split(":")
            command = [sys.executable, "-m", "tests.helpers.callers.hostile", address, port, str(CONNECTIONS)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hostile:
                try:
                    assert hostile.stdout is not None
                    for _ in range(6):  # one line a second, or fewer on a busy machine
                        assert hostile.stdout.readline()
                    for _ in range(5):
                        assert kaji("ps", env=environment).returncode == 0
                    figures = metrics(said["url"])
                    assert memory_mib(server) - before < 150
                    assert 500 < figures["kajitori_api_unauthenticated_connections"] <= 1024
                    assert closed(figures) > CONNECTIONS / 2
                finally:
                    hostile.kill()
            assert "bug" not in (Path(place) / "log").read_text()
