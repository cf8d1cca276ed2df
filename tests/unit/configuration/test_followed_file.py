"""A file is followed while an editor saves it, while its file system hangs, and if a pipe takes its place."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kajitori.configuration import followed_file
from kajitori.configuration.followed_file import OUTAGE_SECONDS, SETTLE_SECONDS, FollowedFile, InForce, Seen, look_at
from kajitori.errors import InvalidInput

LONG = 10 * SETTLE_SECONDS

Texts = FollowedFile[str, InForce[str]]


@pytest.fixture(autouse=True)
def every_change_is_of_this_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count every change as recent, without a time limit for reading: the machine that runs the tests may be slow."""
    monkeypatch.setattr(followed_file, "_age_seconds", lambda found: 0.0)
    monkeypatch.setattr(followed_file, "LOOK_SECONDS", 60.0)


class Clock:
    """A steady clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def followed(path: Path, clock: Clock, *, required: bool = False) -> Texts:
    return Texts(path, "policy", bytes.decode, InForce, without_file="none", required=required, clock=clock)


def after(clock: Clock, seconds: float, source: Texts) -> InForce[str]:
    clock.now += seconds
    return source.current()


def test_an_emptied_file_does_not_replace_the_content(tmp_path: Path) -> None:
    """However long it stays empty; the fault says how to write an intended empty document."""
    path, clock = tmp_path / "policy.yaml", Clock()
    path.write_text("ceilings")
    source = followed(path, clock)
    for content in ("", " \n"):
        path.write_text(content)
        assert after(clock, LONG, source).value == "ceilings"
        emptied = after(clock, LONG, source)
        assert (emptied.value, emptied.version) == ("ceilings", 1)
        assert emptied.faults[0].message == f"{path} is empty"
        assert emptied.faults[0].hint == "write {} into the file to use defaults only, or remove it"
    path.write_text("other ceilings")
    after(clock, LONG, source)
    assert after(clock, LONG, source).value == "other ceilings"


def test_a_file_counts_once_its_content_is_stable(tmp_path: Path) -> None:
    """Each new piece restarts the waiting."""
    path, clock = tmp_path / "policy.yaml", Clock()
    path.write_text("a and b")
    source = followed(path, clock)
    path.write_text("a")
    assert after(clock, LONG, source).value == "a and b"
    assert after(clock, SETTLE_SECONDS / 2, source).value == "a and b"
    path.write_text("a and c")
    assert after(clock, LONG, source).value == "a and b"
    assert after(clock, LONG, source).value == "a and c"


def test_an_old_change_counts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even for the first read since."""
    path, clock = tmp_path / "policy.yaml", Clock()
    path.write_text("old")
    source = followed(path, clock)
    path.write_text("newer")
    monkeypatch.setattr(followed_file, "_age_seconds", lambda found: LONG)
    assert after(clock, LONG, source).value == "newer"


def test_a_file_missing_for_a_moment_keeps_its_content(tmp_path: Path) -> None:
    """An editor may move the old file away before it writes the new one."""
    path, clock = tmp_path / "policy.yaml", Clock()
    path.write_text("old")
    source = followed(path, clock)
    path.rename(tmp_path / "policy.yaml~")
    assert after(clock, LONG, source).value == "old"
    path.write_text("new!")
    after(clock, LONG, source)
    assert after(clock, LONG, source).value == "new!"
    path.unlink()
    assert after(clock, LONG, source).value == "new!"
    assert after(clock, LONG, source).value == "none"


def test_a_pipe_in_place_of_the_file_is_not_read(tmp_path: Path) -> None:
    path, clock = tmp_path / "policy.yaml", Clock()
    path.write_text("ceilings")
    source = followed(path, clock)
    path.unlink()
    os.mkfifo(path)
    after(clock, LONG, source)
    piped = after(clock, LONG, source)
    assert piped.value == "ceilings"
    assert piped.faults[0].message == f"{path} cannot be read: it is not a regular file"
    with pytest.raises(InvalidInput, match="not a regular file"):
        followed(path, clock)


def test_a_folder_in_place_of_the_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a regular file"):
        followed(tmp_path, Clock())


def test_a_hanging_file_system_delays_one_read_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it answers, its present content counts."""
    monkeypatch.setattr(followed_file, "LOOK_SECONDS", 0.01)
    path, clock, answer, looks = tmp_path / "policy.yaml", Clock(), threading.Event(), []
    path.write_text("ceilings")
    source = followed(path, clock)

    def hang(path: Path, known: followed_file.Stamp | None) -> Seen:
        looks.append(threading.current_thread())
        answer.wait()
        return look_at(path, known)

    monkeypatch.setattr(followed_file, "look_at", hang)
    busy = after(clock, LONG, source)
    assert (busy.value, busy.faults) == ("ceilings", ()), "a busy machine is no outage"
    for _ in range(3):
        clock.now += OUTAGE_SECONDS
        hung = after(clock, LONG, source)
        assert (hung.value, hung.version) == ("ceilings", 1)
        assert hung.faults[0].message == f"{path} cannot be read: its file system does not respond"
    assert len(looks) == 1
    answer.set()
    looks[0].join()
    monkeypatch.setattr(followed_file, "LOOK_SECONDS", 60.0)
    assert after(clock, LONG, source).faults == ()
    path.write_text("others")
    after(clock, LONG, source)
    assert after(clock, LONG, source).value == "others"


def test_a_process_does_not_start_while_the_file_system_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(followed_file, "START_SECONDS", 0.01)
    monkeypatch.setattr(followed_file, "look_at", lambda path, known: (answer.wait(), Seen(None))[1])
    with pytest.raises(InvalidInput, match=r"cannot be read: its file system did not respond within 0\.01 s"):
        followed(tmp_path / "policy.yaml", Clock())
    answer.set()


def test_a_file_that_is_too_large_is_a_fault(tmp_path: Path) -> None:
    """It is not read into memory, whatever size it reports."""
    path = tmp_path / "policy.yaml"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidInput, match="larger than 16 MiB"):
        followed(path, Clock())


def test_an_inaccessible_file_is_not_treated_as_missing(tmp_path: Path) -> None:
    """Otherwise everything that the policy forbids would be allowed."""
    path = tmp_path / "loop"
    path.symlink_to(path)
    with pytest.raises(InvalidInput, match="Too many levels of symbolic links"):
        followed(path, Clock())


def test_the_file_is_checked_a_few_times_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock, looks = tmp_path / "policy.yaml", Clock(), []
    path.write_text("old")
    source = followed(path, clock)

    def counted(path: Path, known: followed_file.Stamp | None) -> Seen:
        looks.append(known)
        return look_at(path, known)

    monkeypatch.setattr(followed_file, "look_at", counted)
    for _ in range(1000):
        source.current()
    assert looks == []
    after(clock, LONG, source)
    assert len(looks) == 1
