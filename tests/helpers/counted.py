"""A program that prints numbers, to detect lost or doubled lines of its log, and commands that follow the log."""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.harness.commands import Kaji
from tests.harness.waiting import wait_until

PATIENCE_SECONDS = 120.0
MAX_KILLS = 6
_WORD = re.compile(r"<(\d+)/(\d+)/(\d+)>")
PROGRAM = """
import os, sys, time
rank, attempt = int(os.environ["KAJI_RANK"]), int(os.environ["KAJI_ATTEMPT"])
lines, fails, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
for number in range(lines):
    word = f"<{attempt}/{rank}/{number}>"
    if number % 9 == 0:  # in two parts, of which the first is read before the second is there
        print(word[:3], end="", flush=True)
        time.sleep(0.1)
        word = word[3:]
    print(word, flush=True)
    time.sleep(pause)
    if (attempt, rank, number) == (1, 1, fails):
        sys.exit(1)
sys.exit(3)
"""


def command(lines: int, *, rank_1_fails_at: int, pause_seconds: float = 0.01) -> tuple[str, ...]:
    """Return a program that prints `lines` lines `<ATTEMPT/RANK/NUMBER>` and ends with 3.

    In attempt 1, rank 1 fails after line `rank_1_fails_at`.
    """
    return ("python3", "-uc", PROGRAM, str(lines), str(rank_1_fails_at), str(pause_seconds))


class Following:
    """A process that follows a log, and its output."""

    def __init__(self, folder: Path, name: str, env: Mapping[str, str], *arguments: str) -> None:
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with Path("/dev/null").open("rb") as nothing, self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = Kaji(arguments, env, folder, (nothing, out, err))

    def counted(self) -> dict[tuple[int, int], list[int]]:
        """Return the printed numbers by attempt and rank. Lines of several members may mix; each keeps its order."""
        said: dict[str, str] = {}
        for line in self.out.read_text().replace("\\r", "\\n").splitlines():
            rank, _, text = line.partition(" ") if line.startswith("[") else ("", "", line)
            said[rank] = said.get(rank, "") + text
        found: dict[tuple[int, int], list[int]] = {}
        for text in said.values():
            for attempt, rank, number in _WORD.findall(text):
                found.setdefault((int(attempt), int(rank)), []).append(int(number))
            rest = _WORD.sub("", text)
            assert rest in ("", "<1/", "<2/", "<1/<2/"), (
                rest,
                self.err.read_text(),
            )  # killed while printing
        return found

    def end(self, patience_seconds: float) -> int:
        """Wait for the end; return the exit code."""
        try:
            return self.process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError((self.out.read_text()[-500:], self.err.read_text())) from None


def assert_followers_lose_nothing(
    folder: Path,
    env: Mapping[str, str],
    options: Sequence[str],
    *,
    lines: int,
    chance: random.Random,
    kill_one: Callable[[], None],
    explain: Callable[[], object],
) -> None:
    """Follow a gang of two that fails halfway and starts again, while `kill_one` kills servers at random moments.

    `kaji run` and `kaji logs -f` print each line once, blame nothing on themselves, and end properly. `options` are
    options of `kaji run`. The run is called `counts`, and stays.
    """
    fails_at = lines // 2
    asked = ("-n", "2", "--cpus", "0.2", "--restarts", "1", "--grace", "5s", *options, "python:3")
    run = Following(folder, "run", env, "run", "--name", "counts", *asked, *command(lines, rank_1_fails_at=fails_at))
    with ended(run):
        wait_until(lambda: "<1/1/3>" in run.out.read_text(), lambda: (run.err.read_text(), explain()))
        one = Following(folder, "one", env, "logs", "-f", "--rank", "1", "counts")
        with ended(one):
            wait_until(lambda: "<1/1/" in one.out.read_text(), lambda: (one.err.read_text(), explain()))
            for _ in range(MAX_KILLS):
                time.sleep(chance.uniform(0.2, 2.0))
                if run.process.poll() is not None and one.process.poll() is not None:
                    break
                kill_one()
            assert run.end(PATIENCE_SECONDS) == 3, (run.err.read_text(), explain())
            assert one.end(PATIENCE_SECONDS) == 0, (one.err.read_text(), explain())
    assert_whole(run.counted(), lines, fails_at)
    assert_whole(one.counted(), lines, fails_at, ranks=(1,))
    for attempt, rank in {(1, 0), (2, 0), (2, 1)} - run.counted().keys():  # it may have been stopped before its start
        which = ("--attempt", str(attempt), "--rank", str(rank))
        kept = Following(folder, f"kept-{attempt}-{rank}", env, "logs", *which, "counts")
        kept.end(PATIENCE_SECONDS)
        assert not kept.counted(), "its log has lines that were not shown"
    for said in (run.err.read_text(), one.err.read_text()):
        assert "bug" not in said and "lost" not in said, said


@contextlib.contextmanager
def ended(following: Following) -> Iterator[None]:
    """End this command with the context."""
    try:
        yield
    finally:
        following.process.kill()


def assert_whole(
    found: Mapping[tuple[int, int], list[int]], lines: int, rank_1_fails_at: int, *, ranks: tuple[int, ...] = (0, 1)
) -> None:
    """Assert that no line is lost or doubled up to the failure in attempt 1 and the end of attempt 2."""
    for attempt in (1, 2):
        for rank in ranks:
            counted = found.get((attempt, rank), [])  # if servers were killed in between, it may be stopped unstarted
            assert counted == list(range(len(counted))), (attempt, rank, counted)
    if 1 in ranks:
        assert len(found[1, 1]) == rank_1_fails_at + 1
    if 0 in ranks:  # one of the two ends by itself, the other is stopped
        counts = {rank: len(found.get((2, rank), [])) for rank in ranks}
        assert max(counts.values()) == lines, counts
