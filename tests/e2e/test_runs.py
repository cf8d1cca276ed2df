"""Runs as a user types them: programs, gangs, sweeps, checkpoints, files."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

import pytest
from tests.harness.kaji_up import KajiUp
from tests.harness.waiting import wait_until
from tests.helpers.brought_code import assert_all_get_the_same
from tests.helpers.output_schemas import check_output

pytestmark = pytest.mark.xdist_group("e2e-up")

STUBBORN = ("bash", "-c", "trap '' TERM; echo ready; sleep 600 & while :; do wait; done")
"""A program that ignores SIGTERM."""


def test_a_sweep_from_its_submission_to_its_results(up: KajiUp) -> None:
    """Each member is a process with its own index. The run's exit code is that of the failed member."""
    folder = up.home / "grid"
    folder.mkdir()
    script = """import json, os, sys
index = int(os.environ["KAJI_ARRAY_INDEX"])
print("this is", index, "alone in", os.environ["KAJI_WORLD_SIZE"])
if index == 4:
    sys.exit(7)
json.dump({"square": index * index}, open(os.environ["KAJI_RESULT"], "w"))
"""
    (folder / "step.py").write_text(script)
    asked = ("--name", "grid", "--array", "2,4-5%2", "--restarts", "0", "--cpus", "0.5", "-m", "64m")
    answer = up.kaji("run", *asked, "--code", "grid", "python:3", "python3", "step.py")
    assert answer.returncode == 7, answer.stderr
    assert "3 of 3 ended, 1 of them failed" in answer.stderr
    rows = json.loads(up.kaji("results", "grid", "-o", "json").stdout)["items"]
    found = [(row["index"], row["state"], row.get("exitCode"), row.get("result")) for row in rows]
    assert found == [
        (2, "Succeeded", 0, {"square": 4}),
        (4, "Failed", 7, None),
        (5, "Succeeded", 0, {"square": 25}),
    ]
    assert up.kaji("logs", "grid", "--index", "5").stdout == "this is 5 alone in 1\n"
    assert up.kaji("run", "--array", "5-1", "python:3", "true").returncode == 2


def test_kaji_run_prints_the_programs_output(up: KajiUp) -> None:
    answer = up.kaji("run", "-q", "--name", "sum", "python:3.12", "python3", "-c", "print(6 * 7)")
    assert (answer.returncode, answer.stdout) == (0, "42\n"), answer.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [(("sh", "-c", "exit 3"), 3), (("no-such-program",), 127), (("sh", "-c", "kill -9 $$"), 137)],
)
def test_the_exit_code_is_the_programs_own(up: KajiUp, command: tuple[str, ...], code: int) -> None:
    answer = up.kaji("run", "-q", "--restarts", "0", "busybox", *command)
    assert answer.returncode == code, answer


def test_a_refused_run_names_every_reason_and_leaves_nothing(up: KajiUp) -> None:
    """Faults of options, spec and policy at once."""
    wrong = ("--env-file", "no.env", "-m", "lots", "--priority", "urgent")
    arguments = ("--gpus", "9", "--gpu-type", "b300", "--privileged", "-v", "/etc:/elsewhere", *wrong)
    answer = up.kaji("run", "--name", "greedy", *arguments, "busybox", "true")
    assert answer.returncode == 2
    for word in ("6 reasons", "b300", "h100", "privileged", "/etc", "no.env", "lots", "urgent"):
        assert word in answer.stderr
    assert "Traceback" not in answer.stderr
    assert up.kaji("describe", "greedy").returncode == 2


def test_members_of_a_gang_find_each_other(up: KajiUp) -> None:
    """KAJI_HOSTS lists all of them by rank before the program starts. A run with one member has no such list."""
    script = 'sed "s/^[^ ]*/$KAJI_RANK sees &/" "$KAJI_HOSTS"; echo "meets at $MASTER_ADDR"'
    answer = up.kaji("run", "-q", "--name", "found", "-n", "2", "--cpus", "0.2", "busybox", "sh", "-c", script)
    assert answer.returncode == 0, answer.stderr
    logs = up.kaji("logs", "--all-ranks", "found").stdout
    lines = [line for line in logs.splitlines() if "sees" in line]
    assert len(lines) == 4, logs
    for rank in range(2):
        seen = [line.split("sees ")[1] for line in lines if f"{rank} sees" in line]
        assert seen in (
            ["found-1-0.found slots=1", "found-1-1.found slots=1"],
            ["127.0.0.1 slots=1", "127.0.0.1 slots=1"],  # where names cannot be made to resolve
        )
    alone = up.kaji("run", "-q", "busybox", "sh", "-c", "echo ${KAJI_HOSTS-nobody}")
    assert alone.stdout == "nobody\n"


