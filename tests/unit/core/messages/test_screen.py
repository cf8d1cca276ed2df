"""How notices look on the screen of a terminal, and how the user gets it back."""

from __future__ import annotations

import pytest

from kajitori.core.messages.screen import Screen


def test_a_notice_is_a_line_of_its_own_that_brings_no_sequence_of_its_text() -> None:
    assert Screen().show("moved \x1b[2J away") == b"\r\n\akaji: moved  [2J away\r\n"


@pytest.mark.parametrize("cut", range(1, 9))
@pytest.mark.parametrize("switch", [b"text\x1b[?1049h", b"text\x1b[?47h", b"text\x1b[24;1H~", b"text\x1b[120;240H"])
def test_a_program_that_uses_the_whole_screen_keeps_its_cursor(switch: bytes, cut: int) -> None:
    """The notice takes its last line and is cut to it, however the switch was split on the way."""
    screen = Screen()
    screen.columns = 12
    screen.note(switch[: 4 + cut])
    screen.note(switch[4 + cut :])
    assert screen.show("save your work") == b"\a\x1b7\x1b[999;1H\x1b[7mkaji: save \x1b[0m\x1b[K\x1b8"
    screen.note(b"\x1b[?1049l$ ")
    assert screen.show("x") == b"\r\n\akaji: x\r\n"


MODES_OFF = b"\x1b[0m\x1b[r\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l"


@pytest.mark.parametrize(
    ("output", "back"),
    [
        (b"$ ls\r\nfile\r\n$ ", b""),
        (b"\x1b[?1049h\x1b[24;1H~", MODES_OFF + b"\x1b[?1049l"),
        (b"\x1b[?1049h\x1b[24;1H~\x1b[?1049l", b""),
        (b"\x1b[24;1H~", MODES_OFF + b"\x1b[999;1H\r\n"),
    ],
    ids=["a shell", "an editor", "an editor that was left", "an editor that was there before"],
)
def test_a_program_that_stays_behind_gives_the_screen_back(output: bytes, back: bytes) -> None:
    """Whoever detaches from an editor gets the shell's own screen, its cursor and its mouse. An editor that switched
    the screen before this terminal came leaves no other screen to go back to: the shell goes on below it."""
    screen = Screen()
    screen.note(output)
    assert screen.leave() == back
    assert screen.leave() == b""
