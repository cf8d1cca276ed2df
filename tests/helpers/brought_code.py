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
"""Each member writes into its folder and waits until the other, on the same machine, has; then one fails, once."""


def assert_all_get_the_same(kaji: Callable[..., CompletedProcess[str]], folder: Path, *options: str) -> None:
    """Whatever the members of the first attempt did to their folders, and the user to his, those of the second have the
    bytes that were brought."""
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