def test_a_killed_member_restarts_the_gang_once(up: KajiUp) -> None:
    """kill -9 of one of two members: a new attempt of both."""
    script = "until [ $KAJI_ATTEMPT = 2 ]; do sleep 0.1; done; echo attempt $KAJI_ATTEMPT rank $KAJI_RANK"
    mark = ("-e", f"MARK={up.home}")
    arguments = ("--name", "pair", "-n", "2", "--restarts", "2", "--cpus", "0.2", *mark, "busybox", "sh", "-c", script)
    assert up.kaji("run", "-d", *arguments).returncode == 0
    wait_until(lambda: len(up.members("pair")) == 2 and up.status("pair")["phase"] == "Running")
    os.kill(up.members("pair")[1], signal.SIGKILL)
    assert up.kaji("wait", "pair").stdout.strip() == "0"
    status = up.status("pair")
    assert (status["phase"], status["restarts"], status["attempts"]) == ("Succeeded", 1, 2)
    logs = up.kaji("logs", "--all-ranks", "pair").stdout
    assert "attempt 2 rank 0" in logs and "attempt 2 rank 1" in logs


def test_stacks_name_the_rank_that_the_others_wait_for(up: KajiUp) -> None:
    """A gang of which rank 2 waits for a lock, and the others for rank 2."""
    folder = up.home / "frozen"
    folder.mkdir()
    script = """import os, threading, time
def load_batch(lock):
    lock.acquire()
    lock.acquire()
def wait_for_all():
    while not os.path.exists("done"):
        time.sleep(0.01)
print("ready", flush=True)
load_batch(threading.Lock()) if os.environ["KAJI_RANK"] == "2" else wait_for_all()
"""
    (folder / "train.py").write_text(script)
    asked = ("--name", "frozen", "-n", "4", "--cpus", "0.1", "--code", "frozen", "python:3", "python3", "train.py")
    assert up.kaji("run", "-d", *asked).returncode == 0
    wait_until(lambda: up.kaji("logs", "--all-ranks", "frozen").stdout.count("ready") == 4)
    told: list[str] = []

    def is_told() -> bool:
        told[:] = up.kaji("stacks", "frozen").stdout.splitlines()
        return len(told) == 2

    wait_until(is_told, lambda: "\n".join(told))
    here = socket.gethostname().lower()
    assert told[0] == f"Rank 2 on {here} is in load_batch (train.py:4)."
    assert told[1].startswith("3 ranks (0-1,3) are in wait_for_all (train.py:")
    assert "    load_batch (" in up.kaji("stacks", "--rank", "2", "frozen").stdout
    assert told[0] in up.kaji("why", "frozen").stdout
    up.kaji("rm", "-f", "frozen")


def test_every_member_of_every_attempt_gets_the_same_code(up: KajiUp) -> None:
    assert_all_get_the_same(up.kaji, up.home / "brought", "--cpus", "0.5", "-m", "64m")


def test_explain_says_what_a_waiting_run_lacks_and_who_has_it(up: KajiUp) -> None:
    gang = ("--gpus", "8", "--gpu-type", "h100", "busybox", "sleep", "inf")
    assert up.kaji("run", "-d", "--name", "holder", "-n", "3", *gang).returncode == 0
    wait_until(lambda: up.status("holder")["phase"] == "Running", lambda: up.status("holder"))
    assert up.kaji("run", "-d", "--name", "waiter", "-n", "2", *gang).returncode == 0
    wait_until(lambda: up.status("waiter").get("reason") == "WaitingForGPU", lambda: up.status("waiter"))
    said = up.kaji("explain", "waiter").stdout
    assert "holder" in said and "h100" in said
    assert up.kaji("stop", "holder").returncode == 0
    wait_until(lambda: up.status("waiter")["phase"] == "Running", lambda: up.status("waiter"))
    assert up.kaji("rm", "-f", "holder", "waiter").returncode == 0


