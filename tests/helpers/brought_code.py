"""A test that each attempt of a gang of two has the submitted code, for every kind of cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

GIVEN = "as it was brought\n"
SPOILS = (
    'echo "$KAJI_ATTEMPT/$KAJI_RANK: $(cat given)"; echo spoiled > given; touch "$0-$KAJI_ATTEMPT-$KAJI_RANK"; '
    'until [ -e "$0-$KAJI_ATTEMPT-$((1 - KAJI_RANK))" ]; do sleep 0.1; done; test $KAJI_ATTEMPT = 2 || exit $KAJI_RANK'
)
"""Program of a member: it overwrites the code and waits until the other member, on the same machine, has done so too.
In attempt 1, one member then fails."""


def assert_all_get_the_same(kaji: Callable[..., CompletedProcess[str]], folder: Path, *options: str) -> None:
    """Assert that the members of attempt 2 get the submitted bytes, although the members of attempt 1 and the user have
    changed their folders."""
    folder.mkdir()
    (folder / "given").write_text(GIVEN)
    gang = ("--name", "brought", "-n", "2", "--restarts", "1", *options, "--code", str(folder))
    answer = kaji("run", "-d", *gang, "busybox", "sh", "-c", SPOILS, str(folder.parent / "spoiled"))
    assert answer.returncode == 0 and "uploaded" in answer.stderr, answer
    (folder / "given").write_text("edited since\n")
    answer = kaji("wait", "brought")
    assert answer.stdout == "0\n", answer
    for attempt, rank in ((1, 0), (1, 1), (2, 0), (2, 1)):
        said = kaji("logs", "--attempt", str(attempt), "--rank", str(rank), "brought")
        assert said.stdout == f"{attempt}/{rank}: {GIVEN}", said
