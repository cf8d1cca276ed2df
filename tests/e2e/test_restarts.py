"""`kaji up` that is killed, or restored from a backup."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from tests.harness.kaji_up import KajiUp
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.xdist_group("e2e-up")


def test_nothing_is_lost_when_kaji_up_is_killed_and_restarted(tmp_path: Path) -> None:
    """SIGKILL of the whole platform: the member runs on, and its end and its log are known afterwards."""
    it = KajiUp(tmp_path)
    it.start()
    try:
        gate = it.home / "gate"
        script = f"echo before; until [ -e {gate} ]; do sleep 0.1; done; echo after; exit 5"
        arguments = ("--name", "survivor", "--restarts", "0", "-e", f"MARK={it.home}", "busybox", "sh", "-c", script)
        assert it.kaji("run", "-d", *arguments).returncode == 0
        wait_until(lambda: it.status("survivor")["phase"] == "Running", lambda: it.status("survivor"))
        pid = it.members("survivor")[0]
        it.kill(signal.SIGKILL)
        answer = it.kaji("ps")
        assert answer.returncode == 125 and "kaji up" in answer.stderr
        assert psutil.pid_exists(pid)
        gate.touch()
        it.start()
        assert it.kaji("wait", "survivor").stdout.strip() == "5"
        assert it.status("survivor")["attempts"] == 1
        assert it.kaji("logs", "survivor").stdout == "before\nafter\n"
        it.kaji("rm", "-f", "survivor")
        wait_until(lambda: not it.runs())
    finally:
        it.kill()


def test_nothing_runs_twice_on_a_restored_backup(tmp_path: Path) -> None:
    """Members newer than the backup are ended, whether the backup has their run or not. Runs of the backup start
    again."""
    it = KajiUp(tmp_path)
    it.start()
    try:
        mark = ("-e", f"MARK={it.home}", "busybox", "sh", "-c", "sleep 1000; exit")
        assert it.kaji("run", "-d", "--name", "known", "--restarts", "3", *mark).returncode == 0
        wait_until(lambda: it.status("known")["phase"] == "Running", lambda: it.status("known"))
        assert it.process is not None
        it.process.send_signal(signal.SIGSTOP)
        shutil.copytree(it.data, tmp_path / "backup", symlinks=True, ignore=shutil.ignore_patterns("control", "*.sock"))
        it.process.send_signal(signal.SIGCONT)
        os.kill(it.members("known")[0], signal.SIGKILL)
        wait_until(lambda: it.status("known")["attempts"] == 2 and it.status("known")["phase"] == "Running")
        assert it.kaji("run", "-d", "--name", "unknown", *mark).returncode == 0
        wait_until(lambda: bool(it.members("unknown")))
        late = it.members("known") | {-1: it.members("unknown")[0]}
        it.kill(signal.SIGKILL)
        shutil.rmtree(it.data)
        (tmp_path / "backup").rename(it.data)
        (it.data / "kaji.json").unlink()
        it.start()
        wait_until(lambda: it.status("known")["phase"] == "Running" and it.status("known")["attempts"] == 2)
        wait_until(lambda: bool(it.members("known")))
        assert not [pid for pid in late.values() if psutil.pid_exists(pid)]
        assert it.kaji("describe", "unknown").returncode == 2
        it.kaji("rm", "-f", "known")
        wait_until(lambda: not it.runs())
        assert not it.members("known")
    finally:
        it.kill()
