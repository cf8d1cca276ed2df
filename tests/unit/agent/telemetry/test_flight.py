"""The flight recorder of a program's processes, found by their variables."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.helpers.gpus.recorded_flight import recorded_dumps

from kajitori.agent.telemetry.flight import Recorders
from kajitori.core.telemetry.hangs.flight import Flight


@contextmanager
def program(**variables: str) -> Iterator[int]:
    """A process with these variables; its number."""
    env, pipe = {"PATH": os.environ["PATH"], **variables}, subprocess.PIPE
    with subprocess.Popen(["cat"], env=env, stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"x")
        process.stdout.read(1)  # before a program runs, the kernel may show no variables of it
        try:
            yield process.pid
        finally:
            process.kill()


def read(*pids: int) -> tuple[Flight, ...]:
    return Recorders(pids).read(time.monotonic() + 5)


def test_a_file_of_the_process_is_read_once_per_rank(tmp_path: Path) -> None:
    variables = {"RANK": "2", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/trace_"}
    with program(**variables) as pid, program(**variables) as helper:
        assert read(pid, helper) == ()
        (tmp_path / "trace_2").write_bytes(recorded_dumps()[2])
        (found,) = read(pid, helper)
        assert (found.rank, found.groups[0].entered) == (2, 7)
        os.utime(tmp_path / "trace_2", (1, 1))
        assert read(pid) == (), "it is of another attempt"
        (tmp_path / "trace_2").unlink()
        (tmp_path / "trace_2").symlink_to("/etc/hostname")
        assert read(pid) == ()


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_without_a_path_the_folder_for_caches_is_looked_at(tmp_path: Path, variable: str) -> None:
    folder = tmp_path / "torch" if variable == "XDG_CACHE_HOME" else tmp_path / ".cache/torch"
    folder.mkdir(parents=True)
    with program(RANK="0", **{variable: str(tmp_path)}) as pid:
        (folder / "comm_lib_trace_rank_0").write_bytes(recorded_dumps()[0])
        (found,) = read(pid)
    assert [state.entered for state in found.groups] == [6, 8]


def test_a_program_with_a_pipe_is_asked_for_a_new_file(tmp_path: Path) -> None:
    pipe = tmp_path / "ask_1.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)

    def recorder() -> None:
        os.read(reader, 1)
        (tmp_path / "trace_1").write_bytes(recorded_dumps()[1])

    thread = threading.Thread(target=recorder, daemon=True)  # so that a failure does not hang
    thread.start()
    prefixes = {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{tmp_path}/trace_"}
    with program(KAJI_RANK="1", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=f"{tmp_path}/ask_", **prefixes) as pid:
        (found,) = read(pid)
    thread.join()
    os.close(reader)
    assert found.rank == 1


def test_programs_without_a_recorder_are_left_alone() -> None:
    with program(PATH="/bin") as pid:
        assert read(pid, 2**22 + 1) == ()
