# ruff: noqa: ASYNC240
"""Containers: what the shim guarantees, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from tests.unit.embedded.kubelet.conftest import BOUND_SECONDS, Bench, alive, until

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.control import CommandNotStarted, Execution
from kajitori.embedded.kubelet.containers.leftovers import ORIGIN_FILE
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree


async def ended(container: Container) -> None:
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)


async def test_exit_code_and_log_are_kept(bench: Bench) -> None:
    """Exit code and output are there after the program has ended."""
    container = bench.container()
    state = await container.launch(bench.shell("echo hello; echo oops >&2; exit 3"))
    assert state.status in (shim.RUNNING, shim.EXITED)
    await ended(container)
    assert (container.state.status, container.state.exit_code) == (shim.EXITED, 3)
    lines = sorted(line.split(" ", 1)[1] for line in bench.log().read_text().splitlines())
    assert lines == ["stderr F oops", "stdout F hello"]
    assert container.state.finished_at >= container.state.started_at > 0


async def test_unfinished_line_is_a_piece(bench: Bench) -> None:
    """A last line without an end is marked as a piece, so no byte is added."""
    container = bench.container()
    await container.launch(bench.shell("printf 'a\\nb'"))
    await ended(container)
    assert bench.text() == "a\nb"


async def test_a_progress_bar_is_on_disk_before_its_line_ends(bench: Bench) -> None:
    """A line that is redrawn can be read while the program redraws it."""
    container, go = bench.container(), bench.root / "go"
    bar = "import sys, os, time\nprint('begins', flush=True)\nsys.stderr.write('\\r 10%'); sys.stderr.flush()\n"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nsys.stderr.write('\\r100%\\n')"
    await container.launch(bench.python(bar + wait))
    await until(lambda: "\r 10%" in bench.text())
    go.touch()
    await ended(container)
    assert bench.text() == "begins\n\r 10%\r100%\n"


@pytest.mark.parametrize(
    ("argv", "exit_code", "said"),
    [
        (["no-such-program-here"], 127, "not found in $PATH"),
        (["/no/such/program"], 127, "No such file"),
        (["/etc/passwd"], 126, "Permission denied"),
    ],
)
async def test_program_that_cannot_be_started(bench: Bench, argv: list[str], exit_code: int, said: str) -> None:
    """The exit code is a shell's: 127 for a missing program, 126 for one that is not executable. A message names it."""
    container = bench.container()
    state = await container.launch(bench.launch(*argv))
    assert (state.status, state.exit_code) == (shim.FAILED, exit_code)
    assert said in state.message
    assert argv[0] in state.message


async def test_missing_working_directory(bench: Bench) -> None:
    """A missing working directory is not created, and the message names it."""
    container = bench.container()
    state = await container.launch(bench.shell("true", working_dir="/no/such/folder"))
    assert state.status == shim.FAILED
    assert "/no/such/folder" in state.message


async def test_signal_ends_as_128_plus_number(bench: Bench) -> None:
    container = bench.container()
    await container.launch(bench.shell("kill -9 $$"))
    await ended(container)
    assert container.state.exit_code == 137


