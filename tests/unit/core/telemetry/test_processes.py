"""The processes of a member, parsed from files below /proc."""

from __future__ import annotations

from kajitori.core.telemetry.processes import Process, processor_time, program_of, read_processes


def proc_output(shell: int, above: int, *processes: tuple[int, int, str, str]) -> str:
    """Return the output of the command in the member: number, parent, name and command of each process."""
    output = [f"{shell} {above}", "1000.50 2000.00", "4096"]
    for pid, parent, name, _ in processes:
        rest = ["S", str(parent), *["0"] * 9, "6000", "250", *["0"] * 6, "90050", "0", "2048", "0"]
        output += [f"==> /proc/{pid}/stat <==", f"{pid} ({name}) {' '.join(rest)}\n"]
    for pid, _, _, command in processes:
        output += [f"==> /proc/{pid}/cmdline <==", "\0".join(command.split()) + "\0"]
    return "\n".join(output)


def test_all_processes_of_a_container_are_listed() -> None:
    """The shell that read /proc and its children are left out."""
    output = proc_output(
        40,
        0,
        (1, 0, "python3", "python3 train.py"),
        (7, 1, "worker) x (", ""),
        (40, 0, "sh", "sh"),
        (41, 40, "head", "h"),
    )
    assert read_processes(output) == [
        Process(1, 0, 62.5, 8 << 20, 100.0, "python3 train.py"),
        Process(7, 1, 62.5, 8 << 20, 100.0, "[worker) x (]"),
    ]


def test_only_the_members_processes_are_listed_without_a_namespace() -> None:
    """If /proc shows the whole machine, only descendants of the process that started the shell are listed."""
    output = proc_output(
        40,
        30,
        (1, 0, "init", "init"),
        (30, 1, "shim", "shim"),
        (31, 30, "bash", "bash"),
        (32, 31, "python3", "python3"),
        (40, 30, "sh", "sh"),
        (50, 1, "other", "other"),
    )
    assert [process.pid for process in read_processes(output)] == [31, 32]


def test_the_program_is_the_oldest_process_that_no_other_one_started() -> None:
    check, program = Process(31, 30, 0, 0, 2.0, "check"), Process(40, 30, 0, 0, 90.0, "train")
    assert program_of([check, program, Process(41, 40, 0, 0, 95.0, "its child")]) == program
    assert program_of([]) is None


def test_the_first_process_of_a_container_ignores_signals_without_a_handler() -> None:
    usr1 = 1 << 9
    assert Process(1, 0, 0, 0, 0, "sleep").ignores("USR1") and Process(1, 0, 0, 0, 0, "sleep").ignores("KILL")
    assert not Process(1, 0, 0, 0, 0, "train", usr1).ignores("USR1")
    assert not Process(7, 1, 0, 0, 0, "sleep").ignores("USR1")
    stat = " ".join(["S", "0", *["0"] * 9, "6000", "250", *["0"] * 6, "90050", "0", "2048", *["0"] * 9, str(usr1), "0"])
    output = f"40 0\n1000.50 2000.00\n4096\n==> /proc/1/stat <==\n1 (train) {stat}\n"
    assert [process.caught for process in read_processes(output)] == [usr1]


def test_incomplete_and_invalid_output_is_tolerated() -> None:
    """Complete entries are listed; invalid output gives an empty list."""
    output = proc_output(40, 0, (1, 0, "python3", "python3 a"))
    assert [
        process.pid for process in read_processes(output + "\n==> /proc/9/stat <==\n==> /proc/8/stat <==\n8 (x")
    ] == [1]
    for nonsense in ("", "x", "1 2\n3\n", "1 2\n3.5\n4096\nrubbish", "a b\n1 2\n4096\n"):
        assert read_processes(nonsense) == []


def test_processor_time_is_shown_in_hours_minutes_and_seconds() -> None:
    for seconds, words in ((0.4, "0:00"), (125, "2:05"), (3723.9, "1:02:03")):
        assert processor_time(seconds) == words