def test_a_run_over_its_memory_limit_is_not_started_again(up: KajiUp) -> None:
    hog = "x = []\nwhile True: x.append(bytearray(4 << 20))"
    arguments = ("--name", "hog", "-m", "128m", "--restarts", "5", "python:3.12", "python3", "-c", hog)
    assert up.kaji("run", "-q", *arguments).returncode == 137
    status = up.status("hog")
    assert (status["reason"], status["attempts"], status.get("restarts", 0)) == ("OutOfMemory", 1, 0)


def test_a_checkpoint_is_kept_until_a_run_is_deleted_with_it(up: KajiUp) -> None:
    """The next run of the same name continues from it; after `rm -v` it starts from the beginning."""
    script = "cd $KAJI_CHECKPOINT_DIR; cat step 2>/dev/null || echo 0; echo 1 > step"
    command = ("run", "-q", "--rm", "--name", "saved", "--checkpoint", "/ckpt", "busybox:1", "sh", "-c", script)
    assert up.kaji(*command).stdout == "0\n"
    wait_until(lambda: "saved" not in up.runs())
    assert up.kaji(*(word for word in command if word != "--rm")).stdout == "1\n"
    assert up.kaji("rm", "-v", "saved").returncode == 0
    wait_until(lambda: "saved" not in up.runs())
    assert up.kaji(*command).stdout == "0\n"


def test_a_name_is_free_when_rm_returns(up: KajiUp) -> None:
    """`rm -f` kills the program, however long its grace is, as docker does."""
    for _ in range(2):
        made = up.kaji("run", "-q", "-d", "--name", "again", "--grace", "1h", "bash:5", *STUBBORN)
        assert made.returncode == 0, made.stderr
        wait_until(lambda: "ready" in up.kaji("logs", "again").stdout, lambda: up.kaji("describe", "again").stdout)
        began = time.monotonic()
        assert up.kaji("rm", "-f", "again").stdout == "again\n"
        assert time.monotonic() - began < 30
        assert "again" not in up.runs()


def test_a_detached_run_with_rm_is_deleted_by_the_cluster(up: KajiUp) -> None:
    """After its end, so that `kaji wait` still sees the exit code."""
    assert up.kaji("run", "-q", "-d", "--rm", "--name", "brief", "python:3.12", "true").returncode == 0
    assert up.kaji("wait", "brief").stdout == "0\n"
    wait_until(lambda: "brief" not in up.runs(), lambda: up.kaji("describe", "brief").stdout)


def test_files_are_copied_into_a_member_and_back(up: KajiUp) -> None:
    """By tar in the member. `kaji top` lists the member's processes only."""
    there, here = up.home / "there", up.home / "here"
    (here / "sub").mkdir(parents=True)
    there.mkdir()
    content = os.urandom(300_000)
    (here / "sub" / "file").write_bytes(content)
    assert up.kaji("run", "-q", "-d", "--name", "desk", "bash:5", *STUBBORN).returncode == 0
    wait_until(lambda: "ready" in up.kaji("logs", "desk").stdout, lambda: up.kaji("describe", "desk").stdout)
    copied = up.kaji("cp", str(here), f"desk:{there}")
    assert copied.returncode == 0, copied.stderr
    assert (there / "here" / "sub" / "file").read_bytes() == content
    copied = up.kaji("cp", f"desk:{there}/here", str(up.home / "back"))
    assert copied.returncode == 0, copied.stderr
    assert (up.home / "back" / "sub" / "file").read_bytes() == content
    missing = up.kaji("cp", f"desk:{there}/nope", str(up.home))
    assert missing.returncode == 2 and f"the member has no file or folder {there}/nope" in missing.stderr, missing
    document = json.loads(up.kaji("top", "desk", "-o", "json").stdout)
    check_output(document, "verbs/top", complete=True)
    shown = document["items"]
    assert sorted(process["command"].split()[0] for process in shown) == ["bash", "sleep"], shown
    assert up.kaji("kill", "desk").stdout == "desk\n"
    assert up.kaji("wait", "desk").returncode == 0
    assert up.kaji("rm", "desk").stdout == "desk\n"