async def test_environment_is_only_what_was_given(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the kubelet's own environment reaches the program."""
    monkeypatch.setenv("SECRET_OF_THE_KUBELET", "xyzzy")
    container = bench.container()
    await container.launch(bench.shell("env", environment={"A": "1"}))
    await ended(container)
    assert "A=1\n" in bench.text()
    assert "xyzzy" not in bench.text()


async def test_stop_gives_grace_then_kills_the_whole_tree(bench: Bench) -> None:
    """After SIGTERM and the grace period all processes are killed, even a double-forked one in its own session."""
    container = bench.container()
    script = (
        "trap 'echo term' TERM; (setsid sh -c 'echo $$ > away; exec sleep 1000' &) ; "
        "echo up; while :; do sleep 0.05; done"
    )
    await container.launch(bench.shell(script))
    await until(lambda: (bench.root / "away").exists() and (bench.root / "away").read_text().strip() and bench.text())
    away = int((bench.root / "away").read_text())
    await container.stop(0.5)
    await ended(container)
    assert container.state.exit_code == 137
    assert bench.text() == "up\nterm\n"
    assert not alive(away)


async def test_a_program_that_handles_sigterm_keeps_its_exit_code(bench: Bench) -> None:
    """It need not use up the grace period."""
    container = bench.container()
    handler = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"
    await container.launch(bench.python(handler))
    await until(lambda: bench.log().exists() and bench.text())
    await container.stop(1000)
    await ended(container)
    assert container.state.exit_code == 7


async def test_child_processes_end_with_the_program(bench: Bench) -> None:
    """A container ends with its first process, even if a child keeps the streams open."""
    container = bench.container()
    await container.launch(bench.shell("sleep 1000 & echo $! > child; exit 5"))
    await ended(container)
    assert container.state.exit_code == 5
    assert not alive(int((bench.root / "child").read_text()))


async def test_the_log_is_rotated(bench: Bench) -> None:
    """Size and number of files are limited; the newest lines are kept."""
    container = bench.container()
    await container.launch(
        bench.python("for i in range(5000): print('line', i)", log_max_bytes=64 * 1024, log_max_files=3)
    )
    await ended(container)
    files = sorted(bench.log().parent.iterdir())
    assert [file.name for file in files] == ["c.log", "c.log.1", "c.log.2", "c.log.dropped"]
    assert all(file.stat().st_size <= 64 * 1024 for file in files)
    assert bench.text().endswith("line 4999\n")


async def test_memory_limit_without_cgroups(bench: Bench) -> None:
    """If no control group can be written, the shim watches the tree's memory and ends the whole container over its
    limit."""
    container = bench.container()
    hog = f"{sys.executable} -I -S -c 'a = bytearray(200 << 20); import signal; signal.pause()'; echo survived"
    await container.launch(bench.shell(hog, memory_limit_bytes=64 << 20))
    await ended(container)
    assert container.state.oom_killed
    assert container.state.exit_code == 137
    assert container.state.peak_bytes > 64 << 20


async def test_the_memory_peak_without_cgroups(bench: Bench) -> None:
    """A short program's peak is its largest process; a longer one's counts shared pages once."""
    quick = bench.container()
    await quick.launch(bench.python("a = bytearray(96 << 20)"))
    await ended(quick)
    assert 96 << 20 < quick.state.peak_bytes < 192 << 20
    forks = "import os, time\na = bytearray(64 << 20)\nfor _ in range(4): os.fork() or time.sleep(60)\ntime.sleep(1.6)"
    shared = bench.container("shared")
    await shared.launch(bench.python(forks, name="shared"))
    await ended(shared)
    assert 64 << 20 < shared.state.peak_bytes < 160 << 20


def test_processor_time_never_decreases(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum misses a process that ends meanwhile, so the counter keeps its last value."""
    sums = iter([1.0, 0.9, 1.2])
    monkeypatch.setattr(tree, "cpu_seconds", lambda subreaper, below: next(sums))
    container = bench.container()
    assert [container.cpu_seconds() for _ in range(3)] == [1.0, 1.0, 1.2]


async def test_exec_runs_beside_the_program(bench: Bench) -> None:
    """The command has the container's environment and the caller's streams, and its exit code is returned."""
    container = bench.container()
    await container.launch(bench.shell("sleep 1000", environment={"GREETING": "hi"}))
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    execution = await container.execute(["/bin/sh", "-c", "echo $GREETING; exit 4"], (null, write, write))
    os.close(write)
    assert await asyncio.wait_for(execution.wait(), BOUND_SECONDS) == 4
    assert os.read(read, 100) == b"hi\n"
    execution.close()
    with pytest.raises(CommandNotStarted) as raised:
        await container.execute(["no-such-program-here"], (null, null, null))
    assert raised.value.program_exit_code == 127
    with pytest.raises(
        CommandNotStarted, match=r"the command has 400,\d+ bytes, and the kubelet of processes takes 200,000"
    ):
        await container.execute(["echo", *["x" * 100_000] * 4], (null, null, null))
    os.close(read)
    os.close(null)


async def test_a_client_that_disconnects_ends_its_command(bench: Bench) -> None:
    container = bench.container()
    await container.launch(bench.shell("sleep 1000"))
    null = os.open(os.devnull, os.O_RDWR)
    execution = await container.execute(["sleep", "1000"], (null, null, null))
    os.close(null)
    assert isinstance(execution, Execution)
    assert alive(execution.pid)
    execution.close()
    await until(lambda: not alive(execution.pid))
    assert not container.ended.is_set()


async def test_a_running_container_is_adopted(bench: Bench) -> None:
    """Another kubelet adopts a running container and learns its exit code."""
    first = bench.container()
    await first.launch(bench.shell("while [ ! -e go ]; do sleep 0.01; done; echo done; exit 9"))
    second = Container(first.directory, first.container_id)
    assert await second.adopt()
    assert second.state.running
    (bench.root / "go").touch()
    await ended(second)
    assert second.state.exit_code == 9
    assert bench.text() == "done\n"


async def test_a_container_is_adopted_before_its_shim_listens(bench: Bench) -> None:
    """An order of the next kubelet waits for the shim and does not get lost."""
    first = bench.container()
    await first.launch(bench.shell("exec sleep 1000"))
    second = Container(first.directory, first.container_id)
    assert await second.adopt()
    socket = first.directory / shim.CONTROL_SOCKET
    aside = socket.rename(first.directory / "not-yet")
    stopping = asyncio.create_task(second.stop(1000))
    await asyncio.sleep(0.05)
    aside.rename(socket)
    await stopping
    await ended(second)
    assert second.state.exit_code == 128 + signal.SIGTERM


async def test_an_ended_container_is_adopted(bench: Bench) -> None:
    """The exit code of a program that ended without a kubelet is right."""
    first = bench.container()
    await first.launch(bench.shell("exit 11"))
    await ended(first)
    second = Container(first.directory, first.container_id)
    assert await second.adopt()
    assert second.state.exit_code == 11
    assert not second.state.lost


async def test_a_folder_without_a_started_shim_can_be_reused(bench: Bench) -> None:
    """A folder in which no shim ever started can be used again."""
    container = bench.container()
    container.directory.mkdir()
    assert not await container.adopt()


async def test_a_killed_shim_ends_all_its_processes(bench: Bench) -> None:
    """The container reports that its end was not observed."""
    container = bench.container()
    script = "(setsid sh -c 'echo $$ > away; exec sleep 1000' &) ; while :; do sleep 1000; done"
    await container.launch(bench.shell(script))
    await until(lambda: (bench.root / "away").exists() and (bench.root / "away").read_text().strip())
    away = int((bench.root / "away").read_text())
    os.kill(container.state.shim_pid, signal.SIGKILL)
    await ended(container)
    assert container.state.lost
    assert container.state.exit_code == 137
    await until(lambda: not alive(away))


@pytest.mark.parametrize("earlier_version", [False, True])
async def test_a_copied_folder_leaves_the_original_alone(
    bench: Bench, earlier_version: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy's container counts as lost; the original runs on, even if both have one mark, as in earlier versions."""
    monkeypatch.setattr(
        "kajitori.embedded.kubelet.containers.leftovers.mark_of", lambda container_id, origin: container_id
    )
    original = bench.container("original")
    await original.launch(bench.shell("sleep 1000 & sleep 1000", name="original"))
    if earlier_version:
        (original.directory / ORIGIN_FILE).unlink()
    shutil.copytree(original.directory, bench.root / "copy", ignore=lambda *_: ["control"])
    copy = Container(bench.root / "copy", original.container_id)
    processes = [original.state.shim_pid, *original.pids()]
    assert len(processes) > 1
    killed: list[int] = []
    monkeypatch.setattr(tree, "kill_all", killed.extend)
    monkeypatch.setattr(tree, "descendants", lambda pid: [])  # a list of children may lack some while others are born
    assert await copy.adopt()
    await ended(copy)
    assert copy.state.lost
    assert killed == []
    assert all(alive(pid) for pid in processes)
    assert not original.ended.is_set()


async def test_a_copy_that_runs_on_is_not_a_leftover(bench: Bench) -> None:
    """Both start the next container under the same ID; the death of one shim ends only its own processes."""
    original, copy = (Container(bench.root / name, bench.container().container_id) for name in ("one", "two"))
    bench.made += [original, copy]
    await original.launch(bench.shell("sleep 1000", name="one"))
    await copy.launch(bench.shell("sleep 1000", name="two"))
    os.kill(copy.state.shim_pid, 9)
    await ended(copy)
    assert copy.state.lost
    assert all(alive(pid) for pid in (original.state.shim_pid, *original.pids()))


async def test_reused_pid_is_not_taken_for_the_shim(bench: Bench) -> None:
    """A state with the number of an unrelated process does not count, since that process holds no lock."""
    container = bench.container()
    container.directory.mkdir()
    pid = os.getpid()
    state = {"status": "running", "shim_pid": pid, "boot_id": shim.boot_id(), "pid": pid, "started_at": 1.0}
    (container.directory / shim.STATE_FILE).write_text(json.dumps(state))
    (container.directory / shim.LOCK_FILE).write_text(str(pid))
    assert await container.adopt()
    assert container.state.lost
    assert container.ended.is_set()


async def test_restart_of_the_machine_is_noticed(bench: Bench) -> None:
    container = bench.container()
    container.directory.mkdir()
    state = {"status": "running", "shim_pid": 2, "boot_id": "another", "pid": 3, "started_at": 1.0}
    (container.directory / shim.STATE_FILE).write_text(json.dumps(state))
    assert await container.adopt()
    assert container.state.message == "the machine restarted"


async def test_a_program_with_tty_has_its_own_terminal(bench: Bench) -> None:
    container = bench.container()
    await container.launch(bench.shell("test -t 0 && test -t 1 && echo terminal", tty=True))
    await ended(container)
    assert bench.text() == "terminal\r\n"


async def test_folders_may_be_longer_than_a_unix_sockets_address(tmp_path: Path) -> None:
    bench = Bench(tmp_path / ("x" * 200))
    bench.root.mkdir()
    container = bench.container()
    await container.launch(bench.shell("sleep 1000"))
    await container.stop(0)
    await ended(container)


async def test_the_shim_needs_less_than_15_mb(bench: Bench) -> None:
    container = bench.container()
    await container.launch(bench.shell("sleep 1000"))
    status = Path(f"/proc/{container.state.shim_pid}/status").read_text()
    resident_kib = int(status.split("VmRSS:")[1].split()[0])
    assert resident_kib < 15 * 1024


LAUNCHER = """
import asyncio, os, sys
from pathlib import Path
from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.launch import Launch

async def main():
    root = Path(sys.argv[1])
    container = Container(root / "c", sys.argv[2])
    script = "echo begin; while [ ! -e go ]; do sleep 0.01; done; echo end; exit 13"
    await container.launch(Launch(
        argv=["/bin/sh", "-c", script], environment={"PATH": os.environ["PATH"]}, working_dir=str(root),
        log_path=root / "logs/c.log",
    ))
    print("launched", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("ends", ["while nobody is there", "after the adoption"])
async def test_a_killed_kubelet_loses_neither_exit_code_nor_log(bench: Bench, ends: str) -> None:
    """The next kubelet finds both."""
    container = bench.container()
    kubelet = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LAUNCHER, str(bench.root), container.container_id, stdout=asyncio.subprocess.PIPE
    )
    assert kubelet.stdout is not None
    assert await asyncio.wait_for(kubelet.stdout.readline(), BOUND_SECONDS) == b"launched\n"
    kubelet.kill()
    await kubelet.wait()
    if ends == "while nobody is there":
        (bench.root / "go").touch()
        await until(lambda: b"exited" in (container.directory / shim.STATE_FILE).read_bytes())
        assert await container.adopt()
    else:
        assert await container.adopt()
        assert container.state.running
        (bench.root / "go").touch()
    await ended(container)
    assert container.state.exit_code == 13
    assert bench.text() == "begin\nend\n"
