"""The processes of a member, from what its /proc says."""

from __future__ import annotations

from kajitori.cli.connection.processes import Process, read_processes


def look(shell: int, above: int, *processes: tuple[int, int, str, str]) -> str:
    """What the look prints: number, parent, name and command of each process."""
    told = [f"{shell} {above}", "1000.50 2000.00", "4096"]
    for pid, parent, name, _ in processes:
        rest = ["S", str(parent), *["0"] * 9, "6000", "250", *["0"] * 6, "90050", "0", "2048", "0"]
        told += [f"==> /proc/{pid}/stat <==", f"{pid} ({name}) {' '.join(rest)}\n"]
    for pid, _, _, command in processes:
        told += [f"==> /proc/{pid}/cmdline <==", "\0".join(command.split()) + "\0"]
    return "\n".join(told)


def test_a_container_sees_its_own_processes_only() -> None:
    """All of them, without the shell that looked and what it started."""
    told = look(
        40,
        0,
        (1, 0, "python3", "python3 train.py"),
        (7, 1, "worker) x (", ""),
        (40, 0, "sh", "sh"),
        (41, 40, "head", "h"),
    )
    assert read_processes(told) == [
        Process(1, 0, 62.5, 8 << 20, 100.0, "python3 train.py"),
        Process(7, 1, 62.5, 8 << 20, 100.0, "[worker) x (]"),
    ]


def test_where_a_whole_machine_shows_those_of_the_member_count() -> None:
    """What descends from the process that started the shell."""
    told = look(
        40,
        30,
        (1, 0, "init", "init"),
        (30, 1, "shim", "shim"),
        (31, 30, "bash", "bash"),
        (32, 31, "python3", "python3"),
        (40, 30, "sh", "sh"),
        (50, 1, "other", "other"),
    )
    assert [process.pid for process in read_processes(told)] == [31, 32]


def test_processes_that_are_gone_and_nonsense() -> None:
    """Half of what is said is better than nothing; of nonsense nothing is."""
    told = look(40, 0, (1, 0, "python3", "python3 a"))
    assert [process.pid for process in read_processes(told + "\n==> /proc/9/stat <==\n==> /proc/8/stat <==\n8 (x")] == [
        1
    ]
    for nonsense in ("", "x", "1 2\n3\n", "1 2\n3.5\n4096\nrubbish", "a b\n1 2\n4096\n"):
        assert read_processes(nonsense) == []


def test_processor_time_in_words() -> None:
    for seconds, words in ((0.4, "0:00"), (125, "2:05"), (3723.9, "1:02:03")):
        assert Process(1, 0, seconds, 0, 0, "").cpu_words == words
