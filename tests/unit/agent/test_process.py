"""`kaji agent` as a process: killed and restarted at any time, it has counted everything once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import msgspec
import pytest
from tests.helpers.network.networks import Node, in_a_network_of_its_own, need_egress_hooks, needs_networks, nft
from tests.unit.agent.test_counting import WORLD, Sink, send
from tests.unit.agent.test_telling import pod, series

from kajitori.agent.state import exclusive_network
from kajitori.core.traffic.totals import Count
from kajitori.errors import Conflict

pytestmark = [needs_networks, pytest.mark.root]

PATIENCE_SECONDS = 60.0
OUT = (("class", "internet"), ("direction", "out"), ("namespace", "vision"))


class Process:
    """One agent process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "kajitori.cli", "agent", "--port", "0", "--data", str(folder / "data")]
        command += ["--pods", str(folder / "network"), "--policy", str(folder / "policy.yaml")]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "metrics at" in line)
        self.url = line.split()[-1].rstrip(".")

    def sent(self) -> Count:
        """Return the bytes sent to the internet, as its metrics show."""
        with urllib.request.urlopen(self.url) as answer:
            found = series(answer.read())
        values = [
            found.get(f"kajitori_traffic_namespace_{what}_total", {}).get(OUT, 0) for what in ("bytes", "packets")
        ]
        return Count(int(values[0]), int(values[1]))

    def tells(self, wanted: Count) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self.sent()) != wanted:
            assert time.monotonic() < deadline, (found, wanted)
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@in_a_network_of_its_own
def test_a_killed_agent_continues_without_loss(tmp_path: Path) -> None:
    """A new Pod is counted within a second, nothing is lost, and uninstall leaves nothing."""
    need_egress_hooks()
    node = Node()
    node.wire("world", "up0", WORLD)
    node.wire("a", "va", "10.1.0.2")
    sink = Sink("world")
    (tmp_path / "network").mkdir()
    (tmp_path / "policy.yaml").write_text("traffic: {every: 1s}")
    agent = Process(tmp_path)
    try:
        (tmp_path / "network" / "u1.json").write_bytes(msgspec.json.encode(pod(interface="va")))
        while "pod.u1." not in nft("list", "ruleset"):
            time.sleep(0.02)
        sent = send("a", WORLD, 1000, 200)
        agent.tells(sent)
        assert agent.end(signal.SIGKILL) == -signal.SIGKILL
        sent = sent.plus(send("a", WORLD, 300))
        agent = Process(tmp_path)
        agent.tells(sent)
        node.unwire("a", "va")
        (tmp_path / "network" / "u1.json").unlink()
        while "pod.u1." in nft("list", "ruleset"):
            time.sleep(0.02)
        assert agent.sent() == sent
        for data in ("data", "other"):
            command = [sys.executable, "-m", "kajitori.cli", "agent", "uninstall", "--data", str(tmp_path / data)]
            again = subprocess.run(command, capture_output=True, text=True)
            said = f"another agent counts on this node (process {agent.process.pid})"
            assert (again.returncode, said in again.stderr) == (125, True), again.stderr
    finally:
        code = agent.end(signal.SIGTERM)
    assert code == 0
    command = [sys.executable, "-m", "kajitori.cli", "agent", "uninstall", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "Removed: interface, sets.\n")
    assert nft("list", "ruleset") == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["network", "policy.yaml"]
    assert sink


@in_a_network_of_its_own
def test_only_one_agent_counts_in_a_network() -> None:
    """With any folder; a process that is not root's cannot block it."""
    with (
        exclusive_network(),
        pytest.raises(Conflict, match=rf"on this node \(process {os.getpid()}\)"),
        exclusive_network(),
    ):
        pass
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            taken = socket.socket(socket.AF_UNIX)
            taken.bind("\0kajitori-agent")
            taken.listen()
            os.write(writer, b".")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"."
        with exclusive_network():
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
