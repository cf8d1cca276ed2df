"""The platform for a user without privileges: no root, no user namespaces, an empty environment."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers import ordinary_user

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 240
"""Enough for a busy machine."""
KAJI = f"{sys.executable} -m kajitori.cli"

HOG = "import time; keep = bytes([1]) * (256 << 20); time.sleep(60)"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may run programs as an ordinary user: run as root"),
    pytest.mark.xdist_group("e2e-ordinary-user"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home folder of that user, with the examples."""
    folder = Path(tempfile.mkdtemp(prefix="kaji-ordinary-"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ordinary_user.USER, ordinary_user.USER)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def as_ordinary_user(home: Path, script: str) -> tuple[int, str]:
    """Run a shell script as that user and return its exit code and output. Its processes end with it."""
    environment = ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", f"PYTHONPATH={ROOT / 'src'}", "COLUMNS=110"]
    command = ordinary_user.command(*environment, "sh", "-c", script)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()
    return process.returncode, said


def cpu_pressure_seconds() -> float:
    """Return how long processes have waited for a CPU since this machine started; where the kernel does not count it,
    the whole time."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
    return time.monotonic()


def test_everyday_commands(home: Path) -> None:
    """A folder can be mounted at its own path and be the working folder. Variables name the folder of the checkpoint,
    the list of hosts and the code. Options that need a mount elsewhere are refused at submission, with the reason."""
    script = f"""
        set -e
        unshare --user true && echo "user namespaces are on"
        {KAJI} up --data $HOME/cluster 2> up.log &
        until [ -e $HOME/cluster/kaji.json ]; do sleep 0.1; done
        mkdir work && cd work && echo inside > file
        {KAJI} run -q -v $PWD:$PWD -w $PWD busybox:1 sh -c 'cat file; pwd; echo out > written'
        cat written
        {KAJI} run -q --name saved --checkpoint /ckpt busybox:1 sh -c 'echo 1 > $KAJI_CHECKPOINT_DIR/step; env' > env
        grep KAJI_CHECKPOINT_DIR env
        find $HOME -name step
        {KAJI} run -q -n 2 --cpus 0.2 busybox:1 sh -c 'echo hosts $(cat $KAJI_HOSTS) of $MASTER_ADDR'
        {KAJI} run -q --code . busybox:1 sh -c 'cat file && [ "$PWD" = "$KAJI_CODE_DIR" ] && echo "is my code"'
        {KAJI} run -v $PWD:/data busybox:1 true || echo "mount elsewhere: $?"
        {KAJI} run -v /etc:/etc busybox:1 true || echo "mount of others: $?"
        {KAJI} run -m 64m --restarts 0 busybox:1 {sys.executable} -c '{HOG}' || echo "memory: $?"
        {KAJI} ps -a -q | wc -l
        {KAJI} rm -f -v $({KAJI} ps -a -q)
        kill $! && wait $!
        echo "ended with $?"
        grep -c Traceback $HOME/up.log || true
    """
    code, said = as_ordinary_user(home, script)
    assert code == 0, said
    assert "user namespaces are on" not in said
    work, checkpoints = home / "work", home / "cluster" / "checkpoints"
    assert f"inside\n{work}\nout\n" in said, said
    folder = next(line for line in said.splitlines() if line.startswith("KAJI_CHECKPOINT_DIR=")).partition("=")[2]
    assert Path(folder).is_relative_to(checkpoints) and f"{folder}/step\n" in said, said
    assert "hosts 127.0.0.1 slots=1 127.0.0.1 slots=1 of 127.0.0.1\n" in said, said
    assert "inside\nis my code\n" in said, said
    for refusal in ("mount elsewhere: 2", "mount of others: 2", f"{work}:/data", "memory: 137", "\n5\n"):
        assert refusal in said, said
    assert said.endswith("ended with 0\n0\n"), said


def test_the_demo_ends_in_time_and_leaves_nothing_behind(home: Path) -> None:
    """Within 90 seconds, without the time in which it had no CPU."""
    before = set(Path(tempfile.gettempdir()).glob("kaji-demo-*"))
    begun, waited = time.monotonic(), cpu_pressure_seconds()
    code, said = as_ordinary_user(home, f"{KAJI} demo && echo left: && find $HOME -name 'kaji*' && ps -A")
    assert code == 0, said
    assert time.monotonic() - begun - (cpu_pressure_seconds() - waited) < 90
    story, _, left = said.rpartition("left:\n")
    assert "same accuracy as the run that was left alone" in " ".join(story.split()) and "Traceback" not in story
    assert left.count("python") == 1, left  # the process that switched to that user
    assert set(Path(tempfile.gettempdir()).glob("kaji-demo-*")) <= before
